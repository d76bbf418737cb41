//! The change of the state by each event. No other code changes the state.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::legality::IllegalRecord;
use super::turn::{ExecutionProgress, ExecutionSlot, OpenTurn};
use super::{AGENT_REQUESTS_KEY, AddedUserMessage, AgentState, ConversationState};
use crate::conversation::attempt_scope::AttemptScope;
use crate::conversation::compact_output::CompactOutput;
use crate::conversation::end::ExecutionEnd;
use crate::conversation::event::{
    AttemptFailed, Event, ExecutionFinished, ExecutionStarted, MessageAdded, Record, RunResumed, RunStarted,
    TurnFinished, TurnStarted,
};
use crate::conversation::exchange::RecordedExchanges;
use crate::conversation::failed_work::{AgentWorkCounts, FailureCounts};
use crate::conversation::history::HistoryEntry;
use crate::conversation::part::{PartAttemptEnded, PartsProgress};
use crate::conversation::permission::{PermissionDecided, PermissionDecision};
use crate::conversation::question::InputRequested;
use crate::conversation::reason::AgentSkipReason;
use crate::conversation::static_readiness::{ReadinessFact, static_readiness};
use crate::thread::{
    INTERRUPTED_CALL_ERROR, StopReason, Thread, ThreadIteration, select_iterations_after_failure,
    select_remembered_iterations,
};
use ensemble_language::data::{FailureKind, ModelUsage, RunContext, sha256_of_text};
use ensemble_language::ensemble::{AgentKind, MemoryMode, OnError};
use ensemble_language::plan::{AgentId, EdgeId, Plan};

impl ConversationState {
    /// Applies a record. No other function changes the state.
    ///
    /// # Errors
    /// The event is illegal. The state is unchanged.
    pub fn apply_record(&mut self, record: &Record) -> Result<(), IllegalRecord> {
        self.check_record_is_legal(record)?;
        self.apply_checked_record(record);
        Ok(())
    }

    /// Applies a record that was checked before.
    fn apply_checked_record(&mut self, record: &Record) {
        self.next_seq = record.seq + 1;
        self.add_inner_answers(record);
        match &record.event {
            Event::RunStarted(event) => self.apply_run_start(event),
            Event::RunResumed(event) => self.apply_resume(event),
            Event::MessageAdded(event) => self.apply_user_message(event),
            Event::ContextSet(context) => self.set_context_values(context),
            Event::TurnStarted(event) => self.apply_turn_start(event),
            Event::ExecutionStarted(event) => self.apply_execution_start(event),
            Event::ReplyReceived(event) => self.update_exchanges(&event.within, |all| all.apply_reply(event)),
            Event::RequestStopped(event) => {
                self.update_exchanges(&event.within, |all| all.apply_stopped_request(event))
            }
            Event::PermissionDecided(event) => self.apply_permission(event),
            Event::ToolCallStarted(event) => self.update_exchanges(&event.within, |all| all.apply_call_start(event)),
            Event::ToolCallEnded(event) => self.update_exchanges(&event.within, |all| all.apply_call_end(event)),
            Event::NestedRequestAnswered(event) => {
                self.update_exchanges(&event.within, |all| all.apply_nested_answer(event))
            }
            Event::AttemptFailed(event) => self.apply_failed_attempt(event),
            Event::PartEnded(event) => self.apply_part_end(event),
            Event::ExecutionFinished(event) => self.apply_execution_end(event, record.at),
            Event::InputRequested(event) => self.apply_input_request(event),
            Event::Interrupted(cause) => self.interruption = Some(cause.clone()),
            Event::TurnFinished(event) => self.apply_turn_end(event),
            Event::RunEnded(event) => self.run_end = Some(event.clone()),
        }
    }

    fn apply_run_start(&mut self, event: &RunStarted) {
        self.context = Arc::new(event.context.clone());
        self.inputs = Arc::new(event.inputs.clone());
        self.run_start = Some(event.clone());
        self.start_segment(event.input.clone());
    }

