//! The state of a conversation, computed from its events.
//!
//! This module defines the data of the state and the functions that read it; [`apply_events`] changes it.

mod agent_reads;
mod apply_events;
mod budget;
mod legality;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CompletionReason;
use super::counts::ExecutionCountList;
use super::event::{ExecutionFinished, ExpressionReadWarning, MessageAdded, Record, RunStarted};
use super::failed_work::{AgentWorkCounts, FailureCounts, is_nested_failure_warning};
use super::history::{HistoryEntries, HistoryEntry};
use super::interruption::RunInterruption;
use super::latest_outputs::LatestOutputs;
use super::run_ended::{FailedExecution, RunEnded};
use crate::conversation::part::ThreadsByPartKey;
use crate::request::PendingRequest;
use crate::thread::{Thread, ThreadIteration};
use ensemble_language::condition::ConditionSnapshot;
use ensemble_language::data::{AgentRequest, ModelUsage, RunContext};
use ensemble_language::ensemble::RequiredResult;
use ensemble_language::plan::{AgentId, EdgeId, Plan, PlanEdge};

pub use agent_reads::NumberedAgentOutput;
pub use legality::{IllegalEvent, IllegalRecord};
pub use turn::{ExecutionProgress, ExecutionSlot, OpenTurn};

/// The key of an output with which an agent requests executions of other agents.
pub const AGENT_REQUESTS_KEY: &str = "agent_requests";

/// State of one agent.
#[derive(Debug, Clone, Default)]
pub struct AgentState {
    /// The number of executions since the last user message.
    executions: u32,
    /// The turn in which it last started, since the last user message.
    last_started: Option<u32>,
    /// The turn of its last success, since the last user message.
    last_success: Option<u32>,
    /// The turn of its last failure, since the last user message.
    last_failure: Option<u32>,
    /// The result of its latest execution, since the last user message.
    latest_failed: bool,
    /// Whether there is a failure that no agent has handled.
    unhandled: bool,
    /// Its latest output, and the number of the execution.
    output: Option<(u32, Arc<Value>)>,
    /// Its latest failure in the form that dependent agents read, and the number of the execution.
    failure: Option<(u32, Arc<Value>)>,
    /// LLM: the messages between the agent and its model.
    thread: Arc<Thread>,
    /// LLM, with `for_each`: likewise for each key.
    threads_by_key: Arc<ThreadsByPartKey>,
    /// LLM: the number of requests to its model.
    requests_made: u64,
    /// LLM: the number of requests that wrote summaries for the agent.
    summaries_made: u64,
    /// LLM: the iterations of its latest execution, if that failed. They are remembered when a message continues the run.
    failed_exchange: Vec<ThreadIteration>,
    /// The number of attempts of its next execution that were abandoned with their turn.
    abandoned: u32,
    /// The usage of executions that were abandoned with their turn.
    abandoned_usage: Option<ModelUsage>,
}

/// User message that continued the run, with the last turn before the message and the previous outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddedUserMessage {
    /// The message, and the values that were set with it.
    #[serde(flatten)]
    pub message: MessageAdded,
    /// The number of the last turn before it; 0 if there was none.
    pub after_turn: u32,
    /// How the conversation had ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<CompletionReason>,
}

