//! Replies of a model that a stub gives: the agent itself runs, with its tools.
//!
//! Invariant: a request without a prepared reply is noted, and never replaced by a guess.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::runner::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{AgentStubs, StubOutput, StubReply, StubResult, StubToolCall};
use ensemble_language::data::{FailureKind, value_to_output};
use ensemble_language::ensemble::{SimulatedReply, SimulatedToolCall};
use ensemble_runs::ReplyStub;
use serde_json::Value;

use crate::missing_parts::{MissingPart, MissingStubCollector};

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
pub(crate) fn contains_model_replies(stubs: &AgentStubs) -> bool {
    let all = match stubs {
        AgentStubs::Always(stub) => std::slice::from_ref(stub),
        AgentStubs::Each(stubs) => stubs.as_slice(),
    };
    all.iter().any(|stub| matches!(stub.output, StubOutput::Replies(_)))
}

/// Returns the replies of the stub of an execution. Returns no replies for another stub.
fn list_execution_replies(stubs: &AgentStubs, execution: u32) -> &[StubReply] {
    match find_execution_stub(stubs, execution).map(|stub| &stub.output) {
        Ok(StubOutput::Replies(replies)) => replies,
        _ => &[],
    }
}

/// Prepared replies of an agent.
pub(crate) struct AgentReplyStub {
    pub(crate) agent: Arc<str>,
    pub(crate) stubs: AgentStubs,
    pub(crate) missing: Arc<MissingStubCollector>,
}

impl ReplyStub for AgentReplyStub {
    fn find_reply(&self, execution: u32, request: u64) -> Result<SimulatedReply, String> {
        let replies = list_execution_replies(&self.stubs, execution);
        let at = usize::try_from(request).unwrap_or(usize::MAX).saturating_sub(1);
        match replies.get(at) {
            Some(StubReply::Text(text)) => Ok(SimulatedReply::Text(text.clone())),
            Some(StubReply::Error(message)) => Ok(SimulatedReply::Error(message.clone())),
            Some(StubReply::Calls { text, calls }) => {
                let call = |call: &StubToolCall| SimulatedToolCall {
                    name: call.tool.to_string(),
                    arguments: call.arguments.clone(),
                };
                Ok(SimulatedReply::Calls {
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
type RequestCounterKey = (u32, Option<Arc<str>>);

/// Runner of an agent whose model has prepared replies. An execution with another stub has the result of the stub.
pub(crate) struct ReplyStubRunner {
    pub(crate) stubs: AgentStubs,
    /// The agent itself.
    pub(crate) inner: Arc<dyn Runner>,
    /// The results of stubs without replies.
    pub(crate) results: Arc<dyn Runner>,
    /// The requests before each execution, and before each part.
    pub(crate) earlier_requests: Mutex<HashMap<RequestCounterKey, u64>>,
}

impl ReplyStubRunner {
    /// Replaces the number of earlier requests by the number since the first attempt of the execution.
    fn with_requests_of_execution(&self, mut execution: ExecutionInput) -> ExecutionInput {
        let part = execution.part.as_ref().map(|part| part.key.clone());
        let mut earlier = self.earlier_requests.lock().unwrap_or_else(PoisonError::into_inner);
        let before = earlier
            .entry((execution.execution, part))
            .or_insert(execution.requests_made);
        execution.requests_made = execution.requests_made.saturating_sub(*before);
        execution
    }
}

impl Runner for ReplyStubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        match find_execution_stub(&self.stubs, execution.execution).map(|stub| (&stub.output, stub.delay)) {
            Ok((StubOutput::Replies(_), delay)) => {
                let execution = self.with_requests_of_execution(execution);
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
pub(crate) fn list_tool_calls_in_replies(stubs: &AgentStubs) -> impl Iterator<Item = &StubToolCall> {
    let all = match stubs {
        AgentStubs::Always(stub) => std::slice::from_ref(stub),
        AgentStubs::Each(stubs) => stubs.as_slice(),
    };
    let replies = all.iter().flat_map(|stub| match &stub.output {
        StubOutput::Replies(replies) => replies.as_slice(),
        _ => &[],
    });
    replies.flat_map(tool_calls_of_reply)
}

/// Returns the tool calls of the reply. Returns no calls for a text or an error.
fn tool_calls_of_reply(reply: &StubReply) -> &[StubToolCall] {
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
    pub(crate) otherwise: UnstubbedCallAction,
    pub(crate) missing: Arc<MissingStubCollector>,
}

/// Action for a call for which a case has no result.
pub(crate) enum UnstubbedCallAction {
    /// The tool itself is called.
    Tool(Arc<dyn Runner>),
    /// The result is missing. The tool itself needs this from outside.
    Missing(String),
}

impl ToolStubRunner {
    /// Returns the result that the replies of the agent define for the call with this number (from 1).
    fn find_call_result(&self, execution: u32, number: u32) -> Option<Value> {
        let replies = self
            .stubs
            .as_ref()
            .map(|stubs| list_execution_replies(stubs, execution));
        let calls = replies.into_iter().flatten().flat_map(tool_calls_of_reply);
        let mut calls_of_tool = calls.filter(|call| call.tool == self.model_name);
        let at = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        calls_of_tool.nth(at)?.result.clone()
    }
}

impl Runner for ToolStubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let segment = execution.origin.address.segments().last();
        let number = segment
            .and_then(|segment| segment.calls.last())
            .map_or(1, |call| call.number);
        if let Some(result) = self.find_call_result(execution.execution, number) {
            let output = AttemptEnd::from_output(value_to_output(result));
            return Box::pin(std::future::ready(output));
        }
        if let Some(result) = &self.result {
            return result.execute_attempt(execution);
        }
        let needs = match &self.otherwise {
            UnstubbedCallAction::Tool(tool) => return tool.execute_attempt(execution),
            UnstubbedCallAction::Missing(needs) => needs,
        };
        let missing_part = MissingPart::Tool {
            tool: self.stub_name.clone(),
            needs: needs.clone(),
        };
        self.missing.add(&self.agent, execution.execution, missing_part);
        let error = "the test has no result for this call";
        Box::pin(std::future::ready(AttemptEnd::from_failure(
            FailureKind::Unavailable,
            error,
        )))
    }
}
