//! A run, as a workflow of the engine.
//!
//! The workflow asks the resolver for the next step, as the loop on one machine does, and gives each execution of a turn to
//! a worker. It awaits only what the engine's journal can answer: calls, the timer, answers, and cancellation. Its records
//! stand in the engine's state, one entry for what is committed at once, so they can be read while it runs.
//!
//! Invariant: it awaits only what the engine's journal can answer, and reads no clock.

mod inside;
mod log;
mod turn;
mod waiting;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{
    CompletionReason, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, Interruption,
};
use ensemble_core::executor::queue;
use ensemble_core::request::Answerer;
use ensemble_core::resolver::{Decision, decide};
use ensemble_core::runner::turn_is_up;
use ensemble_language::data::{Failure, FailureKind};
use ensemble_language::plan::Plan;
use ensemble_project::Prepared;
use ensemble_remote::protocol::{Answer, Brief, DAYS, Decided, Done, InnerEnded, InnerLines, Records, StartRun, Work};
use restate_sdk::context::{DurableFuture, DurableFuturesUnordered};
use restate_sdk::prelude::*;

use self::inside::{Child, cut_short};
use self::log::{BRIEF, Log, START, chunk_of};
use self::turn::Measured;
use crate::execution::ExecutionClient;
use crate::index::IndexClient;
use crate::worker::Worker;

/// Drives runs.
pub struct Run(pub Worker);

/// The state entry with the id of the workflow's invocation.
const INVOCATION: &str = "invocation";
/// The state entry that says that the workflow has ended: nothing goes on any more.
const FINAL: &str = "final";
/// The state entry with the number of the leg: how often the run began or went on.
const LEG: &str = "leg";
/// The reason why the workflow continues.
enum Woken {
    /// An execution has ended, or its call has.
    Done(Arc<str>, Result<Done, TerminalError>),
    /// The run of an inner ensemble has ended: the agent, its name, its id.
    Inner(Arc<str>, InnerEnded, Result<Brief, TerminalError>),
    /// The time limit of an attempt is reached whose run of an inner ensemble this is: the agent, the run's id.
    InnerIsLate(Arc<str>, Arc<str>),
    /// The time limit of a turn is reached.
    TurnIsUp(Measured),
    /// The time limit of this leg of the run is reached.
    TimeIsUp(u32),
}

type Awaited<'a> = Pin<Box<dyn DurableFuture<Output = Woken> + Send + 'a>>;

