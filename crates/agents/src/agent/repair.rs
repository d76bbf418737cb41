//! A reply that does not match a schema is sent back to the model with its errors.

/// What is wrong with it, one error a line.
pub(super) fn mismatch(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("\n- {error}")).collect();
    format!("the reply does not match the output schema:{}", lines.concat())
}

/// What the model is told of it.
pub(super) fn correction(errors: &str) -> String {
    format!(
        "Your previous reply was rejected: {errors}\n\nAnswer again with one JSON object that matches the schema, \
         and nothing else."
    )
}
