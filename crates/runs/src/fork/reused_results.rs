//! Results of one run taken over into another: for the same agent, the same execution and the same digest of what
//! it read, never by position.
//!
//! Invariant: a result is found by agent, execution and what was read, never by position.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;

use ensemble_core::conversation::{PartEnded, RunStarted};
use ensemble_core::runner::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_language::data::{Context, digest};
use ensemble_language::plan::{AgentId, HistoryRead, Plan};

/// Parts by key.
type KnownParts = HashMap<Arc<str>, Arc<PartEnded>>;

/// Results that may be taken over.
#[derive(Debug, Default)]
pub(crate) struct Reusable {
    results: HashMap<(Arc<str>, u32), (String, AttemptResult)>,
    /// The parts of executions, by key; a part is taken over where its item is the same.
    parts: HashMap<(Arc<str>, u32), Arc<KnownParts>>,
    added: Added,
}

/// Inputs that the run before did not take. What reads the same but for them reads the same: an agent whose text names
/// one was changed, too.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// Those that are not among its inputs.
    inputs: HashSet<Arc<str>>,
    /// Those of them that were not in its initial context, either.
    context: HashSet<Arc<str>>,
}

impl Added {
    /// Returns the added ones of `inputs` that the previous run did not take.
    pub(crate) fn of(before: &RunStarted, inputs: &Context) -> Self {
        let names = inputs.iter().map(|(name, _)| name.clone());
        let inputs: HashSet<Arc<str>> = names.filter(|name| before.inputs.get(name).is_none()).collect();
        let is_new = |name: &&Arc<str>| before.context.get(name).is_none();
        Self {
            context: inputs.iter().filter(is_new).cloned().collect(),
            inputs,
        }
    }
}

/// The values that the agent reads in addition to those of every execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reads {
    /// Has it no dependencies, or a list of items, so that it reads whatever anybody says?
    context: bool,
    /// Does it read the history?
    pub(crate) history: bool,
}

impl Reads {
    /// Returns the values that this agent reads.
    pub(crate) fn of(plan: &Plan, agent: AgentId) -> Self {
        Self {
            // The expressions of a `for_each` may read anything.
            context: plan.incoming(agent).next().is_none() || plan.agent(agent).for_each.is_some(),
            history: plan.reading(agent).history != HistoryRead::Nothing,
        }
    }
}

/// Answers from what may be taken over, and has everything else performed.
pub(crate) struct Reusing {
    runner: Arc<dyn Runner>,
    results: Arc<Reusable>,
    reads: Reads,
}

/// The digest of what an execution reads: the input, the outputs of its dependencies, the request, and what the agent
/// and its model have said before; where a prompt without variables is followed by what everybody has said, that; for an
/// agent without dependencies also the context; for one that reads the history also that; and the inputs of the run. Inputs
/// that were `added` do not count.
pub(crate) fn digest_of_reads(execution: &Execution, reads: Reads, added: &Added) -> String {
    let context = reads.context.then(|| without(&execution.context, &added.context));
    let inputs = without(&execution.inputs, &added.inputs);
    let mut read = json!({
        "input": execution.input,
        "dependencies": execution.dependencies,
        "others": execution.other_outputs,
        "request": execution.request,
        "thread": execution.thread,
        "context": context,
        "history": reads.history.then_some(&execution.history),
    });
    if !inputs.is_empty() {
        read["inputs"] = json!(inputs);
    }
    digest(&read.to_string())
}

/// The values, without those of these names.
fn without(values: &Arc<Context>, names: &HashSet<Arc<str>>) -> Arc<Context> {
    if names.is_empty() {
        return values.clone();
    }
    let rest = values.iter().filter(|(name, _)| !names.contains(*name));
    Arc::new(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
}

impl Reusable {
    /// Keeps what an execution came to; a later entry replaces an earlier one.
    pub(crate) fn insert(&mut self, agent: Arc<str>, execution: u32, read: String, observation: AttemptResult) {
        self.results.insert((agent, execution), (read, observation));
    }

    /// Keeps what a part came to.
    pub(crate) fn insert_part(&mut self, part: PartEnded) {
        let parts = self.parts.entry((part.agent.clone(), part.execution)).or_default();
        Arc::make_mut(parts).insert(part.key.clone(), Arc::new(part));
    }

    /// Returns whether there is nothing to reuse.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty() && self.parts.is_empty()
    }

    /// For a run with those inputs beside the ones of the run before.
    pub(crate) fn for_inputs(self, added: Added) -> Self {
        Self { added, ..self }
    }

    fn get(&self, execution: &Execution, reads: Reads) -> Option<&AttemptResult> {
        let key = (execution.agent_name.clone(), execution.execution);
        let (read, observation) = self.results.get(&key)?;
        (digest_of_reads(execution, reads, &self.added) == *read).then_some(observation)
    }
}

