//! Stubs in the place of agents: runners that give what a test file, or a recorded run, says.
//!
//! Invariant: an execution for which nothing was prepared is noted, and never replaced by a guess.

use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::runner::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_language::cases::{Gives, Stub, Stubs};
use ensemble_language::data::{Failure, FailureKind, JsonMap, Usage};
use ensemble_language::ensemble::Agent;
use ensemble_process::output;
use ensemble_runs::{Reading, StandIns, StubbedQuestion};

use crate::recorded::Recorded;

/// An execution for which nothing was prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The agent, with the agents around it: `outer.inner`.
    pub agent: Arc<str>,
    /// The number of the execution.
    pub execution: u32,
    /// What is missing.
    pub what: MissingPart,
}

/// The missing part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingPart {
    /// There is no stub, and the agent itself needs this.
    Stub(String),
    /// The list of stubs has only so many.
    Execution(usize),
    /// No part has this key.
    Part(Arc<str>),
    /// The recorded run has no such execution.
    Record,
}

/// The stubs of a case.
pub(crate) struct Stubbed {
    stubs: Vec<(Arc<str>, Stubs)>,
    answered: Vec<Arc<str>>,
    recorded: Option<Arc<Recorded>>,
    is_live: bool,
    missing: Mutex<Vec<Missing>>,
}

impl Stubbed {
    /// Creates stubs: those of a test file, then those of a recorded run. Agents that are answered ask.
    pub(crate) fn new(
        stubs: Vec<(Arc<str>, Stubs)>,
        answered: Vec<Arc<str>>,
        recorded: Option<Arc<Recorded>>,
        is_live: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            stubs,
            answered,
            recorded,
            is_live,
            missing: Mutex::default(),
        })
    }

    /// The executions for which nothing was prepared.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn miss(&self, agent: &Arc<str>, execution: u32, what: MissingPart) -> AttemptOutcome {
        let missing = Missing {
            agent: agent.clone(),
            execution,
            what,
        };
        let mut all = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&missing) {
            all.push(missing);
        }
        AttemptOutcome::failure(FailureKind::Unavailable, "the test has no stub for this execution")
    }
}

/// The stubs for the agents of one ensemble.
pub(crate) struct StubsOf {
    pub(crate) stubbed: Arc<Stubbed>,
    /// The agents around the ensemble.
    pub(crate) around: String,
}

impl StubsOf {
    fn path(&self, agent: &str) -> Arc<str> {
        format!("{}{agent}", self.around).into()
    }

    fn stub(&self, path: &str) -> Option<&Stubs> {
        let mut stubs = self.stubbed.stubs.iter();
        stubs.find(|(name, _)| **name == *path).map(|(_, stubs)| stubs)
    }
}

impl StandIns for StubsOf {
    fn whole(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let recorded = self.stubbed.recorded.clone()?;
        let path = self.path(&agent.name);
        let is_given = self.stub(&path).is_some() || self.stubbed.answered.contains(&path);
        (self.around.is_empty() && !is_given).then(|| {
            Arc::new(RecordedRunner {
                agent: path,
                recorded,
                stubbed: self.stubbed.clone(),
            }) as Arc<dyn Runner>
        })
    }

    fn runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.path(&agent.name);
        let stubs = self.stub(&path)?.clone();
        Some(Arc::new(StubRunner {
            agent: path,
            stubs,
            reading: Reading::of(agent),
            question: StubbedQuestion::for_agent(agent),
            stubbed: self.stubbed.clone(),
        }))
    }

    fn missing(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>> {
        (!self.stubbed.is_live).then(|| {
            Arc::new(MissingRunner {
                agent: self.path(&agent.name),
                needs,
                stubbed: self.stubbed.clone(),
            }) as Arc<dyn Runner>
        })
    }

    fn within(&self, agent: &str) -> Arc<dyn StandIns> {
        Arc::new(Self {
            stubbed: self.stubbed.clone(),
            around: format!("{}{agent}.", self.around),
        })
    }
}

/// Gives what the test file says.
struct StubRunner {
    agent: Arc<str>,
    stubs: Stubs,
    reading: Reading,
    /// The question of an input agent.
    question: Option<StubbedQuestion>,
    stubbed: Arc<Stubbed>,
}

impl StubRunner {
    async fn give(&self, stub: &Stub, execution: &Execution) -> AttemptOutcome {
        if !stub.delay.is_zero() {
            tokio::time::sleep(stub.delay).await;
        }
        if execution.attempt <= stub.failed_attempts {
            let error = format!("attempt {} fails, as the test says", execution.attempt);
            return used(stub, Err(Failure::new(FailureKind::Reported, error)));
        }
        let result = match &stub.gives {
            Gives::Text(text) => self.reading.read(text, &execution.ledger),
            Gives::Json(value) => output::from_value(value.clone()),
            Gives::Fail(failure) => Err(failure.clone()),
            Gives::Parts(parts) => {
                let key = execution
                    .part
                    .as_ref()
                    .map_or_else(|| "".into(), |part| part.key.clone());
                return match parts.iter().find(|(name, _)| *name == key) {
                    Some((_, stub)) => Box::pin(self.give(stub, execution)).await,
                    None => self
                        .stubbed
                        .miss(&self.agent, execution.execution, MissingPart::Part(key)),
                };
            }
        };
        if let (Some(question), Ok(output)) = (&self.question, &result) {
            question.record_answer(execution, output).await;
        }
        used(stub, result)
    }
}

/// The end of an attempt, with what the stub says it has used.
fn used(stub: &Stub, result: Result<JsonMap, Failure>) -> AttemptOutcome {
    let has_used = stub.tokens > 0 || stub.cost.is_some();
    AttemptOutcome::Finished(AttemptResult {
        result,
        usage: has_used.then(|| Usage {
            requests: 1,
            input_tokens: stub.tokens,
            cost: stub.cost,
            ..Usage::default()
        }),
        exchange: Vec::new(),
        parts: Vec::new(),
        answer: None,
    })
}

impl Runner for StubRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let stub = match &self.stubs {
                Stubs::Always(stub) => Ok(stub),
                Stubs::Each(stubs) => stubs.get(execution.execution as usize - 1).ok_or(stubs.len()),
            };
            match stub {
                Ok(stub) => self.give(stub, &execution).await,
                Err(count) => {
                    let what = MissingPart::Execution(count);
                    self.stubbed.miss(&self.agent, execution.execution, what)
                }
            }
        })
    }
}

/// Gives what a recorded run says.
struct RecordedRunner {
    agent: Arc<str>,
    recorded: Arc<Recorded>,
    stubbed: Arc<Stubbed>,
}

impl Runner for RecordedRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        let observed = self.recorded.observed(&self.agent, execution.execution);
        let observed =
            observed.unwrap_or_else(|| self.stubbed.miss(&self.agent, execution.execution, MissingPart::Record));
        Box::pin(std::future::ready(observed))
    }
}

/// Notes that there is no stub.
struct MissingRunner {
    agent: Arc<str>,
    needs: String,
    stubbed: Arc<Stubbed>,
}

impl Runner for MissingRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        let what = MissingPart::Stub(self.needs.clone());
        let observed = self.stubbed.miss(&self.agent, execution.execution, what);
        Box::pin(std::future::ready(observed))
    }
}
