//! The results of one run that another run reuses, for the same agent, the same execution and the same digest of its reads.
//!
//! Invariant: a result is found by agent, execution and the digest of the reads, never by position.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;

use ensemble_core::conversation::{PartAttemptEnded, RunStarted};
use ensemble_core::runner::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::{RunContext, sha256_of_text};
use ensemble_language::plan::{AgentId, HistoryRead, Plan};

/// The ended parts of an execution, by key.
type PartsByKey = HashMap<Arc<str>, Arc<PartAttemptEnded>>;

/// The results of another run that a run can reuse.
#[derive(Debug, Default)]
pub(crate) struct ReusableResults {
    results: HashMap<(Arc<str>, u32), (String, AttemptResult)>,
    /// The parts of executions, by key; a part is taken over where its item is the same.
    parts: HashMap<(Arc<str>, u32), Arc<PartsByKey>>,
    added_inputs: AddedInputNames,
}

/// The names of inputs that the previous run did not have. They are ignored when reads are compared, because a text that uses one has
/// changed.
#[derive(Debug, Default)]
pub(crate) struct AddedInputNames {
    /// The names that are not among the inputs of the previous run.
    inputs: HashSet<Arc<str>>,
    /// The names that are in neither the inputs nor the initial context of the previous run.
    context: HashSet<Arc<str>>,
}

impl AddedInputNames {
    /// Collects the names of `inputs` that the previous run did not have.
    pub(crate) fn from_previous_run(before: &RunStarted, inputs: &RunContext) -> Self {
        let names = inputs.iter().map(|(name, _)| name.clone());
        let inputs: HashSet<Arc<str>> = names.filter(|name| before.inputs.get(name).is_none()).collect();
        let is_new = |name: &&Arc<str>| before.context.get(name).is_none();
        Self {
            context: inputs.iter().filter(is_new).cloned().collect(),
            inputs,
        }
    }
}

/// The optional values that an agent reads: the context and the history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionalReads {
    /// True if the agent has no dependencies, or has a list of items, so that the agent can read every value of the context.
    context: bool,
    /// True if the agent reads the history.
    pub(crate) history: bool,
}

impl OptionalReads {
    /// Returns the optional values that this agent reads.
    pub(crate) fn for_agent(plan: &Plan, agent: AgentId) -> Self {
        Self {
            // The expressions of a `for_each` may read anything.
            context: plan.incoming_edges(agent).next().is_none() || plan.agent(agent).for_each.is_some(),
            history: plan.reads_beyond_dependencies(agent).history != HistoryRead::Nothing,
        }
    }
}

/// A runner that returns reusable results, and executes everything else with another runner.
pub(crate) struct ReusingRunner {
    runner: Arc<dyn Runner>,
    results: Arc<ReusableResults>,
    reads: OptionalReads,
}

/// Computes the digest of all values that an execution reads, such as its input, dependencies, requests and thread. Includes the context
/// and history only if the agent reads them, and ignores the inputs in `added`.
pub(crate) fn digest_reads(execution: &ExecutionInput, reads: OptionalReads, added: &AddedInputNames) -> String {
    let context = reads
        .context
        .then(|| without_named_values(&execution.context, &added.context));
    let inputs = without_named_values(&execution.inputs, &added.inputs);
    let mut read = json!({
        "input": execution.input,
        "dependencies": execution.dependencies,
        "latest_outputs": execution.latest_outputs,
        "failures": execution.failures,
        "news": execution.news,
        "others": execution.other_outputs,
        "request": execution.request,
        "thread": execution.thread,
        "context": context,
        "history": reads.history.then_some(&execution.history),
    });
    if !inputs.is_empty() {
        read["inputs"] = json!(inputs);
    }
    sha256_of_text(&read.to_string())
}

