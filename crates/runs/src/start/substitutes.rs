//! The stubs that replace agents, and the models that answer for input agents, of a run and its nested runs.
//!
//! Invariant: the first event of the run records the replacements, and a name without an agent is an error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_core::conversation::RunStarted;
use ensemble_core::reply;
use ensemble_core::request::{AnswerRefusal, RequestAddress};
use ensemble_core::runner::{AttemptEnd, AttemptLedger, BoxFuture, ExecutionInput, Runner};
use ensemble_language::data::{ExecutionFailure, JsonMap};
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble};
use ensemble_process::output;

use crate::error::RunError;
use crate::options::replacements::AgentReplacements;
use crate::options::run_options::RunOptions;

/// The conversion of a stub's text to an output, as for the agent itself.
#[derive(Debug, Clone, Copy)]
pub enum StubOutputMode {
    /// The reply of a model.
    Reply,
    /// The reply of a model that is asked for JSON.
    ReplyAsked,
    /// The output that a program prints.
    Printed,
}

impl StubOutputMode {
    /// Returns the mode of this agent.
    pub fn for_agent(agent: &Agent) -> Self {
        match (&agent.kind, &agent.output_schema) {
            (AgentKind::Llm(_), Some(_)) => Self::ReplyAsked,
            (AgentKind::Llm(_), None) => Self::Reply,
            _ => Self::Printed,
        }
    }

    /// Converts the text to the output.
    ///
    /// # Errors
    ///
    /// The text is not a valid output.
    pub fn text_to_output(self, text: &str, ledger: &AttemptLedger) -> Result<JsonMap, ExecutionFailure> {
        match self {
            Self::Reply => Ok(reply::parse_reply_without_schema(text)),
            Self::ReplyAsked => Ok(reply::parse_reply_with_schema(text)),
            Self::Printed => output::output_from_text(text, ledger),
        }
    }
}

/// The replacements of agents of a run, by name. `outer.inner` names the agent `inner` of the ensemble `outer`. A stub of an input agent
/// can have every name of a question: `outer[part].inner`, or `inner` if unique.
pub(crate) struct RunReplacements {
    stubs: BTreeMap<Arc<str>, Arc<str>>,
    /// The profile of each agent, or [`RunStarted::GENERATOR`].
    responders: BTreeMap<Arc<str>, Arc<str>>,
    generators: BTreeMap<Arc<str>, Arc<dyn ResponseGenerator>>,
    /// The agents that were built, with their kinds.
    ready_agents: Mutex<BTreeMap<String, ReplaceableAgentKind>>,
}

/// The kind of an agent, as far as the kind decides which replacements are possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplaceableAgentKind {
    /// An input agent: a stub is its answer, and a model can answer.
    Person,
    /// A script agent: a model can answer in its place.
    Script,
    /// Any other agent.
    Other,
}

impl ReplaceableAgentKind {
    /// Returns the kind of this agent.
    fn for_agent(agent: &Agent) -> Self {
        match agent.kind {
            AgentKind::Input(_) => Self::Person,
            AgentKind::Script { .. } => Self::Script,
            AgentKind::Llm(_) | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => Self::Other,
        }
    }
}

impl RunReplacements {
    /// Creates the replacements of the options. Returns `None` if there are none.
    pub(crate) fn from_options(options: &RunOptions) -> Option<Arc<Self>> {
        let responders = options.recorded_responders();
        let is_empty = options.stubs.is_empty() && responders.is_empty();
        (!is_empty).then(|| {
            Arc::new(Self {
                stubs: options.stubs.clone(),
                responders,
                generators: options.generators.clone(),
                ready_agents: Mutex::default(),
            })
        })
    }

    /// Returns the replacements for the agents of the outermost ensemble.
    pub(crate) fn for_outermost(self: &Arc<Self>) -> Arc<dyn AgentReplacements> {
        Arc::new(EnsembleReplacements {
            all: self.clone(),
            outer_path: String::new(),
        })
    }

    /// Refuses names that no agent of this ensemble has, and agents of the wrong kind. Names of nested agents are checked later.
    ///
    /// # Errors
    ///
    /// A name is wrong.
    pub(crate) fn check_outermost_names(&self, ensemble: &Ensemble) -> Result<(), RunError> {
        let agents = ensemble.agents.iter();
        let own_agents: BTreeMap<String, ReplaceableAgentKind> = agents
            .map(|agent| (agent.name.to_string(), ReplaceableAgentKind::for_agent(agent)))
            .collect();
        let has_nested_ensembles = ensemble.agents.iter().any(|agent| match &agent.kind {
            AgentKind::Ensemble { .. } => true,
            AgentKind::Llm(llm) => !llm.tools.is_empty(),
            AgentKind::Script { .. } | AgentKind::Input(_) | AgentKind::Tool { .. } => false,
        });
        let is_typo = |name: &str| {
            !own_agents.contains_key(name) && find_similar_word(name, own_agents.keys().map(String::as_str)).is_some()
        };
        self.check_replaced_once()?;
        self.check_replacement_names(&own_agents, |name| {
            name.contains('.') || has_nested_ensembles && !is_typo(name)
        })
    }

