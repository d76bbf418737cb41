//! Plain agents and executions for the tests of runners.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::{AttemptLedger, BoxFuture, ExecutionInput};
use ensemble_core::runner::ExecutionRecorder;
use ensemble_language::data::{JsonMap, RemainingBudget, RunContext};
use ensemble_language::ensemble::{
    Agent, AgentKind, ConversationSpec, Dependency, DependencyPosition, OnError, RequiredResult, RetryPolicy,
    WaitForOutputs,
};
use ensemble_models::{ModelError, ModelProvider, ModelReply, ModelRequest, ReplyPiece, ReplyPieceCallback};

/// Returns an agent that listens to those.
pub(super) fn agent(name: &str, kind: AgentKind, listens_to: &[&str]) -> Agent {
    let edge = |(at, name): (usize, &&str)| Dependency {
        agent_name: (*name).into(),
        condition: None,
        max_executions: None,
        requires_all: true,
        feedback: false,
        on: RequiredResult::Success,
        wait_for: WaitForOutputs::default(),
        declared_at: DependencyPosition::DependsOn(at),
    };
    Agent {
        name: name.into(),
        description: None,
        kind,
        config: JsonMap::new(),
        dependencies: listens_to.iter().enumerate().map(edge).collect(),
        conversation: ConversationSpec::default(),
        for_each: None,
        output_schema: None,
        timeout: None,
        retry: RetryPolicy::default(),
        on_error: OnError::Fail,
        required: false,
        sandbox: None,
    }
}

/// A provider that says what it was told to say, in two pieces, and keeps what it was asked.
#[derive(Clone, Default)]
pub(super) struct Prepared {
    says: Arc<Mutex<VecDeque<Result<ModelReply, ModelError>>>>,
    pub(super) asked: Arc<Mutex<Vec<ModelRequest>>>,
}

impl Prepared {
    /// The n-th request gets the n-th.
    pub(super) fn saying(replies: Vec<Result<ModelReply, ModelError>>) -> Self {
        Self {
            says: Arc::new(Mutex::new(replies.into())),
            ..Self::default()
        }
    }
}

impl ModelProvider for Prepared {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        self.asked.lock().unwrap().push(request);
        let says = self.says.lock().unwrap().pop_front().expect("a reply was prepared");
        Box::pin(async move {
            if let Ok(reply) = &says {
                let (first, second) = reply.text.split_at(reply.text.len() / 2);
                on_piece(ReplyPiece::Text(first));
                tokio::task::yield_now().await;
                on_piece(ReplyPiece::Text(second));
            }
            says
        })
    }
}

/// Returns the first attempt of that execution, with an input and nothing else.
pub(super) fn execution(agent_name: &str, execution: u32) -> ExecutionInput {
    ExecutionInput {
        origin: ensemble_core::request::RequestOrigin::default().append_agent(agent_name.into(), 0, execution),
        run_id: "run".into(),
        agent_name: agent_name.into(),
        execution,
        attempt: 1,
        turn_count: 3,
        input: "the input".into(),
        inputs: Arc::default(),
        context: Arc::new(RunContext::default()),
        dependencies: Vec::new(),
        latest_outputs: None,
        failures: Vec::new(),
        news: Vec::new(),
        other_outputs: Vec::new(),
        history: ensemble_language::execution_history::ExecutionHistory::default(),
        whole_history: ensemble_language::execution_history::ExecutionHistory::default(),
        recent_agents: Vec::new(),
        parameters: Arc::default(),
        request: None,
        thread: Arc::default(),
        requests_made: 0,
        summaries_made: 0,
        ended_requests: 0,
        lost_attempts: 0,
        remaining: RemainingBudget::default(),
        last_failure: None,
        ledger: AttemptLedger::default(),
        stopwatch: ensemble_core::stopwatch::Stopwatch::default(),
        part: None,
        parts: None,
        records: ExecutionRecorder::default(),
    }
}
