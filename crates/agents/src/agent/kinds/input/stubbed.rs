//! Questions of input agents that stubs answer.

use std::sync::Arc;

use ensemble_core::request::{AnswerRecord, AnswerSource, PendingRequest};
use ensemble_language::data::{JsonMap, OperatorQuestion};
use ensemble_language::ensemble::{Agent, AgentKind};
use ensemble_language::template::Template;
use ensemble_scripts::template_worker;
use serde_json::Value;

use crate::agent::ExecutionInput;
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names};

/// Question of an input agent whose answer is a stub.
pub struct StubbedInputQuestion {
    /// The prompt; `None` if it is no template.
    prompt: Option<Template>,
    choices: Vec<String>,
    listens_to: Arc<[Arc<str>]>,
}

impl StubbedInputQuestion {
    /// Creates the question of an input agent. Returns `None` for other agents.
    pub fn for_agent(agent: &Agent) -> Option<Self> {
        let AgentKind::Input(spec) = &agent.kind else {
            return None;
        };
        Some(Self {
            prompt: Template::compile(&spec.prompt).ok(),
            choices: spec.choices.clone(),
            listens_to: list_dependency_names(agent),
        })
    }

    /// Records the output of the stub as the answer to the rendered question. A prompt that cannot be rendered is recorded as empty.
    pub async fn record_stub_answer(&self, execution: &ExecutionInput, output: &JsonMap) {
        let prompt = match &self.prompt {
            Some(prompt) => {
                template_worker::render_template_async(prompt, &build_template_scope(execution, &self.listens_to))
                    .await
                    .ok()
            }
            None => None,
        };
        let question = OperatorQuestion::new(prompt.unwrap_or_default(), self.choices.clone());
        let request = PendingRequest::for_question(execution, question);
        let answer = match output.get("response").and_then(Value::as_str) {
            Some(text) if output.len() == 1 => text.to_owned(),
            _ => Value::Object(output.clone()).to_string(),
        };
        let record = AnswerRecord::from_answered_request(&request, answer, AnswerSource::Stub.into());
        execution.ledger.set_answer(record);
    }
}