    /// Refuses names of agents that were not built, and agents of the wrong kind.
    ///
    /// # Errors
    ///
    /// A name is wrong.
    pub(crate) fn check_all_names(&self) -> Result<(), RunError> {
        let ready_agents = self.ready_agents.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_replacement_names(&ready_agents, |_| false)
    }

    /// Refuses an agent with a stub for which a model or a generator answers too.
    fn check_replaced_once(&self) -> Result<(), RunError> {
        match self.stubs.keys().find(|name| self.responders.contains_key(*name)) {
            Some(name) => Err(RunError::ReplacedTwice(name.to_string())),
            None => Ok(()),
        }
    }

    /// Lists the answers of the stubs of input agents, by name.
    pub(crate) fn list_input_stub_answers(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let ready_agents = self.ready_agents.lock().unwrap_or_else(PoisonError::into_inner);
        let is_person = |name: &Arc<str>| match ready_agents.get(&**name) {
            Some(kind) => *kind == ReplaceableAgentKind::Person,
            None => !list_matching_input_agents(name, &ready_agents).is_empty(),
        };
        let stubs = self.stubs.iter().filter(|(name, _)| is_person(name));
        stubs.map(|(name, text)| (name.clone(), text.clone())).collect()
    }

    /// Checks the names of stubs and responders. `is_left` decides whether the name is checked later.
    fn check_replacement_names(
        &self,
        agents: &BTreeMap<String, ReplaceableAgentKind>,
        is_left: impl Fn(&str) -> bool,
    ) -> Result<(), RunError> {
        let all = || agents.keys().map(String::as_str);
        for name in self.stubs.keys().filter(|name| !agents.contains_key(&***name)) {
            match list_matching_input_agents(name, agents).as_slice() {
                _ if is_left(name) => {}
                [] => return Err(unknown_agent_error(name, all())),
                people @ [person, _, ..] if person.ends_with_agent(name) => {
                    return Err(RunError::Answer(AnswerRefusal::Ambiguous {
                        given: name.to_string(),
                        pending: people.to_vec(),
                    }));
                }
                _ => {}
            }
        }
        for (name, profile) in &self.responders {
            let is_generator = **profile == *RunStarted::GENERATOR_RESPONDER;
            if is_generator && !self.generators.contains_key(name) {
                return Err(RunError::NoGenerator(name.to_string()));
            }
            match agents.get(&**name) {
                Some(ReplaceableAgentKind::Person | ReplaceableAgentKind::Script) => {}
                // The agents of nested ensembles, for which a model can answer, are not known yet.
                Some(ReplaceableAgentKind::Other) | None if is_left(name) => {}
                Some(ReplaceableAgentKind::Other) => {
                    let possible = agents.iter().filter(|(_, kind)| **kind != ReplaceableAgentKind::Other);
                    return Err(RunError::RespondsForNobody {
                        agent: name.to_string(),
                        possible: possible.map(|(name, _)| name.clone()).collect(),
                    });
                }
                None => return Err(unknown_agent_error(name, all())),
            }
        }
        Ok(())
    }
}

/// Lists the addresses of the input agents that the name matches most precisely.
fn list_matching_input_agents(name: &str, agents: &BTreeMap<String, ReplaceableAgentKind>) -> Vec<RequestAddress> {
    let people = agents.iter().filter(|(_, kind)| **kind == ReplaceableAgentKind::Person);
    let addresses: Vec<RequestAddress> = people.filter_map(|(path, _)| path.parse().ok()).collect();
    let precision = |address: &RequestAddress| address.match_declared_precision(name);
    let Some(best) = addresses.iter().filter_map(precision).max() else {
        return Vec::new();
    };
    let named = addresses.iter().filter(|address| precision(address) == Some(best));
    named.cloned().collect()
}