/// The state of a conversation, computed from its events.
#[derive(Debug, Clone)]
pub struct ConversationState {
    plan: Arc<Plan>,
    run_start: Option<RunStarted>,
    next_seq: u64,
    input: Arc<str>,
    input_digest: Arc<str>,
    inputs: Arc<RunContext>,
    context: Arc<RunContext>,
    turn_count: u32,
    /// The number of abandoned turns in which no execution had finished.
    empty_turns: u32,
    /// The value of `turn_count` at the last user message. Limits count from there.
    segment_start: u32,
    /// The user messages after the first input.
    messages: Vec<AddedUserMessage>,
    history: Arc<HistoryEntries>,
    counts: Arc<ExecutionCountList>,
    outputs: Arc<LatestOutputs>,
    agents: Vec<AgentState>,
    starts: Vec<u32>,
    /// The requests that have not started their agent: the next one first.
    requests: BTreeMap<AgentId, Vec<Arc<AgentRequest>>>,
    /// The agents for which requests were ignored, because they have reached their `max_turns`.
    requested_at_limit: BTreeSet<AgentId>,
    /// For the edges that a ready agent waited for in the latest turn: for how many turns in a row.
    waits: BTreeMap<EdgeId, u32>,
    open_turn: Option<OpenTurn>,
    interruption: Option<RunInterruption>,
    run_end: Option<RunEnded>,
    usage: ModelUsage,
    /// The value of `usage` at the last user message. Budgets of a message count from there.
    used_before: ModelUsage,
    warnings: Vec<String>,
    /// What conditions read in vain so far; `warnings` has the sentences.
    read_warnings: Vec<ExpressionReadWarning>,
    /// The two latest successes of different agents: turn and agent.
    latest_successes: [Option<(u32, AgentId)>; 2],
    /// The agents whose readiness the facts leave open. A decision must examine only these.
    candidates: BTreeSet<AgentId>,
    /// The agents for which the last turn had new outputs and whose readiness the facts exclude.
    excluded_agents: BTreeSet<AgentId>,
    /// The agents with a failure that no agent has handled, where such a failure is the outcome of the run, with the turn of
    /// the first of these failures.
    failed_agents: BTreeMap<AgentId, u32>,
    /// The agents that have reached their `max_executions`.
    agents_at_limit: BTreeSet<AgentId>,
    /// The agents with `on_error: stop` that have failed.
    stopping_agents: BTreeSet<AgentId>,
    /// The tools that somebody has permitted for the rest of the run.
    permitted_tools: Arc<BTreeSet<Arc<str>>>,
    /// Whether history and warnings are stored.
    keeps_account: bool,
}

impl ConversationState {
    /// Returns the state before the first event.
    pub fn new(plan: Arc<Plan>) -> Self {
        let agents = vec![AgentState::default(); plan.agent_count()];
        Self {
            counts: Arc::new(ExecutionCountList::new(plan.clone())),
            outputs: Arc::new(LatestOutputs::new(plan.clone())),
            starts: vec![0; plan.edge_count()],
            run_start: None,
            next_seq: 0,
            input: "".into(),
            input_digest: "".into(),
            inputs: Arc::default(),
            context: Arc::default(),
            turn_count: 0,
            empty_turns: 0,
            segment_start: 0,
            messages: Vec::new(),
            history: Arc::default(),
            agents,
            requests: BTreeMap::new(),
            requested_at_limit: BTreeSet::new(),
            waits: BTreeMap::new(),
            open_turn: None,
            interruption: None,
            run_end: None,
            usage: ModelUsage::default(),
            used_before: ModelUsage::default(),
            warnings: Vec::new(),
            read_warnings: Vec::new(),
            latest_successes: [None; 2],
            candidates: BTreeSet::new(),
            excluded_agents: BTreeSet::new(),
            failed_agents: BTreeMap::new(),
            agents_at_limit: BTreeSet::new(),
            stopping_agents: BTreeSet::new(),
            permitted_tools: Arc::default(),
            keeps_account: true,
            plan,
        }
    }

    /// Computes the state from the records.
    ///
    /// # Errors
    /// The event of a record is illegal after the records before the event.
    pub fn from_records<'r>(
        plan: Arc<Plan>,
        records: impl IntoIterator<Item = &'r Record>,
    ) -> Result<Self, IllegalRecord> {
        let mut state = Self::new(plan);
        for record in records {
            state.apply_record(record)?;
        }
        Ok(state)
    }

    /// Stops the storage of history and warnings, which grow with the conversation. The state still suffices to decide turns of a plan
    /// whose
    /// conditions do not read the history.
    #[must_use]
    pub fn without_history_and_warnings(self) -> Self {
        Self {
            keeps_account: false,
            ..self
        }
    }
}

/// Functions that read the state.
impl ConversationState {
    /// Returns the plan to which the state belongs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Returns the arguments with which the run started. Returns `None` before the first event.
    pub fn run_start(&self) -> Option<&RunStarted> {
        self.run_start.as_ref()
    }

    /// Returns the sequence number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the input of the run.
    pub fn input(&self) -> &Arc<str> {
        &self.input
    }

    /// Returns the user messages after the first input.
    pub fn messages(&self) -> &[AddedUserMessage] {
        &self.messages
    }

    /// Returns the inputs of the run by name.
    pub fn inputs(&self) -> &Arc<RunContext> {
        &self.inputs
    }

    /// Returns the context (`accumulated_context`).
    pub fn context(&self) -> &Arc<RunContext> {
        &self.context
    }

    /// Returns the number of the latest turn that finished or was abandoned (`turn_count` of conditions and templates).
    pub fn turn_count(&self) -> u32 {
        self.turn_count
    }

