//! The result of an execution, or of a part of one.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use ensemble_language::data::{ExecutionFailure, JsonMap};

/// Result of an execution: its output, or its failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ExecutionEnd {
    /// The execution succeeded with this output, a JSON object.
    #[serde(rename = "output")]
    Succeeded(Arc<Value>),
    /// The execution failed after all its attempts.
    #[serde(rename = "failure")]
    Failed(ExecutionFailure),
}

impl ExecutionEnd {
    /// Creates the end of an execution from its result.
    pub fn from_result(result: Result<JsonMap, ExecutionFailure>) -> Self {
        match result {
            Ok(output) => Self::Succeeded(Arc::new(output.into())),
            Err(failure) => Self::Failed(failure),
        }
    }

    /// Returns the output or the failure. Returns an empty object if the output is no object.
    pub fn into_result(self) -> Result<JsonMap, ExecutionFailure> {
        match self {
            Self::Succeeded(output) => Ok(match Arc::unwrap_or_clone(output) {
                Value::Object(output) => output,
                _ => JsonMap::new(),
            }),
            Self::Failed(failure) => Err(failure),
        }
    }

    /// Returns the output or the failure without a copy of the output.
    pub fn into_shared_result(self) -> Result<Arc<Value>, ExecutionFailure> {
        match self {
            Self::Succeeded(output) => Ok(output),
            Self::Failed(failure) => Err(failure),
        }
    }

    /// Creates the result from the keys `failure` and `output` of a journal record. The output is empty if both keys are missing.
    pub(super) fn from_fields(failure: Option<ExecutionFailure>, output: Option<Arc<Value>>) -> Self {
        match (failure, output) {
            (Some(failure), _) => Self::Failed(failure),
            (None, Some(output)) => Self::Succeeded(output),
            (None, None) => Self::Succeeded(Arc::new(Value::Object(serde_json::Map::new()))),
        }
    }
}
