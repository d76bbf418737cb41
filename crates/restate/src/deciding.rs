//! The operator of an execution that goes on with the decision about a call.
//!
//! Invariant: a decision is for one call with the tool and the arguments that were shown.

use std::sync::{Mutex, PoisonError};

use ensemble_core::operator::{Answer, Asked, Decision, Operator, PermissionRequest};
use ensemble_core::runner::BoxFuture;
use ensemble_remote::protocol::Decided;

/// Decides about one call as somebody has decided; about all others nobody decides here.
pub struct Deciding(Mutex<Option<Decided>>);

impl Deciding {
    /// With this decision.
    pub fn new(decided: Decided) -> Self {
        Self(Mutex::new(Some(decided)))
    }
}

impl Operator for Deciding {
    fn ask(&self, _asked: Asked) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Nobody })
    }

    fn permit(&self, requested: PermissionRequest) -> BoxFuture<'_, Decision> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was shown to whoever decided, and no other call, also of the same tool.
        let is_meant =
            |decided: &mut Decided| decided.tool == requested.tool && decided.arguments == requested.arguments;
        let decision = open.take_if(is_meant).map(|decided| decided.decision);
        Box::pin(async move { decision.unwrap_or(Decision::Nobody) })
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::store::RunId;
    use ensemble_language::data::JsonMap;
    use serde_json::json;

    use super::*;

    fn arguments(n: u32) -> JsonMap {
        json!({"n": n}).as_object().cloned().unwrap_or_default()
    }

    #[tokio::test]
    async fn a_decision_is_for_one_call_that_was_shown() {
        let deciding = Deciding::new(Decided {
            tool: "write".into(),
            arguments: arguments(1),
            decision: Decision::Once,
        });
        let asked = |tool: &str, n| PermissionRequest {
            run: RunId::new("r"),
            agent: "a".into(),
            execution: 1,
            call: "c".into(),
            tool: tool.into(),
            arguments: arguments(n),
        };
        assert_eq!(deciding.permit(asked("write", 2)).await, Decision::Nobody);
        assert_eq!(deciding.permit(asked("read", 1)).await, Decision::Nobody);
        assert_eq!(deciding.permit(asked("write", 1)).await, Decision::Once);
        assert_eq!(deciding.permit(asked("write", 1)).await, Decision::Nobody);
    }
}