    /// Applies a user message: merges the finished executions of an open turn, and discards the others. Agents with memory keep failed
    /// exchanges.
    fn apply_user_message(&mut self, event: &MessageAdded) {
        if let Some(turn) = self.open_turn.take() {
            self.turn_count = turn.turn;
            let is_finished = |slot: &ExecutionSlot| matches!(slot.progress, ExecutionProgress::Finished(_));
            self.empty_turns += u32::from(!turn.slots.iter().any(is_finished));
            let plan = self.plan.clone();
            for mut slot in turn.slots {
                slot.usage = ModelUsage::sum_optional(slot.usage, slot.exchanges.take_uncounted_usage());
                if matches!(slot.progress, ExecutionProgress::Finished(_)) {
                    self.merge_execution(&plan, slot);
                    continue;
                }
                self.usage = self.usage + slot.usage.unwrap_or_default();
                let agent = &mut self.agents[slot.agent.index()];
                agent.count_requests(slot.usage);
                agent.abandoned = slot.attempt;
                agent.abandoned_usage = ModelUsage::sum_optional(agent.abandoned_usage, slot.usage);
                if keeps_thread(&plan, slot.agent) {
                    let stopped = slot.exchanges.take_stopped_request();
                    agent.failed_exchange = slot.exchanges.remove_exchanges(None);
                    agent.failed_exchange.extend(stopped);
                }
            }
        }
        for agent in &mut self.agents {
            let failed = std::mem::take(&mut agent.failed_exchange);
            if !failed.is_empty() {
                let thread = Arc::make_mut(&mut agent.thread);
                let failed = Thread::from_iterations(select_iterations_after_failure(failed))
                    .fail_open_calls(INTERRUPTED_CALL_ERROR)
                    .into_iterations();
                *thread = std::mem::take(thread).append_iterations(failed);
            }
        }
        if self.keeps_account {
            self.messages.push(AddedUserMessage {
                message: event.clone(),
                after_turn: self.turn_count,
                ended: self.run_end.as_ref().map(|ended| ended.completion_reason),
            });
        }
        self.interruption = None;
        self.set_context_values(&event.set);
        self.start_segment(event.text.clone());
    }

    /// Starts a segment: resets the counters and readiness of all agents, and keeps outputs and threads.
    fn start_segment(&mut self, input: Arc<str>) {
        self.input_digest = format!("sha256:{}", &sha256_of_text(&input)[..16]).into();
        self.input = input;
        self.segment_start = self.turn_count;
        self.used_before = self.usage;
        for agent in &mut self.agents {
            *agent = AgentState {
                output: agent.output.take(),
                failure: agent.failure.take(),
                thread: std::mem::take(&mut agent.thread),
                threads_by_key: std::mem::take(&mut agent.threads_by_key),
                requests_made: agent.requests_made,
                summaries_made: agent.summaries_made,
                abandoned: agent.abandoned,
                abandoned_usage: agent.abandoned_usage,
                ..AgentState::default()
            };
        }
        self.starts.fill(0);
        self.requests.clear();
        self.requested_at_limit.clear();
        self.waits.clear();
        self.latest_successes = [None; 2];
        self.failed_agents.clear();
        self.agents_at_limit.clear();
        self.stopping_agents.clear();
        self.run_end = None;
        self.candidates.clear();
        self.excluded_agents.clear();
        for id in self.plan.agent_ids() {
            self.update_candidates(id);
        }
    }

    fn apply_resume(&mut self, event: &RunResumed) {
        self.interruption = None;
        self.run_end = None;
        for slot in self.open_turn.iter_mut().flat_map(|turn| &mut turn.slots) {
            let again = match &slot.progress {
                ExecutionProgress::Waiting(_) => true,
                ExecutionProgress::Finished(_) => event.again.contains(&slot.start.agent),
                ExecutionProgress::Pending => false,
            };
            if again {
                if matches!(slot.progress, ExecutionProgress::Finished(_)) {
                    // The failed attempts are dropped: the execution starts again, with all its attempts and parts.
                    (slot.last_ended, slot.failed_attempts, slot.last_failure) = (slot.attempt, 0, None);
                    slot.parts = PartsProgress::default();
                    slot.tool_calls = FailureCounts::default();
                    slot.exchanges = RecordedExchanges::default();
                }
                slot.progress = ExecutionProgress::Pending;
            }
        }
    }

