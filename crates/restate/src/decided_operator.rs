//! Operator of an execution that continues with the decision about a tool call.

use std::sync::{Mutex, PoisonError};

use ensemble_core::operator::{Operator, OperatorAnswer, PermissionAnswer, PermissionRequest, QuestionRequest};
use ensemble_core::request::AnswerSource;
use ensemble_core::runner::BoxFuture;
use ensemble_remote::protocol::DecidedToolCall;

/// Operator that decides about the tool call that was shown, once. It decides about no other call.
pub struct DecidedCallOperator(Mutex<Option<DecidedToolCall>>);

impl DecidedCallOperator {
    /// Creates an operator with this decision.
    pub fn new(decided: DecidedToolCall) -> Self {
        Self(Mutex::new(Some(decided)))
    }
}

impl Operator for DecidedCallOperator {
    fn ask_question(&self, _asked: QuestionRequest) -> BoxFuture<'_, OperatorAnswer> {
        Box::pin(async { OperatorAnswer::Nobody })
    }

    fn request_permission(&self, requested: PermissionRequest) -> BoxFuture<'_, PermissionAnswer> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shown = |decided: &mut DecidedToolCall| decided.digest == requested.request.digest;
        let decided = open.take_if(is_shown);
        let answer = decided.map_or(PermissionAnswer::Nobody, |decided| {
            let by = decided.by.unwrap_or_else(|| AnswerSource::Terminal.into());
            PermissionAnswer::from_decision(decided.decision, by)
        });
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::conversation::PermissionDecision;
    use ensemble_core::request::PendingRequest;
    use ensemble_core::runner::ExecutionInput;
    use ensemble_core::store::RunId;
    use ensemble_language::data::JsonMap;
    use serde_json::json;

    use super::*;

    fn requested(call: &str, n: u32) -> PermissionRequest {
        let arguments: JsonMap = json!({"n": n}).as_object().cloned().unwrap_or_default();
        let execution = ExecutionInput::first_attempt_without_outputs("a", 1);
        let origin = execution.origin.append_tool_call("write".into(), 1, 0);
        PermissionRequest {
            run: RunId::new("r"),
            request: PendingRequest::for_permission(&execution, origin, call, "write", &arguments),
            call: call.into(),
            tool: "write".into(),
            arguments,
        }
    }

    #[tokio::test]
    async fn a_decision_is_for_one_call_that_was_shown() {
        let shown = requested("c", 1);
        let deciding = DecidedCallOperator::new(DecidedToolCall {
            tool: shown.tool.clone(),
            arguments: shown.arguments.clone(),
            decision: PermissionDecision::Once,
            digest: shown.request.digest.clone(),
            by: Some(AnswerSource::Option.into()),
        });
        let once = PermissionAnswer::from_decision(PermissionDecision::Once, AnswerSource::Option);
        assert_eq!(
            deciding.request_permission(requested("c", 2)).await,
            PermissionAnswer::Nobody
        );
        assert_eq!(
            deciding.request_permission(requested("d", 1)).await,
            PermissionAnswer::Nobody
        );
        assert_eq!(deciding.request_permission(shown.clone()).await, once);
        assert_eq!(deciding.request_permission(shown).await, PermissionAnswer::Nobody);
    }
}
