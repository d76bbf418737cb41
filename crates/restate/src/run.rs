//! A run, as a workflow of the engine.
//!
//! The workflow asks the resolver for the next step, as the loop on one machine does, and gives each execution of a turn to
//! a worker. It awaits only what the engine's journal can answer: calls, the timer, answers, and cancellation. Its records
//! stand in the engine's state, one entry for what is committed at once, so they can be read while it runs.
//!
//! Invariant: it awaits only what the engine's journal can answer, and reads no clock.

mod inner_runs;
mod local_turns;
mod log;
mod stop;
mod turn;
mod waits;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::{
    CompletionReason, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, RunInterruption,
};
use ensemble_core::executor::list_pending_executions;
use ensemble_core::request::AnswerAuthor;
use ensemble_core::resolver::{NextDecision, decide_next_step};
use ensemble_core::runner::turn_timeout_failure;
use ensemble_language::data::{ExecutionFailure, FailureKind};
use ensemble_language::plan::Plan;
use ensemble_project::PreparedEnsemble;
use ensemble_remote::protocol::{
    DecidedToolCall, EndedNestedRun, ExecutionCallResult, ExecutionRequest, NestedRunLines, RecordsReply,
    ResumeRequest, RunBrief, RunStartRequest, SentQuestionAnswer,
};
use restate_sdk::context::{DurableFuture, DurableFuturesUnordered};
use restate_sdk::prelude::*;

use self::inner_runs::{RunningNestedRun, wait_for_nested_records};
use self::log::{BRIEF_KEY, START_KEY, WorkflowLog, parse_records_key};
use self::turn::MeasuredTurnKey;
use crate::execution::ExecutionServiceClient;
use crate::index::RunIndexClient;
use crate::worker::RestateWorker;

/// Workflow that drives runs.
pub struct RunWorkflow(pub RestateWorker);

/// The state entry with the id of the workflow's invocation.
const INVOCATION_KEY: &str = "invocation";
/// The state entry that says that the workflow has ended: nothing goes on any more.
const FINAL_KEY: &str = "final";
/// The state entry with the reason why the worker refused the run before it began.
const REFUSAL: &str = "refusal";
/// The state entry with the number of the leg: how often the run began or went on.
const SEGMENT_KEY: &str = "leg";
/// The number of bytes of records after which a reply ends. The client asks for the rest.
const LARGEST_PAGE: usize = 8 << 20;

/// The time after which a client that follows a run asks again. The client looks for an engine or workers that do not answer only
/// after a longer time.
const FOLLOW_LIMIT: Duration = Duration::from_secs(3);

/// The reason why the workflow continues.
enum WorkflowWakeReason {
    /// An execution has ended, or its call has.
    ExecutionDone(Arc<str>, Result<ExecutionCallResult, TerminalError>),
    /// The run of an inner ensemble has ended: the agent, its name, its id.
    InnerRunEnded(Arc<str>, EndedNestedRun, Result<RunBrief, TerminalError>),
    /// The time limit of an attempt is reached whose run of an inner ensemble this is: the agent, the run's id.
    InnerTimedOut(Arc<str>, Arc<str>),
    /// The time limit of a turn is reached.
    TurnTimedOut(MeasuredTurnKey),
    /// The time limit of this segment of the run is reached.
    RunTimedOut(u32),
    /// The executions of a run that is about to end had enough time to stop.
    StopTimedOut,
    /// A pause between local turns has ended.
    PauseEnded,
}

/// Durable future of an event that continues the workflow.
type WorkflowWakeFuture<'a> = Pin<Box<dyn DurableFuture<Output = WorkflowWakeReason> + Send + 'a>>;

