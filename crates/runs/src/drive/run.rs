//! A run that is driven: its handle, and the task that drives it.
//!
//! Invariant: dropping a handle does not end the run.

use std::sync::Arc;

use ensemble_agents::agent::acp::ExternalProgramPool;
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::mcp::McpServers;
use ensemble_core::conversation::{
    ConversationState, Event, MessageAdded, Record, RunCanceller, RunEnded, RunInterruption,
};
use ensemble_core::executor::Executor;
use ensemble_core::log::{CommitError, RunLog};
use ensemble_core::operator::OperatorRequest;
use ensemble_core::reporter::Reporter;
use ensemble_core::request::{
    AnswerAuthor, AnswerRefusal, PendingRequest, RequestAnswer, RequestDigest, resolve_pending_request,
};
use ensemble_core::runner::BoxFuture;
use ensemble_core::runner::Runner;
use ensemble_core::secrets::Secrets;
use ensemble_core::store::{RunId, RunLease, StoredRun};
use ensemble_core::trace::{self, SpanContext};
use ensemble_process::wait_and_kill_strays;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::drive::decided_requests::{UnusedAnswer, refuse_decided_by_name};
use crate::drive::events::{RunEventHub, RunHubReporter, RunTracer, RunTreeReader};
use crate::drive::host::RunHost;
use crate::drive::request_desk::{ClientAnswer, OpenRequestDesk};
use crate::drive::run_events::RunEventStream;
use crate::error::RunError;
use crate::prepare::PreparedEnsemble;

/// A handle of a run that a separate task drives. Dropping the handle does not stop the run: the task drives the conversation to its end
/// and closes the run.
pub struct RunHandle {
    stored_run: Arc<dyn StoredRun>,
    prepared: Arc<PreparedEnsemble>,
    desk: OpenRequestDesk,
    answers: Arc<AnswerQueue>,
    hub: RunEventHub,
    message_sender: mpsc::UnboundedSender<Arc<str>>,
    interruptions: mpsc::UnboundedSender<RunInterruption>,
    leg: watch::Receiver<RunSegmentState>,
    task: JoinHandle<(ConversationState, Result<(), CommitError>)>,
    /// The receiver of the closing. The sender is dropped when the run is closed.
    closed_signal: watch::Receiver<()>,
}

/// The state of the conversation since the latest input or message: open, ended or failed.
#[derive(Debug, Clone)]
enum RunSegmentState {
    /// The conversation continues.
    Open,
    /// The conversation has ended.
    Ended(Arc<RunEnded>),
    /// The log failed.
    Failed(String),
}

/// A run that has ended and is closed.
pub struct FinishedRun {
    /// The run.
    pub run: RunId,
    /// The state at the end of the run.
    pub state: ConversationState,
}

/// The state of the task that drives a run: agents, log, requests, servers and leases.
pub(crate) struct RunDriverState {
    pub(crate) stored_run: Arc<dyn StoredRun>,
    pub(crate) prepared: Arc<PreparedEnsemble>,
    /// The leases, which are released when the run is closed.
    pub(crate) leases: Vec<Box<dyn RunLease>>,
    pub(crate) log: Box<dyn RunLog>,
    pub(crate) state: ConversationState,
    /// The first event of this process, unless the log contains it.
    pub(crate) first: Option<Event>,
    pub(crate) runners: Vec<Arc<dyn Runner>>,
    pub(crate) servers: Arc<McpServers>,
    pub(crate) programs: Arc<ExternalProgramPool>,
    pub(crate) reporters: Vec<Box<dyn Reporter + Send>>,
    pub(crate) desk: OpenRequestDesk,
    pub(crate) answers: Arc<AnswerQueue>,
    pub(crate) hub: RunEventHub,
    /// The first segment of the trace, if telemetry is on.
    pub(crate) segment: Option<SpanContext>,
    /// The values that no event may contain.
    pub(crate) secrets: Secrets,
    pub(crate) host: RunHost,
    /// True if a success with exhausted agents is recorded as a failure.
    pub(crate) refuses_exhausted: bool,
}

