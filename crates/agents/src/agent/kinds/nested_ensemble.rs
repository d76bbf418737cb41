//! Agents that run ensembles: one nested run is one execution, and its result is the output.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::kinds::nested_inputs::NestedInputTemplates;
use crate::agent::tools::TASK_ARGUMENTS;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_core::conversation::{AgentWorkCounts, CompletionReason, ConversationState, FailureCounts};
use ensemble_core::request::PendingRequest;
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage, RunContext, value_to_output};

/// Keys of the nested context for the dependencies and the request of the agent.
const OUTER_CONTEXT_KEYS: [&str; 2] = ["dependencies", "request"];

/// Arguments of a nested run, except its input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NestedRunArguments {
    /// Values by name: the inputs, or part of the context where the inner ensemble declares no inputs.
    pub inputs: RunContext,
    /// Names of `inputs` that are dropped where the inner ensemble declares other inputs.
    pub optional: &'static [&'static str],
    /// The initial context.
    pub context: RunContext,
}

/// Service that performs nested runs. The run layer implements this trait.
pub trait NestedRunService: Send + Sync {
    /// Performs the nested run to its end and returns its state, or a failure if the run could not start.
    fn run_nested<'a>(
        &'a self,
        execution: &'a ExecutionInput,
        given: NestedRunArguments,
    ) -> BoxFuture<'a, Result<ConversationState, ExecutionFailure>>;
}

/// Runner of an agent or a tool that is an ensemble.
pub struct NestedEnsembleRunner {
    conversations: Arc<dyn NestedRunService>,
    /// For an agent: its templates. A tool gives its arguments.
    inputs: Option<NestedInputTemplates>,
}

impl NestedEnsembleRunner {
    /// Creates the runner of an agent.
    pub fn for_agent(conversations: Arc<dyn NestedRunService>, inputs: NestedInputTemplates) -> Self {
        Self {
            conversations,
            inputs: Some(inputs),
        }
    }

    /// Creates the runner of a tool: the arguments of a call are the inputs of the nested run.
    pub fn for_tool(conversations: Arc<dyn NestedRunService>) -> Self {
        Self {
            conversations,
            inputs: None,
        }
    }

    /// Renders the input of the nested run and its other arguments.
    async fn render_nested_arguments(
        &self,
        execution: &ExecutionInput,
    ) -> Result<(Arc<str>, NestedRunArguments), String> {
        let (input, inputs) = match &self.inputs {
            Some(inputs) => inputs.render_prompt_and_inputs(execution).await?,
            None => (execution.input.clone(), json_map_to_context(&execution.parameters)),
        };
        let arguments = NestedRunArguments {
            inputs,
            optional: if self.inputs.is_some() { &[] } else { &TASK_ARGUMENTS },
            context: build_nested_context(execution),
        };
        Ok((input, arguments))
    }
}

impl Runner for NestedEnsembleRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let (input, given) = match self.render_nested_arguments(&execution).await {
                Ok(input_and_arguments) => input_and_arguments,
                Err(error) => return AttemptEnd::from_failure(FailureKind::Unavailable, error),
            };
            let execution = ExecutionInput { input, ..execution };
            match self.conversations.run_nested(&execution, given).await {
                Ok(state) => {
                    if execution.ledger.nested_usage().is_none() {
                        execution.ledger.set_nested_usage(state.usage_with_open_turn());
                    }
                    copy_warnings_and_finish(&execution, &state)
                }
                Err(failure) => AttemptEnd::from_failure(failure.kind, failure.error),
            }
        })
    }
}

/// Builds the initial context of the nested run: the `config` of the agent, its dependencies and its request.
fn build_nested_context(execution: &ExecutionInput) -> RunContext {
    let mut context = json_map_to_context(&execution.parameters);
    let outputs: JsonMap = execution
        .dependencies
        .iter()
        .map(|(name, output)| (name.to_string(), Value::clone(output)))
        .collect();
    context.insert(OUTER_CONTEXT_KEYS[0].into(), Arc::new(Value::Object(outputs)));
    if let Some(request) = &execution.request {
        context.insert(OUTER_CONTEXT_KEYS[1].into(), Arc::new(json!(request)));
    }
    context
}

/// Converts a JSON map to a run context.
fn json_map_to_context(map: &JsonMap) -> RunContext {
    let entries = map.iter();
    entries
        .map(|(key, value)| (key.as_str().into(), Arc::new(value.clone())))
        .collect()
}

