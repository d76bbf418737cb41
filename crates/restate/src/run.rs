//! A run, as a workflow of the engine.
//!
//! The workflow asks the resolver for the next step, as the loop on one machine does, and gives each execution of a turn to
//! a worker. It awaits only what the engine's journal can answer: calls, the timer, answers, and cancellation. Its records
//! stand in the engine's state, one entry for what is committed at once, so they can be read while it runs.

mod log;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{
    CompletionReason, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, Interruption, RunResumed,
};
use ensemble_core::executor::queue;
use ensemble_core::resolver::{Decision, decide};
use ensemble_language::data::{Failure, FailureKind};
use ensemble_language::plan::Plan;
use ensemble_remote::protocol::{
    Answer, Brief, DAYS, Decided, Done, InnerEnded, InnerLines, InnerWanted, Records, StartRun, Work,
};
use ensemble_runs::Prepared;
use ensemble_runs::recorded::again;
use restate_sdk::context::{DurableFuture, DurableFuturesUnordered};
use restate_sdk::prelude::*;

use self::log::{BRIEF, Log, START, chunk_of};
use crate::execution::ExecutionClient;
use crate::index::IndexClient;
use crate::worker::{LOOKED_AT_EVERY, Worker};

/// Drives runs.
pub struct Run(pub Worker);

/// The state entry with the id of the workflow's invocation.
const INVOCATION: &str = "invocation";
/// The state entry that says that the workflow has ended: nothing goes on any more.
const FINAL: &str = "final";
/// The state entry with the number of the leg: how often the run began or went on.
const LEG: &str = "leg";
/// How long a run that was cut short waits for somebody who resumes it.
const RESUMABLE_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long workers may take until they have stopped the executions of a run that was cut short. It goes on after that, so that none is
/// under way twice.
const STOPPED_AFTER: Duration = LOOKED_AT_EVERY.saturating_add(Duration::from_secs(1));

/// How many seconds a run inside another that was cut short may take to end.
const ENDS_WITHIN: u32 = 10;

/// Why the workflow goes on.
enum Woken {
    /// An execution has ended, or its call has.
    Done(Arc<str>, Result<Done, TerminalError>),
    /// The run of an inner ensemble has ended: the agent, its name, its id.
    Inner(Arc<str>, InnerEnded, Result<Brief, TerminalError>),
    /// The time limit of this leg of the run is reached.
    TimeIsUp(u32),
}

