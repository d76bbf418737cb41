//! Answers that a program with the library computes, instead of the operator of an input agent, or of a script agent.
//!
//! Invariant: a generator reads the state at the start of the turn, and its answer is recorded like every other answer.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::agent::{BoxFuture, ExecutionInput};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, RunContext};
use ensemble_language::ensemble::Agent;
use ensemble_language::execution_history::ExecutionHistory;

/// Source of answers in a program that embeds the library.
///
/// A run asks the generator instead of the operator of an input agent, or instead of running a script agent.
pub trait ResponseGenerator: Send + Sync {
    /// Generates the answer to a question, or the output of a script agent: a text or a JSON value.
    ///
    /// # Errors
    /// The message says why there is no answer. The execution fails with the kind `reported`.
    fn generate_response<'a>(&'a self, request: &'a GeneratorRequest) -> BoxFuture<'a, Result<Value, String>>;
}

/// Question to a generator, with the state of the conversation.
#[derive(Debug)]
pub struct GeneratorRequest {
    /// The name of the agent.
    pub agent: Arc<str>,
    /// The description of the agent.
    pub description: Option<Arc<str>>,
    /// The number of the execution of the agent, from 1.
    pub execution: u32,
    /// The question of an input agent. For a script agent, the data that the script would read, as a JSON object.
    pub prompt: String,
    /// The possible answers of an input agent; empty: every answer is possible.
    pub choices: Vec<String>,
    /// The JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// The state of the conversation.
    pub state: ConversationSnapshot,
}

/// State of a conversation at the start of a turn.
pub struct ConversationSnapshot {
    turn_count: u32,
    input: Arc<str>,
    context: Arc<RunContext>,
    history: ExecutionHistory,
}

impl ConversationSnapshot {
    /// Copies the state from the input of an execution.
    fn for_execution(execution: &ExecutionInput) -> Self {
        Self {
            turn_count: execution.turn_count,
            input: Arc::clone(&execution.input),
            context: Arc::clone(&execution.context),
            history: execution.whole_history.clone(),
        }
    }

    /// Returns the number of finished turns.
    pub fn turn_count(&self) -> u32 {
        self.turn_count
    }

    /// Returns the input of the run.
    pub fn input(&self) -> &str {
        &self.input
    }

    /// Returns the context, updated with the outputs of all finished turns.
    pub fn context(&self) -> &RunContext {
        &self.context
    }

    /// Returns the number of executions of the agent with this name.
    pub fn execution_count(&self, agent: &str) -> usize {
        let executions = (0..self.history.len()).filter_map(|at| self.history.find_execution(at));
        executions.filter(|(name, _)| **name == *agent).count()
    }

    /// Returns the finished executions as JSON, oldest first, in the format of the `history` in a run result.
    pub fn list_executions(&self) -> Vec<Value> {
        (0..self.history.len())
            .map(|at| history_entry_json(&self.history, at))
            .collect()
    }

    /// Converts the state to JSON with the field names of ADR-005.
    pub fn to_json(&self) -> Value {
        json!({
            "turn_count": self.turn_count,
            "agent_execution_count": count_executions_by_agent(&[], &self.history),
            "accumulated_context": *self.context,
            "conversation_history": self.list_executions(),
        })
    }
}

impl fmt::Debug for ConversationSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationSnapshot")
            .field("turn_count", &self.turn_count)
            .field("executions", &self.history.len())
            .finish_non_exhaustive()
    }
}

/// Counts the executions of every agent: first the named agents, then others in the history.
pub(super) fn count_executions_by_agent(agent_names: &[Arc<str>], history: &ExecutionHistory) -> JsonMap {
    let mut counts: IndexMap<Arc<str>, u64> = agent_names.iter().map(|name| (name.clone(), 0)).collect();
    for (agent, _) in (0..history.len()).filter_map(|at| history.find_execution(at)) {
        *counts.entry(agent).or_default() += 1;
    }
    let entries = counts.into_iter();
    entries
        .map(|(agent, count)| (agent.to_string(), count.into()))
        .collect()
}

/// Converts the history entry at index `at` to JSON with the field names of ADR-005.
pub(super) fn history_entry_json(history: &ExecutionHistory, at: usize) -> Value {
    let fields = ["turn_number", "agent_name", "input_data", "output_data"]
        .into_iter()
        .chain(["execution_time", "timestamp", "execution", "success"]);
    let fields = fields.filter_map(|name| Some((name.to_owned(), Value::clone(&*history.find_any_field(at, name)?))));
    Value::Object(fields.collect())
}

/// Generator that answers for one agent.
pub(crate) struct AgentGenerator {
    generator: Arc<dyn ResponseGenerator>,
    description: Option<Arc<str>>,
    output_schema: Option<Value>,
}

impl AgentGenerator {
    /// Creates a generator that passes on the description and output schema of the agent.
    pub(super) fn for_agent(agent: &Agent, generator: Arc<dyn ResponseGenerator>) -> Self {
        Self {
            generator,
            description: agent.description.as_deref().map(Arc::from),
            output_schema: agent.output_schema.clone(),
        }
    }

    /// Asks the generator. Turns an error of the generator into a failure of kind `reported`.
    pub(super) async fn respond_to(
        &self,
        prompt: String,
        choices: &[String],
        execution: &ExecutionInput,
    ) -> Result<Value, ExecutionFailure> {
        let request = GeneratorRequest {
            agent: Arc::clone(&execution.agent_name),
            description: self.description.clone(),
            execution: execution.execution,
            prompt,
            choices: choices.to_vec(),
            output_schema: self.output_schema.clone(),
            state: ConversationSnapshot::for_execution(execution),
        };
        let answer = self.generator.generate_response(&request).await;
        answer.map_err(|error| ExecutionFailure::new(FailureKind::Reported, error))
    }
}
