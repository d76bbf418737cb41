//! Agents that are ensembles: one inner conversation is one execution, and its final state is the output.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::kinds::nested_inputs::InnerInputs;
use crate::agent::tools::TASKS;
use crate::agent::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_core::conversation::{CompletionReason, ConversationState};
use ensemble_core::request::PendingRequest;
use ensemble_language::data::{Context, Failure, FailureKind, JsonMap, Usage, output_from_value};

/// The keys of the inner context that hold the dependencies and the request of the agent.
const INPUT_KEYS: [&str; 2] = ["dependencies", "request"];

/// The arguments of a nested run apart from its input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InnerGiven {
    /// Values by name: the inputs, or part of the context where the inner ensemble declares no inputs.
    pub inputs: Context,
    /// Names of `inputs` that are dropped where the inner ensemble declares other inputs.
    pub optional: &'static [&'static str],
    /// The initial context.
    pub context: Context,
}

/// Runs inner conversations. The run layer implements this trait.
pub trait Conversations: Send + Sync {
    /// Runs the conversation to its end and returns its state, or the reason why it could not run.
    fn hold<'a>(
        &'a self,
        execution: &'a Execution,
        given: InnerGiven,
    ) -> BoxFuture<'a, Result<ConversationState, Failure>>;
}

/// Performs the executions of an agent, or the calls of a tool, that is an ensemble.
pub struct SubEnsembleRunner {
    conversations: Arc<dyn Conversations>,
    /// For an agent: its templates. A tool gives its arguments.
    inputs: Option<InnerInputs>,
}

impl SubEnsembleRunner {
    /// For an agent.
    pub fn agent(conversations: Arc<dyn Conversations>, inputs: InnerInputs) -> Self {
        Self {
            conversations,
            inputs: Some(inputs),
        }
    }

    /// For a tool: the arguments of a call are the inputs of its conversation.
    pub fn tool(conversations: Arc<dyn Conversations>) -> Self {
        Self {
            conversations,
            inputs: None,
        }
    }

    /// The input of the inner conversation, and what else it is given.
    async fn given(&self, execution: &Execution) -> Result<(Arc<str>, InnerGiven), String> {
        let (input, inputs) = match &self.inputs {
            Some(inputs) => inputs.render(execution).await?,
            None => (execution.input.clone(), entries(&execution.parameters)),
        };
        let given = InnerGiven {
            inputs,
            optional: if self.inputs.is_some() { &[] } else { &TASKS },
            context: context(execution),
        };
        Ok((input, given))
    }
}

impl Runner for SubEnsembleRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let (input, given) = match self.given(&execution).await {
                Ok(given) => given,
                Err(error) => return AttemptOutcome::failure(FailureKind::Unavailable, error),
            };
            let execution = Execution { input, ..execution };
            match self.conversations.hold(&execution, given).await {
                Ok(state) => {
                    if execution.ledger.nested_usage().is_none() {
                        execution.ledger.set_nested_usage(state.usage_until_now());
                    }
                    observed(&execution, &state)
                }
                Err(failure) => AttemptOutcome::failure(failure.kind, failure.error),
            }
        })
    }
}

/// The initial context of the inner conversation: the `config` of the agent, its dependencies and its request.
fn context(execution: &Execution) -> Context {
    let mut context = entries(&execution.parameters);
    let outputs: JsonMap = execution
        .dependencies
        .iter()
        .map(|(name, output)| (name.to_string(), Value::clone(output)))
        .collect();
    context.insert(INPUT_KEYS[0].into(), Arc::new(Value::Object(outputs)));
    if let Some(request) = &execution.request {
        context.insert(INPUT_KEYS[1].into(), Arc::new(json!(request)));
    }
    context
}

fn entries(map: &JsonMap) -> Context {
    let entries = map.iter();
    entries
        .map(|(key, value)| (key.as_str().into(), Arc::new(value.clone())))
        .collect()
}

fn observed(execution: &Execution, state: &ConversationState) -> AttemptOutcome {
    for warning in state.warnings() {
        execution.ledger.warn(warning.clone());
    }
    let Some(ended) = state.ended() else {
        return AttemptOutcome::failure(FailureKind::Unavailable, "the inner conversation did not end");
    };
    let reason = ended.completion_reason;
    let detail = ended.detail.clone().unwrap_or_default();
    let failed = |kind| {
        Err(Failure::new(
            kind,
            format!("the inner conversation ended as {reason}: {detail}"),
        ))
    };
    let result = match reason {
        CompletionReason::WaitingForInput => {
            let requests: Vec<PendingRequest> = state.pending_requests().cloned().collect();
            if !requests.is_empty() {
                return AttemptOutcome::NeedsInput(requests);
            }
            failed(FailureKind::Unavailable)
        }
        CompletionReason::Timeout => failed(FailureKind::Timeout),
        CompletionReason::Cancelled => failed(FailureKind::Cancelled),
        CompletionReason::AgentFailed | CompletionReason::ConditionFailed => failed(FailureKind::Reported),
        CompletionReason::Completed => Ok(result_of(state)),
        limit => {
            execution
                .ledger
                .warn(format!("the inner conversation ended as {limit}: {detail}"));
            Ok(result_of(state))
        }
    };
    let usage = execution.ledger.usage();
    AttemptOutcome::Finished(AttemptResult {
        parts: Vec::new(),
        answer: None,
        result,
        usage: (usage != Usage::default()).then_some(usage),
        exchange: Vec::new(),
    })
}

/// The result of the inner conversation, if its ensemble declares one, otherwise its final context.
fn result_of(state: &ConversationState) -> JsonMap {
    let Some(result) = state.run_value() else {
        return final_state(state);
    };
    output_from_value(Arc::unwrap_or_clone(result.value))
}

/// The final context of the inner conversation, without dependencies and request if they are unchanged.
fn final_state(state: &ConversationState) -> JsonMap {
    let given = state.started().map(|started| &started.context);
    let is_only_given = |key: &str, value: &Arc<Value>| {
        INPUT_KEYS.contains(&key)
            && given
                .and_then(|given| given.get(key))
                .is_some_and(|given| given == value)
    };
    let context = state.context().iter();
    context
        .filter(|(key, value)| !is_only_given(key, value))
        .map(|(key, value)| (key.to_string(), Value::clone(value)))
        .collect()
}
