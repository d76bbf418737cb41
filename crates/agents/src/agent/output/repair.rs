//! The correction request for a reply that does not match its schema.

use ensemble_core::reply::describe_missing_object;

/// Returns the schema errors. If the reply has no JSON object, one reason replaces them.
pub(crate) fn explain_mismatch(reply: &str, errors: Vec<String>) -> Vec<String> {
    match describe_missing_object(reply) {
        Some(reason) if !errors.is_empty() => vec![reason],
        _ => errors,
    }
}

/// Renders the errors of the reply, one on each line.
pub(crate) fn mismatch_text(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("\n- {error}")).collect();
    format!("the reply does not match the output schema:{}", lines.concat())
}

/// Renders the message that asks the model to correct a rejected reply.
pub(crate) fn correction_request(errors: &str) -> String {
    format!(
        "Your previous reply was rejected: {errors}\n\nAnswer again with one JSON object that matches the schema, \
         and nothing else."
    )
}
