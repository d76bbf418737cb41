//! One turn: its parallel executions, attempts and pauses, deadlines, and interruptions.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;

use super::attempt::{
    build_attempt_input, execution_finished_event, find_execution_slot, input_requested_event, list_pending_executions,
    nested_answer_event, pause_before_retry,
};
use super::records::{TurnRecordChannel, build_attempt_records, build_parts_input, wait_for_record};
use super::{Executor, RunPace};
use crate::conversation::{
    AttemptFailed, AttemptScope, ConversationState, Event, ExecutionFinished, ExecutionStarted, PartAttemptEnded,
    Record, RequestStopped, RunInterruption,
};
use crate::log::{CommitError, SyncPoint};
use crate::runner::{
    AttemptEnd, AttemptLedger, AttemptResult, BoxFuture, LedgerEntries, NestedLedger, UncommittedEvent, UnrecordedWork,
    attempt_timeout_failure, turn_timeout_failure,
};
use crate::stopwatch::Stopwatch;
use crate::trace;
use ensemble_language::data::FailureKind;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::plan::{AgentId, Plan};

/// The result of one future of a turn: an ended attempt or a pause.
enum TurnStepResult {
    /// An attempt ended.
    Ended(Box<EndedAttempt>),
    /// The pause before the next attempt of an agent has ended.
    Paused(AgentId),
}

impl TurnStepResult {
    /// Returns whether a signal ended the process of the attempt.
    fn was_killed_by_signal(&self) -> bool {
        let Self::Ended(ended) = self else { return false };
        match &ended.outcome {
            AttemptEnd::Finished(observation) => {
                let failure = observation.result.as_ref().err();
                failure.is_some_and(|failure| failure.kind == FailureKind::Signal)
            }
            _ => false,
        }
    }
}

/// Ended attempt, with its ledger and duration.
struct EndedAttempt {
    agent: AgentId,
    outcome: AttemptEnd,
    ledger: AttemptLedger,
    took: Duration,
}

/// The event that ended a wait of the turn.
enum TurnWakeReason {
    Step(TurnStepResult),
    Record(Box<UncommittedEvent>),
    Interrupted(RunInterruption),
    TurnTimeout,
}

/// Running executions of a turn. Dropping the value stops them.
struct RunningTurn {
    futures: FuturesUnordered<BoxFuture<'static, TurnStepResult>>,
    /// The attempts that have started in this turn; the latest one of an agent is behind its earlier ones.
    attempts: Vec<RunningAttempt>,
    /// The time of the turn.
    stopwatch: Stopwatch,
    /// What is recorded inside executions; only where an agent of the turn records anything.
    records: Option<TurnRecordChannel>,
    /// Executions whose records are in the log, and not synced.
    waiting: Vec<oneshot::Sender<()>>,
}

impl RunningTurn {
    /// Returns the next event inside an execution that is not in the log yet, without waiting.
    fn try_next_record(&mut self) -> Option<Box<UncommittedEvent>> {
        self.records.as_mut()?.events.try_recv().ok()
    }
}

/// The data of an attempt that stays available when the attempt is stopped.
struct RunningAttempt {
    agent: AgentId,
    stopwatch: Stopwatch,
    ledger: AttemptLedger,
    /// In a nested run: leaves the ledger to the attempt around the run if the run is dropped.
    _nested: Option<NestedLedger>,
}