impl RunHandle {
    /// Spawns the task that drives the run, on the runtime of the caller. Returns the handle of the run.
    pub(crate) fn spawn_driver(driven: RunDriverState) -> Self {
        let (message_sender, messages) = mpsc::unbounded_channel();
        let (interruptions, interrupted) = mpsc::unbounded_channel();
        let (sender, leg) = watch::channel(RunSegmentState::Open);
        driven.hub.set_outermost_run(driven.stored_run.id().clone());
        let (stored_run, prepared) = (driven.stored_run.clone(), driven.prepared.clone());
        let (desk, answers, hub) = (driven.desk.clone(), driven.answers.clone(), driven.hub.clone());
        let channels = RunDriverChannels {
            messages,
            interruptions: interrupted,
            segment_sender: sender,
        };
        let (closing, closed_signal) = watch::channel(());
        let task = tokio::spawn(async move {
            let drive_result = driven.drive_and_close(channels).await;
            drop(closing);
            drive_result
        });
        Self {
            stored_run,
            prepared,
            desk,
            answers,
            hub,
            message_sender,
            interruptions,
            leg,
            task,
            closed_signal,
        }
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &RunId {
        self.stored_run.id()
    }

    /// Returns the ensemble of the run.
    pub fn prepared_ensemble(&self) -> &Arc<PreparedEnsemble> {
        &self.prepared
    }

    /// Returns the stored run.
    pub fn stored_run(&self) -> &Arc<dyn StoredRun> {
        &self.stored_run
    }

    /// Returns all events of the run, starting with the first record.
    pub fn events(&self) -> RunEventStream {
        self.events_from(0)
    }

    /// Returns all events, starting with the record `seq`. The open questions and permission requests follow the records that are in the
    /// log.
    pub fn events_from(&self, seq: u64) -> RunEventStream {
        let events = self.hub.subscribe_run(self.stored_run.clone(), seq);
        // Looked at after the subscription begins, so that no question is missed; the events drop those that come twice.
        RunEventStream::from_subscription(events.with_open_requests(self.desk.open_request_events()))
    }

    /// Returns whether the conversation has ended, or its log failed.
    pub(crate) fn has_segment_ended(&self) -> bool {
        !matches!(&*self.leg.borrow(), RunSegmentState::Open)
    }

    /// Waits until the run is closed: no execution is running, and the lease is released.
    pub(crate) fn wait_until_closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.closed_signal.clone();
        async move { while closed.changed().await.is_ok() {} }
    }

    /// Returns the open questions and permission requests, in the order of the file.
    pub fn open_requests(&self) -> Vec<OperatorRequest> {
        self.desk.sorted_open_requests()
    }

    /// Postpones all open questions, so that the run records them and waits. Returns the number of postponed questions.
    pub(crate) fn postpone_questions(&self) -> usize {
        self.desk.postpone_questions()
    }

    /// Returns whether a resumed run is expected to ask the recorded request with this digest again.
    pub(crate) fn is_request_expected(&self, digest: &RequestDigest) -> bool {
        self.desk.is_request_expected(digest)
    }

    /// Returns a receiver that changes when a request is asked, decided or withdrawn.
    pub fn subscribe_request_changes(&self) -> watch::Receiver<u64> {
        self.desk.subscribe_changes()
    }

    /// Answers a question or a permission request that was shown. In a resumed run, waits until the run asks the request again.
    ///
    /// # Errors
    ///
    /// [`RunError::Answer`]: the request is decided, is not the one that was shown, or does not accept the answer. [`RunError::NotAsked`]:
    /// the conversation ended, and the request was not asked again.
    pub async fn answer_request(
        &self,
        request: &PendingRequest,
        answer: RequestAnswer,
        by: impl Into<AnswerAuthor>,
    ) -> Result<(), RunError> {
        let (address, digest, by) = (request.address.clone(), request.digest.clone(), by.into());
        self.answer_when_asked(ClientAnswer {
            address,
            digest,
            answer,
            by,
        })
        .await
    }

    /// Answers the request with this address and digest, which a resumed run can ask later.
    ///
    /// # Errors
    ///
    /// The answer is refused, or the conversation ended without the request.
    pub(crate) async fn answer_when_asked(&self, answer: ClientAnswer) -> Result<(), RunError> {
        let address = answer.address.clone();
        let answered = self.desk.answer_request_when_asked(answer);
        self.wait_while_conversation_open(answered, || {
            format!("the run has ended, and `{address}` did not ask a question")
        })
        .await?
        .map_err(RunError::from)
    }