impl Reusing {
    /// Puts the results before `runner`.
    pub(crate) fn new(runner: Arc<dyn Runner>, results: Arc<Reusable>, reads: Reads) -> Self {
        Self { runner, results, reads }
    }
}

impl Runner for Reusing {
    fn execute(&self, mut execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        match self.results.get(&execution, self.reads) {
            Some(observation) => Box::pin(std::future::ready(AttemptOutcome::Reused(observation.clone()))),
            None => {
                let key = (execution.agent_name.clone(), execution.execution);
                if let (Some(parts), Some(known)) = (&mut execution.parts, self.results.parts.get(&key)) {
                    parts.known = known.clone();
                }
                self.runner.execute(execution)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use ensemble_core::thread::{Iteration, Message, Role, Thread};
    use ensemble_language::data::{JsonMap, Request};

    const OUTPUTS: Reads = Reads {
        context: false,
        history: false,
    };

    const CONTEXT: Reads = Reads {
        context: true,
        history: false,
    };

    fn execution() -> Execution {
        Execution {
            dependencies: vec![("writer".into(), Arc::new(json!({"n": 1})))],
            ..Execution::first("judge", 2)
        }
    }

    /// The result that execution 2 of `judge` may take over.
    fn reusable() -> Reusable {
        let mut reusable = Reusable::default();
        for (number, reads) in [(1, OUTPUTS), (2, OUTPUTS), (3, CONTEXT)] {
            let read = Execution {
                execution: number,
                ..execution()
            };
            let AttemptOutcome::Finished(observation) = AttemptOutcome::success(said(number)) else {
                panic!("a success has finished")
            };
            reusable.insert(
                "judge".into(),
                number,
                digest_of_reads(&read, reads, &Added::default()),
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
            let same = Execution {
                execution: number,
                run_id: "another".into(),
                turn_count: 9,
                ..execution()
            };
            let found = reusable.get(&same, OUTPUTS).map(|found| found.result.clone());
            assert_eq!(found, Some(Ok(said(number))), "each execution its own");
        }
        let message = Message::new(Role::User, "before");
        let others: [(&str, Execution); 6] = [
            (
                "another input",
                Execution {
                    input: "another".into(),
                    ..execution()
                },
            ),
            (
                "another output",
                Execution {
                    dependencies: vec![("writer".into(), Arc::new(json!({"n": 2})))],
                    ..execution()
                },
            ),
            (
                "a request",
                Execution {
                    request: Some(Arc::new(Request {
                        from: "writer".into(),
                        parameters: Value::Null,
                        priority: 0,
                    })),
                    ..execution()
                },
            ),
            (
                "another thread",
                Execution {
                    thread: Arc::new(Thread::of(vec![Iteration {
                        messages: vec![message],
                        ..Iteration::default()
                    }])),
                    ..execution()
                },
            ),
            (
                "another agent",
                Execution {
                    agent_name: "writer".into(),
                    ..execution()
                },
            ),
            (
                "an execution that there was not",
                Execution {
                    execution: 4,
                    ..execution()
                },
            ),
        ];
        for (what, other) in others {
            assert!(reusable.get(&other, OUTPUTS).is_none(), "{what}");
        }
    }

    #[test]
    fn the_context_counts_for_those_who_read_all_of_it() {
        let reusable = reusable();
        let mut context = Context::default();
        context.insert("k".into(), Arc::new(json!(1)));
        let with = |execution_number| Execution {
            execution: execution_number,
            context: Arc::new(context.clone()),
            ..execution()
        };
        assert!(
            reusable.get(&with(2), OUTPUTS).is_some(),
            "who listens to others reads those"
        );
        assert!(reusable.get(&with(3), CONTEXT).is_none());
        let as_it_was = Execution {
            execution: 3,
            ..execution()
        };
        assert!(reusable.get(&as_it_was, CONTEXT).is_some());
    }
}
