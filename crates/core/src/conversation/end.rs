//! The result of an execution, or of a part of one.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use ensemble_language::data::Failure;

/// The result of an execution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ExecutionEnd {
    /// The execution succeeded with this output, a JSON object.
    #[serde(rename = "output")]
    Succeeded(Arc<Value>),
    /// The execution failed after all its attempts.
    #[serde(rename = "failure")]
    Failed(Failure),
}

impl ExecutionEnd {
    /// The result that these keys of a journal give.
    pub(super) fn of(failure: Option<Failure>, output: Option<Arc<Value>>) -> Self {
        match (failure, output) {
            (Some(failure), _) => Self::Failed(failure),
            (None, Some(output)) => Self::Succeeded(output),
            (None, None) => Self::Succeeded(Arc::new(Value::Object(serde_json::Map::new()))),
        }
    }
}
