//! Checks of answers before they are used: kind, choices and `output_schema`.

use serde_json::Value;

use crate::agent::output::schema::OutputSchema;
use ensemble_core::request::{AnswerRefusal, PendingRequest, RequestAnswer};
use ensemble_language::data::text_to_output;

/// Checks the answer to a pending request. `by_number` allows the number of a choice as an answer.
///
/// # Errors
/// The answer is of the other kind, is none of the choices, or does not match the `output_schema` of the agent.
pub fn check_answer(request: &PendingRequest, answer: &RequestAnswer, by_number: bool) -> Result<(), AnswerRefusal> {
    request.check_answer(answer, by_number)?;
    let (RequestAnswer::Text(text), Some(schema)) = (answer, &request.question.output_schema) else {
        return Ok(());
    };
    // The loader has refused schemas that do not compile.
    let Ok(schema) = OutputSchema::compile(schema) else {
        return Ok(());
    };
    let output = text_to_output(text);
    let errors = schema.list_value_errors(&Value::Object(output));
    match errors.is_empty() {
        true => Ok(()),
        false => Err(AnswerRefusal::Schema {
            address: request.address.clone(),
            errors: errors.join("; "),
        }),
    }
}
