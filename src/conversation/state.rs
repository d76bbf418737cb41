//! The state of a conversation: the fold of its events.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::{Value, json};

use super::event::{
    AttemptFailed, Event, ExecutionFinished, ExecutionStarted, InputRequested, Interruption, Record, RunEnded,
    RunStarted, Start, TurnFinished, TurnStarted,
};
use super::standing::{Standing, standing};
use super::view::{CountList, HistoryList};
use crate::condition::Facts;
use crate::data::{Context, Failure, Question, Request, Usage};
use crate::ensemble::{AgentKind, Ending, Memory};
use crate::plan::{AgentId, Edge, EdgeId, Plan};
use crate::thread::Message;

/// One execution of the past, as results and conditions show it.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The turn, from 1.
    pub turn_number: u32,
    /// The agent.
    pub agent_name: Arc<str>,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// What it read: agents, and which of their executions.
    pub reads: IndexMap<Arc<str>, u32>,
    /// The request that started it.
    pub request: Option<Arc<Request>>,
    /// Digest of the run's input at the time.
    pub input_digest: Arc<str>,
    /// Its output; `{error, kind}` when it failed.
    pub output_data: Arc<Value>,
    /// Why it failed; `None` when it succeeded.
    pub failure: Option<Failure>,
    /// The attempt that ended it.
    pub attempt: u32,
    /// What all its attempts cost.
    pub usage: Option<Usage>,
    /// Wall clock of the last attempt, in seconds.
    pub execution_time: f64,
    /// When it ended.
    pub timestamp: DateTime<Utc>,
}

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
    thread: Arc<Vec<Message>>,
    /// LLM: requests made of its model.
    requests_made: u64,
}

/// A turn that has started and not finished.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// Its number, from 1.
    pub turn: u32,
    /// Its executions, in declaration order.
    pub slots: Vec<Slot>,
}

/// One execution of an open turn.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The agent.
    pub agent: AgentId,
    /// The decision that started it.
    pub start: Start,
    /// The last attempt that began; 0: none yet.
    pub attempt: u32,
    /// Attempts that failed; those lost to a crash are not among them.
    pub failed_attempts: u32,
    /// Why the last of them failed.
    pub last_failure: Option<Failure>,
    /// What its failed attempts cost.
    pub usage: Option<Usage>,
    /// How far it is.
    pub progress: OpenExecution,
}

