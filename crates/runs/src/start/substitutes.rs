//! Texts in the place of agents, and models in the place of people, for one run and those inside it.
//!
//! Invariant: the start of the run records them, and a name that no agent has is an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_core::conversation::RunStarted;
use ensemble_core::reply;
use ensemble_core::runner::{AttemptLedger, AttemptOutcome, BoxFuture, Execution, Runner};
use ensemble_language::data::{Failure, JsonMap};
use ensemble_language::diagnostic::did_you_mean;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble};
use ensemble_process::output;

use crate::error::RunError;
use crate::options::replacements::StandIns;
use crate::options::run_options::RunOptions;

/// The way in which a text becomes an output: as for the agent itself.
#[derive(Debug, Clone, Copy)]
pub enum Reading {
    /// The reply of a model.
    Reply,
    /// The reply of a model that is asked for JSON.
    ReplyAsked,
    /// What a program prints.
    Printed,
}

impl Reading {
    /// Of this agent.
    pub fn of(agent: &Agent) -> Self {
        match (&agent.kind, &agent.output_schema) {
            (AgentKind::Llm(_), Some(_)) => Self::ReplyAsked,
            (AgentKind::Llm(_), None) => Self::Reply,
            _ => Self::Printed,
        }
    }

    /// The output that the text means.
    ///
    /// # Errors
    /// It means none.
    pub fn read(self, text: &str, ledger: &AttemptLedger) -> Result<JsonMap, Failure> {
        match self {
            Self::Reply => Ok(reply::output_of(text)),
            Self::ReplyAsked => Ok(reply::output_of_asked(text)),
            Self::Printed => output::from_text(text, ledger),
        }
    }
}

/// The replacements of agents of a run, by their names; `outer.inner` names the agent `inner` of the ensemble `outer`.
#[derive(Debug, Default)]
pub(crate) struct Substitutes {
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    responders: BTreeMap<Arc<str>, Arc<str>>,
    /// The agents that were made ready, and whether each asks a person.
    seen: Mutex<BTreeMap<String, bool>>,
}

impl Substitutes {
    /// Returns the replacements of the options, if there are any.
    pub(crate) fn of(options: &RunOptions) -> Option<Arc<Self>> {
        let is_empty = options.stubs.is_empty() && options.responders.is_empty();
        (!is_empty).then(|| {
            Arc::new(Self {
                stubs: options.stubs.clone(),
                responders: options.responders.clone(),
                seen: Mutex::default(),
            })
        })
    }

    /// For the agents of the outermost ensemble.
    pub(crate) fn outermost(self: &Arc<Self>) -> Arc<dyn StandIns> {
        Arc::new(SubstitutesOf {
            all: self.clone(),
            around: String::new(),
        })
    }

    /// Refuses names that no agent of this ensemble has, and agents of the wrong kind. Names of agents inside others are
    /// known when all are ready.
    ///
    /// # Errors
    /// A name is wrong.
    pub(crate) fn check_own(&self, ensemble: &Ensemble) -> Result<(), RunError> {
        let asks = |agent: &Agent| matches!(agent.kind, AgentKind::Input(_));
        let agents = ensemble.agents.iter();
        let own = agents.map(|agent| (agent.name.to_string(), asks(agent))).collect();
        self.check_names(&own, |name| name.contains('.'))
    }

    /// Refuses names of agents that were not made ready, and agents of the wrong kind.
    ///
    /// # Errors
    /// A name is wrong.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_names(&seen, |_| false)
    }

    fn check_names(&self, agents: &BTreeMap<String, bool>, is_left: impl Fn(&str) -> bool) -> Result<(), RunError> {
        let all = || agents.keys().map(String::as_str);
        for name in self.stubs.keys() {
            match agents.get(&**name) {
                Some(false) => {}
                Some(true) => return Err(RunError::StubForPerson(name.to_string())),
                None if is_left(name) => {}
                None => return Err(no_agent(name, all())),
            }
        }
        for name in self.responders.keys() {
            match agents.get(&**name) {
                Some(true) => {}
                Some(false) => {
                    let inputs = agents.iter().filter(|(_, asks)| **asks);
                    return Err(RunError::RespondsForNobody {
                        agent: name.to_string(),
                        inputs: inputs.map(|(name, _)| name.clone()).collect(),
                    });
                }
                None if is_left(name) => {}
                None => return Err(no_agent(name, all())),
            }
        }
        Ok(())
    }
}

fn no_agent<'n>(name: &str, all: impl Iterator<Item = &'n str> + Clone) -> RunError {
    RunError::NoSuchAgent {
        agent: name.to_owned(),
        similar: did_you_mean(name, all.clone()).map(str::to_owned),
        agents: all.map(str::to_owned).collect(),
    }
}

impl RunOptions {
    /// Keeps what stood in for agents in the run from which this one goes on, where nothing else is given.
    pub(crate) fn keep_substitutes(&mut self, before: &RunStarted, has: impl Fn(&str) -> bool) {
        let is_there = |name: &Arc<str>| name.match_indices('.').any(|(end, _)| has(&name[..end])) || has(name);
        let kept = |all: &BTreeMap<Arc<str>, Arc<str>>| {
            let there = all.iter().filter(|(name, _)| is_there(name));
            there.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        self.stubs = kept(&before.stubs);
        self.responders = kept(&before.responders);
    }
}

/// The substitutes for the agents of one ensemble.
struct SubstitutesOf {
    all: Arc<Substitutes>,
    /// The agents around the ensemble.
    around: String,
}

impl SubstitutesOf {
    fn path(&self, agent: &str) -> String {
        format!("{}{agent}", self.around)
    }
}

impl StandIns for SubstitutesOf {
    fn whole(&self, _agent: &Agent) -> Option<Arc<dyn Runner>> {
        None
    }

    fn runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.path(&agent.name);
        let asks = matches!(agent.kind, AgentKind::Input(_));
        let stub = self.all.stubs.get(path.as_str()).filter(|_| !asks).cloned();
        let mut seen = self.all.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(path, asks);
        stub.map(|text| {
            let reading = Reading::of(agent);
            Arc::new(TextRunner { text, reading }) as Arc<dyn Runner>
        })
    }

    fn missing(&self, _agent: &Agent, _needs: String) -> Option<Arc<dyn Runner>> {
        None
    }

    fn responder(&self, agent: &Agent) -> Option<Arc<str>> {
        self.all.responders.get(self.path(&agent.name).as_str()).cloned()
    }

    fn within(&self, agent: &str) -> Arc<dyn StandIns> {
        Arc::new(Self {
            all: self.all.clone(),
            around: format!("{}{agent}.", self.around),
        })
    }
}

/// Gives a text, as the agent would put it out.
struct TextRunner {
    text: Arc<str>,
    reading: Reading,
}

impl Runner for TextRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        let observed = match self.reading.read(&self.text, &execution.ledger) {
            Ok(output) => AttemptOutcome::success(output),
            Err(failure) => AttemptOutcome::failure(failure.kind, failure.error),
        };
        Box::pin(std::future::ready(observed))
    }
}
