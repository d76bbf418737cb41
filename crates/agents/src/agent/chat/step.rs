//! A dialogue one step at a time: one request, or the calls of one reply.

use std::ops::{Deref, DerefMut};

use super::error::CALL_NOT_MADE;
use super::round::{add_call_ends, append_exchange, complete_iteration};
use super::tools::ReplyToolCalls;
use super::{Dialogue, DialogueError, DialogueErrorKind, FinishedRound, ModelTools};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{
    INTERRUPTED_CALL_ERROR, IgnoredLiveOutput, Message, MessageRole, REQUEST_OPTIONS_KEY, SYSTEM_PROMPT_KEY,
    StopReason, Thread, ThreadIteration, ToolCall, ToolCallEnd,
};
use ensemble_language::data::ModelUsage;

/// Result of [`Dialogue::step`]: tool calls to run, results to send to the model, or the final reply.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogueStepResult {
    /// The model has called tools. The next step runs the calls; the caller can inspect and change them before.
    CallTools(PendingToolCalls),
    /// The tool calls have ended. The next step sends the results to the model; the caller can inspect and change them
    /// before.
    AskModel(PendingToolCalls),
    /// The model has sent its final reply.
    Done(FinishedRound),
}

/// Calls of one reply with their thread. Derefs to a list of [`ToolCall`], and converts to the thread with `.into()`.
///
/// A call with an `end` is not performed; its end goes to the model. A call that is removed from the list is not
/// performed either, and the model receives an error that says so.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingToolCalls {
    /// The calls, in the model's order.
    pub calls: Vec<ToolCall>,
    /// The usage of the step.
    pub usage: ModelUsage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    thread: Thread,
}

impl Deref for PendingToolCalls {
    type Target = Vec<ToolCall>;

    fn deref(&self) -> &Self::Target {
        &self.calls
    }
}

impl DerefMut for PendingToolCalls {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.calls
    }
}

impl From<PendingToolCalls> for Thread {
    fn from(calls: PendingToolCalls) -> Self {
        let mut iterations = calls.thread.into_iterations();
        if let Some(last) = iterations.last_mut() {
            replace_calls_by_id(last, calls.calls);
        }
        Self::from_iterations(iterations)
    }
}

/// Replaces calls by id. Sets an error on open calls that are missing in `calls`.
fn replace_calls_by_id(iteration: &mut ThreadIteration, mut calls: Vec<ToolCall>) {
    for call in &mut iteration.tool_calls {
        match calls.iter().position(|changed| changed.id == call.id) {
            Some(at) => *call = calls.remove(at),
            None if call.end.is_none() => call.end = Some(ToolCallEnd::Error(CALL_NOT_MADE.to_owned())),
            None => {}
        }
    }
    iteration.tool_calls.extend(calls);
}

/// Action that the next step performs: a request, tool calls, or nothing because the thread is complete.
enum NextStepAction {
    Request,
    Calls(Vec<ToolCall>),
    /// The thread has its final reply.
    Nothing(String),
}

impl Dialogue {
    /// Appends the user message `text` to the thread, for [`Dialogue::step`].
    pub fn with_user_message(&self, thread: Thread, text: impl Into<String>) -> Thread {
        let messages = vec![Message::new(MessageRole::User, text)];
        let thread = thread
            .fail_open_calls(INTERRUPTED_CALL_ERROR)
            .start_iteration(messages, (self.now)());
        let thread = match self.system_messages_by_profile().into_iter().next().flatten() {
            Some(system) => thread.set_metadata(SYSTEM_PROMPT_KEY, system),
            None => thread,
        };
        thread.set_metadata(REQUEST_OPTIONS_KEY, self.stored_options_to_json())
    }

    /// Performs one step: one request, or all open calls of the last reply in parallel. Does nothing if the thread has its final reply.
    ///
    /// The caller limits the number of steps.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, SimulatedReply, DialogueStepResult, Thread};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    /// let dialogue = Dialogue::with_simulated_replies([SimulatedReply::with_tool_calls([("weather", json!({"name": "Pars"}))]), "Sunny.".into()])
    ///     .with_tool_and_schema("weather", "Tells the weather of a city.", schema, |city: Value| async move {
    ///         Ok(format!("sunny in {}", city["name"]))
    ///     });
    ///
    /// let mut thread = dialogue.with_user_message(Thread::default(), "Is it sunny in Paris?");
    /// let ended = loop {
    ///     thread = match dialogue.step(thread).await? {
    ///         DialogueStepResult::CallTools(mut calls) => {
    ///             calls[0].arguments["name"] = "Paris".into();
    ///             calls.into()
    ///         }
    ///         DialogueStepResult::AskModel(calls) => {
    ///             assert_eq!(calls[0].text_for_model(), "sunny in \"Paris\"");
    ///             calls.into()
    ///         }
    ///         DialogueStepResult::Done(ended) => break ended,
    ///     };
    /// };
    /// assert_eq!(ended.text, "Sunny.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The model or its tools failed, or the thread is empty. The step can be repeated with the thread of the error.
    pub async fn step(&self, thread: impl Into<Thread>) -> Result<DialogueStepResult, DialogueError> {
        let thread = thread.into();
        match find_next_action(&thread) {
            Some(NextStepAction::Request) => self.run_request_step(thread).await,
            Some(NextStepAction::Calls(calls)) => self.run_calls_step(thread, calls).await,
            Some(NextStepAction::Nothing(text)) => Ok(DialogueStepResult::Done(FinishedRound {
                text,
                stop_reason: StopReason::EndTurn,
                thread,
                usage: ModelUsage::default(),
                warnings: Vec::new(),
            })),
            None => Err(error_without_usage(DialogueErrorKind::NothingSaid, thread)),
        }
    }