/// Returns the error for a name that no agent has. The agent of a nested ensemble may be named without the ensemble.
fn unknown_agent_error<'n>(name: &str, all: impl Iterator<Item = &'n str> + Clone) -> RunError {
    let is_nested = |path: &&str| path.strip_suffix(name).is_some_and(|outer| outer.ends_with('.'));
    let similar = all
        .clone()
        .find(is_nested)
        .or_else(|| find_similar_word(name, all.clone()));
    RunError::NoSuchAgent {
        agent: name.to_owned(),
        similar: similar.map(str::to_owned),
        agents: all.map(str::to_owned).collect(),
    }
}

impl RunOptions {
    /// Returns the responders of agents as the run records them: model profiles, and generators by a fixed word.
    pub(crate) fn recorded_responders(&self) -> BTreeMap<Arc<str>, Arc<str>> {
        let generators = self.generators.keys();
        let generators = generators.map(|agent| (agent.clone(), RunStarted::GENERATOR_RESPONDER.into()));
        self.responders.clone().into_iter().chain(generators).collect()
    }

    /// Keeps what stood in for agents in the run from which this one goes on, where nothing else is given for the agent.
    pub(crate) fn inherit_replacements(&mut self, before: &RunStarted, has: impl Fn(&str) -> bool) {
        let is_there = |name: &Arc<str>| name.match_indices('.').any(|(end, _)| has(&name[..end])) || has(name);
        let keep_present = |all: &BTreeMap<Arc<str>, Arc<str>>| -> BTreeMap<Arc<str>, Arc<str>> {
            let present_entries = all.iter().filter(|(name, _)| is_there(name));
            present_entries
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let given = (std::mem::take(&mut self.stubs), std::mem::take(&mut self.responders));
        let (mut stubs, mut responders) = (keep_present(&before.stubs), keep_present(&before.responders));
        stubs.retain(|name, _| !given.1.contains_key(name) && !self.generators.contains_key(name));
        responders.retain(|name, _| !given.0.contains_key(name));
        self.stubs = stubs.into_iter().chain(given.0).collect();
        self.responders = responders.into_iter().chain(given.1).collect();
    }
}

/// The replacements for the agents of one ensemble.
struct EnsembleReplacements {
    all: Arc<RunReplacements>,
    /// The agents around the ensemble.
    outer_path: String,
}

impl EnsembleReplacements {
    /// Returns the path of an agent of this ensemble, from the outermost ensemble.
    fn full_agent_path(&self, agent: &str) -> String {
        format!("{}{agent}", self.outer_path)
    }
}

impl AgentReplacements for EnsembleReplacements {
    fn find_whole_agent_runner(&self, _agent: &Agent) -> Option<Arc<dyn Runner>> {
        None
    }

    fn find_execution_runner(&self, agent: &Agent) -> Option<Arc<dyn Runner>> {
        let path = self.full_agent_path(&agent.name);
        let kind = ReplaceableAgentKind::for_agent(agent);
        // The stub of an input agent is an answer.
        let is_answer = kind == ReplaceableAgentKind::Person;
        let stub = self.all.stubs.get(path.as_str()).filter(|_| !is_answer).cloned();
        let mut ready_agents = self.all.ready_agents.lock().unwrap_or_else(PoisonError::into_inner);
        ready_agents.insert(path, kind);
        stub.map(|text| {
            let reading = StubOutputMode::for_agent(agent);
            Arc::new(StubTextRunner { text, mode: reading }) as Arc<dyn Runner>
        })
    }

    fn find_required_replacement(&self, _agent: &Agent, _needs: String) -> Option<Arc<dyn Runner>> {
        None
    }

    fn find_responder_profile(&self, agent: &Agent) -> Option<Arc<str>> {
        let profile = self.all.responders.get(self.full_agent_path(&agent.name).as_str());
        profile
            .filter(|profile| ***profile != *RunStarted::GENERATOR_RESPONDER)
            .cloned()
    }

    fn find_response_generator(&self, agent: &Agent) -> Option<Arc<dyn ResponseGenerator>> {
        self.all
            .generators
            .get(self.full_agent_path(&agent.name).as_str())
            .cloned()
    }

    fn for_nested_agent(&self, agent: &str) -> Arc<dyn AgentReplacements> {
        Arc::new(Self {
            all: self.all.clone(),
            outer_path: format!("{}{agent}.", self.outer_path),
        })
    }
}

/// A runner that returns the text of a stub, converted as an output of the agent.
struct StubTextRunner {
    text: Arc<str>,
    mode: StubOutputMode,
}

impl Runner for StubTextRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        let observed = match self.mode.text_to_output(&self.text, &execution.ledger) {
            Ok(output) => AttemptEnd::from_output(output),
            Err(failure) => AttemptEnd::from_failure(failure.kind, failure.error),
        };
        Box::pin(std::future::ready(observed))
    }
}
