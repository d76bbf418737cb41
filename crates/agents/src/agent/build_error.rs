//! Why no runner can be built for an agent.

use ensemble_language::profiles::ProfileError;
use ensemble_language::template::{Template, TemplateError};
use ensemble_scripts::ScriptError;

/// Error that prevents building the runner of an agent.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunnerBuildError {
    /// A template is not valid.
    #[error("{which}: {error}")]
    Template {
        /// The name of the template: `prompt`, `system_prompt`, `input.prompt`, or that of a profile.
        which: String,
        /// The reason.
        error: TemplateError,
    },
    /// `output_schema` is not a valid JSON Schema.
    #[error("output_schema: {0}")]
    Schema(String),
    /// An expression of `for_each` is not valid.
    #[error("for_each.{key}: {message}")]
    Expression {
        /// The key.
        key: String,
        /// The reason.
        message: String,
    },
    /// A script cannot be read or compiled.
    #[error("{path}: {message}")]
    Script {
        /// The path in the ensemble.
        path: String,
        /// The reason.
        message: String,
    },
    /// A model profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl RunnerBuildError {
    /// Creates the error of a script that does not compile, with its position.
    pub(super) fn from_script_error(path: &str, error: ScriptError) -> Self {
        Self::Script {
            path: error.position_in_file(path),
            message: error.message,
        }
    }
}

/// Compiles a template of the agent, if there is one. `which` names the template in the error.
pub(super) fn compile_optional_template(which: &str, text: Option<&str>) -> Result<Option<Template>, RunnerBuildError> {
    let compiled = text.map(Template::compile).transpose();
    compiled.map_err(|error| RunnerBuildError::Template {
        which: which.to_owned(),
        error,
    })
}
