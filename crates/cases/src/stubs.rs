//! Stubs in the place of agents: runners that give what a test file, or a recorded run, says.
//!
//! Invariant: an execution for which nothing was prepared is noted, and never replaced by a guess.

use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::runner::{AttemptOutcome, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_language::cases::{AgentStubs, StubOutput, StubResult};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage};
use ensemble_language::ensemble::Agent;
use ensemble_process::output;
use ensemble_runs::{AgentReplacements, OutputMode, StubbedQuestion};

use crate::recorded_case::RecordedCase;

/// An execution for which nothing was prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingStub {
    /// The agent, with the agents around it: `outer.inner`.
    pub agent: Arc<str>,
    /// The number of the execution.
    pub execution: u32,
    /// What is missing.
    pub missing_part: MissingPart,
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
pub(crate) struct CaseStubs {
    stubs: Vec<(Arc<str>, AgentStubs)>,
    answered_agents: Vec<Arc<str>>,
    recorded: Option<Arc<RecordedCase>>,
    is_live: bool,
    missing: Mutex<Vec<MissingStub>>,
}

impl CaseStubs {
    /// Creates stubs: those of a test file, then those of a recorded run. Agents that are answered ask.
    pub(crate) fn new(
        stubs: Vec<(Arc<str>, AgentStubs)>,
        answered: Vec<Arc<str>>,
        recorded: Option<Arc<RecordedCase>>,
        is_live: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            stubs,
            answered_agents: answered,
            recorded,
            is_live,
            missing: Mutex::default(),
        })
    }

    /// The executions for which nothing was prepared.
    pub(crate) fn missing_stubs(&self) -> Vec<MissingStub> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add_missing(&self, agent: &Arc<str>, execution: u32, what: MissingPart) -> AttemptOutcome {
        let missing = MissingStub {
            agent: agent.clone(),
            execution,
            missing_part: what,
        };
        let mut all = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains(&missing) {
            all.push(missing);
        }
        AttemptOutcome::from_failure(FailureKind::Unavailable, "the test has no stub for this execution")
    }
}

/// The stubs for the agents of one ensemble.
pub(crate) struct EnsembleStubs {
    pub(crate) stubbed: Arc<CaseStubs>,
    /// The agents around the ensemble.
    pub(crate) outer_path: String,
}

impl EnsembleStubs {
    fn agent_path(&self, agent: &str) -> Arc<str> {
        format!("{}{agent}", self.outer_path).into()
    }

    fn find_stubs(&self, path: &str) -> Option<&AgentStubs> {
        let mut stubs = self.stubbed.stubs.iter();
        stubs.find(|(name, _)| **name == *path).map(|(_, stubs)| stubs)
    }
}

impl AgentReplacements for EnsembleStubs {
    fn whole_agent_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let recorded = self.stubbed.recorded.clone()?;
        let path = self.agent_path(&agent.name);
        let is_given = self.find_stubs(&path).is_some() || self.stubbed.answered_agents.contains(&path);
        (self.outer_path.is_empty() && !is_given).then(|| {
            Arc::new(RecordedCaseRunner {
                agent: path,
                recorded,
                stubbed: self.stubbed.clone(),
            }) as Arc<dyn Runner>
        })
    }

    fn find_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.agent_path(&agent.name);
        let stubs = self.find_stubs(&path)?.clone();
        Some(Arc::new(StubRunner {
            agent: path,
            stubs,
            reading: OutputMode::for_agent(agent),
            question: StubbedQuestion::for_agent(agent),
            stubbed: self.stubbed.clone(),
        }))
    }

    fn missing_agent_runner(&self, agent: &Agent, needs: String) -> Option<Arc<dyn Runner>> {
        (!self.stubbed.is_live).then(|| {
            Arc::new(MissingStubRunner {
                agent: self.agent_path(&agent.name),
                needs,
                stubbed: self.stubbed.clone(),
            }) as Arc<dyn Runner>
        })
    }

    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements> {
        Arc::new(Self {
            stubbed: self.stubbed.clone(),
            outer_path: format!("{}{agent}.", self.outer_path),
        })
    }
}