    /// Returns the number of turns for reports: finished turns, and abandoned turns with a finished execution.
    pub fn finished_turn_count(&self) -> u32 {
        self.turn_count - self.empty_turns
    }

    /// Returns the number of turns finished since the last user message, which `max_total_turns` limits.
    pub fn segment_turn_count(&self) -> u32 {
        self.turn_count - self.segment_start
    }

    /// Returns the open turn, which has started and not finished.
    pub fn open_turn(&self) -> Option<&OpenTurn> {
        self.open_turn.as_ref()
    }

    /// Returns the tools that an operator has permitted for the rest of the run.
    pub fn permitted_tools(&self) -> &Arc<BTreeSet<Arc<str>>> {
        &self.permitted_tools
    }

    /// Returns the questions and permission requests of the open turn without an answer, in the order of the file.
    pub fn pending_requests(&self) -> impl Iterator<Item = &PendingRequest> {
        let slots = self.open_turn.iter().flat_map(|turn| &turn.slots);
        slots.flat_map(|slot| match &slot.progress {
            ExecutionProgress::Waiting(requests) => requests.as_slice(),
            ExecutionProgress::Pending | ExecutionProgress::Finished(_) => &[],
        })
    }

    /// Returns the interruption of the run, if one is recorded.
    pub fn interruption(&self) -> Option<&RunInterruption> {
        self.interruption.as_ref()
    }

    /// Returns the end of the run, if it has ended.
    pub fn run_end(&self) -> Option<&RunEnded> {
        self.run_end.as_ref()
    }

    /// Returns the usage of all executions of finished turns.
    pub fn usage(&self) -> ModelUsage {
        self.usage
    }

    /// Returns the usage of all executions, including those of the open turn that have not ended.
    pub fn usage_with_open_turn(&self) -> ModelUsage {
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        open.fold(self.usage, |sum, slot| sum + slot.usage_so_far().unwrap_or_default())
    }

    /// Returns the number of the first attempt of the agent's next execution. Abandoned attempts keep their numbers.
    pub fn next_attempt_number(&self, agent: &str) -> u32 {
        self.plan
            .find_agent_id(agent)
            .map_or(1, |id| self.agent_state(id).abandoned + 1)
    }

    /// Returns the finished execution of the agent in the open turn, with all its iterations.
    pub fn finished_execution(&self, agent: &str) -> Option<&ExecutionFinished> {
        let id = self.plan.find_agent_id(agent)?;
        let slots = &self.open_turn.as_ref()?.slots;
        let at = slots.binary_search_by_key(&id, |slot| slot.agent).ok()?;
        match &slots[at].progress {
            ExecutionProgress::Finished(finished) => Some(&finished.0),
            ExecutionProgress::Pending | ExecutionProgress::Waiting(_) => None,
        }
    }

    /// Returns all warnings for the user, in order.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the warnings about executions of the agent and their parts, without the prefix with the agent's name.
    pub(crate) fn agent_warnings_without_prefix(&self, agent: AgentId) -> Vec<String> {
        let name = self.plan.agent_name(agent);
        let words = self.warnings.iter().filter_map(|warning| {
            let rest = warning.strip_prefix(&**name)?;
            match rest.strip_prefix(": ") {
                Some(words) => Some(words.to_owned()),
                None => Some(rest.strip_prefix('[')?.split_once("]: ")?.1.to_owned()),
            }
        });
        words.collect()
    }

    /// Returns whether the run has a warning about the same read of the same key.
    pub(crate) fn has_same_read_warning(&self, warning: &ExpressionReadWarning) -> bool {
        self.read_warnings.iter().any(|known| known.is_same_read(warning))
    }

    /// Returns the state of one agent.
    pub fn agent_state(&self, id: AgentId) -> &AgentState {
        &self.agents[id.index()]
    }

