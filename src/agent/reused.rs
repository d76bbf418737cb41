//! Results of one run taken over into another: for the same agent, the same execution and the same digest of what
//! it read, never by position.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::{BoxFuture, Execution, Observation, Observed, Runner};
use crate::data::digest;

/// Results that may be taken over.
#[derive(Debug, Default)]
pub struct Reusable {
    results: HashMap<(Arc<str>, u32), (String, Observation)>,
}

/// Answers from what may be taken over, and has everything else performed.
pub struct Reusing {
    runner: Arc<dyn Runner>,
    results: Arc<Reusable>,
    /// Has the agent no dependencies, so that it reads whatever anybody says?
    reads_all: bool,
}

/// The digest of what an execution reads: the input, the outputs of its dependencies, the request, and what the agent
/// and its model have said before; for an agent without dependencies also the context.
pub fn digest_of_reads(execution: &Execution, reads_all: bool) -> String {
    let read = json!({
        "input": execution.input,
        "dependencies": execution.dependencies,
        "request": execution.request,
        "thread": execution.thread,
        "context": reads_all.then_some(&execution.context),
    });
    digest(&read.to_string())
}

impl Reusable {
    /// Keeps what an execution came to; a later entry replaces an earlier one.
    pub fn insert(&mut self, agent: Arc<str>, execution: u32, read: String, observation: Observation) {
        self.results.insert((agent, execution), (read, observation));
    }

    /// Is there nothing to take over?
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    fn get(&self, execution: &Execution, reads_all: bool) -> Option<&Observation> {
        let key = (execution.agent_name.clone(), execution.execution);
        let (read, observation) = self.results.get(&key)?;
        (digest_of_reads(execution, reads_all) == *read).then_some(observation)
    }
}

impl Reusing {
    /// Puts the results before `runner`.
    pub fn new(runner: Arc<dyn Runner>, results: Arc<Reusable>, reads_all: bool) -> Self {
        Self {
            runner,
            results,
            reads_all,
        }
    }
}

impl Runner for Reusing {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        match self.results.get(&execution, self.reads_all) {
            Some(observation) => Box::pin(std::future::ready(Observed::Reused(observation.clone()))),
            None => self.runner.execute(execution),
        }
    }
}
