//! A runner whose outputs must match the agent's schema.

use std::borrow::Cow;
use std::sync::Arc;

use crate::agent::output::repair::explain_mismatch;
use crate::agent::output::schema::OutputSchema;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_core::reply::output_for_schema;
use ensemble_language::data::{ExecutionFailure, FailureKind, RESPONSE_KEY};
use serde_json::Value;

/// Runner that turns outputs which do not match a schema into failures of kind `schema`.
pub struct SchemaCheckedRunner {
    inner: Arc<dyn Runner>,
    schema: OutputSchema,
    /// The output is the reply of a model, which has the full text in an additional key.
    is_reply: bool,
}

impl SchemaCheckedRunner {
    /// Wraps `inner`. `is_reply` is true for LLM agents, whose replies can contain text around the JSON.
    pub fn new(inner: Arc<dyn Runner>, schema: OutputSchema, is_reply: bool) -> Self {
        Self {
            inner,
            schema,
            is_reply,
        }
    }

    /// Replaces a result that does not match the schema by a failure.
    async fn check_result(&self, observation: AttemptResult) -> AttemptResult {
        let Ok(output) = &observation.result else {
            return observation;
        };
        let checked_output = if self.is_reply {
            output_for_schema(output)
        } else {
            Cow::Borrowed(output)
        };
        let errors = self.schema.list_errors_async(checked_output).await;
        if errors.is_empty() {
            return observation;
        }
        let text = output
            .get(RESPONSE_KEY)
            .and_then(Value::as_str)
            .filter(|_| self.is_reply && output.len() == 1);
        let errors = match text {
            Some(text) => explain_mismatch(text, errors),
            None => errors,
        };
        let error = format!("the output does not match output_schema: {}", errors.join("; "));
        AttemptResult {
            result: Err(ExecutionFailure::new(FailureKind::Schema, error)),
            ..observation
        }
    }
}

impl Runner for SchemaCheckedRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            match self.inner.execute_attempt(execution).await {
                AttemptEnd::Finished(observation) => AttemptEnd::Finished(self.check_result(observation).await),
                other => other,
            }
        })
    }
}