    /// Returns the requests that have not started the agent yet, the next one first.
    pub fn agent_requests(&self, id: AgentId) -> &[Arc<AgentRequest>] {
        self.requests.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a request for the agent was ignored because the agent has reached `max_turns`.
    pub fn was_requested_at_limit(&self, id: AgentId) -> bool {
        self.requested_at_limit.contains(&id)
    }

    /// Returns the number of consecutive turns, up to the latest, in which the ready agent waited for the edge.
    pub fn turns_waited(&self, edge: EdgeId) -> u32 {
        self.waits.get(&edge).copied().unwrap_or_default()
    }

    /// Returns all agents for which there are requests.
    pub fn requested_agents(&self) -> impl Iterator<Item = AgentId> {
        self.requests.keys().copied()
    }

    /// Returns the agents whose readiness depends on conditions, in declaration order.
    pub fn candidate_agents(&self) -> impl Iterator<Item = AgentId> {
        self.candidates.iter().copied()
    }

    /// Returns the agents that the last turn concerned and that cannot be ready, in declaration order.
    pub fn excluded_agents(&self) -> impl Iterator<Item = AgentId> {
        self.excluded_agents.iter().copied()
    }

    /// Returns the first agent in declaration order whose failure fails the run.
    pub fn first_failing_agent(&self) -> Option<AgentId> {
        self.failed_agents.keys().next().copied()
    }

    /// Returns the first agent with `on_error: stop` that has failed.
    pub fn first_stopping_agent(&self) -> Option<AgentId> {
        self.stopping_agents.first().copied()
    }

    /// Returns the earliest failure that no agent has handled and that fails the run.
    pub fn earliest_unhandled_failure(&self) -> Option<FailedExecution> {
        let (agent, turn) = self.failed_agents.iter().min_by_key(|(_, turn)| **turn)?;
        Some(FailedExecution {
            agent: self.plan.agent_name(*agent).clone(),
            turn: *turn,
        })
    }

    /// Returns the first agent that has reached its `max_executions`.
    pub fn first_agent_at_limit(&self) -> Option<AgentId> {
        self.agents_at_limit.first().copied()
    }

    /// Returns whether the agent has reached its `max_turns`.
    pub fn has_reached_max_turns(&self, plan: &Plan, id: AgentId) -> bool {
        self.agent_state(id).executions >= plan.agent(id).conversation.max_turns.get()
    }

    /// Returns the number of times that the edge has started its agent.
    pub fn edge_start_count(&self, edge: EdgeId) -> u32 {
        self.starts[edge.index()]
    }

    /// Returns the turn of the latest success of any other agent.
    pub fn latest_success_turn_except(&self, agent: AgentId) -> Option<u32> {
        let other_success = self
            .latest_successes
            .iter()
            .flatten()
            .find(|(_, other)| *other != agent);
        other_success.map(|(turn, _)| *turn)
    }

    /// Returns all executions in order, including the finished executions of the open turn.
    pub fn list_executions(&self) -> impl Iterator<Item = std::borrow::Cow<'_, HistoryEntry>> {
        use std::borrow::Cow;
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        let finished = open.filter_map(|slot| self.build_history_entry(slot)).map(Cow::Owned);
        self.history.0.iter().map(Cow::Borrowed).chain(finished)
    }

    /// Returns the counts of parts and tool calls of agents with failed ones, in declaration order. Includes executions that have not ended.
    pub fn count_failed_work_by_agent(&self) -> Vec<AgentWorkCounts> {
        let mut work: BTreeMap<AgentId, AgentWorkCounts> = BTreeMap::new();
        let ended = self.list_executions().filter_map(|entry| {
            let id = self.plan.find_agent_id(&entry.agent_name)?;
            Some((id, entry.parts, entry.tool_calls))
        });
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        let open = open.filter(|slot| !matches!(slot.progress, ExecutionProgress::Finished(_)));
        let open = open.map(|slot| {
            (
                slot.agent,
                FailureCounts::from_parts(&slot.parts),
                slot.count_tool_calls_so_far(),
            )
        });
        for (id, parts, tool_calls) in ended.chain(open) {
            if parts.count + tool_calls.count == 0 {
                continue;
            }
            let sum = work.entry(id).or_insert_with(|| AgentWorkCounts {
                agent: self.plan.agent_name(id).clone(),
                parts: FailureCounts::default(),
                tool_calls: FailureCounts::default(),
            });
            (sum.parts, sum.tool_calls) = (sum.parts + parts, sum.tool_calls + tool_calls);
        }
        work.into_values().filter(AgentWorkCounts::has_failures).collect()
    }

    /// Returns the warnings about failed parts and tool calls of nested runs, each with the address of its agent.
    /// The warnings are sorted, so the order in which parallel executions end has no effect.
    pub fn list_nested_failure_warnings(&self) -> Vec<String> {
        let warnings = self
            .warnings
            .iter()
            .filter(|warning| is_nested_failure_warning(warning));
        let mut failures: Vec<String> = warnings.cloned().collect();
        failures.sort_unstable();
        failures
    }

