//! Templates of the prompt and the inputs that an agent passes to its nested run.

use std::sync::Arc;

use crate::agent::ExecutionInput;
use crate::agent::build_error::{RunnerBuildError, compile_optional_template};
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names, warn_about_missed_keys};
use crate::agent::kinds::value_templates::ValueTemplates;
use ensemble_language::data::{JsonMap, RunContext};
use ensemble_language::ensemble::Agent;
use ensemble_language::template::Template;
use ensemble_scripts::template_worker;

/// Compiled templates for the `prompt` and `inputs` of an agent that runs a nested ensemble.
pub struct NestedInputTemplates {
    listens_to: Arc<[Arc<str>]>,
    prompt: Option<Template>,
    inputs: ValueTemplates,
}

impl NestedInputTemplates {
    /// Compiles the templates of the prompt and of the inputs.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn compile_templates(agent: &Agent, prompt: Option<&str>, inputs: &JsonMap) -> Result<Self, RunnerBuildError> {
        Ok(Self {
            listens_to: list_dependency_names(agent),
            prompt: compile_optional_template("prompt", prompt)?,
            inputs: ValueTemplates::compile_values("inputs", inputs)?,
        })
    }

    /// Renders the prompt, which is the input of the nested run, and the declared inputs of the nested run.
    ///
    /// # Errors
    /// A template cannot be rendered; the message names it.
    pub(crate) async fn render_prompt_and_inputs(
        &self,
        execution: &ExecutionInput,
    ) -> Result<(Arc<str>, RunContext), String> {
        let scope = build_template_scope(execution, &self.listens_to);
        let input = match &self.prompt {
            Some(prompt) => template_worker::render_template_async(prompt, &scope)
                .await
                .map_err(|error| format!("prompt: {error}"))?
                .into(),
            None => execution.input.clone(),
        };
        warn_about_missed_keys(&scope, "prompt", execution);
        let inputs = self.inputs.render_values(&scope, execution).await?;
        let inputs: RunContext = inputs
            .into_iter()
            .map(|(name, value)| (name, Arc::new(value)))
            .collect();
        Ok((input, inputs))
    }
}