/// Adds the warnings of the nested run to the execution, and returns the outcome of the attempt.
fn copy_warnings_and_finish(execution: &ExecutionInput, state: &ConversationState) -> AttemptEnd {
    let of_end = state.run_end().map_or(&[][..], |ended| &ended.warnings);
    for warning in state.warnings().iter().chain(of_end) {
        execution.ledger.add_warning(warning.clone());
    }
    let Some(run_end) = state.run_end() else {
        return AttemptEnd::from_failure(FailureKind::Unavailable, "the nested run did not end");
    };
    for exhausted in &run_end.exhausted {
        execution.ledger.add_warning(exhausted.to_string());
    }
    // Failed parts are warnings of the nested run.
    for work in state.count_failed_work_by_agent() {
        let calls_only = AgentWorkCounts {
            parts: FailureCounts::default(),
            ..work
        };
        calls_only
            .list_failure_sentences()
            .for_each(|sentence| execution.ledger.add_warning(sentence));
    }
    let reason = run_end.completion_reason;
    let detail = run_end.detail.clone().unwrap_or_default();
    let failed = |kind| {
        Err(ExecutionFailure::new(
            kind,
            format!("the nested run ended as {reason}: {detail}"),
        ))
    };
    let result = match reason {
        CompletionReason::WaitingForInput => {
            let requests: Vec<PendingRequest> = state.pending_requests().cloned().collect();
            if !requests.is_empty() {
                return AttemptEnd::NeedsInput(requests);
            }
            failed(FailureKind::Reported)
        }
        _ if run_end.is_success() => Ok(declared_result_or_context(state)),
        _ => failed(FailureKind::Reported),
    };
    let usage = execution.ledger.usage_so_far();
    AttemptEnd::Finished(AttemptResult {
        parts: Vec::new(),
        nested_answers: Vec::new(),
        answer: None,
        result,
        usage: (usage != ModelUsage::default()).then_some(usage),
        exchange: Vec::new(),
    })
}

/// Returns the declared result of the nested run. Without a declared result, returns the final context.
fn declared_result_or_context(state: &ConversationState) -> JsonMap {
    let Some(result) = state.evaluate_declared_result() else {
        return changed_final_context(state);
    };
    value_to_output(Arc::unwrap_or_clone(result.value))
}

/// Returns the final context of the nested run. Leaves out the dependencies and the request if they are unchanged.
fn changed_final_context(state: &ConversationState) -> JsonMap {
    let start_context = state.run_start().map(|started| &started.context);
    let is_only_given = |key: &str, value: &Arc<Value>| {
        OUTER_CONTEXT_KEYS.contains(&key)
            && start_context
                .and_then(|given| given.get(key))
                .is_some_and(|given| given == value)
    };
    let context = state.context().iter();
    context
        .filter(|(key, value)| !is_only_given(key, value))
        .map(|(key, value)| (key.to_string(), Value::clone(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::agent::fixtures;
    use ensemble_core::conversation::{Event, run_exit_code};
    use ensemble_core::random_conversations::{drive_from_records, run_started_event};
    use ensemble_language::random_ensembles::{plan_with_results, with_goal, with_strict_limits};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_agent_succeeds_exactly_if_its_nested_run_has_exit_code_0(
            (plan, fate) in plan_with_results(),
            knobs in any::<u8>(),
            goal in any::<u16>(),
        ) {
            let plan = Arc::new(with_goal(&with_strict_limits(&plan, knobs), goal));
            let (state, records) = drive_from_records(&plan, &Arc::new(fate), 0, &[], run_started_event());
            let run_end = state.run_end().expect("it ended");
            let execution = fixtures::execution("outer", 1);
            let AttemptEnd::Finished(result) = copy_warnings_and_finish(&execution, &state) else {
                panic!("nobody is asked");
            };
            let code = run_exit_code(run_end.completion_reason, run_end.is_success(), None);
            prop_assert_eq!(result.result.is_ok(), code == 0, "{:?}", run_end);
            if let Err(failure) = &result.result {
                let detail = run_end.detail.clone().unwrap_or_default();
                prop_assert_eq!(failure.kind, FailureKind::Reported);
                prop_assert!(failure.error.contains(&detail), "{}", failure.error);
            } else {
                let succeeded = |agent: &str| records.iter().any(|record| match &record.event {
                    Event::ExecutionFinished(finished) => *finished.agent == *agent && finished.is_success(),
                    _ => false,
                });
                let mut required = plan.required_agents().iter();
                prop_assert!(required.all(|id| succeeded(plan.agent_name(*id))), "{:?}", run_end);
            }
            let warnings = execution.ledger.take_warnings();
            for exhausted in &run_end.exhausted {
                prop_assert!(warnings.contains(&exhausted.to_string()), "{:?}", warnings);
            }
        }
    }
}
