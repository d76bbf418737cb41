//! The correction request for a reply that does not match its schema.

/// Returns the errors of the reply, one on each line.
pub(crate) fn mismatch_text(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("\n- {error}")).collect();
    format!("the reply does not match the output schema:{}", lines.concat())
}

/// Returns the correction request for the model.
pub(crate) fn correction_request(errors: &str) -> String {
    format!(
        "Your previous reply was rejected: {errors}\n\nAnswer again with one JSON object that matches the schema, \
         and nothing else."
    )
}