    /// Adds the values of a fork to the context, and replaces inputs of the run with the same names.
    fn set_context_values(&mut self, values: &RunContext) {
        if values.is_empty() {
            return;
        }
        let context = Arc::make_mut(&mut self.context);
        for (key, value) in values.iter() {
            context.insert(key.clone(), value.clone());
            if self.inputs.get(key).is_some() {
                Arc::make_mut(&mut self.inputs).insert(key.clone(), value.clone());
            }
        }
    }

    /// Opens the turn, and creates a slot for each starting agent.
    fn apply_turn_start(&mut self, event: &TurnStarted) {
        let plan = self.plan.clone();
        let mut slots = Vec::with_capacity(event.starts.len());
        self.waits = self.count_turns_waited(&plan, event);
        self.add_warnings(event.warnings.iter().map(|warning| warning.message.clone()));
        if self.keeps_account {
            self.read_warnings.extend(event.warnings.iter().cloned());
        }
        for start in &event.starts {
            let Some(agent) = plan.find_agent_id(&start.agent) else {
                continue;
            };
            self.agents[agent.index()].last_started = Some(event.turn);
            for (id, edge) in plan.incoming_edges(agent) {
                if start.counts.contains(&edge.position) {
                    self.starts[id.index()] += 1;
                }
            }
            for handled in start.handles.iter().filter_map(|name| plan.find_agent_id(name)) {
                self.agents[handled.index()].unhandled = false;
                self.failed_agents.remove(&handled);
                self.stopping_agents.remove(&handled);
            }
            if start.request.is_some() {
                self.remove_first_request(agent);
            }
            slots.push(ExecutionSlot {
                agent,
                start: start.clone(),
                attempt: self.agents[agent.index()].abandoned,
                failed_attempts: 0,
                ended_requests: 0,
                last_ended: self.agents[agent.index()].abandoned,
                last_failure: None,
                usage: None,
                exchanges: RecordedExchanges::default(),
                parts: PartsProgress::default(),
                tool_calls: FailureCounts::default(),
                answers: Vec::new(),
                progress: ExecutionProgress::Pending,
            });
        }
        // A fork can change the ensemble, so the order of the agents may differ.
        slots.sort_by_key(|slot| slot.agent);
        self.excluded_agents.clear();
        self.open_turn = Some(OpenTurn {
            turn: event.turn,
            slots,
        });
    }

    /// Counts for each awaited edge the consecutive turns in which its agent has waited, with this turn.
    fn count_turns_waited(&self, plan: &Plan, event: &TurnStarted) -> BTreeMap<EdgeId, u32> {
        let mut waits = BTreeMap::new();
        for waiting in &event.waiting {
            let (AgentSkipReason::Waits { dependencies }, Some(agent)) =
                (&waiting.reason, plan.find_agent_id(&waiting.agent))
            else {
                continue;
            };
            for (id, edge) in plan.incoming_edges(agent) {
                if dependencies.iter().any(|awaited| awaited.position == edge.position) {
                    waits.insert(id, self.turns_waited(id) + 1);
                }
            }
        }
        waits
    }

    /// Removes the first request for the agent, because it has started the agent.
    fn remove_first_request(&mut self, agent: AgentId) {
        let Some(requests) = self.requests.get_mut(&agent) else {
            return;
        };
        if requests.len() > 1 {
            requests.remove(0);
        } else {
            self.requests.remove(&agent);
        }
    }

