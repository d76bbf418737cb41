//! The state of a conversation: the fold of its events.
//!
//! Here is what the state consists of and how it is read; [`fold`] is how it changes.

mod fold;
mod turn;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::counts::CountList;
use super::event::{Interruption, RunEnded, RunStarted};
use super::history::{HistoryEntry, HistoryList};
use crate::thread::Thread;
use ensemble_language::condition::Facts;
use ensemble_language::data::{Context, Question, Request, Usage};
use ensemble_language::ensemble::Ending;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

pub use fold::AGENT_REQUESTS;
pub use turn::{OpenExecution, OpenTurn, Slot};

/// What is known of one agent.
#[derive(Debug, Clone, Default)]
pub struct AgentState {
    /// Executions since the last user message.
    executions: u32,
    /// The turn in which it last started, likewise.
    last_started: Option<u32>,
    /// The turn of its last success, likewise.
    last_success: Option<u32>,
    /// The turn of its last failure, likewise.
    last_failure: Option<u32>,
    /// How its latest execution ended, likewise.
    latest_failed: bool,
    /// Its latest execution failed, and nobody has been started with that.
    unhandled: bool,
    /// Its latest output and the execution it came from.
    output: Option<(u32, Arc<Value>)>,
    /// Its latest failure as `{error, kind}`, and the execution.
    failure: Option<(u32, Arc<Value>)>,
    /// LLM: what it and its model have said.
    thread: Arc<Thread>,
    /// LLM: requests made of its model.
    requests_made: u64,
}

/// The fold of a conversation's events.
#[derive(Debug, Clone)]
pub struct ConversationState {
    plan: Arc<Plan>,
    started: Option<RunStarted>,
    next_seq: u64,
    input: Arc<str>,
    input_digest: Arc<str>,
    context: Arc<Context>,
    turn_count: u32,
    /// `turn_count` at the last user message: limits count from there.
    leg_start: u32,
    history: Arc<HistoryList>,
    counts: Arc<CountList>,
    agents: Vec<AgentState>,
    starts: Vec<u32>,
    requests: HashMap<AgentId, Arc<Request>>,
    open_turn: Option<OpenTurn>,
    interrupted: Option<Interruption>,
    ended: Option<RunEnded>,
    usage: Usage,
    warnings: Vec<String>,
    /// The two latest successes by different agents: turn and agent.
    latest_successes: [Option<(u32, AgentId)>; 2],
    /// Agents that the facts leave open: the only ones a decision must look at.
    candidates: BTreeSet<AgentId>,
    /// Agents that the last turn's news reached and that the facts rule out.
    stirred: BTreeSet<AgentId>,
    /// Agents whose last execution failed unhandled and must not.
    failed: BTreeSet<AgentId>,
    /// Agents that have reached their `max_agent_executions`.
    capped: BTreeSet<AgentId>,
    /// Are history and warnings kept?
    keeps_account: bool,
}

impl ConversationState {
    /// The state before the first event.
    pub fn new(plan: Arc<Plan>) -> Self {
        let agents = vec![AgentState::default(); plan.len()];
        Self {
            counts: Arc::new(CountList::new(plan.clone())),
            starts: vec![0; plan.edge_count()],
            started: None,
            next_seq: 0,
            input: "".into(),
            input_digest: "".into(),
            context: Arc::default(),
            turn_count: 0,
            leg_start: 0,
            history: Arc::default(),
            agents,
            requests: HashMap::new(),
            open_turn: None,
            interrupted: None,
            ended: None,
            usage: Usage::default(),
            warnings: Vec::new(),
            latest_successes: [None; 2],
            candidates: BTreeSet::new(),
            stirred: BTreeSet::new(),
            failed: BTreeSet::new(),
            capped: BTreeSet::new(),
            keeps_account: true,
            plan,
        }
    }

    /// The same without history and warnings, which grow with the conversation: for whoever only wants decisions of a
    /// plan that does not look at the history.
    #[must_use]
    pub fn lean(self) -> Self {
        Self {
            keeps_account: false,
            ..self
        }
    }
}

/// Reading.
impl ConversationState {
    /// The plan it is the state of.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// How the run was started; `None` before the first event.
    pub fn started(&self) -> Option<&RunStarted> {
        self.started.as_ref()
    }

    /// The sequence number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The run's input.
    pub fn input(&self) -> &Arc<str> {
        &self.input
    }

    /// `accumulated_context`.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// `turn_count`: turns finished.
    pub fn turn_count(&self) -> u32 {
        self.turn_count
    }

    /// Turns finished since the last user message: what `max_total_turns` limits.
    pub fn leg_turns(&self) -> u32 {
        self.turn_count - self.leg_start
    }

    /// The turn that is under way.
    pub fn open_turn(&self) -> Option<&OpenTurn> {
        self.open_turn.as_ref()
    }

    /// The questions of the open turn that nobody has answered, each with the agent whose answer is wanted.
    pub fn open_questions(&self) -> impl Iterator<Item = Question> {
        let slots = self.open_turn.iter().flat_map(|turn| &turn.slots);
        slots.filter_map(|slot| match &slot.progress {
            OpenExecution::Waiting(question) => Some(Question {
                asked_by: question.asked_by.clone().or_else(|| Some(slot.start.agent.clone())),
                ..question.clone()
            }),
            OpenExecution::Pending | OpenExecution::Finished(_) => None,
        })
    }

    /// What ended the run from outside.
    pub fn interrupted(&self) -> Option<&Interruption> {
        self.interrupted.as_ref()
    }

    /// How the run ended.
    pub fn ended(&self) -> Option<&RunEnded> {
        self.ended.as_ref()
    }