/// How far an execution of an open turn is.
#[derive(Debug, Clone)]
pub enum OpenExecution {
    /// Not ended.
    Pending,
    /// A question is open.
    Waiting(Question),
    /// Ended; merged when the turn closes.
    Finished(Box<(ExecutionFinished, DateTime<Utc>)>),
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
            plan,
        }
    }

    /// The only way in which the state changes.
    pub fn apply(&mut self, record: &Record) {
        self.next_seq = record.seq + 1;
        match &record.event {
            Event::RunStarted(event) => self.run_started(event),
            Event::RunResumed(_) => self.run_resumed(),
            Event::MessageAdded(event) => self.open_leg(event.text.clone()),
            Event::TurnStarted(event) => self.turn_started(event),
            Event::ExecutionStarted(event) => self.execution_started(event),
            Event::AttemptFailed(event) => self.attempt_failed(event),
            Event::ExecutionFinished(event) => self.execution_finished(event, record.at),
            Event::InputRequested(event) => self.input_requested(event),
            Event::Interrupted(cause) => self.interrupted = Some(*cause),
            Event::TurnFinished(event) => self.turn_finished(event),
            Event::RunEnded(event) => self.ended = Some(event.clone()),
        }
    }

    fn run_started(&mut self, event: &RunStarted) {
        self.context = Arc::new(event.context.clone());
        self.started = Some(event.clone());
        self.open_leg(event.input.clone());
    }

    /// A user message: readiness starts afresh, what was said stays.
    fn open_leg(&mut self, input: Arc<str>) {
        self.input_digest = digest(&input);
        self.input = input;
        self.leg_start = self.turn_count;
        for agent in &mut self.agents {
            *agent = AgentState {
                output: agent.output.take(),
                failure: agent.failure.take(),
                thread: std::mem::take(&mut agent.thread),
                requests_made: agent.requests_made,
                ..AgentState::default()
            };
        }
        self.starts.fill(0);
        self.requests.clear();
        self.latest_successes = [None; 2];
        self.failed.clear();
        self.capped.clear();
        self.ended = None;
        self.candidates.clear();
        self.stirred.clear();
        for id in self.plan.ids() {
            self.place(id);
        }
    }

    fn run_resumed(&mut self) {
        self.interrupted = None;
        self.ended = None;
        for slot in self.open_turn.iter_mut().flat_map(|turn| &mut turn.slots) {
            if matches!(slot.progress, OpenExecution::Waiting(_)) {
                slot.progress = OpenExecution::Pending;
            }
        }
    }

    fn turn_started(&mut self, event: &TurnStarted) {
        let plan = self.plan.clone();
        let mut slots = Vec::with_capacity(event.starts.len());
        for start in &event.starts {
            let Some(agent) = plan.id(&start.agent) else { continue };
            self.agents[agent.index()].last_started = Some(event.turn);
            for (id, edge) in plan.incoming(agent) {
                if start.counts.contains(&edge.position) {
                    self.starts[id.index()] += 1;
                }
            }
            for handled in start.handles.iter().filter_map(|name| plan.id(name)) {
                self.agents[handled.index()].unhandled = false;
                self.failed.remove(&handled);
            }
            slots.push(Slot {
                agent,
                start: start.clone(),
                attempt: 0,
                failed_attempts: 0,
                last_failure: None,
                usage: None,
                progress: OpenExecution::Pending,
            });
        }
        self.requests.clear();
        self.stirred.clear();
        self.open_turn = Some(OpenTurn {
            turn: event.turn,
            slots,
        });
    }

    fn execution_started(&mut self, event: &ExecutionStarted) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.attempt = event.attempt;
        }
    }

    fn attempt_failed(&mut self, event: &AttemptFailed) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.failed_attempts += 1;
            slot.last_failure = Some(event.failure.clone());
            slot.usage = add_usage(slot.usage, event.usage);
        }
        let warn = |warning: &String| format!("{}: {warning}", event.agent);
        self.warnings.extend(event.warnings.iter().map(warn));
    }

    fn execution_finished(&mut self, event: &ExecutionFinished, at: DateTime<Utc>) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.usage = add_usage(slot.usage, event.usage);
            slot.progress = OpenExecution::Finished(Box::new((event.clone(), at)));
        }
    }

    fn input_requested(&mut self, event: &InputRequested) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.progress = OpenExecution::Waiting(event.question.clone());
        }
    }

    fn turn_finished(&mut self, event: &TurnFinished) {
        let Some(turn) = self.open_turn.take() else { return };
        let plan = self.plan.clone();
        self.turn_count = turn.turn;
        let mut touched = BTreeSet::new();
        for slot in turn.slots {
            touched.insert(slot.agent);
            touched.extend(plan.outgoing(slot.agent).map(|(_, edge)| edge.to));
            if self.merge(&plan, slot) {
                touched.extend(plan.listeners());
            }
        }
        for (target, request) in &event.requests {
            if let Some(id) = plan.id(target) {
                self.requests.insert(id, request.clone());
            }
        }
        self.warnings.extend(event.warnings.iter().cloned());
        for agent in touched {
            self.place(agent);
        }
    }

    /// Merges one finished execution; did it succeed?
    fn merge(&mut self, plan: &Plan, slot: Slot) -> bool {
        let Some(entry) = self.entry(&slot) else { return false };
        let (id, turn, execution) = (slot.agent, entry.turn_number, entry.execution);
        let OpenExecution::Finished(finished) = slot.progress else {
            return false;
        };
        let (event, _) = *finished;
        let success = entry.failure.is_none();
        if success {
            self.merge_output(plan, id, &entry.output_data);
            self.note_success(turn, id);
        }
        let agent = &mut self.agents[id.index()];
        agent.executions += 1;
        agent.latest_failed = !success;
        agent.unhandled = !success;
        if success {
            agent.last_success = Some(turn);
            agent.output = Some((execution, entry.output_data.clone()));
        } else {
            agent.last_failure = Some(turn);
            agent.failure = Some((execution, entry.output_data.clone()));
        }
        agent.requests_made += entry.usage.map_or(0, |usage| usage.requests);
        if success && remembers(plan, id) {
            Arc::make_mut(&mut agent.thread).extend(event.exchange);
        }
        let fails_the_run = !success && plan.agent(id).on_error == crate::ensemble::OnError::Fail;
        if fails_the_run {
            self.failed.insert(id);
        } else {
            self.failed.remove(&id);
        }
        if plan
            .cap(id)
            .is_some_and(|cap| self.agents[id.index()].executions >= cap.get())
        {
            self.capped.insert(id);
        }
        if let Some(usage) = entry.usage {
            self.usage = add_usage(Some(self.usage), Some(usage)).unwrap_or_default();
        }
        let warn = |warning: String| format!("{}: {warning}", plan.name(id));
        self.warnings.extend(event.warnings.into_iter().map(warn));
        Arc::make_mut(&mut self.counts).add(id);
        Arc::make_mut(&mut self.history).0.push(entry);
        success
    }

    /// The output under its state key, and its top-level keys beside it, save reserved ones.
    fn merge_output(&mut self, plan: &Plan, id: AgentId, output: &Arc<Value>) {
        let context = Arc::make_mut(&mut self.context);
        for (key, value) in output.as_object().into_iter().flatten() {
            if key != AGENT_REQUESTS && !plan.is_reserved(key) {
                context.insert(key.as_str().into(), Arc::new(value.clone()));
            }
        }
        context.insert(plan.agent(id).state_key().clone(), output.clone());
    }

    fn note_success(&mut self, turn: u32, agent: AgentId) {
        match self.latest_successes[0] {
            Some((_, latest)) if latest == agent => {}
            latest => self.latest_successes[1] = latest,
        }
        self.latest_successes[0] = Some((turn, agent));
    }

    /// Puts the agent among those a decision must look at, or those it can pass over.
    fn place(&mut self, agent: AgentId) {
        if standing(&self.plan, self, agent) == Standing::Open {
            self.stirred.remove(&agent);
            self.candidates.insert(agent);
        } else {
            self.candidates.remove(&agent);
            self.stirred.insert(agent);
        }
    }

    fn slot_mut(&mut self, agent: &str) -> Option<&mut Slot> {
        let id = self.plan.id(agent)?;
        let slots = &mut self.open_turn.as_mut()?.slots;
        let at = slots.binary_search_by_key(&id, |slot| slot.agent).ok()?;
        Some(&mut slots[at])
    }

    /// What the history says of a finished execution of the open turn.
    fn entry(&self, slot: &Slot) -> Option<HistoryEntry> {
        let OpenExecution::Finished(finished) = &slot.progress else {
            return None;
        };
        let (event, at) = &**finished;
        let output_data = match (&event.output, &event.failure) {
            (Some(output), None) => output.clone(),
            (_, Some(failure)) => Arc::new(failure_value(failure)),
            (None, None) => Arc::new(json!({})),
        };
        Some(HistoryEntry {
            turn_number: event.turn,
            agent_name: event.agent.clone(),
            execution: event.execution,
            reads: slot.start.reads.clone(),
            request: slot.start.request.clone(),
            input_digest: self.input_digest.clone(),
            output_data,
            failure: event.failure.clone(),
            attempt: event.attempt,
            usage: slot.usage,
            execution_time: event.execution_time,
            timestamp: *at,
        })
    }
}

