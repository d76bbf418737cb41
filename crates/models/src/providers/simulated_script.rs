//! What scripts in a model's place say of their failures.

use ensemble_scripts::{ScriptError, ScriptFailure};

/// Describes why a script gave no value, with its position.
pub fn describe_script_failure(failure: &ScriptFailure) -> String {
    match failure {
        ScriptFailure::Reported(error) | ScriptFailure::Limit(error) => format_position(error),
        ScriptFailure::Stopped => "the script was stopped".to_owned(),
    }
}

pub(crate) fn format_position(error: &ScriptError) -> String {
    match (error.line, error.column) {
        (0, _) => error.message.clone(),
        (line, column) => format!("{} (line {line}, column {column})", error.message),
    }
}
