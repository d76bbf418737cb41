//! Question to a model that replaces a script agent (`--respond`, and `respond` of test files).
//!
//! Invariant: the question contains everything that the script would read.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::agent::ExecutionInput;
use crate::agent::build_error::RunnerBuildError;
use crate::agent::kinds::input::shorten_context_values;
use crate::agent::kinds::question_cache::{find_reply_to_same_question, render_unkeyed_lines};
use crate::agent::kinds::script_templates::ScriptTemplates;
use ensemble_core::reply::output_for_schema;
use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{Agent, AgentKind};

/// Name of the history in the data of a script.
const HISTORY: &str = "history";

/// Script agent that a model replaces.
pub(crate) struct ReplacedScriptAgent {
    description: Option<Arc<str>>,
    output_schema: Option<Value>,
    templates: ScriptTemplates,
}

impl ReplacedScriptAgent {
    /// Creates the substitute of a script agent.
    ///
    /// # Errors
    /// `args` or `stdin` is not a template.
    pub(crate) fn for_agent(agent: &Agent) -> Result<Self, RunnerBuildError> {
        Ok(Self {
            description: agent.description.as_deref().map(Arc::from),
            output_schema: agent.output_schema.clone(),
            templates: compile_script_templates(agent)?,
        })
    }

    /// Renders the question that asks the model for the output of the script.
    ///
    /// # Errors
    /// `args` or `stdin` cannot be rendered; in words.
    pub(crate) async fn render_question(&self, execution: &ExecutionInput) -> Result<String, String> {
        let input = self.templates.render_args_and_stdin(execution).await?;
        let name = &execution.agent_name;
        let summary = json!({"key_context": shorten_context_values(&execution.context)});
        let mut text = render_unkeyed_lines(execution, true);
        text.push_str(&format!(
            "You take the place of the agent `{name}` in a conversation between agents.\n"
        ));
        if let Some(description) = &self.description {
            text.push_str(&format!("Description of the agent: {description}\n"));
        }
        let mut reads = script_input_json(execution);
        // The line before contains the history.
        reads.remove(HISTORY);
        let reads = input.stdin.unwrap_or_else(|| Value::Object(reads).to_string());
        text.push_str(&format!("Conversation context: {summary}\nThe agent reads: {reads}\n"));
        if !input.args.is_empty() {
            text.push_str(&format!("The arguments of the agent: {}\n", json!(input.args)));
        }
        text.push_str(
            "\nRespond with the output of the agent, as it would respond in this conversation context. Be realistic and \
             contextually appropriate.",
        );
        if let Some(schema) = &self.output_schema {
            text.push_str(&format!(
                "\nThe output is one JSON object that matches this JSON Schema: {schema}"
            ));
        }
        Ok(text)
    }

    /// Finds an earlier reply of the model to the same question. Returns `None` after a failed attempt, so that the model is asked again.
    pub(crate) fn find_remembered_reply<'a>(execution: &'a ExecutionInput, question: &str) -> Option<&'a str> {
        let is_repeated = execution.last_failure.is_some();
        find_reply_to_same_question(&execution.thread, question).filter(|_| !is_repeated)
    }

    /// Removes the full reply text from the output, because a script would not produce it.
    pub(crate) fn remove_reply_text(output: JsonMap) -> JsonMap {
        output_for_schema(&output).into_owned()
    }
}

/// Compiles the `args` and `stdin` of a script agent.
pub(crate) fn compile_script_templates(agent: &Agent) -> Result<ScriptTemplates, RunnerBuildError> {
    match &agent.kind {
        AgentKind::Script { args, stdin, .. } => ScriptTemplates::compile_templates(agent, args, stdin.as_deref()),
        _ => Ok(ScriptTemplates::default()),
    }
}

/// Returns the data that the script would read, as a map.
pub(crate) fn script_input_json(execution: &ExecutionInput) -> Map<String, Value> {
    let mut reads = Map::new();
    reads.insert("input".to_owned(), json!(execution.input));
    if !execution.inputs.is_empty() {
        reads.insert("inputs".to_owned(), json!(execution.inputs));
    }
    let outputs: Map<_, _> = execution
        .dependencies
        .iter()
        .map(|(name, output)| (name.to_string(), Value::clone(output)))
        .collect();
    reads.insert("dependencies".to_owned(), Value::Object(outputs));
    if !execution.parameters.is_empty() {
        reads.insert("parameters".to_owned(), json!(execution.parameters));
    }
    if let Some(request) = &execution.request {
        reads.insert("request".to_owned(), json!(request));
    }
    if !execution.history.is_empty() {
        reads.insert(HISTORY.to_owned(), json!(execution.history));
    }
    if let Some(part) = &execution.part {
        reads.insert(part.item_name.to_string(), Value::clone(&part.item));
        reads.insert("part".to_owned(), Value::clone(&part.variable));
    }
    reads
}
