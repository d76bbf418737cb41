//! What an execution of an agent reads beside the outputs of its dependencies, as far as the ensemble tells.

use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::Value;

use crate::ensemble::{Agent, AgentKind, Ensemble, LlmSpec, MemoryMode, ModelChoice};
use crate::template;

/// The values that an execution reads in addition to the input, the outputs of its dependencies and its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExecutionReads {
    /// The latest output of every other agent: an LLM agent whose prompt uses no variable.
    pub all_outputs: bool,
    /// Its own latest output too, since the agent does not remember it.
    pub own_output: bool,
    /// The executions of the history that it reads.
    pub history: HistoryRead,
}

/// The part of the history that an execution reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryRead {
    /// Nothing.
    #[default]
    Nothing,
    /// The latest executions, this many.
    Latest(NonZeroUsize),
    /// All executions.
    All,
}

impl HistoryRead {
    /// Returns the part with this number of latest executions.
    fn latest(count: u64) -> Self {
        match usize::try_from(count).map(NonZeroUsize::new) {
            Ok(Some(count)) => Self::Latest(count),
            Ok(None) => Self::Nothing,
            Err(_) => Self::All,
        }
    }

    /// Returns `All` if the history is read, otherwise `Nothing`.
    fn all_if(is_read: bool) -> Self {
        if is_read { Self::All } else { Self::Nothing }
    }
}

/// Returns the reads of each agent, in declaration order.
pub(super) fn list_execution_reads(ensemble: &Ensemble) -> Vec<ExecutionReads> {
    ensemble
        .agents
        .iter()
        .map(|agent| find_execution_reads(ensemble, agent))
        .collect()
}

/// Returns the reads of one agent, as far as its kind, prompts and templates determine them.
fn find_execution_reads(ensemble: &Ensemble, agent: &Agent) -> ExecutionReads {
    match &agent.kind {
        AgentKind::Llm(llm) => {
            let all_outputs = !llm.prompt.as_deref().is_some_and(template::uses_variables);
            let prompts = [&llm.prompt, &llm.system_prompt].into_iter().flatten();
            let attached = llm.attachments.iter().map(String::as_str);
            let mut texts = prompts
                .map(String::as_str)
                .chain(attached)
                .chain(list_profile_prompts(ensemble, llm));
            ExecutionReads {
                all_outputs,
                own_output: all_outputs && llm.memory == MemoryMode::None,
                history: HistoryRead::all_if(texts.any(template::uses_history)),
            }
        }
        AgentKind::Input(input) => ExecutionReads {
            history: HistoryRead::all_if(template::uses_history(&input.prompt)),
            ..ExecutionReads::default()
        },
        AgentKind::Script { args, stdin, .. } => {
            let mut templates = args.iter().chain(stdin);
            ExecutionReads {
                history: match templates.any(|text| template::uses_history(text)) {
                    true => HistoryRead::All,
                    false => HistoryRead::latest(agent.conversation.history.into()),
                },
                ..ExecutionReads::default()
            }
        }
        AgentKind::Ensemble { prompt, inputs, .. } => {
            let of_prompt = prompt.as_deref().is_some_and(template::uses_history);
            ExecutionReads {
                history: HistoryRead::all_if(of_prompt || inputs.values().any(contains_history_template)),
                ..ExecutionReads::default()
            }
        }
        AgentKind::Tool { arguments, .. } => ExecutionReads {
            history: HistoryRead::all_if(arguments.values().any(contains_history_template)),
            ..ExecutionReads::default()
        },
    }
}

/// Returns whether a text in the value is a template that uses the history.
fn contains_history_template(value: &Value) -> bool {
    match value {
        Value::String(text) => template::uses_history(text),
        Value::Array(items) => items.iter().any(contains_history_template),
        Value::Object(map) => map.values().any(contains_history_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the system prompts of the agent's profile and its fallbacks, as far as the ensemble contains the profiles.
fn list_profile_prompts<'a>(ensemble: &'a Ensemble, llm: &'a LlmSpec) -> impl Iterator<Item = &'a str> {
    let profiles = &ensemble.model_profiles;
    let find = |name: &Arc<str>| profiles.iter().find(|(known, _)| known == name).map(|(_, one)| one);
    let first = match &llm.model {
        ModelChoice::Profile(name) => find(name),
        ModelChoice::Model { .. } | ModelChoice::Acp(_) => None,
    };
    // Fallbacks in a circle are an error of their own.
    let chain = std::iter::successors(first, move |one| find(one.fallback.as_ref()?)).take(profiles.len());
    chain.filter_map(|one| one.system_prompt.as_deref())
}
