//! Prompts of agents, rendered without a request to a model or a user, for the tests of ensembles.
//!
//! Invariant: a preview is the text that the agent would send in the same execution.

use std::sync::Arc;

use ensemble_language::ensemble::{Agent, AgentKind};
use ensemble_language::template::Template;
use ensemble_scripts::template_worker;

use crate::agent::ExecutionInput;
use crate::agent::kinds::llm::ReplacedScriptAgent;
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names};

/// Compiled prompt of an agent, which can be rendered without an execution of the agent.
pub struct PromptPreview {
    kind: PromptPreviewKind,
    listens_to: Arc<[Arc<str>]>,
}

/// Kind of prompt: a question, a task for a model, or a question to a model that replaces a script.
enum PromptPreviewKind {
    /// The question of an input agent.
    Question(Template),
    /// The task of an LLM agent.
    Task {
        system_prompt: Option<Template>,
        prompt: Option<Template>,
    },
    /// The question to a model that replaces a script agent.
    Substitute(ReplacedScriptAgent),
}

impl PromptPreview {
    /// Creates the preview of an input or LLM agent. Returns `None` for other agents and for invalid templates.
    pub fn for_agent(agent: &Agent) -> Option<Self> {
        let compile = |text: Option<&str>| text.map(Template::compile).transpose().ok();
        let kind = match &agent.kind {
            AgentKind::Input(spec) => PromptPreviewKind::Question(Template::compile(&spec.prompt).ok()?),
            AgentKind::Llm(llm) => PromptPreviewKind::Task {
                system_prompt: compile(llm.system_prompt.as_deref())?,
                prompt: compile(llm.prompt.as_deref())?,
            },
            AgentKind::Script { .. } | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => return None,
        };
        Some(Self {
            kind,
            listens_to: list_dependency_names(agent),
        })
    }

    /// Creates the preview of the question to a model that replaces a script agent. Returns `None` for invalid templates.
    pub fn for_substitute(agent: &Agent) -> Option<Self> {
        Some(Self {
            kind: PromptPreviewKind::Substitute(ReplacedScriptAgent::for_agent(agent).ok()?),
            listens_to: list_dependency_names(agent),
        })
    }

    /// Renders the prompt for an execution: the system prompt, followed by the task.
    ///
    /// # Errors
    /// The template cannot be rendered; in words.
    pub async fn render_prompt(&self, execution: &ExecutionInput) -> Result<String, String> {
        let scope = build_template_scope(execution, &self.listens_to);
        match &self.kind {
            PromptPreviewKind::Question(template) => template_worker::render_template_async(template, &scope)
                .await
                .map_err(|error| error.to_string()),
            PromptPreviewKind::Task { system_prompt, prompt } => {
                let mut text = String::new();
                if let Some(template) = system_prompt {
                    let rendered = template_worker::render_template_async(template, &scope).await;
                    text = rendered.map_err(|error| error.to_string())? + "\n\n";
                }
                let task = template_worker::render_agent_task_async(prompt.as_ref(), &scope).await;
                text.push_str(&task.map_err(|error| error.to_string())?);
                Ok(text)
            }
            PromptPreviewKind::Substitute(substitute) => substitute.render_question(execution).await,
        }
    }
}
