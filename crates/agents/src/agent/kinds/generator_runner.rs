//! Runner of a script agent for which a generator answers.

use std::sync::Arc;

use serde_json::Value;

use super::generator::{AgentGenerator, ResponseGenerator};
use super::llm::script_input_json;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::{text_to_output, value_to_output};
use ensemble_language::ensemble::Agent;

/// Runner that asks a generator for the output of a script agent. The script does not run.
pub struct ScriptGeneratorRunner(AgentGenerator);

impl ScriptGeneratorRunner {
    /// Creates the runner of a script agent.
    pub fn for_script_agent(agent: &Agent, generator: Arc<dyn ResponseGenerator>) -> Self {
        Self(AgentGenerator::for_agent(agent, generator))
    }

    /// Asks the generator for the output, with the data of the script as prompt.
    async fn run_attempt(&self, execution: ExecutionInput) -> AttemptEnd {
        let prompt = Value::Object(script_input_json(&execution)).to_string();
        let result = self
            .0
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
