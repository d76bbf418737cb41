//! Replies of a model that a stub gives: the agent itself runs, with its tools.
//!
//! Invariant: a request without a prepared reply is noted, and never replaced by a guess.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::runner::{AttemptOutcome, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{AgentStubs, StubOutput, StubReply, StubResult, StubToolCall};
use ensemble_language::data::{FailureKind, value_to_output};
use ensemble_language::ensemble::{PreparedReply, PreparedToolCall};
use ensemble_runs::ReplyStub;
use serde_json::Value;

use crate::missing_parts::{MissingPart, MissingStubList};

/// Returns the stub of an execution.
///
/// # Errors
/// The number of stubs, if the list is too short.
pub(crate) fn find_execution_stub(stubs: &AgentStubs, execution: u32) -> Result<&StubResult, usize> {
    match stubs {
        AgentStubs::Always(stub) => Ok(stub),
        AgentStubs::Each(stubs) => {
            let at = usize::try_from(execution).unwrap_or(usize::MAX).saturating_sub(1);
            stubs.get(at).ok_or(stubs.len())
        }
    }
}

/// Returns whether a stub defines replies of a model.
pub(crate) fn has_replies(stubs: &AgentStubs) -> bool {
    let all = match stubs {
        AgentStubs::Always(stub) => std::slice::from_ref(stub),
        AgentStubs::Each(stubs) => stubs.as_slice(),
    };
    all.iter().any(|stub| matches!(stub.output, StubOutput::Replies(_)))
}

/// Returns the replies of the stub of an execution. Returns no replies for another stub.
fn execution_replies(stubs: &AgentStubs, execution: u32) -> &[StubReply] {
    match find_execution_stub(stubs, execution).map(|stub| &stub.output) {
        Ok(StubOutput::Replies(replies)) => replies,
        _ => &[],
    }
}

/// Prepared replies of an agent.
pub(crate) struct AgentReplies {
    pub(crate) agent: Arc<str>,
    pub(crate) stubs: AgentStubs,
    pub(crate) missing: Arc<MissingStubList>,
}

impl ReplyStub for AgentReplies {
    fn find_reply(&self, execution: u32, request: u64) -> Result<PreparedReply, String> {
        let replies = execution_replies(&self.stubs, execution);
        let at = usize::try_from(request).unwrap_or(usize::MAX).saturating_sub(1);
        match replies.get(at) {
            Some(StubReply::Text(text)) => Ok(PreparedReply::Text(text.clone())),
            Some(StubReply::Error(message)) => Ok(PreparedReply::Error(message.clone())),
            Some(StubReply::Calls { text, calls }) => {
                let call = |call: &StubToolCall| PreparedToolCall {
                    name: call.tool.to_string(),
                    arguments: call.arguments.clone(),
                };
                Ok(PreparedReply::Calls {
                    text: text.clone(),
                    tool_calls: calls.iter().map(call).collect(),
                })
            }
            None => {
                let missing_part = MissingPart::Reply(replies.len());
                self.missing.add(&self.agent, execution, missing_part);
                Err("the test has no reply for this request".to_owned())
            }
        }
    }
}

/// Number of an execution, and the key of its part.
type ReplySource = (u32, Option<Arc<str>>);

/// Runner of an agent whose model has prepared replies. An execution with another stub has the result of the stub.
pub(crate) struct RepliesRunner {
    pub(crate) stubs: AgentStubs,
    /// The agent itself.
    pub(crate) inner: Arc<dyn Runner>,
    /// The results of stubs without replies.
    pub(crate) results: Arc<dyn Runner>,
    /// The requests before each execution, and before each part.
    pub(crate) earlier_requests: Mutex<HashMap<ReplySource, u64>>,
}

impl RepliesRunner {
    /// Replaces the number of earlier requests by the number since the first attempt of the execution.
    fn with_own_requests(&self, mut execution: ExecutionInput) -> ExecutionInput {
        let part = execution.part.as_ref().map(|part| part.key.clone());
        let mut earlier = self.earlier_requests.lock().unwrap_or_else(PoisonError::into_inner);
        let before = earlier
            .entry((execution.execution, part))
            .or_insert(execution.requests_made);
        execution.requests_made = execution.requests_made.saturating_sub(*before);
        execution
    }
}