#[restate_sdk::workflow(
    name = "EnsembleRun",
    lazy_state,
    client_visibility = "pub(crate)",
    inactivity_timeout = "1h",
    abort_timeout = "1h",
    workflow_completion_retention = "30 days",
    invocation_retry_policy(initial_interval = "50ms", factor = 2.0, max_interval = "5s")
)]
impl Run {
    /// Drives the run from its start to its end.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, start: Json<StartRun>) -> HandlerResult<Json<Brief>> {
        let start = start.into_inner();
        let prepared = self.0.prepare(&start).map_err(TerminalError::new)?;
        ctx.set(INVOCATION, ctx.invocation_id().to_owned());
        ctx.set(START, Json(start.clone()));
        let is_inside = start.inside.is_some();
        if !is_inside {
            let day = start.at.format("%Y%m%d").to_string();
            ctx.object_client::<IndexClient>(DAYS).add(day.clone()).send();
            ctx.object_client::<IndexClient>(day).add(ctx.key().to_owned()).send();
        }
        let mut run = Drive {
            ctx: &ctx,
            prepared: prepared.clone(),
            plan: prepared.plan.clone(),
            is_inside,
            own_cancels: 0,
            log: Log::new(&ctx, &prepared.plan, &start),
            awaited: DurableFuturesUnordered::new(),
            under_way: Vec::new(),
            answers: Vec::new(),
            decided: HashMap::new(),
            inner: HashMap::new(),
            children: Vec::new(),
            known: HashMap::new(),
            answered: HashMap::new(),
            measured: None,
            turn_is_up: false,
            leg: 0,
        };
        let before = match &start.goes_on_after {
            Some(before) => cut_short(&ctx, before).await?,
            None => None,
        };
        let goes_on = match before {
            Some(before) => run.take_over(before, start.at, start.answered)?,
            None => {
                run.log.commit([Event::RunStarted(Box::new(start.started))]);
                true
            }
        };
        if goes_on {
            run.drive().await?;
        }
        ctx.set(FINAL, true);
        let brief = run.log.brief();
        Ok(Json(brief.ok_or_else(|| TerminalError::new("the run has no records"))?))
    }

    /// The records from this one on.
    #[handler]
    async fn records(&self, ctx: SharedWorkflowContext<'_>, from: u64) -> HandlerResult<Json<Records>> {
        // Read before the records: of a run that is over, all records are there.
        let is_over = is_over(&ctx).await?;
        let mut records = Records {
            is_over,
            ..Records::default()
        };
        let mut keys = ctx.get_keys().await?;
        keys.sort_unstable();
        // An entry begins with the record in its key; the one before the next key may hold `from`.
        let chunks: Vec<(u64, &String)> = keys.iter().filter_map(|key| Some((chunk_of(key)?, key))).collect();
        let first = chunks.partition_point(|(begin, _)| *begin <= from).saturating_sub(1);
        for (begin, key) in &chunks[first.min(chunks.len())..] {
            let lines: String = ctx.get::<String>(key).await?.unwrap_or_default();
            let surplus = usize::try_from(from.saturating_sub(*begin)).unwrap_or(usize::MAX);
            records.lines.extend(lines.split_inclusive('\n').skip(surplus));
        }
        if from == 0 {
            records.start = ctx.get::<Json<StartRun>>(START).await?.map(Json::into_inner);
            for key in keys.iter().filter(|key| key.starts_with(log::INSIDE)) {
                let inside = ctx.get::<Json<Vec<InnerLines>>>(key).await?;
                records.inside.extend(inside.map(Json::into_inner).unwrap_or_default());
            }
        }
        Ok(Json(records))
    }

    /// Returns the summary of the run until now.
    #[handler]
    async fn brief(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Option<Brief>>> {
        Ok(Json(ctx.get::<Json<Brief>>(BRIEF).await?.map(Json::into_inner)))
    }

    /// Answers a question. The first answer counts.
    #[handler]
    async fn answer(&self, ctx: SharedWorkflowContext<'_>, answer: Json<Answer>) -> HandlerResult<()> {
        let key = promise_of(answer.0.asked);
        ctx.resolve_promise(&key, answer);
        Ok(())
    }

    /// Cancels the run. What it did until then is kept.
    #[handler]
    async fn cancel(&self, ctx: SharedWorkflowContext<'_>, by: String) -> HandlerResult<()> {
        let Some(invocation) = ctx.get::<String>(INVOCATION).await? else {
            return Err(TerminalError::new_with_code(404, "there is no such run").into());
        };
        // A run that was cut short already waits for somebody who resumes it.
        if !is_over(&ctx).await? {
            let leg = ctx.get::<u32>(LEG).await?.unwrap_or_default();
            ctx.resolve_promise(&cancelled_in(leg), by);
            ctx.invocation_handle(invocation).cancel();
        }
        Ok(())
    }

    /// Lets a run go on that was cancelled or timed out. One that goes on already is left as it is.
    #[handler]
    async fn resume(&self, ctx: SharedWorkflowContext<'_>, at: Json<DateTime<Utc>>) -> HandlerResult<()> {
        let refused = |code, reason: &str| Err(TerminalError::new_with_code(code, reason.to_owned()).into());
        if ctx.get::<String>(INVOCATION).await?.is_none() {
            return refused(404, "there is no such run");
        }
        if !is_over(&ctx).await? {
            return Ok(());
        }
        if ctx.get::<bool>(FINAL).await?.unwrap_or_default() {
            return refused(409, "the run has ended for good");
        }
        let leg = ctx.get::<u32>(LEG).await?.unwrap_or_default();
        ctx.resolve_promise(&resumed_after(leg), at);
        Ok(())
    }
}

async fn is_over(ctx: &SharedWorkflowContext<'_>) -> Result<bool, TerminalError> {
    // One that has ended and waits for an answer is inside another, which goes on with it.
    if ctx.get::<bool>(FINAL).await?.unwrap_or_default() {
        return Ok(true);
    }
    let brief = ctx.get::<Json<Brief>>(BRIEF).await?;
    Ok(brief.is_some_and(|brief| brief.0.is_over()))
}

/// The promise with who cancelled this leg of the run.
fn cancelled_in(leg: u32) -> String {
    format!("cancelled:{leg}")
}

/// The promise with the time at which somebody resumed the run after this leg.
fn resumed_after(leg: u32) -> String {
    format!("resumed:{leg}")
}

/// Returns the promise with the answer for which the run waits since it has so many records: the answer to one question is never that
/// to the next.
fn promise_of(asked: u64) -> String {
    format!("answer:{asked}")
}

/// An execution that was called and has not ended.
struct UnderWay {
    agent: Arc<str>,
    /// Its call has not returned: one that waits for runs of its inner ensemble has none.
    is_performed: bool,
}