/// When somebody resumed the run; `None`: nobody did in time.
type Resumed<'a> = Pin<Box<dyn DurableFuture<Output = Option<DateTime<Utc>>> + Send + 'a>>;
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
            performed: Vec::new(),
            children: Vec::new(),
            known: HashMap::new(),
            leg: 0,
        };
        let before = match &start.goes_on_after {
            Some(before) => cut_short(&ctx, before).await?,
            None => None,
        };
        let goes_on = match before {
            Some(before) => run.take_over(before, start.at)?,
            None => {
                run.log.commit([Event::RunStarted(Box::new(start.started))]);
                true
            }
        };
        if goes_on {
            run.drive().await?;
        }
        ctx.set(FINAL, true);
        Ok(Json(run.log.brief().clone()))
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

    /// What the run did until now.
    #[handler]
    async fn brief(&self, ctx: SharedWorkflowContext<'_>) -> HandlerResult<Json<Option<Brief>>> {
        Ok(Json(ctx.get::<Json<Brief>>(BRIEF).await?.map(Json::into_inner)))
    }

    /// Answers a question. The first answer counts.
    #[handler]
    async fn answer(&self, ctx: SharedWorkflowContext<'_>, answer: Json<Answer>) -> HandlerResult<()> {
        let key = promise_of(&answer.0.agent, answer.0.execution, answer.0.asked);
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

/// The records of a run inside another that was cut short with it, when it has ended. `None`: it never began.
async fn cut_short(ctx: &WorkflowContext<'_>, run: &str) -> HandlerResult<Option<Records>> {
    let mut waited = 0;
    loop {
        let client = ctx.workflow_client::<RunClient>(run.to_owned());
        let records = client.records(0).call().await?.into_inner();
        // Its end was under way when the run around it ended. A workflow that somebody has killed has no end.
        if records.is_over || waited == ENDS_WITHIN {
            return Ok(Some(records).filter(|records| !records.lines.is_empty()));
        }
        waited += 1;
        ctx.sleep(Duration::from_secs(1)).await?;
    }
}

/// The workflow that goes on with a run inside another after this one was cut short.
fn after(run: &str) -> Arc<str> {
    let counted = run
        .rsplit_once('~')
        .and_then(|(run, count)| Some((run, count.parse::<u32>().ok()?)));
    let (run, count) = counted.unwrap_or((run, 1));
    format!("{run}~{}", count + 1).into()
}

async fn is_over(ctx: &SharedWorkflowContext<'_>) -> Result<bool, TerminalError> {
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

/// The promise with the answer to a question of an execution, which the run waits for since it has so many records: the answer to
/// one question is never that to the next.
fn promise_of(agent: &str, execution: u32, asked: u64) -> String {
    format!("answer:{asked}:{agent}:{execution}")
}

/// A run of an inner ensemble that is under way.
struct Child {
    agent: Arc<str>,
    /// Its name in the run that it is inside.
    name: String,
    /// The id of its workflow.
    run: Arc<str>,
}

impl Child {
    fn is(&self, agent: &Arc<str>, name: &str) -> bool {
        self.agent == *agent && self.name == name
    }
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
    /// The agents whose executions were called and have not ended.
    under_way: Vec<Arc<str>>,
    /// The answers to questions of the open turn.
    answers: Vec<(Arc<str>, serde_json::Value)>,
    /// By agent: the decision about the call that it waits for, until its execution has ended or asks again.
    decided: HashMap<Arc<str>, Decided>,
    /// By agent that is under way: the runs of its inner ensemble that have ended.
    inner: HashMap<Arc<str>, Vec<InnerEnded>>,
    /// The agents whose calls have not returned; one that waits for runs of its inner ensemble has none.
    performed: Vec<Arc<str>>,
    /// The runs of inner ensembles that are under way.
    children: Vec<Child>,
    /// The workflows of all inner ensembles that were begun, by the names of their runs.
    known: HashMap<String, Arc<str>>,
    /// Counts the times that the run began or went on; each has the whole time limit.
    leg: u32,
}

impl<'a> Drive<'a> {
    async fn drive(&mut self) -> HandlerResult<()> {
        self.begin_leg();
        loop {
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
                        CompletionReason::WaitingForInput => self.wait_for_answer().await?,
                        reason if reason.is_resumable() && !self.is_inside => self.wait_for_resume().await,
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
        let limit = self.plan.ensemble().limits.parallel_agents;
        let side_by_side = limit.map_or(usize::MAX, |limit| limit.get() as usize);
        for agent in queue(self.log.state()) {
            let agent = self.plan.name(agent).clone();
            if self.under_way.len() >= side_by_side {
                break;
            }
            if !self.under_way.contains(&agent) {
                self.under_way.push(agent.clone());
                self.call(agent);
            }
        }
        match self.awaited.next().await {
            Ok(Some((_, Woken::Done(agent, Ok(done))))) if !done.wants.is_empty() => self.wants(&agent, done.wants),
            Ok(Some((_, Woken::Done(agent, done)))) => self.ended(&agent, done),
            Ok(Some((_, Woken::Inner(agent, ended, brief)))) => self.inner_ended(agent, ended, brief),
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

    fn call(&mut self, agent: Arc<str>) {
        self.performed.push(agent.clone());
        let answer = self.answers.iter().rev().find(|(of, _)| *of == agent);
        let work = Work {
            run: self.log.run().clone(),
            agent: agent.clone(),
            records: self.log.state().next_seq(),
            answer: answer.map(|(_, answer)| answer.clone()),
            decided: self.decided.get(&agent).cloned(),
            inner: self.inner.get(&agent).cloned().unwrap_or_default(),
        };
        let call = self.ctx.service_client::<ExecutionClient>().perform(Json(work)).call();
        let done = call.map(move |done| Woken::Done(agent, done.map(Json::into_inner)));
        self.awaited.push(Box::pin(done));
    }

    /// An execution waits for runs of its inner ensemble. Those that are not under way begin, and if one has ended meanwhile, the
    /// execution is performed again.
    fn wants(&mut self, agent: &Arc<str>, wanted: Vec<InnerWanted>) {
        self.performed.retain(|other| other != agent);
        let ended = self.inner.get(agent).map_or(&[][..], Vec::as_slice);
        let has_ended = |wanted: &InnerWanted| ended.iter().any(|ended| ended.name == wanted.name);
        let (ended, open): (Vec<_>, Vec<_>) = wanted.into_iter().partition(has_ended);
        for wanted in open {
            if !self.children.iter().any(|child| child.is(agent, &wanted.name)) {
                self.call_inner(agent.clone(), wanted);
            }
        }
        if !ended.is_empty() {
            self.call(agent.clone());
        }
    }

    /// A run of an inner ensemble has ended. Its agent's execution may have ended before, which had no need of it.
    fn inner_ended(&mut self, agent: Arc<str>, ended: InnerEnded, brief: Result<Brief, TerminalError>) {
        let known = self.children.iter().position(|child| child.run == ended.run);
        let Some(known) = known else { return };
        self.children.remove(known);
        if let Err(error) = brief {
            return self.ended(&agent, Err(error));
        }
        self.inner.entry(agent.clone()).or_default().push(ended);
        if !self.performed.contains(&agent) {
            self.call(agent);
        }
    }

    /// Calls the run of an inner ensemble, as a workflow of its own.
    fn call_inner(&mut self, agent: Arc<str>, wanted: InnerWanted) {
        let InnerWanted { name, mut start } = wanted;
        start.goes_on_after = self.known.get(&name).cloned();
        let run = match &start.goes_on_after {
            Some(before) => after(before),
            None => start.started.run_id.clone(),
        };
        // Known before it ends, so that a run that is cut short shows it too.
        self.keep_child(InnerLines {
            name: name.clone(),
            ensemble: start.ensemble.to_string(),
            lines: String::new(),
            run: Some(run.clone()),
            inside: Vec::new(),
        });
        let call = self
            .ctx
            .workflow_client::<RunClient>(run.to_string())
            .run(Json(start))
            .call();
        self.children.push(Child {
            agent: agent.clone(),
            name: name.clone(),
            run: run.clone(),
        });
        let ended = InnerEnded { name, run };
        let done = call.map(move |brief| Woken::Inner(agent, ended, brief.map(Json::into_inner)));
        self.awaited.push(Box::pin(done));
    }

    fn keep_child(&mut self, child: InnerLines) {
        if let Some(run) = &child.run {
            self.known.insert(child.name.clone(), run.clone());
        }
        self.log.keep_child(child);
    }

    /// Takes over what another workflow did of this run. `false`: the run had ended for good.
    fn take_over(&mut self, before: Records, at: DateTime<Utc>) -> HandlerResult<bool> {
        let records = ensemble_remote::protocol::records(&before.lines);
        let records = records.map_err(|error| TerminalError::new(error.to_string()))?;
        self.log.commit_records(records);
        for inner in before.inside {
            self.keep_child(inner);
        }
        let ended = self.log.state().ended();
        let goes_on = ended.is_none_or(|ended| ended.completion_reason.is_resumable());
        if goes_on {
            self.log.advance(at);
            self.log.commit([self.resumed()]);
        }
        Ok(goes_on)
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

    /// Cancels the runs inside this one of which this holds.
    fn cancel_children(&mut self, is_meant: impl Fn(&Child) -> bool) {
        for child in self.children.extract_if(.., |child| is_meant(child)) {
            let child = self.ctx.workflow_client::<RunClient>(child.run.to_string());
            child.cancel("the run that it is inside".to_owned()).send();
        }
    }

    /// Commits what an execution did.
    fn ended(&mut self, agent: &Arc<str>, done: Result<Done, TerminalError>) {
        // Parts whose results do not matter any more.
        self.cancel_children(|child| child.agent == *agent);
        self.performed.retain(|other| other != agent);
        self.under_way.retain(|other| other != agent);
        self.decided.remove(agent);
        self.inner.remove(agent);
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
        let turn = self.log.state().turn_count() + 1;
        let slots = self.log.state().open_turn().into_iter().flat_map(|turn| &turn.slots);
        let Some(slot) = slots.into_iter().find(|slot| *slot.start.agent == **agent) else {
            return;
        };
        let (execution, attempt) = (slot.start.execution, slot.attempt + 1);
        let started = ExecutionStarted {
            turn,
            agent: agent.clone(),
            execution,
            attempt,
        };
        let finished = ExecutionFinished {
            turn,
            agent: agent.clone(),
            execution,
            attempt,
            end: ExecutionEnd::Failed(Failure::new(FailureKind::Unavailable, error)),
            execution_time: 0.0,
            usage: None,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: Vec::new(),
            reused: false,
            sandboxes: Vec::new().into(),
        };
        self.log
            .commit([Event::ExecutionStarted(started), Event::ExecutionFinished(finished)]);
    }

    /// Waits for the answer to the first open question, and goes on with it. `false`: the run was cancelled.
    async fn wait_for_answer(&mut self) -> HandlerResult<bool> {
        let Some((agent, execution, question)) = self.log.first_question() else {
            return Ok(false);
        };
        let key = promise_of(&agent, execution, self.log.state().next_seq());
        let Ok(answer) = self.ctx.promise::<Json<Answer>>(&key).await else {
            return Ok(false);
        };
        let answer = answer.into_inner();
        self.log.advance(answer.at);
        match (question.permission, answer.decision) {
            (Some(wanted), Some(decision)) => {
                let decided = Decided {
                    tool: wanted.tool,
                    arguments: wanted.arguments,
                    decision,
                };
                self.decided.insert(agent, decided);
            }
            (None, None) => self.answers.push((agent, answer.answer)),
            // An answer of the other kind is none: the agent asks again.
            _ => {}
        }
        self.log.commit([Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            again: Vec::new(),
            trace: None,
        })]);
        self.begin_leg();
        Ok(true)
    }

    /// Waits until somebody resumes the run that was cut short, and goes on with it. `false`: nobody did.
    async fn wait_for_resume(&mut self) -> bool {
        // What was under way is over, and nobody hears of it.
        self.awaited = DurableFuturesUnordered::new();
        self.under_way.clear();
        self.decided.clear();
        self.performed.clear();
        self.children.clear();
        let cut = self.log.now();
        let key = resumed_after(self.leg);
        let mut waits: DurableFuturesUnordered<Resumed<'_>> = DurableFuturesUnordered::new();
        waits.push(Box::pin(self.ctx.sleep(STOPPED_AFTER).map(move |_| Some(cut))));
        if self.next_of(&mut waits).await.is_none() {
            return false;
        }
        let resumed = self.ctx.promise::<Json<DateTime<Utc>>>(&key);
        waits.push(Box::pin(resumed.map(|at| at.ok().map(Json::into_inner))));
        waits.push(Box::pin(self.ctx.sleep(RESUMABLE_FOR).map(|_| None)));
        let Some(at) = self.next_of(&mut waits).await else {
            return false;
        };
        self.log.advance(at);
        self.log.commit([self.resumed()]);
        self.begin_leg();
        true
    }

    /// The run goes on after it was cut short.
    fn resumed(&self) -> Event {
        Event::RunResumed(RunResumed {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            again: again(&self.prepared, self.log.state()),
            trace: None,
        })
    }

    /// What comes first. Nothing: the wait is over, or the engine cancelled it.
    async fn next_of(&mut self, waits: &mut DurableFuturesUnordered<Resumed<'_>>) -> Option<DateTime<Utc>> {
        loop {
            match waits.next().await {
                Ok(first) => return first.and_then(|(_, at)| at),
                Err(_cancelled) if self.own_cancels > 0 => self.own_cancels -= 1,
                Err(_cancelled) => return None,
            }
        }
    }
}