    /// Lists the answers of options that no question has used, each with the answer that was used instead. Reads the journal if there are
    /// such answers.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub async fn list_unused_answers(&self) -> Result<Vec<UnusedAnswer>, RunError> {
        let (next, mut always) = (self.answers.list_unused_next(), self.answers.list_unused_always());
        always.extend(self.answers.list_unused_file());
        always.extend(self.answers.list_unused_stubs());
        if next.is_empty() && always.is_empty() {
            return Ok(Vec::new());
        }
        let events = RunTreeReader::new(self.stored_run.clone(), 0)
            .read_unread_records()
            .await?;
        let unused = |(address, text): (String, String), is_for_every_question| UnusedAnswer {
            decided_refusal: refuse_decided_by_name(&events, &address),
            address,
            text,
            is_for_every_question,
        };
        let next = next.into_iter().map(|answer| unused(answer, false));
        Ok(next
            .chain(always.into_iter().map(|answer| unused(answer, true)))
            .collect())
    }

    /// Waits until the request with this address, or with this bare name of its agent, is open. Returns the request.
    ///
    /// # Errors
    /// The conversation ended without the request, or the name is not unique.
    pub async fn wait_for_request(&self, given: &str) -> Result<PendingRequest, RunError> {
        let waited = async {
            let mut changes = self.desk.subscribe_changes();
            loop {
                changes.mark_unchanged();
                let open = self.open_requests();
                let pending: Vec<PendingRequest> = open.iter().map(|open| open.pending_request().clone()).collect();
                match resolve_pending_request(given, &pending) {
                    Err(AnswerRefusal::NotPending { .. }) => {}
                    found => return found.cloned(),
                }
                // The sender is in the desk of this run.
                let _ = changes.changed().await;
            }
        };
        let not_asked_message = || format!("the run has ended, and `{given}` did not ask a question");
        self.wait_while_conversation_open(waited, not_asked_message)
            .await?
            .map_err(RunError::from)
    }

    /// Waits for the future while the conversation is open. `why` creates the message of the error.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAsked`]: the conversation ended first, or its log failed.
    async fn wait_while_conversation_open<T>(
        &self,
        asked: impl Future<Output = T>,
        why: impl FnOnce() -> String,
    ) -> Result<T, RunError> {
        let mut leg = self.leg.clone();
        tokio::select! {
            biased;
            value = asked => Ok(value),
            _ = leg.wait_for(|leg| !matches!(leg, RunSegmentState::Open)) => Err(RunError::NotAsked(why())),
        }
    }

    /// Cancels the run: stops running executions, keeps finished ones, and leaves the turn open for a resume. Does not change a run that
    /// has ended.
    pub fn cancel(&self, by: RunCanceller) {
        let _ = self.interruptions.send(RunInterruption::Cancelled { by });
    }

    /// Returns a function that cancels the run, for a task without the handle.
    pub fn create_canceller(&self) -> impl Fn(RunCanceller) + Send + Sync + Clone + 'static {
        let interruptions = self.interruptions.clone();
        move |by| {
            let _ = interruptions.send(RunInterruption::Cancelled { by });
        }
    }

    /// Waits until the conversation has ended, and returns its end.
    ///
    /// # Errors
    /// The log failed, so the run stopped; [`Self::wait_and_close`] has the error.
    pub fn wait_for_end<'f>(&'f self) -> BoxFuture<'f, Result<RunEnded, RunError>> {
        Box::pin(async move {
            let mut leg = self.leg.clone();
            let segment_end = leg.wait_for(|leg| !matches!(leg, RunSegmentState::Open)).await;
            match segment_end.as_deref() {
                Ok(RunSegmentState::Ended(ended)) => Ok(RunEnded::clone(ended)),
                Ok(RunSegmentState::Failed(error)) => Err(RunError::Stopped(error.clone())),
                Ok(RunSegmentState::Open) | Err(_) => Err(RunError::Stopped("its task has ended".to_owned())),
            }
        })
    }

    /// Returns the end of the conversation. Returns `None` while the conversation continues, or if its log failed.
    pub fn try_outcome(&self) -> Option<RunEnded> {
        match &*self.leg.borrow() {
            RunSegmentState::Ended(ended) => Some(RunEnded::clone(ended)),
            RunSegmentState::Open | RunSegmentState::Failed(_) => None,
        }
    }

    /// Waits for the end of the conversation, then continues the conversation with a user message. [`Self::wait_for_end`] then waits for the new
    /// end.
    ///
    /// # Errors
    /// The conversation waits for input, or its log failed.
    pub async fn continue_with_message(&self, text: impl Into<Arc<str>>) -> Result<(), RunError> {
        let run_end = self.wait_for_end().await?;
        if !run_end.completion_reason.is_continuable() {
            return Err(RunError::NotEnded(self.id().clone()));
        }
        let mut leg = self.leg.clone();
        leg.mark_unchanged();
        self.message_sender.send(text.into()).map_err(|_| RunError::Closed)?;
        // The driver has taken the message when the leg is open again, or has failed to.
        leg.changed().await.map_err(|_| RunError::Closed)
    }

    /// Waits for the end of the conversation, closes the run, and returns its last state.
    ///
    /// # Errors
    /// The log failed, so the run stopped.
    pub fn wait_and_close(self) -> BoxFuture<'static, Result<FinishedRun, RunError>> {
        Box::pin(async move {
            drop(self.message_sender);
            let (state, result) = self.task.await.map_err(|error| RunError::Stopped(error.to_string()))?;
            result?;
            Ok(FinishedRun {
                run: self.stored_run.id().clone(),
                state,
            })
        })
    }
}