    fn apply_execution_start(&mut self, event: &ExecutionStarted) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.attempt = event.attempt;
            // What an attempt that was cut short has used was used.
            slot.usage = ModelUsage::sum_optional(slot.usage, slot.exchanges.take_uncounted_usage());
        }
    }

    fn apply_permission(&mut self, event: &PermissionDecided) {
        if event.decision == PermissionDecision::Always {
            Arc::make_mut(&mut self.permitted_tools).insert(event.tool.clone());
        }
        self.update_exchanges(&event.within, |all| all.apply_decision(event));
    }

    fn update_exchanges(&mut self, within: &AttemptScope, add: impl FnOnce(&mut RecordedExchanges)) {
        if let Some(slot) = self.slot_mut(&within.agent) {
            add(&mut slot.exchanges);
        }
    }

    /// Adds a failed attempt to its slot: failure, usage and calls. Discards the exchanges.
    fn apply_failed_attempt(&mut self, event: &AttemptFailed) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.failed_attempts += 1;
            slot.last_ended = event.attempt;
            slot.last_failure = Some(event.failure.clone());
            slot.usage = ModelUsage::sum_optional(slot.usage, event.usage);
            slot.tool_calls = slot.tool_calls
                + FailureCounts::from_tool_calls(slot.exchanges.own_iterations())
                + FailureCounts::from_tool_calls(&event.exchange);
            slot.ended_requests += count_requests_of_failed_attempt(slot.exchanges.own_iterations(), event);
            slot.exchanges = RecordedExchanges::default();
        }
        let warn = |warning: &String| format!("{}: {warning}", event.agent);
        self.add_warnings(event.warnings.iter().map(warn));
    }

    fn apply_part_end(&mut self, event: &PartAttemptEnded) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.usage = ModelUsage::sum_optional(slot.usage, event.usage);
            let recorded = slot.exchanges.remove_exchanges(Some(&event.key));
            slot.tool_calls = slot.tool_calls
                + FailureCounts::from_tool_calls(&recorded)
                + FailureCounts::from_tool_calls(&event.exchange);
            slot.parts.add_attempt_end(event, recorded);
        }
        let warn = |warning: &String| format!("{}[{}]: {warning}", event.agent, event.key);
        self.add_warnings(event.warnings.iter().map(warn));
    }

    /// Marks the execution as finished, with the iterations that were recorded before.
    fn apply_execution_end(&mut self, event: &ExecutionFinished, at: DateTime<Utc>) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            slot.usage = ModelUsage::sum_optional(slot.usage, event.usage);
            let mut event = event.clone();
            let recorded = slot.exchanges.remove_exchanges(None);
            if !recorded.is_empty() {
                event.exchange.splice(..0, recorded);
            }
            let limit = event
                .failure()
                .and_then(|failure| StopReason::from_failure_kind(failure.kind));
            match (limit, event.exchange.last_mut()) {
                (Some(reason), Some(last)) => last.set_stop_reason(reason),
                // The attempt could not make a request any more.
                (Some(reason), None) => event.exchange.push(ThreadIteration::only_stop_reason(reason)),
                (None, _) => {}
            }
            // The usage of the execution contains the usage of parts that were stopped.
            slot.exchanges = RecordedExchanges::default();
            slot.progress = ExecutionProgress::Finished(Box::new((event, at)));
        }
    }

    fn apply_input_request(&mut self, event: &InputRequested) {
        if let Some(slot) = self.slot_mut(&event.agent) {
            match &mut slot.progress {
                ExecutionProgress::Waiting(requests) => requests.push(event.pending_request()),
                progress => *progress = ExecutionProgress::Waiting(vec![event.pending_request()]),
            }
        }
    }

    /// Merges the executions of the turn into the state, and closes the turn.
    fn apply_turn_end(&mut self, event: &TurnFinished) {
        let Some(turn) = self.open_turn.take() else { return };
        let plan = self.plan.clone();
        self.turn_count = turn.turn;
        let mut touched = Vec::new();
        let mut news_to_all = false;
        for slot in turn.slots {
            touched.push(slot.agent);
            touched.extend(plan.outgoing_edges(slot.agent).map(|(_, edge)| edge.to));
            news_to_all |= self.merge_execution(&plan, slot);
        }
        if news_to_all {
            touched.extend(plan.listening_agent_ids());
        }
        for (target, requests) in &event.requests {
            if let Some(id) = plan.find_agent_id(target) {
                let all = self.requests.entry(id).or_default();
                all.extend(requests.iter().cloned());
                // The sort is stable: of the same priority, the oldest is first.
                all.sort_by_key(|request| Reverse(request.priority));
            }
        }
        for id in &touched {
            if self.has_reached_max_turns(&plan, *id) && self.requests.remove(id).is_some() {
                self.requested_at_limit.insert(*id);
            }
        }
        let at_limit = event.requested_at_limit.iter();
        self.requested_at_limit
            .extend(at_limit.filter_map(|name| plan.find_agent_id(name)));
        self.add_warnings(event.warnings.iter().cloned());
        touched.sort_unstable();
        touched.dedup();
        for agent in touched {
            self.update_candidates(agent);
        }
    }

    /// Merges one finished execution into the state. Returns whether the execution succeeded.
    fn merge_execution(&mut self, plan: &Plan, slot: ExecutionSlot) -> bool {
        let Some(mut entry) = self.build_history_entry(&slot) else {
            return false;
        };
        let output = entry.output_data();
        let (id, turn, execution) = (slot.agent, entry.turn_number, entry.execution);
        let ExecutionProgress::Finished(finished) = slot.progress else {
            return false;
        };
        let (event, _) = *finished;
        let success = entry.failure.is_none();
        if success && entry.parts.failed > 0 {
            let agent = plan.agent_name(id).clone();
            let work = AgentWorkCounts {
                agent,
                parts: entry.parts,
                tool_calls: FailureCounts::default(),
            };
            self.add_warnings(work.list_failure_sentences());
        }
        if self.keeps_account {
            entry.output = CompactOutput::from_output(&output);
        }
        if success && entry.output.is_stored_as_text() {
            self.release_replaced_output(plan, id, &output);
        }
        if success {
            self.merge_output_into_context(plan, id, &output);
            Arc::make_mut(&mut self.outputs).set_output(id, output.clone());
            self.set_latest_success(turn, id);
        }
        let agent = &mut self.agents[id.index()];
        agent.executions += 1;
        agent.latest_failed = !success;
        agent.unhandled |= !success;
        if success {
            agent.last_success = Some(turn);
            agent.output = Some((execution, output.clone()));
        } else {
            agent.last_failure = Some(turn);
            agent.failure = Some((execution, output.clone()));
        }
        agent.count_requests(entry.usage);
        for part in slot
            .parts
            .ended_parts
            .iter()
            .filter(|part| part.output().is_some() && !part.exchange.is_empty() && keeps_thread(plan, id))
        {
            let threads = Arc::make_mut(&mut agent.threads_by_key);
            let thread = threads.entry(part.key.clone()).or_default();
            let before = Arc::unwrap_or_clone(std::mem::take(thread));
            *thread = Arc::new(before.append_iterations(select_remembered_iterations(part.exchange.clone())));
        }
        agent.abandoned = 0;
        agent.failed_exchange = Vec::new();
        if keeps_thread(plan, id) {
            if success {
                let thread = Arc::make_mut(&mut agent.thread);
                *thread = std::mem::take(thread).append_iterations(select_remembered_iterations(event.exchange));
            } else {
                agent.failed_exchange = event.exchange;
            }
        }
        let on_error = plan.agent(id).on_error;
        if !success && on_error != OnError::Continue {
            self.failed_agents.entry(id).or_insert(turn);
        }
        if !success && on_error == OnError::Stop {
            self.stopping_agents.insert(id);
        }
        if plan
            .max_agent_executions(id)
            .is_some_and(|cap| self.agents[id.index()].executions >= cap.get())
        {
            self.agents_at_limit.insert(id);
        }
        if let Some(usage) = entry.usage {
            self.usage = self.usage + usage;
        }
        let warn = |warning: String| format!("{}: {warning}", plan.agent_name(id));
        self.add_warnings(event.warnings.into_iter().map(warn));
        Arc::make_mut(&mut self.counts).add_execution(id);
        if self.keeps_account {
            Arc::make_mut(&mut self.history).0.push(entry);
        }
        success
    }

    fn add_warnings(&mut self, warnings: impl Iterator<Item = String>) {
        if self.keeps_account {
            self.warnings.extend(warnings);
        }
    }

    /// Stores the output in the context under its state key. Also stores its top-level keys, except reserved keys and without `for_each`.
    fn merge_output_into_context(&mut self, plan: &Plan, id: AgentId, output: &Arc<Value>) {
        let context = Arc::make_mut(&mut self.context);
        let is_list = plan.agent(id).for_each.is_some();
        for (key, value) in output.as_object().into_iter().flatten().filter(|_| !is_list) {
            if key != AGENT_REQUESTS_KEY && !plan.is_agent_or_state_key(key) {
                context.insert(key.as_str().into(), Arc::new(value.clone()));
            }
        }
        context.insert(plan.agent(id).state_key().clone(), output.clone());
    }

    /// Releases the previous large output before its replacement is copied into the context, so that memory contains only one of both.
    fn release_replaced_output(&mut self, plan: &Plan, id: AgentId, output: &Value) {
        let context = Arc::make_mut(&mut self.context);
        let is_list = plan.agent(id).for_each.is_some();
        let beside = output.as_object().into_iter().flatten().filter(|_| !is_list);
        let keys = beside.map(|(key, _)| key.as_str());
        for key in keys.chain([&**plan.agent(id).state_key()]) {
            if key != AGENT_REQUESTS_KEY && !plan.is_agent_or_state_key(key) && context.get(key).is_some() {
                context.insert(key.into(), Arc::default());
            }
        }
        self.agents[id.index()].output = None;
        Arc::make_mut(&mut self.outputs).set_output(id, Arc::default());
    }

    fn set_latest_success(&mut self, turn: u32, agent: AgentId) {
        match self.latest_successes[0] {
            Some((_, latest)) if latest == agent => {}
            latest => self.latest_successes[1] = latest,
        }
        self.latest_successes[0] = Some((turn, agent));
    }

    /// Adds the agent to the candidates of the next decision, or to the excluded agents.
    fn update_candidates(&mut self, agent: AgentId) {
        if static_readiness(&self.plan, self, agent) == ReadinessFact::Open {
            self.excluded_agents.remove(&agent);
            self.candidates.insert(agent);
        } else {
            self.candidates.remove(&agent);
            self.excluded_agents.insert(agent);
        }
    }

    pub(super) fn slot_mut(&mut self, agent: &str) -> Option<&mut ExecutionSlot> {
        let id = self.plan.find_agent_id(agent)?;
        let slots = &mut self.open_turn.as_mut()?.slots;
        let at = slots.binary_search_by_key(&id, |slot| slot.agent).ok()?;
        Some(&mut slots[at])
    }

    /// Builds the history entry of a finished execution. Returns `None` if the execution has not finished.
    pub(super) fn build_history_entry(&self, slot: &ExecutionSlot) -> Option<HistoryEntry> {
        let ExecutionProgress::Finished(finished) = &slot.progress else {
            return None;
        };
        let (event, at) = &**finished;
        let output_data = match &event.end {
            ExecutionEnd::Succeeded(output) => output.clone(),
            ExecutionEnd::Failed(failure) => Arc::new(failure.to_output()),
        };
        Some(HistoryEntry {
            turn_number: event.turn,
            agent_name: event.agent.clone(),
            execution: event.execution,
            reads: slot.start.reads.clone(),
            request: slot.start.request.clone(),
            input_digest: self.input_digest.clone(),
            output: CompactOutput::Value(output_data),
            failure: event.failure().cloned(),
            parts: FailureCounts::from_parts(&slot.parts),
            tool_calls: slot.tool_calls + FailureCounts::from_tool_calls(&event.exchange),
            attempt: event.attempt,
            usage: slot.usage,
            stop_reason: event.exchange.last().and_then(ThreadIteration::stop_reason),
            execution_time: event.execution_time,
            timestamp: *at,
            answer: event.answer.clone(),
            answers: slot.answers.as_slice().into(),
        })
    }
}

/// Counts the requests of a failed attempt, with the `recorded` iterations. A request that sends only results of failed tools has no
/// iteration.
fn count_requests_of_failed_attempt(recorded: &[ThreadIteration], event: &AttemptFailed) -> u32 {
    let iterations = recorded.len() + event.exchange.len();
    let last = event.exchange.last().or(recorded.last());
    let has_sent_results = last.is_some_and(|last| !last.tool_calls.is_empty());
    let is_model_failure = event.failure.kind == FailureKind::Model;
    u32::try_from(iterations + usize::from(has_sent_results && is_model_failure)).unwrap_or(u32::MAX)
}

/// Returns whether the agent keeps a thread.
fn keeps_thread(plan: &Plan, id: AgentId) -> bool {
    match &plan.agent(id).kind {
        AgentKind::Llm(llm) => llm.memory == MemoryMode::Conversation,
        // This finds answers again that a model gave instead of a person or of a script.
        AgentKind::Input(_) | AgentKind::Script { .. } => true,
        AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => false,
    }
}
