//! Why no runner can be built for an agent.

use crate::model::ProfileError;
use ensemble_language::template::{Template, TemplateError};

/// Why no runner can be built for an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A template is none.
    #[error("{which}: {error}")]
    Template {
        /// `prompt`, `system_prompt`, `input.prompt`, or of which profile.
        which: String,
        /// What is wrong.
        error: TemplateError,
    },
    /// `output_schema` is no JSON Schema.
    #[error("output_schema: {0}")]
    Schema(String),
    /// A script cannot be read or compiled.
    #[error("{path}: {message}")]
    Script {
        /// As the ensemble names it.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// No model can answer in a person's place.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Compiles a template of the agent, if there is one; `which` names the template in the error.
pub(super) fn compile_template(which: &str, text: Option<&str>) -> Result<Option<Template>, BuildError> {
    let compiled = text.map(Template::compile).transpose();
    compiled.map_err(|error| BuildError::Template {
        which: which.to_owned(),
        error,
    })
}