    /// Returns the number of finished executions of the agent in the whole run, including the open turn.
    pub fn execution_count(&self, id: AgentId) -> u32 {
        let open = self.open_turn.iter().flat_map(|turn| &turn.slots);
        let finished = open.filter(|slot| slot.agent == id && matches!(slot.progress, ExecutionProgress::Finished(_)));
        self.counts.count_for(id) + u32::try_from(finished.count()).unwrap_or(u32::MAX)
    }

    /// Returns the number of the next execution of the agent, from 1.
    pub fn next_execution_number(&self, id: AgentId) -> u32 {
        self.counts.count_for(id) + 1
    }

    /// Returns the execution number and the output or failure that the edge reads.
    pub fn edge_output_or_failure(&self, edge: &PlanEdge) -> Option<&(u32, Arc<Value>)> {
        let from = self.agent_state(edge.from);
        match edge.on {
            RequiredResult::Success => from.output.as_ref(),
            RequiredResult::Failure => from.failure.as_ref().filter(|_| from.latest_failed),
            RequiredResult::Any if from.latest_failed => from.failure.as_ref(),
            RequiredResult::Any => from.output.as_ref(),
        }
    }

    /// Returns the outputs that the agent reads if it starts now: the latest of each agent that it depends on, with the execution number.
    pub fn dependency_outputs(&self, id: AgentId) -> IndexMap<Arc<str>, (u32, Arc<Value>)> {
        let mut outputs: IndexMap<Arc<str>, (u32, Arc<Value>)> = IndexMap::new();
        for (_, edge) in self.plan.incoming_edges(id) {
            let Some(output) = self.edge_output_or_failure(edge) else {
                continue;
            };
            let name = self.plan.agent_name(edge.from);
            match outputs.get_mut(name) {
                Some(known_output) if known_output.0 < output.0 => *known_output = output.clone(),
                Some(_) => {}
                None => {
                    outputs.insert(name.clone(), output.clone());
                }
            }
        }
        outputs
    }

    /// Returns the values that the condition of the edge can read.
    pub fn edge_condition_values(&self, edge: &PlanEdge) -> ConditionSnapshot {
        ConditionSnapshot {
            output: self.edge_output_or_failure(edge).map(|(_, output)| output.clone()),
            ..self.condition_values_without_output()
        }
    }

    /// Returns the values that an expression outside of dependencies can read.
    pub fn condition_values_without_output(&self) -> ConditionSnapshot {
        ConditionSnapshot {
            context: self.context.clone(),
            output: None,
            turn_count: u64::from(self.turn_count),
            history: self.history.clone(),
            executions: self.counts.clone(),
            input: self.input.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            part: None,
        }
    }
}

impl AgentState {
    /// Returns whether the agent has executed since the last user message.
    pub fn has_executed(&self) -> bool {
        self.executions > 0
    }

    /// Returns the number of executions since the last user message.
    pub fn executions_in_segment(&self) -> u32 {
        self.executions
    }

    /// Returns the turn in which the agent last started.
    pub fn last_start_turn(&self) -> Option<u32> {
        self.last_started
    }

    /// Returns the turn of the agent's last success.
    pub fn last_success_turn(&self) -> Option<u32> {
        self.last_success
    }

    /// Returns the turn of the agent's last failure.
    pub fn last_failure_turn(&self) -> Option<u32> {
        self.last_failure
    }

    /// Returns whether the latest execution failed.
    pub fn has_failed_last(&self) -> bool {
        self.latest_failed
    }

    /// Returns whether there is a failure that no agent has handled.
    pub fn has_unhandled_failure(&self) -> bool {
        self.unhandled
    }

    /// Returns the error message of the latest failure.
    pub fn latest_error(&self) -> Option<&str> {
        self.failure.as_ref()?.1.get("error")?.as_str()
    }

    /// Returns the latest output of the agent.
    pub fn output(&self) -> Option<&Arc<Value>> {
        self.output.as_ref().map(|(_, output)| output)
    }

    /// Returns the messages between the LLM agent and its model.
    pub fn thread(&self) -> &Arc<Thread> {
        &self.thread
    }

    /// Returns the threads of the parts of an LLM agent with `for_each`, by the key of the part.
    pub fn threads_by_key(&self) -> &Arc<ThreadsByPartKey> {
        &self.threads_by_key
    }

    /// Returns the usage of executions that were abandoned with their turn.
    pub fn abandoned_usage(&self) -> Option<ModelUsage> {
        self.abandoned_usage
    }
}
