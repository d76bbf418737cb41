//! People in a case: they answer as its stubs say, perhaps late.
//!
//! Invariant: a person is asked in the way of a run, so that choices, `default` and `timeout_seconds` mean the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::operator::{Operator, OperatorAnswer, PermissionAnswer, PermissionRequest, QuestionRequest};
use ensemble_core::request::AnswerSource;
use ensemble_core::runner::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{StubOutput, StubPermissionDecision, StubPermissions, StubResult};
use ensemble_language::data::{ExecutionFailure, FailureKind};

use crate::named_stubs::StubsByAddress;
use crate::replies::find_execution_stub;

/// Operator of a case, who answers and decides as the stubs define.
#[derive(Default)]
pub(crate) struct CaseOperator {
    /// The stubs of the questions that are asked, by their addresses.
    stubs: Mutex<HashMap<String, StubResult>>,
    /// The decisions about tool calls, by tool or by the address of a call.
    permissions: Vec<(Arc<str>, StubPermissions)>,
    /// The number of requests that each entry of `permissions` has decided.
    decided_counts: Mutex<HashMap<Arc<str>, usize>>,
}

impl CaseOperator {
    /// Creates an operator with these decisions about tool calls.
    pub(crate) fn with_permissions(permissions: Vec<(Arc<str>, StubPermissions)>) -> Self {
        Self {
            permissions,
            ..Self::default()
        }
    }

    /// Returns the next decision about a call: for its address, its tool, the server of the tool, or all tools.
    /// Counts the decision. Returns `None` without a decision, or after the end of a list.
    fn take_next_permission(&self, requested: &PermissionRequest) -> Option<StubPermissionDecision> {
        let server = requested.tool.split_once('.').map(|(server, _)| server);
        let find_named = |wanted: &str| self.permissions.iter().find(|(name, _)| **name == *wanted);
        let of_call = self
            .permissions
            .iter()
            .find(|(name, _)| is_call_address(name, requested));
        let (name, permissions) = of_call
            .or_else(|| find_named(&requested.tool))
            .or_else(|| find_named(server?))
            .or_else(|| find_named("*"))?;
        match permissions {
            StubPermissions::Every(permission) => Some(*permission),
            StubPermissions::Each(each) => {
                let mut counts = self.decided_counts.lock().unwrap_or_else(PoisonError::into_inner);
                let count = counts.entry(name.clone()).or_default();
                let permission = each.get(*count).copied();
                *count += 1;
                permission
            }
        }
    }

    /// Stores the stub of the question at this address.
    fn set_stub_at(&self, address: String, stub: StubResult) {
        let mut stubs = self.stubs.lock().unwrap_or_else(PoisonError::into_inner);
        stubs.insert(address, stub);
    }

    /// Returns the stub of the question at this address.
    fn find_stub_at(&self, address: &str) -> Option<StubResult> {
        let stubs = self.stubs.lock().unwrap_or_else(PoisonError::into_inner);
        stubs.get(address).cloned()
    }

    /// Answers the question as its stub defines, after the delay of the stub. A stub with a failure times out.
    async fn answer_question_after_delay(&self, asked: QuestionRequest) -> OperatorAnswer {
        let Some(stub) = self.find_stub_at(&asked.request.address.to_string()) else {
            return OperatorAnswer::Nobody;
        };
        let text = match stub.output {
            StubOutput::Text(text) => text,
            StubOutput::Json(value) => value.to_string(),
            StubOutput::Fail(_) => {
                tokio::time::sleep(asked.timeout.unwrap_or(stub.delay)).await;
                return OperatorAnswer::TimedOut;
            }
            StubOutput::Parts(_) | StubOutput::Replies(_) => return OperatorAnswer::Nobody,
        };
        // An answer that was refused takes no more time.
        if asked.refused.is_none() {
            if let Some(limit) = asked.timeout.filter(|limit| stub.delay >= *limit) {
                tokio::time::sleep(limit).await;
                return OperatorAnswer::TimedOut;
            }
            if !stub.delay.is_zero() {
                tokio::time::sleep(stub.delay).await;
            }
        }
        OperatorAnswer::from_text(text, AnswerSource::Stub)
    }
}

impl Operator for CaseOperator {
    fn ask_question(&self, asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        Box::pin(self.answer_question_after_delay(asked))
    }

    fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        let decision = self
            .take_next_permission(&requested)
            .map(|permission| match permission {
                StubPermissionDecision::Allow => PermissionDecision::Once,
                StubPermissionDecision::Always => PermissionDecision::Always,
                StubPermissionDecision::Deny => PermissionDecision::Denied,
            });
        let answer = match decision {
            Some(decision) => PermissionAnswer::from_decision(decision, AnswerSource::Stub),
            None => PermissionAnswer::Nobody,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Returns whether the text is the address of the call.
fn is_call_address(name: &str, requested: &PermissionRequest) -> bool {
    name.contains('/') && name.parse() == Ok(requested.request.address.clone())
}

/// Runner of an input agent whose person answers as the stubs define.
pub(crate) struct PersonRunner {
    pub(crate) inner: Arc<dyn Runner>,
    pub(crate) stubs: StubsByAddress,
    /// Whether the agent has a `default`, which a run uses if the person does not answer in time.
    pub(crate) has_default: bool,
    pub(crate) operator: Arc<CaseOperator>,
}

impl PersonRunner {
    /// Returns the stub of an execution. Returns `None` after the end of a list, so that nobody answers.
    fn find_stub_of_execution(&self, execution: &ExecutionInput) -> Option<&StubResult> {
        let stubs = self.stubs.find_stubs_at(&execution.origin.address)?;
        find_execution_stub(stubs, execution.execution).ok()
    }

    /// Returns the failure of an execution. Returns `None` for a timeout of an agent with a `default`, which is the answer then.
    fn find_stubbed_failure<'s>(&self, stub: &'s StubResult) -> Option<&'s ExecutionFailure> {
        match &stub.output {
            StubOutput::Fail(failure) if failure.kind == FailureKind::Timeout && self.has_default => None,
            StubOutput::Fail(failure) => Some(failure),
            _ => None,
        }
    }
}

impl Runner for PersonRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            if let Some(stub) = self.find_stub_of_execution(&execution) {
                if let Some(failure) = self.find_stubbed_failure(stub) {
                    tokio::time::sleep(stub.delay).await;
                    return AttemptEnd::Finished(AttemptResult::from_result(Err(failure.clone())));
                }
                let address = execution.origin.address.to_string();
                self.operator.set_stub_at(address, stub.clone());
            }
            self.inner.execute_attempt(execution).await
        })
    }
}