/// Gives what the test file says.
struct StubRunner {
    agent: Arc<str>,
    stubs: AgentStubs,
    reading: OutputMode,
    /// The question of an input agent.
    question: Option<StubbedQuestion>,
    stubbed: Arc<CaseStubs>,
}

impl StubRunner {
    async fn run_stub(&self, stub: &StubResult, execution: &ExecutionInput) -> AttemptOutcome {
        if !stub.delay.is_zero() {
            tokio::time::sleep(stub.delay).await;
        }
        if execution.attempt <= stub.failed_attempts {
            let error = format!("attempt {} fails because of `failed_attempts`", execution.attempt);
            return stub_outcome(stub, Err(ExecutionFailure::new(FailureKind::Reported, error)));
        }
        let result = match &stub.output {
            StubOutput::Text(text) => self.reading.parse_output(text, &execution.ledger),
            StubOutput::Json(value) => output::from_value(value.clone()),
            StubOutput::Fail(failure) => Err(failure.clone()),
            StubOutput::Parts(parts) => {
                let key = execution
                    .part
                    .as_ref()
                    .map_or_else(|| "".into(), |part| part.key.clone());
                return match parts.iter().find(|(name, _)| *name == key) {
                    Some((_, stub)) => Box::pin(self.run_stub(stub, execution)).await,
                    None => self
                        .stubbed
                        .add_missing(&self.agent, execution.execution, MissingPart::Part(key)),
                };
            }
        };
        if let (Some(question), Ok(output)) = (&self.question, &result) {
            question.record_answer(execution, output).await;
        }
        stub_outcome(stub, result)
    }
}

/// The end of an attempt, with what the stub says it has used.
fn stub_outcome(stub: &StubResult, result: Result<JsonMap, ExecutionFailure>) -> AttemptOutcome {
    let has_used = stub.tokens > 0 || stub.cost.is_some();
    AttemptOutcome::Finished(AttemptResult {
        result,
        usage: has_used.then(|| ModelUsage {
            requests: 1,
            input_tokens: stub.tokens,
            cost: stub.cost,
            ..ModelUsage::default()
        }),
        exchange: Vec::new(),
        parts: Vec::new(),
        answer: None,
    })
}

impl Runner for StubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let stub = match &self.stubs {
                AgentStubs::Always(stub) => Ok(stub),
                AgentStubs::Each(stubs) => stubs.get(execution.execution as usize - 1).ok_or(stubs.len()),
            };
            match stub {
                Ok(stub) => self.run_stub(stub, &execution).await,
                Err(count) => {
                    let missing_part = MissingPart::Execution(count);
                    self.stubbed.add_missing(&self.agent, execution.execution, missing_part)
                }
            }
        })
    }
}

/// Gives what a recorded run says.
struct RecordedCaseRunner {
    agent: Arc<str>,
    recorded: Arc<RecordedCase>,
    stubbed: Arc<CaseStubs>,
}

impl Runner for RecordedCaseRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        let observed = self.recorded.find_outcome(&self.agent, execution.execution);
        let observed = observed.unwrap_or_else(|| {
            self.stubbed
                .add_missing(&self.agent, execution.execution, MissingPart::Record)
        });
        Box::pin(std::future::ready(observed))
    }
}

/// Notes that there is no stub.
struct MissingStubRunner {
    agent: Arc<str>,
    needs: String,
    stubbed: Arc<CaseStubs>,
}

impl Runner for MissingStubRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptOutcome> {
        let missing_part = MissingPart::Stub(self.needs.clone());
        let observed = self.stubbed.add_missing(&self.agent, execution.execution, missing_part);
        Box::pin(std::future::ready(observed))
    }
}
