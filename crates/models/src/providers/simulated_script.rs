//! The failures of scripts that answer instead of a model or a person.

use ensemble_scripts::ScriptFailure;

/// Describes the failure of the script with this name, with its position: `answers.rhai:3:7: …`.
pub fn describe_script_failure(name: &str, failure: &ScriptFailure) -> String {
    match failure {
        ScriptFailure::Reported(error) | ScriptFailure::Limit(error) => error.message_with_position(name),
        ScriptFailure::Stopped => format!("{name}: the script was stopped"),
    }
}