#[restate_sdk::workflow(
    name = "EnsembleRun",
    lazy_state,
    client_visibility = "pub(crate)",
    inactivity_timeout = "1h",
    abort_timeout = "1h",
    workflow_completion_retention = "30 days",
    invocation_retry_policy(
        initial_interval = "50ms",
        factor = 2.0,
        max_interval = "5s",
        max_attempts = 4294967295
    )
)]
impl RunWorkflow {
    /// Drives the run from its start to its end.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, start: Json<RunStartRequest>) -> HandlerResult<Json<RunBrief>> {
        let start = start.into_inner();
        self.0.check_run_protocol(start.protocol)?;
        self.0.refuse_while_draining(ctx.invocation_id())?;
        let prepared = match self.0.prepare_ensemble(&start) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                ctx.set(REFUSAL, refusal.clone());
                return Err(TerminalError::new(refusal).into());
            }
        };
        ctx.set(INVOCATION_KEY, ctx.invocation_id().to_owned());
        ctx.set(START_KEY, Json(start.clone()));
        let is_inside = start.inside.is_some();
        if !is_inside {
            let day = start.at.format("%Y%m%d").to_string();
            // The index of the day adds the day to the index of days.
            ctx.object_client::<RunIndexClient>(day)
                .add(ctx.key().to_owned())
                .send();
        }
        let mut run = WorkflowRunDrive {
            ctx: &ctx,
            protocol: start.protocol,
            worker: self.0.clone(),
            start: Arc::new(start.clone()),
            prepared: prepared.clone(),
            plan: prepared.plan.clone(),
            is_inner_run: is_inside,
            refuses_exhausted: start.refuses_exhausted,
            own_cancels: 0,
            log: WorkflowLog::new(&ctx, self.0.clone(), prepared.clone(), &start),
            local_agents: None,
            are_turns_large: false,
            wake_futures: DurableFuturesUnordered::new(),
            under_way: Vec::new(),
            answers: Vec::new(),
            decided_calls: HashMap::new(),
            inner: HashMap::new(),
            children: Vec::new(),
            inner_runs: HashMap::new(),
            inner_answers: HashMap::new(),
            measured_turn: None,
            turn_timed_out: false,
            segment: 0,
        };
        let before = match &start.goes_on_after {
            Some(before) => wait_for_nested_records(&ctx, before).await?,
            None => None,
        };
        let goes_on = match before {
            Some(before) => run.continue_from_workflow(before, start.at, start.answered)?,
            None => {
                run.log.commit_events([Event::RunStarted(Box::new(start.started))]);
                true
            }
        };
        let driven = match goes_on {
            true => run.drive_run_to_end().await,
            false => Ok(()),
        };
        // Also after an error: the state has what was committed.
        run.log.store_records();
        driven?;
        ctx.set(FINAL_KEY, true);
        let brief = run.log.summarize_as_running();
        Ok(Json(brief.ok_or_else(|| TerminalError::new("the run has no records"))?))
    }

    /// Returns the records from this number on, and the nested runs for number 0.
    #[handler]
    async fn records(&self, ctx: SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Json<RecordsReply>> {
        Ok(Json(read_records(&ctx, from).await?))
    }

    /// Returns the records from this one on, as soon as there is one or the run has ended; after [`FOLLOW_LIMIT`], no record.
    #[handler]
    async fn follow(&self, ctx: SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Json<RecordsReply>> {
        let records = read_records(&ctx, from).await?;
        if !records.lines.is_empty() || records.is_over || records.refusal.is_some() {
            return Ok(Json(records));
        }
        let key = news_promise_name(from);
        let mut waits: DurableFuturesUnordered<Pin<Box<dyn DurableFuture<Output = ()> + Send + '_>>> =
            DurableFuturesUnordered::new();
        waits.push(Box::pin(ctx.promise::<bool>(&key).map(drop)));
        waits.push(Box::pin(ctx.sleep(FOLLOW_LIMIT).map(drop)));
        waits.next().await?;
        Ok(Json(read_records(&ctx, from).await?))
    }

    /// Returns the summary of the present state of the run.
    #[handler]
    async fn brief(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Option<RunBrief>>> {
        Ok(Json(ctx.get::<Json<RunBrief>>(BRIEF_KEY).await?.map(Json::into_inner)))
    }

    /// Answers a question. Only the first answer has an effect.
    #[handler]
    async fn answer(&self, ctx: SharedWorkflowContext<'_>, answer: Json<SentQuestionAnswer>) -> HandlerResult<()> {
        let key = answer_promise_name(answer.0.asked);
        // The client repeats a request that a lost node did not answer.
        let earlier = ctx.peek_promise::<Json<SentQuestionAnswer>>(&key).await?;
        if let Some(earlier) = earlier.map(Json::into_inner).filter(|earlier| *earlier != answer.0) {
            return Err(TerminalError::new_with_code(409, earlier.describe_earlier_answer()).into());
        }
        ctx.resolve_promise(&key, answer);
        Ok(())
    }

    /// Cancels the run. Its records stay.
    #[handler]
    async fn cancel(&self, ctx: SharedWorkflowContext<'_>, by: String) -> HandlerResult<()> {
        let Some(invocation) = ctx.get::<String>(INVOCATION_KEY).await? else {
            return Err(TerminalError::new_with_code(404, "there is no such run").into());
        };
        // A run that was cut short already waits for somebody who resumes it.
        if !is_workflow_ended(&ctx).await? {
            let leg = ctx.get::<u32>(SEGMENT_KEY).await?.unwrap_or_default();
            ctx.resolve_promise(&cancel_promise_name(leg), by);
            ctx.invocation_handle(invocation).cancel();
        }
        Ok(())
    }

    /// Resumes a run that was cancelled or timed out. Has no effect on a running run.
    #[handler]
    async fn resume(&self, ctx: SharedWorkflowContext<'_>, request: Json<ResumeRequest>) -> HandlerResult<()> {
        let refused = |code, reason: &str| Err(TerminalError::new_with_code(code, reason.to_owned()).into());
        if ctx.get::<String>(INVOCATION_KEY).await?.is_none() {
            return refused(404, "there is no such run");
        }
        if !is_workflow_ended(&ctx).await? {
            return Ok(());
        }
        if ctx.get::<bool>(FINAL_KEY).await?.unwrap_or_default() {
            return refused(409, "the run has ended and cannot be resumed");
        }
        let leg = ctx.get::<u32>(SEGMENT_KEY).await?.unwrap_or_default();
        ctx.resolve_promise(&resume_promise_name(leg), request);
        Ok(())
    }
}

/// Returns whether the run has ended for this workflow. A nested run that waits for an answer continues in another workflow.
async fn is_workflow_ended(ctx: &SharedWorkflowContext<'_>) -> Result<bool, TerminalError> {
    // One that has ended and waits for an answer is inside another, which goes on with it.
    if ctx.get::<bool>(FINAL_KEY).await?.unwrap_or_default() {
        return Ok(true);
    }
    let brief = ctx.get::<Json<RunBrief>>(BRIEF_KEY).await?;
    Ok(brief.is_some_and(|brief| brief.0.has_ended()))
}

/// Returns the records of the run from this one on.
async fn read_records(ctx: &SharedWorkflowContext<'_>, from: u64) -> HandlerResult<RecordsReply> {
    // Read before the records: of a run that is over, all records are there.
    let is_over = is_workflow_ended(ctx).await?;
    let mut records = RecordsReply {
        is_over,
        ..RecordsReply::default()
    };
    let mut keys = ctx.get_keys().await?;
    keys.sort_unstable();
    // An entry begins with the record in its key; the one before the next key may hold `from`.
    let chunks: Vec<(u64, &String)> = keys
        .iter()
        .filter_map(|key| Some((parse_records_key(key)?, key)))
        .collect();
    let first = chunks.partition_point(|(begin, _)| *begin <= from).saturating_sub(1);
    if keys.iter().any(|key| key == REFUSAL) {
        records.refusal = ctx.get::<String>(REFUSAL).await?;
    }
    for (begin, key) in &chunks[first.min(chunks.len())..] {
        let lines: String = ctx.get::<String>(key).await?.unwrap_or_default();
        if !records.lines.is_empty() && records.lines.len() + lines.len() > LARGEST_PAGE {
            records.is_partial = true;
            records.is_over = false;
            break;
        }
        let surplus = usize::try_from(from.saturating_sub(*begin)).unwrap_or(usize::MAX);
        records.lines.extend(lines.split_inclusive('\n').skip(surplus));
    }
    if from == 0 {
        records.start = ctx.get::<Json<RunStartRequest>>(START_KEY).await?.map(Json::into_inner);
        for key in keys.iter().filter(|key| key.starts_with(log::NESTED_KEY_PREFIX)) {
            let inside = ctx.get::<Json<Vec<NestedRunLines>>>(key).await?;
            records.inside.extend(inside.map(Json::into_inner).unwrap_or_default());
        }
    }
    Ok(records)
}

/// Returns the promise that the workflow resolves when it has stored the record with this number.
fn news_promise_name(first: u64) -> String {
    format!("news:{first}")
}

/// Returns the promise with who cancelled this leg of the run.
fn cancel_promise_name(leg: u32) -> String {
    format!("cancelled:{leg}")
}

/// Returns the promise with the request of whoever resumed the run after this leg.
fn resume_promise_name(leg: u32) -> String {
    format!("resumed:{leg}")
}

/// Returns the name of the promise with the answer that the run waits for since it has so many records. Each question has its own
/// promise.
fn answer_promise_name(asked: u64) -> String {
    format!("answer:{asked}")
}

/// Execution that was called and has not ended.
struct UnendedCalledExecution {
    agent: Arc<str>,
    /// Set while its call has not returned. An execution that waits for nested runs has no call.
    is_performed: bool,
}

/// Run that a workflow drives, with its unfinished executions and nested runs.
struct WorkflowRunDrive<'a> {
    ctx: &'a WorkflowContext<'a>,
    /// Protocol with which the run was started.
    protocol: u32,
    worker: RestateWorker,
    start: Arc<RunStartRequest>,
    prepared: Arc<PreparedEnsemble>,
    plan: Arc<Plan>,
    /// Set for a nested run, which the outer run resumes by a new workflow.
    is_inner_run: bool,
    /// Whether the run records a success with exhausted agents as no success.
    refuses_exhausted: bool,
    /// The cancellations by the run itself that it has not heard of.
    own_cancels: u32,
    log: WorkflowLog<'a>,
    /// The agents whose executions can be performed by the worker of the workflow; `None`: nothing has asked for them.
    local_agents: Option<HashSet<Arc<str>>>,
    /// Local turns took too long, or their records were too large: all further executions are called.
    are_turns_large: bool,
    wake_futures: DurableFuturesUnordered<WorkflowWakeFuture<'a>>,
    /// The executions that were called and have not ended.
    under_way: Vec<UnendedCalledExecution>,
    /// The answers to questions of the open turn.
    answers: Vec<(Arc<str>, serde_json::Value, Option<AnswerAuthor>)>,
    /// Decision about the tool call that each agent waits for, until its execution has ended or asks again.
    decided_calls: HashMap<Arc<str>, DecidedToolCall>,
    /// Nested runs of each agent that have ended, or wait for an answer.
    inner: HashMap<Arc<str>, Vec<EndedNestedRun>>,
    /// Nested runs that are running.
    children: Vec<RunningNestedRun>,
    /// Workflows of all nested runs that were started, by the names of the runs.
    inner_runs: HashMap<String, NestedRunLines>,
    /// Answers to questions of nested runs that have not continued yet, by the names of the runs.
    inner_answers: HashMap<String, SentQuestionAnswer>,
    /// Turn whose time is measured. The next field is set when the time limit is reached.
    measured_turn: Option<MeasuredTurnKey>,
    turn_timed_out: bool,
    /// Number of starts and continuations of the run. Each has the whole time limit.
    segment: u32,
}

impl<'a> WorkflowRunDrive<'a> {
    /// Decides and performs the steps of the run until its end. Waits for answers and resumptions.
    async fn drive_run_to_end(&mut self) -> HandlerResult<()> {
        self.start_segment();
        loop {
            self.log.check_no_illegal_record()?;
            match decide_next_step(&self.plan, self.log.run_state()) {
                NextDecision::StartTurn(turn) => {
                    self.answers.clear();
                    match self.is_local_turn(&turn) {
                        true => self.perform_local_turns().await?,
                        false => self.log.commit_events([Event::TurnStarted(turn)]),
                    }
                }
                NextDecision::Perform => self.call_pending_and_wait().await?,
                NextDecision::FinishTurn(turn) => self.log.commit_events([Event::TurnFinished(turn)]),
                NextDecision::End(ended) => {
                    let reason = ended.completion_reason;
                    self.log
                        .commit_events([Event::RunEnded(ended.for_record(self.refuses_exhausted))]);
                    let goes_on = match reason {
                        // The run around it asks, and goes on with it by a run of its own.
                        _ if self.is_inner_run => false,
                        CompletionReason::WaitingForInput => self.wait_and_apply_answer().await?,
                        reason if reason.is_resumable() => self.wait_and_resume().await,
                        _ => false,
                    };
                    if !goes_on {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Starts the next segment of the run, with a timer for its time limit.
    fn start_segment(&mut self) {
        self.segment += 1;
        let leg = self.segment;
        self.ctx.set(SEGMENT_KEY, leg);
        let limit: Duration = self.plan.ensemble().limits.timeout;
        let timer = self.ctx.sleep(limit).map(move |_| WorkflowWakeReason::RunTimedOut(leg));
        self.wake_futures.push(Box::pin(timer));
    }

    /// Calls the pending executions up to the limit, waits for the next event, and applies the event.
    async fn call_pending_and_wait(&mut self) -> HandlerResult<()> {
        self.start_turn_timer();
        let limit = self.plan.ensemble().limits.parallel_agents;
        let side_by_side = limit.map_or(usize::MAX, |limit| limit.get() as usize);
        for agent in list_pending_executions(self.log.run_state()) {
            let agent = self.plan.agent_name(agent).clone();
            if self.under_way.len() >= side_by_side {
                break;
            }
            if !self.is_execution_unfinished(&agent) {
                self.under_way.push(UnendedCalledExecution {
                    agent: agent.clone(),
                    is_performed: false,
                });
                self.call_execution(agent);
            }
        }
        self.wait_for_wake().await
    }

    /// Takes the next end.
    async fn wait_for_wake(&mut self) -> HandlerResult<()> {
        self.log.store_records();
        match self.wake_futures.next().await {
            Ok(Some((_, WorkflowWakeReason::ExecutionDone(agent, Ok(work_result)))))
                if !work_result.wants.is_empty() =>
            {
                self.start_missing_nested_runs(&agent, work_result.wants)
            }
            Ok(Some((_, WorkflowWakeReason::ExecutionDone(agent, done)))) => self.commit_execution_result(&agent, done),
            Ok(Some((_, WorkflowWakeReason::InnerRunEnded(agent, ended, brief)))) => {
                self.handle_nested_run_end(agent, ended, brief)
            }
            Ok(Some((_, WorkflowWakeReason::TurnTimedOut(measured)))) => self.apply_turn_timeout(measured),
            Ok(Some((_, WorkflowWakeReason::InnerTimedOut(agent, run)))) => self.handle_attempt_timeout(agent, &run),
            Ok(Some((_, WorkflowWakeReason::RunTimedOut(leg)))) if leg == self.segment => {
                self.stop_and_commit_interruption(RunInterruption::Timeout).await
            }
            // The time of an earlier leg, or of an end before.
            Ok(Some((
                _,
                WorkflowWakeReason::RunTimedOut(_) | WorkflowWakeReason::StopTimedOut | WorkflowWakeReason::PauseEnded,
            ))) => {}
            Ok(None) => return Err(TerminalError::new("no execution is running").into()),
            Err(_cancelled) => self.handle_cancellation().await?,
        }
        Ok(())
    }

    /// Stops the run, unless the run itself has cancelled its calls.
    async fn handle_cancellation(&mut self) -> Result<(), TerminalError> {
        match self.own_cancels.checked_sub(1) {
            Some(rest) => self.own_cancels = rest,
            // The engine cancelled the run, and its calls with it.
            None => self.stop_as_cancelled().await?,
        }
        Ok(())
    }

    /// Stops the run because a client or an operator of the engine cancelled the run.
    async fn stop_as_cancelled(&mut self) -> Result<(), TerminalError> {
        let promise = cancel_promise_name(self.segment);
        let by = self.ctx.peek_promise::<String>(&promise).await?;
        let by = by.unwrap_or_else(|| "Restate".to_owned());
        let by = ensemble_core::conversation::RunCanceller::Client(by.into());
        self.stop_and_commit_interruption(RunInterruption::Cancelled { by })
            .await;
        Ok(())
    }

    /// Returns whether an execution of the agent was called and has not ended.
    fn is_execution_unfinished(&self, agent: &Arc<str>) -> bool {
        self.under_way.iter().any(|under_way| under_way.agent == *agent)
    }

    /// Returns whether the call of the agent's execution has not returned.
    fn has_running_call(&self, agent: &Arc<str>) -> bool {
        let mut under_way = self.under_way.iter();
        under_way.any(|under_way| under_way.agent == *agent && under_way.is_performed)
    }

    /// Sets whether the call of the agent's execution is running.
    fn set_running_call(&mut self, agent: &Arc<str>, is_performed: bool) {
        let under_way = self.under_way.iter_mut().find(|under_way| under_way.agent == *agent);
        if let Some(under_way) = under_way {
            under_way.is_performed = is_performed;
        }
    }

    /// Calls the execution of the agent, with the answer, the decision and the nested runs for the agent.
    fn call_execution(&mut self, agent: Arc<str>) {
        self.set_running_call(&agent, true);
        // The worker reads the records of the run.
        self.log.store_records();
        self.log.offer_state();
        let answer = self.answers.iter().rev().find(|(of, ..)| *of == agent);
        let work = ExecutionRequest {
            protocol: self.protocol,
            run: self.log.workflow_id().clone(),
            agent: agent.clone(),
            records: self.log.run_state().next_seq(),
            answer: answer.map(|(_, answer, _)| answer.clone()),
            answered_by: answer.and_then(|(_, _, by)| by.clone()),
            decided: self.decided_calls.get(&agent).cloned(),
            inner: self.inner.get(&agent).cloned().unwrap_or_default(),
            begun: self.list_orphaned_nested_runs(&agent),
            turn_is_up: self.turn_timed_out,
        };
        let call = self
            .ctx
            .service_client::<ExecutionServiceClient>()
            .perform(Json(work))
            .call();
        let wake_future = call.map(move |done| WorkflowWakeReason::ExecutionDone(agent, done.map(Json::into_inner)));
        self.wake_futures.push(Box::pin(wake_future));
    }

    /// Lists the nested runs of the agent that were started by an attempt that did not end.
    fn list_orphaned_nested_runs(&self, agent: &str) -> Vec<String> {
        let slots = self
            .log
            .run_state()
            .open_turn()
            .into_iter()
            .flat_map(|turn| &turn.slots);
        let slot = slots.into_iter().find(|slot| *slot.start.agent == *agent);
        let lost_slot = slot.filter(|slot| slot.attempt > slot.last_ended);
        lost_slot.map_or_else(Vec::new, |slot| {
            self.list_started_nested_runs(agent, slot.start.execution)
        })
    }

    /// Commits the records of an execution that has ended, or its failure. Cancels nested runs that are no longer needed.
    fn commit_execution_result(&mut self, agent: &Arc<str>, done: Result<ExecutionCallResult, TerminalError>) {
        // Parts whose results do not matter any more.
        self.cancel_nested_runs(|child| child.agent == *agent);
        self.under_way.retain(|under_way| under_way.agent != *agent);
        self.decided_calls.remove(agent);
        match done.as_ref().ok().and_then(|done| done.asks.as_deref()) {
            Some(child) => self.mark_run_as_asking(child),
            None => drop(self.inner.remove(agent)),
        }
        let failed = |reason: String| (Vec::new(), Some(reason), Vec::new());
        let (records, error, inside) = match done {
            Err(error) => failed(error.message().to_owned()),
            Ok(mut work_result) if work_result.error.is_some() => {
                let error = work_result.error.take().unwrap_or_default();
                self.commit_unended_records(agent, work_result);
                failed(error)
            }
            // Somebody has cancelled the call, and not the run.
            Ok(work_result) if work_result.is_stopped => {
                self.commit_unended_records(agent, work_result);
                failed("the call of the execution was cancelled".to_owned())
            }
            Ok(work_result) => match ensemble_remote::protocol::decode_record_lines(&work_result.lines) {
                Ok(records) => (records, None, work_result.inside),
                Err(error) => failed(error.to_string()),
            },
        };
        if let Some(error) = error {
            return self.commit_unavailable_failure(agent, error);
        }
        self.log.store_nested_runs_of_agent(agent, &inside);
        self.log.renumber_and_commit_records(records);
    }

    /// Commits the failure of an execution that no worker could perform.
    fn commit_unavailable_failure(&mut self, agent: &Arc<str>, error: String) {
        let failure = ExecutionFailure::new(FailureKind::Unavailable, error);
        if let Some(finished) = self.build_failed_execution(agent, 1, failure) {
            let started = ExecutionStarted {
                turn: finished.turn,
                agent: agent.clone(),
                execution: finished.execution,
                attempt: finished.attempt,
            };
            self.log
                .commit_events([Event::ExecutionStarted(started), Event::ExecutionFinished(finished)]);
        }
    }

    /// Commits the failure of an execution that was not started before the time limit of its turn.
    fn commit_turn_timeout_failure(&mut self, agent: &Arc<str>) {
        if let Some(finished) = self.build_failed_execution(agent, 0, turn_timeout_failure()) {
            self.log.commit_events([Event::ExecutionFinished(finished)]);
        }
    }

    /// Builds the end of a failed execution of the open turn, `later` attempts after its last started attempt.
    fn build_failed_execution(
        &self,
        agent: &Arc<str>,
        later: u32,
        failure: ExecutionFailure,
    ) -> Option<ExecutionFinished> {
        let turn = self.log.run_state().turn_count() + 1;
        let slots = self
            .log
            .run_state()
            .open_turn()
            .into_iter()
            .flat_map(|turn| &turn.slots);
        let slot = slots.into_iter().find(|slot| *slot.start.agent == **agent)?;
        Some(ExecutionFinished {
            turn,
            agent: agent.clone(),
            execution: slot.start.execution,
            attempt: slot.attempt + later,
            end: ExecutionEnd::Failed(failure),
            execution_time: 0.0,
            usage: None,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: Vec::new(),
            reused: false,
            sandboxes: Vec::new().into(),
            answer: None,
        })
    }
}