/// A run under way.
struct Drive<'a> {
    ctx: &'a WorkflowContext<'a>,
    prepared: Arc<Prepared>,
    plan: Arc<Plan>,
    /// The run is inside another, which resumes it by a run of its own.
    is_inside: bool,
    /// The cancellations by the run itself that it has not heard of.
    own_cancels: u32,
    log: Log<'a>,
    awaited: DurableFuturesUnordered<Awaited<'a>>,
    /// The executions that were called and have not ended.
    under_way: Vec<UnderWay>,
    /// The answers to questions of the open turn.
    answers: Vec<(Arc<str>, serde_json::Value, Option<Answerer>)>,
    /// By agent: the decision about the call that it waits for, until its execution has ended or asks again.
    decided: HashMap<Arc<str>, Decided>,
    /// By agent that is under way or asks: the runs of its inner ensemble that have ended, or wait for an answer.
    inner: HashMap<Arc<str>, Vec<InnerEnded>>,
    /// The runs of inner ensembles that are under way.
    children: Vec<Child>,
    /// The workflows of all inner ensembles that were begun, by the names of their runs.
    known: HashMap<String, InnerLines>,
    /// The answers to questions of runs of inner ensembles that have not gone on yet, by the names of the runs.
    answered: HashMap<String, Answer>,
    /// The turn whose time is measured, and whether it is up.
    measured: Option<Measured>,
    turn_is_up: bool,
    /// Counts the times that the run began or went on; each has the whole time limit.
    leg: u32,
}