    /// What all executions cost.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Everything the person who runs the ensemble should know, in order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What is known of the agent.
    pub fn agent(&self, id: AgentId) -> &AgentState {
        &self.agents[id.index()]
    }

    /// The request that targets the agent in the next turn.
    pub fn request(&self, id: AgentId) -> Option<&Arc<Request>> {
        self.requests.get(&id)
    }

    /// All agents that requests target in the next turn.
    pub fn requested(&self) -> impl Iterator<Item = AgentId> {
        self.requests.keys().copied()
    }

    /// Agents whose readiness facts leave open, in declaration order.
    pub fn candidates(&self) -> impl Iterator<Item = AgentId> {
        self.candidates.iter().copied()
    }

    /// Agents that the last turn's news reached and that facts rule out, in declaration order.
    pub fn stirred(&self) -> impl Iterator<Item = AgentId> {
        self.stirred.iter().copied()
    }

    /// The first agent whose unhandled failure makes the run fail.
    pub fn first_failed(&self) -> Option<AgentId> {
        self.failed.first().copied()
    }

    /// The first agent that has reached its `max_agent_executions`.
    pub fn first_capped(&self) -> Option<AgentId> {
        self.capped.first().copied()
    }

    /// Has the agent executed as often as its `max_turns` allows?
    pub fn is_exhausted(&self, plan: &Plan, id: AgentId) -> bool {
        self.agent(id).executions >= plan.agent(id).conversation.max_turns.get()
    }

    /// How often the edge has started its agent.
    pub fn starts_of(&self, edge: EdgeId) -> u32 {
        self.starts[edge.index()]
    }

    /// The turn of the latest success by any other agent.
    pub fn latest_success_but(&self, agent: AgentId) -> Option<u32> {
        let other = self
            .latest_successes
            .iter()
            .flatten()
            .find(|(_, other)| *other != agent);
        other.map(|(turn, _)| *turn)
    }

    /// The executions so far, those of an open turn that have finished included.
    pub fn history(&self) -> impl Iterator<Item = std::borrow::Cow<'_, HistoryEntry>> {
        use std::borrow::Cow;
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        let finished = open.filter_map(|slot| self.entry(slot)).map(Cow::Owned);
        self.history.0.iter().map(Cow::Borrowed).chain(finished)
    }

    /// How often the agent has executed in the whole run, an open turn included.
    pub fn execution_count(&self, id: AgentId) -> u32 {
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        let finished = open.filter(|slot| slot.agent == id && matches!(slot.progress, OpenExecution::Finished(_)));
        self.counts.of(id) + u32::try_from(finished.count()).unwrap_or(u32::MAX)
    }

    /// Which execution of the agent comes next, from 1.
    pub fn next_execution(&self, id: AgentId) -> u32 {
        self.counts.of(id) + 1
    }

    /// What the dependency's agent has said, as the edge sees it, and in which execution.
    pub fn edge_output(&self, edge: &Edge) -> Option<&(u32, Arc<Value>)> {
        let from = self.agent(edge.from);
        match edge.on {
            Ending::Success => from.output.as_ref(),
            Ending::Failure => from.failure.as_ref().filter(|_| from.latest_failed),
            Ending::Any if from.latest_failed => from.failure.as_ref(),
            Ending::Any => from.output.as_ref(),
        }
    }

    /// What the agent reads when it starts now: one output for each agent it listens to that has one.
    pub fn dependency_outputs(&self, id: AgentId) -> IndexMap<Arc<str>, (u32, Arc<Value>)> {
        let mut outputs: IndexMap<Arc<str>, (u32, Arc<Value>)> = IndexMap::new();
        for (_, edge) in self.plan.incoming(id) {
            let Some(output) = self.edge_output(edge) else { continue };
            let name = self.plan.name(edge.from);
            match outputs.get_mut(name) {
                Some(known) if known.0 < output.0 => *known = output.clone(),
                Some(_) => {}
                None => {
                    outputs.insert(name.clone(), output.clone());
                }
            }
        }
        outputs
    }

    /// What a condition on the edge can see.
    pub fn facts(&self, edge: &Edge) -> Facts {
        Facts {
            context: self.context.clone(),
            output: self.edge_output(edge).map(|(_, output)| output.clone()),
            turn_count: u64::from(self.turn_count),
            history: self.history.clone(),
            executions: self.counts.clone(),
            input: self.input.clone(),
        }
    }
}

impl AgentState {
    /// Has it executed since the last user message?
    pub fn has_executed(&self) -> bool {
        self.executions > 0
    }

    /// Its executions since the last user message.
    pub fn executions(&self) -> u32 {
        self.executions
    }

    /// The turn in which it last started.
    pub fn last_started(&self) -> Option<u32> {
        self.last_started
    }

    /// The turn of its last success.
    pub fn last_success(&self) -> Option<u32> {
        self.last_success
    }

    /// The turn of its last failure.
    pub fn last_failure(&self) -> Option<u32> {
        self.last_failure
    }

    /// Did its latest execution fail?
    pub fn latest_failed(&self) -> bool {
        self.latest_failed
    }

    /// Did its latest execution fail, with nobody started by that?
    pub fn is_unhandled(&self) -> bool {
        self.unhandled
    }

    /// Why its latest failure failed, in words.
    pub fn latest_error(&self) -> Option<&str> {
        self.failure.as_ref()?.1.get("error")?.as_str()
    }

    /// LLM: what it and its model have said.
    pub fn thread(&self) -> &Arc<Thread> {
        &self.thread
    }

    /// LLM: requests made of its model.
    pub fn requests_made(&self) -> u64 {
        self.requests_made
    }
}
