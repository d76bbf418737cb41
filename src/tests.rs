//! The traits of `ensemble::dialogue`, implemented with nothing but `ensemble::dialogue`.

use std::sync::{Arc, Mutex};

use crate::dialogue::{
    AttemptLedger, BoxFuture, CallAdmission, Dialogue, ExecutionAttemptRef, Message, MessageSelector, ModelTools,
    ModelUsage, OperatorQuestion, PendingRequest, RequestAddress, RequestDigest, SimulatedReply, Stopwatch,
    TextTokenizer, Thread, ThreadFile, ThreadFileError, ThreadSize, ToolCall, ToolCallEnd, ToolSpec, UnsentIterations,
    WindowError, WindowInput, WindowOutput,
};

/// A tool that counts its calls. All methods of the trait are implemented.
#[derive(Default)]
struct CountingTools(Mutex<u64>);

impl ModelTools for CountingTools {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        let spec = ToolSpec {
            name: "count".into(),
            description: String::new(),
            parameters: serde_json::json!({"type": "object"}),
        };
        Box::pin(async move { Ok([spec].into()) })
    }

    fn wait_for_admission<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, CallAdmission> {
        Box::pin(async { CallAdmission::from_guard(()) })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async move {
            let mut count = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *count += 1;
            call.with_end(ToolCallEnd::Result(serde_json::json!(*count)), 0.0)
        })
    }

    fn may_repeat_interrupted_call(&self, _: &ToolCall) -> bool {
        true
    }

    fn pending_requests(&self) -> Vec<PendingRequest> {
        let _question = |prompt: &str| PendingRequest {
            address: RequestAddress::default(),
            agent: "assistant".into(),
            execution: 1,
            digest: RequestDigest::default(),
            question: OperatorQuestion::new(prompt, Vec::new()),
            position: Vec::new(),
        };
        Vec::new()
    }

    fn take_usage(&self) -> ModelUsage {
        ModelUsage::default()
    }
}

/// A window that sends only the task. All methods of the trait are implemented.
struct LatestOnly;

impl MessageSelector for LatestOnly {
    fn select_messages<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>> {
        let (_clock, _source, _ledger): (&Stopwatch, &ExecutionAttemptRef, &AttemptLedger) =
            (sending.clock, sending.source, sending.ledger);
        let messages: Vec<Message> = sending.messages[sending.task..].to_vec();
        Box::pin(async move {
            Ok(WindowOutput {
                messages,
                ..WindowOutput::default()
            })
        })
    }

    fn find_unsent_iterations<'a>(&'a self, _: &'a Thread, _: usize) -> BoxFuture<'a, UnsentIterations> {
        let unsent = UnsentIterations {
            size: ThreadSize::default(),
            ..UnsentIterations::default()
        };
        Box::pin(std::future::ready(unsent))
    }

    fn min_recent_turns(&self) -> usize {
        1
    }
}

struct Words;

impl TextTokenizer for Words {
    fn count_text_tokens(&self, text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }
}

#[tokio::test]
async fn the_traits_of_dialogues_need_no_other_module() {
    let call = || SimulatedReply::with_tool_calls([("count", serde_json::json!({}))]);
    let dialogue = Dialogue::with_simulated_replies([call(), "One.".into(), call(), "Two.".into()])
        .with_tools(Arc::new(CountingTools::default()))
        .with_window(Some(Arc::new(LatestOnly)));
    let all = dialogue
        .say_all(Thread::default(), ["Count.", "Again."])
        .await
        .expect("replies");
    let thread = &all[1].thread;
    assert_eq!(thread.iterations()[2].tool_calls[0].text_for_model(), "2");
    assert_eq!(thread.count_tokens(&Words), 10);
    let missing: Result<Thread, ThreadFileError> = Thread::load("/nowhere/thread.json");
    assert!(missing.is_err());
}