/// Returns the values without the values of these names.
fn without_named_values(values: &Arc<RunContext>, names: &HashSet<Arc<str>>) -> Arc<RunContext> {
    if names.is_empty() {
        return values.clone();
    }
    let remaining_values = values.iter().filter(|(name, _)| !names.contains(*name));
    Arc::new(
        remaining_values
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

impl ReusableResults {
    /// Stores the result of an execution with the digest `read` of its reads. Replaces an earlier result.
    pub(crate) fn insert_execution_result(
        &mut self,
        agent: Arc<str>,
        execution: u32,
        read: String,
        observation: AttemptResult,
    ) {
        self.results.insert((agent, execution), (read, observation));
    }

    /// Stores the result of a part. Replaces an earlier result.
    pub(crate) fn insert_part_result(&mut self, part: PartAttemptEnded) {
        let parts = self.parts.entry((part.agent.clone(), part.execution)).or_default();
        Arc::make_mut(parts).insert(part.key.clone(), Arc::new(part));
    }

    /// Returns whether there is nothing to reuse.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty() && self.parts.is_empty()
    }

    /// Ignores these inputs when reads are compared.
    pub(crate) fn with_added_inputs(self, added: AddedInputNames) -> Self {
        Self {
            added_inputs: added,
            ..self
        }
    }

    /// Finds the result of this execution, if the digest of its reads is unchanged.
    fn find_result(&self, execution: &ExecutionInput, reads: OptionalReads) -> Option<&AttemptResult> {
        let key = (execution.agent_name.clone(), execution.execution);
        let (read, observation) = self.results.get(&key)?;
        (digest_reads(execution, reads, &self.added_inputs) == *read).then_some(observation)
    }
}

impl ReusingRunner {
    /// Creates a runner that prefers these results to executions by `runner`.
    pub(crate) fn new(runner: Arc<dyn Runner>, results: Arc<ReusableResults>, reads: OptionalReads) -> Self {
        Self { runner, results, reads }
    }
}

impl Runner for ReusingRunner {
    fn execute_attempt(&self, mut execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        match self.results.find_result(&execution, self.reads) {
            Some(observation) => Box::pin(std::future::ready(AttemptEnd::Reused(observation.clone()))),
            None => {
                let key = (execution.agent_name.clone(), execution.execution);
                if let (Some(parts), Some(known_parts)) = (&mut execution.parts, self.results.parts.get(&key)) {
                    parts.reusable_parts = known_parts.clone();
                }
                self.runner.execute_attempt(execution)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use ensemble_core::thread::{Message, MessageRole, Thread, ThreadIteration};
    use ensemble_language::data::{AgentRequest, JsonMap};

    const OUTPUTS: OptionalReads = OptionalReads {
        context: false,
        history: false,
    };

    const CONTEXT: OptionalReads = OptionalReads {
        context: true,
        history: false,
    };

    fn execution() -> ExecutionInput {
        ExecutionInput {
            dependencies: vec![("writer".into(), Arc::new(json!({"n": 1})))],
            ..ExecutionInput::first_attempt_without_outputs("judge", 2)
        }
    }

    /// Returns the result that execution 2 of `judge` may take over.
    fn reusable() -> ReusableResults {
        let mut reusable = ReusableResults::default();
        for (number, reads) in [(1, OUTPUTS), (2, OUTPUTS), (3, CONTEXT)] {
            let read = ExecutionInput {
                execution: number,
                ..execution()
            };
            let AttemptEnd::Finished(observation) = AttemptEnd::from_output(said(number)) else {
                panic!("a success has finished")
            };
            reusable.insert_execution_result(
                "judge".into(),
                number,
                digest_reads(&read, reads, &AddedInputNames::default()),
                observation,
            );
        }
        reusable
    }

    fn said(number: u32) -> JsonMap {
        [("number".to_owned(), Value::from(number))].into_iter().collect()
    }

    #[test]
    fn only_who_reads_the_same_takes_over() {
        let reusable = reusable();
        for number in [1, 2] {
            let same = ExecutionInput {
                execution: number,
                run_id: "another".into(),
                turn_count: 9,
                ..execution()
            };
            let found = reusable.find_result(&same, OUTPUTS).map(|found| found.result.clone());
            assert_eq!(found, Some(Ok(said(number))), "each execution its own");
        }
        let message = Message::new(MessageRole::User, "before");
        let others: [(&str, ExecutionInput); 6] = [
            (
                "another input",
                ExecutionInput {
                    input: "another".into(),
                    ..execution()
                },
            ),
            (
                "another output",
                ExecutionInput {
                    dependencies: vec![("writer".into(), Arc::new(json!({"n": 2})))],
                    ..execution()
                },
            ),
            (
                "a request",
                ExecutionInput {
                    request: Some(Arc::new(AgentRequest {
                        from: "writer".into(),
                        parameters: Value::Null,
                        priority: 0,
                    })),
                    ..execution()
                },
            ),
            (
                "another thread",
                ExecutionInput {
                    thread: Arc::new(Thread::from_iterations(vec![ThreadIteration {
                        messages: vec![message],
                        ..ThreadIteration::default()
                    }])),
                    ..execution()
                },
            ),
            (
                "another agent",
                ExecutionInput {
                    agent_name: "writer".into(),
                    ..execution()
                },
            ),
            (
                "an execution that there was not",
                ExecutionInput {
                    execution: 4,
                    ..execution()
                },
            ),
        ];
        for (what, other) in others {
            assert!(reusable.find_result(&other, OUTPUTS).is_none(), "{what}");
        }
    }

    #[test]
    fn the_context_counts_for_those_who_read_all_of_it() {
        let reusable = reusable();
        let mut context = RunContext::default();
        context.insert("k".into(), Arc::new(json!(1)));
        let with = |execution_number| ExecutionInput {
            execution: execution_number,
            context: Arc::new(context.clone()),
            ..execution()
        };
        assert!(
            reusable.find_result(&with(2), OUTPUTS).is_some(),
            "who listens to others reads those"
        );
        assert!(reusable.find_result(&with(3), CONTEXT).is_none());
        let as_it_was = ExecutionInput {
            execution: 3,
            ..execution()
        };
        assert!(reusable.find_result(&as_it_was, CONTEXT).is_some());
    }
}