/// The key of an output that asks for other agents.
pub const AGENT_REQUESTS: &str = "agent_requests";

/// A failure as its dependents read it.
fn failure_value(failure: &Failure) -> Value {
    json!({"error": failure.error, "kind": failure.kind})
}

fn remembers(plan: &Plan, id: AgentId) -> bool {
    match &plan.agent(id).kind {
        AgentKind::Llm(llm) => llm.memory == Memory::Conversation,
        // Answers that a model gave in a person's place are found again here.
        AgentKind::Input(_) => true,
        AgentKind::Script { .. } | AgentKind::Ensemble { .. } => false,
    }
}

fn add_usage(one: Option<Usage>, other: Option<Usage>) -> Option<Usage> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Usage {
            requests: one.requests + other.requests,
            input_tokens: one.input_tokens + other.input_tokens,
            output_tokens: one.output_tokens + other.output_tokens,
            estimated: one.estimated || other.estimated,
        }),
        (one, other) => one.or(other),
    }
}

/// `sha256:` and the first 16 hex digits: enough to tell two inputs apart.
fn digest(text: &str) -> Arc<str> {
    use sha2::Digest;
    use std::fmt::Write;
    let mut hex = String::from("sha256:");
    for byte in sha2::Sha256::digest(text.as_bytes()).iter().take(8) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex.into()
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

    /// The first question of the open turn that nobody has answered.
    pub fn open_question(&self) -> Option<&Question> {
        let mut slots = self.open_turn.iter().flat_map(|turn| &turn.slots);
        slots.find_map(|slot| match &slot.progress {
            OpenExecution::Waiting(question) => Some(question),
            OpenExecution::Pending | OpenExecution::Finished(_) => None,
        })
    }

    /// What ended the run from outside.
    pub fn interrupted(&self) -> Option<Interruption> {
        self.interrupted
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
    pub fn thread(&self) -> &Arc<Vec<Message>> {
        &self.thread
    }

    /// LLM: requests made of its model.
    pub fn requests_made(&self) -> u64 {
        self.requests_made
    }
}
