//! What an agent that is an ensemble gives its inner conversation: templates, and values that contain templates.

use std::sync::Arc;

use crate::agent::Execution;
use crate::agent::build_error::{BuildError, compile_template};
use crate::agent::kinds::given_values::GivenValues;
use crate::agent::kinds::scope::{listens_to, scope, warn_of_missed};
use ensemble_language::data::{Context, JsonMap};
use ensemble_language::ensemble::Agent;
use ensemble_language::template::Template;
use ensemble_scripts::apart;

/// The compiled `prompt` and `inputs` of an agent that is an ensemble.
pub struct InnerInputs {
    listens_to: Arc<[Arc<str>]>,
    prompt: Option<Template>,
    inputs: GivenValues,
}

impl InnerInputs {
    /// Compiles the templates.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn compile(agent: &Agent, prompt: Option<&str>, inputs: &JsonMap) -> Result<Self, BuildError> {
        Ok(Self {
            listens_to: listens_to(agent),
            prompt: compile_template("prompt", prompt)?,
            inputs: GivenValues::compile("inputs", inputs)?,
        })
    }

    /// The input and the inputs of the inner conversation.
    ///
    /// # Errors
    /// A template cannot be rendered; the message names it.
    pub(crate) async fn render(&self, execution: &Execution) -> Result<(Arc<str>, Context), String> {
        let scope = scope(execution, &self.listens_to);
        let input = match &self.prompt {
            Some(prompt) => apart::rendered(prompt, &scope)
                .await
                .map_err(|error| format!("prompt: {error}"))?
                .into(),
            None => execution.input.clone(),
        };
        warn_of_missed(&scope, "prompt", execution);
        let inputs = self.inputs.render(&scope, execution).await?;
        let inputs: Context = inputs
            .into_iter()
            .map(|(name, value)| (name, Arc::new(value)))
            .collect();
        Ok((input, inputs))
    }
}