    /// Makes one request and appends the reply to the thread.
    async fn run_request_step(&self, thread: Thread) -> Result<DialogueStepResult, DialogueError> {
        let mut iterations = thread.into_iterations();
        // A request that failed has an iteration of its own.
        let open = iterations.pop_if(|last| last.tool_calls.is_empty() && last.completed_at.is_none());
        let exchange = match open {
            Some(open) => Thread::from_iterations(vec![open]),
            None => Thread::default().start_iteration(Vec::new(), (self.now)()),
        };
        let earlier = Thread::from_iterations(iterations).complete_current_iteration((self.now)());
        let ledger = AttemptLedger::default();
        ledger.start_round(exchange, 0);
        let opening = self.default_round_parameters(earlier.clone(), String::new(), 1);
        let replied = self
            .request_and_trace_reply(&opening, &self.tools, &IgnoredLiveOutput, &ledger)
            .await;
        if !matches!(&replied, Ok((_, reply)) if !reply.tool_calls.is_empty()) {
            let reason = match &replied {
                Ok((_, reply)) => Some(reply.stop_reason),
                Err(cause) => cause.stop_reason(),
            };
            complete_iteration(&ledger, (self.now)(), reason);
        }
        let (usage, warnings) = (ledger.usage_so_far(), ledger.take_warnings());
        let thread = append_exchange(earlier, ledger.end_round().into_iterations(), usage);
        match replied {
            Ok((_, reply)) if reply.tool_calls.is_empty() => Ok(DialogueStepResult::Done(FinishedRound {
                text: reply.text,
                stop_reason: reply.stop_reason,
                thread,
                usage,
                warnings,
            })),
            Ok((_, reply)) => Ok(DialogueStepResult::CallTools(PendingToolCalls {
                calls: reply.tool_calls,
                usage,
                warnings,
                thread,
            })),
            Err(cause) => Err(DialogueError {
                thread: thread.fail_open_calls(cause.open_call_error()),
                cause,
                usage: Box::new(usage),
                warnings,
            }),
        }
    }

    /// Performs the calls and adds their results to the thread.
    async fn run_calls_step(&self, thread: Thread, calls: Vec<ToolCall>) -> Result<DialogueStepResult, DialogueError> {
        let specs = match self.tools.list_specs().await {
            Ok(specs) => specs,
            Err(error) => return Err(error_without_usage(DialogueErrorKind::Tools(error), thread)),
        };
        let opening = self.default_round_parameters(Thread::default(), String::new(), 1);
        let ledger = AttemptLedger::default();
        let calling = ReplyToolCalls {
            tools: &self.tools,
            specs: &specs,
            source: &opening.source,
            live_output: &IgnoredLiveOutput,
            records: &opening.records,
            ledger: &ledger,
        };
        let call_ends = calling.perform_and_record_calls(calls).await;
        self.trace_ended_calls(&call_ends, &ledger);
        let thread = add_call_ends(thread, call_ends).complete_current_iteration((self.now)());
        let last = thread.iterations().last();
        Ok(DialogueStepResult::AskModel(PendingToolCalls {
            calls: last.map(|last| last.tool_calls.clone()).unwrap_or_default(),
            usage: ledger.usage_so_far(),
            warnings: ledger.take_warnings(),
            thread,
        }))
    }
}

/// Decides the next action from the last iteration. Returns `None` for an empty thread.
fn find_next_action(thread: &Thread) -> Option<NextStepAction> {
    let last = thread.iterations().last()?;
    let open: Vec<ToolCall> = thread.list_open_calls().into_iter().cloned().collect();
    if !open.is_empty() {
        return Some(NextStepAction::Calls(open));
    }
    match last.messages.last() {
        Some(last) if thread.has_final_reply() => Some(NextStepAction::Nothing(last.content.clone())),
        _ => Some(NextStepAction::Request),
    }
}

/// Creates an error without usage and warnings.
fn error_without_usage(cause: DialogueErrorKind, thread: Thread) -> DialogueError {
    DialogueError {
        cause,
        thread,
        usage: Box::default(),
        warnings: Vec::new(),
    }
}