impl<'a> Drive<'a> {
    async fn drive(&mut self) -> HandlerResult<()> {
        self.begin_leg();
        loop {
            self.log.check_records()?;
            match decide(&self.plan, self.log.state()) {
                Decision::StartTurn(turn) => {
                    self.answers.clear();
                    self.log.commit([Event::TurnStarted(turn)]);
                }
                Decision::Perform => self.perform().await?,
                Decision::FinishTurn(turn) => self.log.commit([Event::TurnFinished(turn)]),
                Decision::End(ended) => {
                    let reason = ended.completion_reason;
                    self.log.commit([Event::RunEnded(ended)]);
                    let goes_on = match reason {
                        // The run around it asks, and goes on with it by a run of its own.
                        _ if self.is_inside => false,
                        CompletionReason::WaitingForInput => self.wait_for_answer().await?,
                        reason if reason.is_resumable() => self.wait_for_resume().await,
                        _ => false,
                    };
                    if !goes_on {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn begin_leg(&mut self) {
        self.leg += 1;
        let leg = self.leg;
        self.ctx.set(LEG, leg);
        let limit: Duration = self.plan.ensemble().limits.timeout;
        let timer = self.ctx.sleep(limit).map(move |_| Woken::TimeIsUp(leg));
        self.awaited.push(Box::pin(timer));
    }

    /// Calls the executions that are pending and not under way, and takes the next end.
    async fn perform(&mut self) -> HandlerResult<()> {
        self.measure_turn();
        let limit = self.plan.ensemble().limits.parallel_agents;
        let side_by_side = limit.map_or(usize::MAX, |limit| limit.get() as usize);
        for agent in queue(self.log.state()) {
            let agent = self.plan.name(agent).clone();
            if self.under_way.len() >= side_by_side {
                break;
            }
            if !self.is_under_way(&agent) {
                self.under_way.push(UnderWay {
                    agent: agent.clone(),
                    is_performed: false,
                });
                self.call(agent);
            }
        }
        match self.awaited.next().await {
            Ok(Some((_, Woken::Done(agent, Ok(done))))) if !done.wants.is_empty() => self.wants(&agent, done.wants),
            Ok(Some((_, Woken::Done(agent, done)))) => self.ended(&agent, done),
            Ok(Some((_, Woken::Inner(agent, ended, brief)))) => self.inner_ended(agent, ended, brief),
            Ok(Some((_, Woken::TurnIsUp(measured)))) => self.time_of_turn_is_up(measured),
            Ok(Some((_, Woken::InnerIsLate(agent, run)))) => self.inner_is_late(agent, &run),
            Ok(Some((_, Woken::TimeIsUp(leg)))) if leg == self.leg => self.interrupt(Interruption::Timeout),
            // The time of an earlier leg.
            Ok(Some((_, Woken::TimeIsUp(_)))) => {}
            Ok(None) => return Err(TerminalError::new("no execution is under way").into()),
            Err(_cancelled) if self.own_cancels > 0 => self.own_cancels -= 1,
            // The engine cancelled the run, and its calls with it.
            Err(_cancelled) => {
                let by = self.ctx.peek_promise::<String>(&cancelled_in(self.leg)).await?;
                let by = by.unwrap_or_else(|| "Restate".to_owned());
                self.interrupt(Interruption::Cancelled {
                    by: ensemble_core::conversation::Canceller::Client(by.into()),
                });
            }
        }
        Ok(())
    }

    fn is_under_way(&self, agent: &Arc<str>) -> bool {
        self.under_way.iter().any(|under_way| under_way.agent == *agent)
    }

    /// Has the call of this agent not returned?
    fn is_performed(&self, agent: &Arc<str>) -> bool {
        let mut under_way = self.under_way.iter();
        under_way.any(|under_way| under_way.agent == *agent && under_way.is_performed)
    }

    fn mark(&mut self, agent: &Arc<str>, is_performed: bool) {
        let under_way = self.under_way.iter_mut().find(|under_way| under_way.agent == *agent);
        if let Some(under_way) = under_way {
            under_way.is_performed = is_performed;
        }
    }

    fn call(&mut self, agent: Arc<str>) {
        self.mark(&agent, true);
        let answer = self.answers.iter().rev().find(|(of, ..)| *of == agent);
        let work = Work {
            run: self.log.run().clone(),
            agent: agent.clone(),
            records: self.log.state().next_seq(),
            answer: answer.map(|(_, answer, _)| answer.clone()),
            answered_by: answer.and_then(|(_, _, by)| by.clone()),
            decided: self.decided.get(&agent).cloned(),
            inner: self.inner.get(&agent).cloned().unwrap_or_default(),
            begun: self.lost_with(&agent),
            turn_is_up: self.turn_is_up,
        };
        let call = self.ctx.service_client::<ExecutionClient>().perform(Json(work)).call();
        let done = call.map(move |done| Woken::Done(agent, done.map(Json::into_inner)));
        self.awaited.push(Box::pin(done));
    }

    /// The runs of its inner ensemble that the agent has begun in an attempt that did not end.
    fn lost_with(&self, agent: &str) -> Vec<String> {
        let slots = self.log.state().open_turn().into_iter().flat_map(|turn| &turn.slots);
        let slot = slots.into_iter().find(|slot| *slot.start.agent == *agent);
        let lost = slot.filter(|slot| slot.attempt > slot.last_ended);
        lost.map_or_else(Vec::new, |slot| self.begun(agent, slot.start.execution))
    }

    fn interrupt(&mut self, cause: Interruption) {
        if matches!(cause, Interruption::Timeout) {
            // The calls under way end with the run: the engine cancels what a cancelled workflow called.
            self.ctx.invocation_handle(self.ctx.invocation_id().to_owned()).cancel();
            self.own_cancels += 1;
            // This run ends before it hears of that, so it tells the runs inside itself.
            self.cancel_children(|_| true);
        }
        self.log.commit([Event::Interrupted(cause)]);
    }

    /// Commits what an execution did.
    fn ended(&mut self, agent: &Arc<str>, done: Result<Done, TerminalError>) {
        // Parts whose results do not matter any more.
        self.cancel_children(|child| child.agent == *agent);
        self.under_way.retain(|under_way| under_way.agent != *agent);
        self.decided.remove(agent);
        match done.as_ref().ok().and_then(|done| done.asks.as_deref()) {
            Some(child) => self.asks(child),
            None => drop(self.inner.remove(agent)),
        }
        let failed = |reason: String| (Vec::new(), Some(reason), Vec::new());
        let (records, error, inside) = match done {
            Err(error) => failed(error.message().to_owned()),
            Ok(Done { error: Some(error), .. }) => failed(error),
            Ok(done) => match ensemble_remote::protocol::records(&done.lines) {
                Ok(records) => (records, None, done.inside),
                Err(error) => failed(error.to_string()),
            },
        };
        if let Some(error) = error {
            return self.failed(agent, error);
        }
        self.log.keep_inside(agent, &inside);
        self.log.commit_records(records);
    }

    /// No worker could perform the execution.
    fn failed(&mut self, agent: &Arc<str>, error: String) {
        let failure = Failure::new(FailureKind::Unavailable, error);
        if let Some(finished) = self.failure_of(agent, 1, failure) {
            let started = ExecutionStarted {
                turn: finished.turn,
                agent: agent.clone(),
                execution: finished.execution,
                attempt: finished.attempt,
            };
            self.log
                .commit([Event::ExecutionStarted(started), Event::ExecutionFinished(finished)]);
        }
    }

    /// The execution was not begun before the time of its turn was up.
    fn not_begun_in_time(&mut self, agent: &Arc<str>) {
        if let Some(finished) = self.failure_of(agent, 0, turn_is_up()) {
            self.log.commit([Event::ExecutionFinished(finished)]);
        }
    }

    /// The end of an execution of the open turn so many attempts after the last one that was begun.
    fn failure_of(&self, agent: &Arc<str>, later: u32, failure: Failure) -> Option<ExecutionFinished> {
        let turn = self.log.state().turn_count() + 1;
        let slots = self.log.state().open_turn().into_iter().flat_map(|turn| &turn.slots);
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