impl Runner for RepliesRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        match find_execution_stub(&self.stubs, execution.execution).map(|stub| (&stub.output, stub.delay)) {
            Ok((StubOutput::Replies(_), delay)) => {
                let execution = self.with_own_requests(execution);
                Box::pin(async move {
                    if !delay.is_zero() {
                        tokio::time::sleep(delay).await;
                    }
                    self.inner.execute_attempt(execution).await
                })
            }
            _ => self.results.execute_attempt(execution),
        }
    }
}

/// Returns the tool calls in all replies of the stubs.
pub(crate) fn list_reply_calls(stubs: &AgentStubs) -> impl Iterator<Item = &StubToolCall> {
    let all = match stubs {
        AgentStubs::Always(stub) => std::slice::from_ref(stub),
        AgentStubs::Each(stubs) => stubs.as_slice(),
    };
    let replies = all.iter().flat_map(|stub| match &stub.output {
        StubOutput::Replies(replies) => replies.as_slice(),
        _ => &[],
    });
    replies.flat_map(reply_calls)
}

/// Returns the tool calls of the reply. Returns no calls for a text or an error.
fn reply_calls(reply: &StubReply) -> &[StubToolCall] {
    match reply {
        StubReply::Calls { calls, .. } => calls,
        StubReply::Text(_) | StubReply::Error(_) => &[],
    }
}

/// Runner of a tool, which uses the result of a stub if there is one.
pub(crate) struct ToolStubRunner {
    pub(crate) agent: Arc<str>,
    /// The name of the tool for the model.
    pub(crate) model_name: Arc<str>,
    /// The name of a stub of the tool.
    pub(crate) stub_name: Arc<str>,
    /// The stubs of the agent.
    pub(crate) stubs: Option<AgentStubs>,
    /// The result of each call, if the tool itself has a stub.
    pub(crate) result: Option<Arc<dyn Runner>>,
    /// The end of a call without a result.
    pub(crate) otherwise: UnstubbedCall,
    pub(crate) missing: Arc<MissingStubList>,
}

/// Action for a call for which a case has no result.
pub(crate) enum UnstubbedCall {
    /// The tool itself is called.
    Tool(Arc<dyn Runner>),
    /// The result is missing. The tool itself needs this from outside.
    Missing(String),
}

impl ToolStubRunner {
    /// Returns the result that the replies of the agent define for the call with this number (from 1).
    fn find_result(&self, execution: u32, number: u32) -> Option<Value> {
        let replies = self.stubs.as_ref().map(|stubs| execution_replies(stubs, execution));
        let calls = replies.into_iter().flatten().flat_map(reply_calls);
        let mut calls_of_tool = calls.filter(|call| call.tool == self.model_name);
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        calls_of_tool.nth(at)?.result.clone()
    }
}

impl Runner for ToolStubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        let segment = execution.origin.address.segments().last();
        let number = segment
            .and_then(|segment| segment.calls.last())
            .map_or(1, |call| call.number);
        if let Some(result) = self.find_result(execution.execution, number) {
            let output = AttemptOutcome::from_output(value_to_output(result));
            return Box::pin(std::future::ready(output));
        }
        if let Some(result) = &self.result {
            return result.execute_attempt(execution);
        }
        let needs = match &self.otherwise {
            UnstubbedCall::Tool(tool) => return tool.execute_attempt(execution),
            UnstubbedCall::Missing(needs) => needs,
        };
        let missing_part = MissingPart::Tool {
            tool: self.stub_name.clone(),
            needs: needs.clone(),
        };
        self.missing.add(&self.agent, execution.execution, missing_part);
        let error = "the test has no result for this call";
        Box::pin(std::future::ready(AttemptOutcome::from_failure(
            FailureKind::Unavailable,
            error,
        )))
    }
}