impl Executor<'_> {
    /// Executes the unfinished executions of the open turn until each of them has ended or waits.
    pub(super) async fn perform_turn(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        pace: &mut RunPace,
    ) -> Result<(), CommitError> {
        let limits = &plan.ensemble().limits;
        let turn_timeout = self.turn_ends_in.or(limits.turn_timeout);
        let side_by_side = limits.parallel_agents.map_or(usize::MAX, |limit| limit.get() as usize);
        let mut queue = list_pending_executions(state);
        let mut running = RunningTurn {
            futures: FuturesUnordered::new(),
            attempts: Vec::with_capacity(queue.len()),
            stopwatch: pace.stopwatch.nested_stopwatch(),
            records: None,
            waiting: Vec::new(),
        };
        loop {
            while running.futures.len() < side_by_side
                && let Some(agent) = queue.pop_front()
            {
                self.start_attempt(plan, state, agent, &mut running, pace.appended.take())
                    .await?;
            }
            if running.futures.is_empty() {
                return Ok(());
            }
            self.log.sync(SyncPoint::Commit).await?;
            for logged in running.waiting.drain(..) {
                // An execution that was stopped does not wait any more.
                let _is_stopped = logged.send(());
            }
            match self.wait_for_turn_event(&mut running, pace, turn_timeout).await {
                TurnWakeReason::Record(first) => self.commit_pending_records(state, Some(first), &mut running).await?,
                TurnWakeReason::Step(step) => {
                    let mut steps = vec![step];
                    while let Some(Some(step)) = running.futures.next().now_or_never() {
                        steps.push(step);
                    }
                    self.commit_pending_records(state, None, &mut running).await?;
                    let interruption = self.wait_for_interruption_after_kill(&steps).await;
                    if interruption.is_some() {
                        steps.retain(|step| !step.was_killed_by_signal());
                    }
                    for step in steps {
                        self.handle_step_result(plan, state, step, &mut running).await?;
                    }
                    if let (Some(cause), None) = (interruption, state.interruption()) {
                        return self.stop_for_interruption(state, running, cause).await;
                    }
                    if state.interruption().is_some() {
                        return Ok(());
                    }
                }
                TurnWakeReason::Interrupted(cause) => return self.stop_for_interruption(state, running, cause).await,
                TurnWakeReason::TurnTimeout => {
                    self.finish_parts_at_timeout(plan, state, &mut running).await?;
                    drop(running.futures);
                    return self.fail_unfinished_executions(plan, state, &running.attempts).await;
                }
            }
        }
    }

    /// Commits all pending events inside executions. Runners that wait for the log resume after the next sync.
    async fn commit_pending_records(
        &mut self,
        state: &mut ConversationState,
        first: Option<Box<UncommittedEvent>>,
        running: &mut RunningTurn,
    ) -> Result<(), CommitError> {
        let mut next = first.or_else(|| running.try_next_record());
        while let Some(record) = next {
            self.commit(state, record.event).await?;
            running.waiting.extend(record.on_logged);
            next = running.try_next_record();
        }
        Ok(())
    }

    /// Stops all executions, and commits their pending events, the stopped requests and the interruption.
    async fn stop_for_interruption(
        &mut self,
        state: &mut ConversationState,
        mut running: RunningTurn,
        cause: RunInterruption,
    ) -> Result<(), CommitError> {
        running.futures.clear();
        self.commit_pending_records(state, None, &mut running).await?;
        self.commit_stopped_requests(state, &running.attempts).await?;
        self.commit(state, Event::Interrupted(cause)).await
    }

    /// Commits the model requests that were stopped with the run.
    async fn commit_stopped_requests(
        &mut self,
        state: &mut ConversationState,
        attempts: &[RunningAttempt],
    ) -> Result<(), CommitError> {
        for agent in list_pending_executions(state) {
            if let Some(latest) = attempts.iter().rfind(|attempt| attempt.agent == agent) {
                let stopped = latest.ledger.take_entries().stopped;
                self.commit_stopped_work(state, agent, stopped).await?;
            }
        }
        Ok(())
    }

    /// Commits the stopped requests and the usage that no record of the attempt contains.
    async fn commit_stopped_work(
        &mut self,
        state: &mut ConversationState,
        agent: AgentId,
        stopped: Vec<UnrecordedWork>,
    ) -> Result<(), CommitError> {
        for work in stopped {
            let Some(slot) = find_execution_slot(state, agent) else {
                break;
            };
            let (part, attempt) = work.part.unzip();
            let event = RequestStopped {
                within: AttemptScope {
                    turn: state.turn_count() + 1,
                    agent: slot.start.agent.clone(),
                    execution: slot.start.execution,
                    attempt: attempt.unwrap_or(slot.attempt),
                    part,
                    outer_calls: work.inside,
                },
                iteration: work.iteration,
                usage: work.usage,
            };
            self.commit(state, Event::RequestStopped(Box::new(event))).await?;
        }
        Ok(())
    }

    /// Signals the end of the turn's time. Handles the executions with parts, which end with the parts that have ended.
    async fn finish_parts_at_timeout(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        running: &mut RunningTurn,
    ) -> Result<(), CommitError> {
        let Some(records) = &running.records else {
            return Ok(());
        };
        records.time_is_up.send_replace(true);
        while let Some(Some(step)) = running.futures.next().now_or_never() {
            self.commit_pending_records(state, None, running).await?;
            self.handle_step_result(plan, state, step, running).await?;
        }
        self.commit_pending_records(state, None, running).await
    }

    /// Waits up to 50 ms for an interruption if a signal killed an attempt.
    /// Ctrl-C reaches all processes of the group, so a child can die before the program receives the signal.
    /// Such an execution was interrupted and did not fail.
    async fn wait_for_interruption_after_kill(&mut self, steps: &[TurnStepResult]) -> Option<RunInterruption> {
        const GRACE: Duration = Duration::from_millis(50);
        if !steps.iter().any(TurnStepResult::was_killed_by_signal) {
            return None;
        }
        let interruption = tokio::time::timeout(GRACE, self.interruptions.recv()).await;
        interruption.ok().flatten()
    }

    /// Waits for the next result, record, interruption or timeout. Available results have precedence.
    async fn wait_for_turn_event(
        &mut self,
        running: &mut RunningTurn,
        pace: &mut RunPace,
        turn_timeout: Option<Duration>,
    ) -> TurnWakeReason {
        pace.yield_if_due().await;
        tokio::select! {
            biased;
            Some(record) = wait_for_record(&mut running.records) => TurnWakeReason::Record(record),
            Some(step) = running.futures.next() => TurnWakeReason::Step(step),
            Some(cause) = self.interruptions.recv() => TurnWakeReason::Interrupted(cause),
            () = pace.stopwatch.wait_for_elapsed_time(self.timeout) => TurnWakeReason::Interrupted(RunInterruption::Timeout),
            () = running.stopwatch.wait_for_elapsed_time(turn_timeout) => TurnWakeReason::TurnTimeout,
        }
    }

    /// Starts the next attempt of the agent. `appended` is the start record if it is in the log already.
    async fn start_attempt(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        agent: AgentId,
        running: &mut RunningTurn,
        appended: Option<Record>,
    ) -> Result<(), CommitError> {
        let Some(slot) = find_execution_slot(state, agent) else {
            unreachable!("only agents of the open turn begin");
        };
        let started = ExecutionStarted {
            turn: state.turn_count() + 1,
            agent: plan.agent_name(agent).clone(),
            execution: slot.start.execution,
            attempt: slot.attempt + 1,
        };
        let stopwatch = running.stopwatch.nested_stopwatch();
        let mut execution = build_attempt_input(plan, state, slot, stopwatch.clone());
        let nested = self
            .outer_stopwatch
            .as_ref()
            .map(|outer| outer.ledger.open_nested_run_ledger());
        if let Some(nested) = &nested {
            execution.ledger = nested.ledger().clone();
        }
        let has_parts = plan.agent(agent).for_each.is_some();
        if has_parts
            || matches!(
                plan.agent(agent).kind,
                AgentKind::Llm(_) | AgentKind::Tool { .. } | AgentKind::Ensemble { .. }
            )
        {
            let running = running.records.get_or_insert_with(TurnRecordChannel::new);
            execution.records =
                build_attempt_records(&started, slot, running).with_permitted_tools(state.permitted_tools().clone());
            if has_parts {
                execution.parts = Some(Box::new(build_parts_input(state, slot, running)));
            }
        }
        match appended {
            Some(record) => {
                state.apply_record(&record)?;
                self.reporter.report_event(&record, state);
            }
            None => self.commit(state, Event::ExecutionStarted(started)).await?,
        }
        let runner = self.runners[agent.index()].clone();
        // The time limit of an agent with parts is that of each part.
        let timeout = plan.agent(agent).timeout.filter(|_| !has_parts);
        let ledger = execution.ledger.clone();
        running.attempts.push(RunningAttempt {
            agent,
            stopwatch: stopwatch.clone(),
            ledger: ledger.clone(),
            _nested: nested,
        });
        running.futures.push(Box::pin(async move {
            let span = trace::current_task_span()
                .map(|segment| segment.execution_span(&execution.agent_name, execution.execution));
            let performed = trace::run_in_span(span, runner.execute_attempt(execution));
            let observed = stopwatch
                .run_with_timeout(timeout, performed)
                .await
                .unwrap_or_else(|_| {
                    let failure = attempt_timeout_failure(timeout.unwrap_or_default());
                    AttemptEnd::from_failure(failure.kind, failure.error)
                });
            TurnStepResult::Ended(Box::new(EndedAttempt {
                agent,
                outcome: observed,
                ledger,
                took: stopwatch.elapsed_with_pauses(),
            }))
        }));
        Ok(())
    }

    /// Starts the next attempt after a pause, or commits an ended attempt and starts its pause.
    async fn handle_step_result(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        step: TurnStepResult,
        running: &mut RunningTurn,
    ) -> Result<(), CommitError> {
        match step {
            TurnStepResult::Paused(agent) => self.start_attempt(plan, state, agent, running, None).await,
            TurnStepResult::Ended(ended) => match self.commit_attempt_end(plan, state, *ended).await? {
                Some((agent, pause)) => {
                    running.futures.push(Box::pin(async move {
                        tokio::time::sleep(pause).await;
                        TurnStepResult::Paused(agent)
                    }));
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }

    /// Commits the end of an attempt. Returns the agent and the pause if another attempt follows.
    async fn commit_attempt_end(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        ended: EndedAttempt,
    ) -> Result<Option<(AgentId, Duration)>, CommitError> {
        let agent = ended.agent;
        let reused = matches!(ended.outcome, AttemptEnd::Reused(_));
        let (observation, may_retry) = match ended.outcome {
            AttemptEnd::Finished(observation) => (observation, true),
            AttemptEnd::Recorded(observation) | AttemptEnd::Reused(observation) => (observation, false),
            AttemptEnd::Interrupted(cause) => {
                self.commit(state, Event::Interrupted(cause)).await?;
                return Ok(None);
            }
            AttemptEnd::NeedsInput(requests) => {
                let stopped = ended.ledger.take_entries().stopped;
                self.commit_stopped_work(state, agent, stopped).await?;
                for request in requests {
                    let requested = input_requested_event(plan, state, agent, request);
                    self.commit(state, Event::InputRequested(requested)).await?;
                }
                return Ok(None);
            }
        };
        let mut entries = ended.ledger.take_entries();
        for part in &observation.parts {
            self.commit(state, Event::PartEnded(Box::new(PartAttemptEnded::clone(part))))
                .await?;
        }
        for answered in &observation.nested_answers {
            let answered = nested_answer_event(state, agent, answered);
            self.commit(state, Event::NestedRequestAnswered(Box::new(answered)))
                .await?;
        }
        let mut observation = AttemptResult {
            usage: observation.usage.or(entries.usage.take()),
            ..observation
        };
        observation.exchange.extend(entries.take_open_request());
        if may_retry && let Some(pause) = pause_before_retry(plan, state, agent, &observation) {
            self.commit_failed_attempt(plan, state, agent, observation, entries, pause)
                .await?;
            return Ok(Some((agent, pause)));
        }
        let finished = ExecutionFinished {
            reused,
            ..execution_finished_event(plan, state, agent, observation, ended.took, entries)
        };
        self.commit(state, Event::ExecutionFinished(finished)).await?;
        Ok(None)
    }

    /// Commits a failed attempt before the next attempt of the execution.
    async fn commit_failed_attempt(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        agent: AgentId,
        observation: AttemptResult,
        left: LedgerEntries,
        pause: Duration,
    ) -> Result<(), CommitError> {
        let (Some(slot), Err(failure)) = (find_execution_slot(state, agent), observation.result) else {
            return Ok(());
        };
        let failed = AttemptFailed {
            turn: state.turn_count() + 1,
            agent: plan.agent_name(agent).clone(),
            execution: slot.start.execution,
            attempt: slot.attempt,
            failure: left.with_process_end(failure),
            usage: observation.usage,
            stderr: left.stderr,
            warnings: left.warnings,
            exchange: observation.exchange,
            pause: pause.as_secs_f64(),
        };
        self.commit(state, Event::AttemptFailed(failed)).await
    }

    /// Commits the failure of every unfinished execution, because the turn has reached its time limit.
    async fn fail_unfinished_executions(
        &mut self,
        plan: &Plan,
        state: &mut ConversationState,
        attempts: &[RunningAttempt],
    ) -> Result<(), CommitError> {
        for agent in list_pending_executions(state) {
            let latest = attempts.iter().rfind(|attempt| attempt.agent == agent);
            let (took, mut left) = match latest {
                Some(attempt) => (attempt.stopwatch.elapsed_with_pauses(), attempt.ledger.take_entries()),
                None => (Duration::ZERO, LedgerEntries::default()),
            };
            let observation = AttemptResult {
                result: Err(turn_timeout_failure()),
                usage: left.usage,
                exchange: left.take_open_request().into_iter().collect(),
                answer: None,
                parts: Vec::new(),
                nested_answers: Vec::new(),
            };
            let finished = execution_finished_event(plan, state, agent, observation, took, left);
            self.commit(state, Event::ExecutionFinished(finished)).await?;
        }
        self.log.sync(SyncPoint::Commit).await
    }
}
