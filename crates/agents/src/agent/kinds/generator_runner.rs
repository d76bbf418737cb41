//! Runner of a script agent for which a generator answers.

use std::sync::Arc;

use serde_json::Value;

use super::generator::{AgentGenerator, ResponseGenerator};
use super::llm::{compile_script_templates, script_input_json};
use super::script_templates::ScriptTemplates;
use crate::agent::build_error::RunnerBuildError;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::{FailureKind, text_to_output, value_to_output};
use ensemble_language::ensemble::Agent;

/// Runner that asks a generator for the output of a script agent. The script does not run.
pub struct ScriptGeneratorRunner {
    generator: AgentGenerator,
    templates: ScriptTemplates,
}

impl ScriptGeneratorRunner {
    /// Creates the runner of a script agent.
    ///
    /// # Errors
    /// `args` or `stdin` is not a template.
    pub fn for_script_agent(agent: &Agent, generator: Arc<dyn ResponseGenerator>) -> Result<Self, RunnerBuildError> {
        Ok(Self {
            generator: AgentGenerator::for_agent(agent, generator),
            templates: compile_script_templates(agent)?,
        })
    }

    /// Asks the generator for the output, with the text that the script would read as prompt.
    async fn run_attempt(&self, execution: ExecutionInput) -> AttemptEnd {
        let stdin = match self.templates.render_args_and_stdin(&execution).await {
            Ok(input) => input.stdin,
            Err(error) => return AttemptEnd::from_failure(FailureKind::Unavailable, error),
        };
        let prompt = stdin.unwrap_or_else(|| Value::Object(script_input_json(&execution)).to_string());
        let result = self
            .generator
            .respond_to(prompt, &[], &execution)
            .await
            .map(|answer| match answer {
                Value::String(text) => text_to_output(&text),
                answer => value_to_output(answer),
            });
        AttemptEnd::Finished(AttemptResult::from_result(result))
    }
}

impl Runner for ScriptGeneratorRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(self.run_attempt(execution))
    }
}