/// The channel ends of a handle that the driver owns.
struct RunDriverChannels {
    messages: mpsc::UnboundedReceiver<Arc<str>>,
    interruptions: mpsc::UnboundedReceiver<RunInterruption>,
    segment_sender: watch::Sender<RunSegmentState>,
}

/// A reporter that forwards each event to several reporters and to the event hub.
struct ReporterFanout {
    reporters: Vec<Box<dyn Reporter + Send>>,
    hub: RunHubReporter,
}

impl Reporter for ReporterFanout {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        for reporter in &mut self.reporters {
            reporter.report_event(record, state);
        }
        self.hub.report_event(record, state);
    }
}

impl RunDriverState {
    /// Drives all segments of the run, then closes servers, programs, leases and event queues, and kills leftover processes. Returns the
    /// last state and the result of the log.
    async fn drive_and_close(mut self, channels: RunDriverChannels) -> (ConversationState, Result<(), CommitError>) {
        let leg = channels.segment_sender.clone();
        let result = self.drive_all_segments(channels).await;
        if let Err(error) = &result {
            leg.send_replace(RunSegmentState::Failed(error.to_string()));
        }
        self.servers.close_all_connections().await;
        self.programs.shut_down_all().await;
        wait_and_kill_strays().await;
        drop(self.leases);
        self.hub.close_queues();
        (self.state, result)
    }

    /// Drives the conversation to its end, and then one further segment for each user message, until the handle is dropped.
    async fn drive_all_segments(&mut self, mut channels: RunDriverChannels) -> Result<(), CommitError> {
        let mut reporter = ReporterFanout {
            reporters: std::mem::take(&mut self.reporters),
            hub: self.hub.create_run_reporter(self.stored_run.id().clone()),
        };
        let mut executor = Executor {
            runners: std::mem::take(&mut self.runners),
            log: &mut *self.log,
            reporter: &mut reporter,
            clock: &self.host,
            interruptions: channels.interruptions,
            timeout: Some(self.prepared.plan.ensemble().limits.timeout),
            secrets: self.secrets.clone(),
            outer_stopwatch: None,
            refuses_exhausted: self.refuses_exhausted,
            turn_ends_in: None,
        };
        if let Some(first) = self.first.take() {
            executor.commit(&mut self.state, first).await?;
        }
        loop {
            let run_end =
                trace::run_in_span(self.segment.clone(), executor.drive_conversation(&mut self.state)).await?;
            channels
                .segment_sender
                .send_replace(RunSegmentState::Ended(Arc::new(run_end)));
            let Some(text) = channels.messages.recv().await else {
                return Ok(());
            };
            // What was cancelled before the message was said is over.
            while executor.interruptions.try_recv().is_ok() {}
            channels.segment_sender.send_replace(RunSegmentState::Open);
            let trace = self.hub.tracer().and_then(RunTracer::parent_span);
            let begins_at = self.state.next_seq();
            self.segment = self
                .hub
                .segment_span_context(self.stored_run.id(), begins_at, trace.as_ref());
            let message_event = Event::MessageAdded(MessageAdded {
                text,
                trace,
                ..MessageAdded::default()
            });
            executor.commit(&mut self.state, message_event).await?;
        }
    }
}
