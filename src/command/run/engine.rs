//! `run --on` and `resume --on`: shows runs on a durable execution engine like runs of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use serde_json::Value;

use super::run_options;
use crate::command::run::arguments::RunOutputFormat;
use crate::command::run::driver::RunEndReporter;
use crate::command::run::reporters::RunDisplay;
use crate::command::run::{ResumeArgs, RunArgs};
use crate::command::runs::list_paused_calls;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals::{self, SignalReceiver};
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::tools::matches_tool;
use ensemble_core::conversation::{
    CompletionReason, ConversationState, Event, ExecutionProgress, PermissionDecision, Record, RunCanceller,
};
use ensemble_core::operator::{self, Operator, PermissionAnswer, PermissionRequest, QuestionRequest};
use ensemble_core::request::{AnswerAuthor, PendingRequest};
use ensemble_core::store::RunId;
use ensemble_language::data::ToolPermissionRequest;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::source::SourceText;
use ensemble_project::prepare::prepare_text;
use ensemble_remote::protocol::{RecordsReply, ResumeRequest, RunStartRequest, SentQuestionAnswer};
use ensemble_remote::{EngineClient, EngineClientError};
use ensemble_reports::report::Reporter;
use ensemble_runs::batch::EngineRunOptions;
use ensemble_runs::{
    PreparedAnswers, PreparedEnsemble, RunError, RunHost, RunOptions, Runs, check_and_resolve_answers,
};

/// Pause before the command asks the engine for more records.
const FETCH_PAUSE: Duration = Duration::from_millis(50);
/// Time without a record after which the command asks whether the engine has paused the run.
const PAUSE_CHECK_DELAY: Duration = Duration::from_secs(10);

/// Executes `ensemble run --on`: starts a run on the engine and shows the run, unless `--detach` is set. Returns the exit code.
pub(crate) fn run_on_engine(
    url: &str,
    args: &RunArgs,
    runs: &Runs,
    prepared: Arc<PreparedEnsemble>,
    showing: RunDisplay,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(url)?;
    check_support(&prepared)?;
    let mut options = run_options::answering_options(&args.answering, surroundings)?;
    options.refuses_exhausted = args.driving.fail_on_limit;
    let engine_options = EngineRunOptions {
        answers: options.answers.clone(),
        allowed_tools: options.allowed_tools.clone(),
        denied_tools: options.denied_tools.clone(),
    };
    options.input = args
        .input
        .as_deref()
        .map(|given| run_options::read_text_argument(given, surroundings))
        .transpose()?;
    let options = run_options::with_context_and_set_values(options, args.context.as_deref(), &args.set, surroundings)?;
    // Inputs, answers, models and tools are checked here, before anything is sent.
    let ready = runs.prepare_run_from_prepared(Arc::clone(&prepared), options)?;
    let id = new_run_id(&RunHost::from_system());
    let start = RunStartRequest::from_ready_run(&ready, &id, ready.current_time(), &engine_options);
    let start = start
        .map_err(|error| CliError::usage_error_with_help(error, "select the folder of another project with -C"))?;
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let signals = signals::listen_for_signals();
        let impatient = remote.clone().with_fast_failures();
        impatient.check_workers().await?;
        impatient.start_run_once(&start).await?;
        if args.detach {
            match args.showing.output {
                RunOutputFormat::Human => surroundings.print_out(&format!("{id}\n")),
                form => surroundings.print_out_in_format(form, &format!("{}\n", serde_json::json!({"run_id": id}))),
            }
            return Ok(exit::SUCCESS);
        }
        let followed = FollowedEngineRun {
            remote,
            id,
            state: ConversationState::new(prepared.plan.clone()),
            reporter: showing.reporter,
            operator: showing.operator,
            answers: AnswerQueue::default(),
            allowed_tools: Vec::new(),
            denied_tools: Vec::new(),
            resumes_after: None,
            refuses_exhausted: args.driving.fail_on_limit,
            cancelled_by: None,
            surroundings,
        };
        followed.show_with_follow_hint(&prepared, signals, ending).await
    })
}

/// Checks that workers execute all agents and tools of an ensemble, before anything is sent.
pub(crate) fn check_support(prepared: &PreparedEnsemble) -> Result<(), CliError> {
    let checked = ensemble_remote::unsupported::check_support(prepared.plan.ensemble());
    checked.map_err(|error| CliError::usage_error_with_help(error, "run the ensemble on this machine, without --on"))
}

/// `ensemble resume --on`.
pub(crate) fn resume_on_engine(
    url: &str,
    args: &ResumeArgs,
    showing: RunDisplay,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(url)?;
    let mut options = run_options::answering_options(&args.answering, surroundings)?;
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let signals = signals::listen_for_signals();
        let impatient = remote.clone().with_fast_failures();
        let id = impatient.resolve_run_id(args.run.as_deref()).await?;
        impatient.check_workers().await?;
        let records_reply = impatient.fetch_records(id.as_str(), 0).await?;
        let records = remote.decode_records(&records_reply.lines)?;
        let start = records_reply.start.ok_or_else(|| EngineClientError::NoRun {
            id: id.to_string(),
            url: remote.url().to_owned(),
        })?;
        remote.check_run_protocol(&start)?;
        let prepared = prepare_ensemble_of_run(&start)?;
        check_answers_before_use(&mut options, &prepared, &records)?;
        check_declared_answers(&options, &prepared, &start, &records, &showing, surroundings)?;
        resume_paused(args.admin.as_deref(), url, &id, surroundings).await?;
        let mut goes_on_after = None;
        if let Some(reason) = resumable_end(&records).filter(|_| records_reply.is_over) {
            let request = ResumeRequest::new(Utc::now(), args.driving.fail_on_limit);
            match remote.request_resume(id.as_str(), request).await {
                Err(EngineClientError::RequestRefused { status: 409, .. }) => {
                    return Err(CliError::usage_error_with_help(
                        format!("run {id} has ended ({reason}), and the engine can no longer resume the run"),
                        format!(
                            "copy the run here with `ensemble runs fetch {id} --on {url}`, and continue the copy with `ensemble resume {id}`"
                        ),
                    ));
                }
                resumed => resumed?,
            }
            goes_on_after = Some(records.len() as u64);
        }
        let followed = FollowedEngineRun {
            remote,
            id,
            state: ConversationState::new(prepared.plan.clone()),
            reporter: showing.reporter,
            operator: showing.operator,
            answers: AnswerQueue::new(options.answers),
            allowed_tools: options.allowed_tools,
            denied_tools: options.denied_tools,
            resumes_after: goes_on_after,
            refuses_exhausted: args.driving.fail_on_limit,
            cancelled_by: None,
            surroundings,
        };
        followed.show_with_follow_hint(&prepared, signals, ending).await
    })
}

/// Prepares the ensemble that the start request of a run contains.
fn prepare_ensemble_of_run(start: &RunStartRequest) -> Result<Arc<PreparedEnsemble>, CliError> {
    let root = std::path::PathBuf::from(&start.started.project_root);
    let file = root.join(&start.file);
    let folder = file.parent().unwrap_or(&root).to_owned();
    let source = SourceText::new(&*start.file, &*start.ensemble);
    Ok(Arc::new(prepare_text(source, file, folder, root)?))
}

/// Checks that answers for later questions name agents of the ensemble or of its nested ensembles.
fn check_declared_answers(
    options: &RunOptions,
    prepared: &Arc<PreparedEnsemble>,
    start: &RunStartRequest,
    records: &[Record],
    showing: &RunDisplay,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let state = ConversationState::from_records(prepared.plan.clone(), records).map_err(RunError::from)?;
    let is_pending = |given: &str| {
        let mut pending = state.pending_requests();
        pending.any(|request| request.address.match_precision(given).is_some())
    };
    let mut answers = PreparedAnswers::default();
    let later = options.answers.option_answers().filter(|(given, _)| !is_pending(given));
    answers.set_next_answers(later.map(|(given, text)| (given.to_owned(), text.to_owned())).collect());
    let context = match start.started.inputs.is_empty() {
        true => start.started.context.clone(),
        false => start.started.inputs.clone(),
    };
    let options = RunOptions {
        input: Some(start.started.input.clone()),
        context,
        answers,
        ..RunOptions::default()
    };
    // The files of this machine can differ from those of the workers. Then only the workers know the agents.
    match surroundings
        .runs_with_operator(&showing.operator)
        .prepare_run_from_prepared(Arc::clone(prepared), options)
    {
        Err(error @ RunError::AnswerForNobody { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Resumes the calls of the run that the engine has paused, and prints a note about them.
async fn resume_paused(
    admin: Option<&str>,
    url: &str,
    id: &RunId,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let (admin, paused) = list_paused_calls(admin, url).await?;
    if let Some(calls) = paused.get(id) {
        admin.resume_calls(calls).await?;
        surroundings.print_err(&format!("note: the engine had paused run {id}, and continues it\n"));
    }
    Ok(())
}

/// Checks the answers of the command against the pending requests of the run, and replaces their names by addresses.
fn check_answers_before_use(
    options: &mut RunOptions,
    prepared: &PreparedEnsemble,
    records: &[Record],
) -> Result<(), CliError> {
    let state = ConversationState::from_records(prepared.plan.clone(), records).map_err(RunError::from)?;
    let pending: Vec<PendingRequest> = state.pending_requests().cloned().collect();
    let is_over = state
        .run_end()
        .is_some_and(|ended| !ended.completion_reason.is_resumable());
    let checked = check_and_resolve_answers(options, &pending, records.iter(), is_over);
    checked.map_err(|refusal| CliError::from(RunError::from(refusal)))?;
    let agents = &prepared.plan.ensemble().agents;
    let asks_nobody = |given: &String| {
        let agent = agents.iter().find(|agent| *agent.name == **given);
        agent.is_some_and(|agent| !matches!(agent.kind, AgentKind::Input(_)))
    };
    // The addresses of open questions have replaced their names, so the name of an agent is left only where it asks nothing.
    match options
        .answers
        .next_answers()
        .iter()
        .map(|(given, _)| given)
        .find(|given| asks_nobody(given))
    {
        None => Ok(()),
        Some(given) => Err(CliError::from(RunError::AnswerForNobody {
            agent: given.clone(),
            inputs: pending.iter().map(|request| request.address.to_string()).collect(),
        })),
    }
}

/// Returns the outcome of a run that ended but can be resumed after it was copied to this machine.
fn resumable_end(records: &[Record]) -> Option<CompletionReason> {
    match &records.last()?.event {
        Event::RunEnded(ended) => Some(ended.completion_reason).filter(|reason| reason.is_resumable()),
        _ => None,
    }
}

/// Generates the id of a new run from the time and a random number.
fn new_run_id(host: &RunHost) -> RunId {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from 0 to the number of ids"
    )]
    let number = (host.random_number() * f64::from(RunId::IDS_PER_TIME)) as u32;
    RunId::from_time_and_number(Utc::now(), number)
}

/// Records of a run from the engine, or a signal that arrived before them.
enum RecordsOrSignal {
    Records(Box<RecordsReply>),
    Signal(RunCanceller),
}

/// Run on the engine that the command shows.
struct FollowedEngineRun<'a> {
    remote: EngineClient,
    id: RunId,
    state: ConversationState,
    reporter: Box<dyn Reporter + Send>,
    operator: Arc<dyn Operator>,
    /// Answers of the options of the command.
    answers: AnswerQueue,
    /// Tools that may be called without a question. The next field lists the tools that may not be called.
    allowed_tools: Vec<String>,
    denied_tools: Vec<String>,
    /// Number of the last record before the run is resumed. Until then, the end of the run is ignored.
    resumes_after: Option<u64>,
    /// Whether the run records a success with exhausted agents as no success from an answer of this command on.
    refuses_exhausted: bool,
    /// Who cancelled the run before it went on.
    cancelled_by: Option<String>,
    surroundings: &'a CliEnvironment,
}

impl FollowedEngineRun<'_> {
    /// Shows the run until it ends or waits. After an error of the engine, prints the command that follows the run again.
    async fn show_with_follow_hint(
        self,
        prepared: &PreparedEnsemble,
        signals: SignalReceiver,
        ending: RunEndReporter<'_>,
    ) -> Result<u8, CliError> {
        let (id, url, surroundings) = (self.id.clone(), self.remote.url().to_owned(), self.surroundings);
        let shown = self.show_until_end_or_wait(prepared, signals, ending).await;
        if let Err(CliError::Remote(_)) = &shown {
            surroundings.print_err(&format!(
                "note: run {id} remains on the engine; to follow it again: ensemble resume {id} --on {url}\n"
            ));
        }
        shown
    }

    /// Returns the records from this one on. Prints a note if the engine or the workers do not answer.
    async fn fetch_records_or_signal(
        &self,
        next: u64,
        signals: &mut SignalReceiver,
    ) -> Result<RecordsOrSignal, CliError> {
        let mut fetch = std::pin::pin!(self.remote.follow_records(self.id.as_str(), next));
        let mut absence = std::pin::pin!(self.remote.wait_for_absence());
        let mut is_noted = false;
        loop {
            tokio::select! {
                reply = &mut fetch => return Ok(RecordsOrSignal::Records(Box::new(reply?))),
                by = signals.wait_for_signal() => return Ok(RecordsOrSignal::Signal(by)),
                absence = &mut absence, if !is_noted => {
                    is_noted = true;
                    self.surroundings.print_err(&format!("note: {absence}; waiting up to a minute\n"));
                }
            }
        }
    }

    /// Prints a note if the engine has paused the run. Returns whether the run is paused.
    async fn print_note_if_paused(&self) -> bool {
        let (id, url) = (&self.id, self.remote.url());
        let Ok((_, paused)) = list_paused_calls(None, url).await else {
            return false;
        };
        let is_paused = paused.contains_key(id);
        if is_paused {
            self.surroundings.print_err(&format!(
                "note: the engine has paused the run; to continue it: ensemble resume {id} --on {url}\n"
            ));
        }
        is_paused
    }

    /// Shows the run until it ends, or waits for an answer without a source in this process. A signal cancels the run. Returns the exit code.
    async fn show_until_end_or_wait(
        mut self,
        prepared: &PreparedEnsemble,
        mut signals: SignalReceiver,
        ending: RunEndReporter<'_>,
    ) -> Result<u8, CliError> {
        signals.set_run_to_kill(&self.id);
        let (mut silent_since, mut is_pause_noted) = (Instant::now(), false);
        loop {
            if silent_since.elapsed() > PAUSE_CHECK_DELAY && !is_pause_noted {
                is_pause_noted = self.print_note_if_paused().await;
                silent_since = Instant::now();
            }
            let records_reply = match self
                .fetch_records_or_signal(self.state.next_seq(), &mut signals)
                .await?
            {
                RecordsOrSignal::Records(records_reply) => *records_reply,
                RecordsOrSignal::Signal(by) => {
                    self.cancel_now_or_after_resume(&by.to_string()).await?;
                    continue;
                }
            };
            let records = self.remote.decode_records(&records_reply.lines)?;
            let is_news = !records.is_empty();
            if is_news {
                (silent_since, is_pause_noted) = (Instant::now(), false);
            }
            for record in records {
                self.state.apply_record(&record).map_err(RunError::from)?;
                self.reporter.report_event(&record, &self.state);
            }
            if self
                .resumes_after
                .is_some_and(|records| self.state.next_seq() > records)
            {
                self.resumes_after = None;
                if let Some(by) = self.cancelled_by.take() {
                    self.cancel_now_or_after_resume(&by).await?;
                }
                continue;
            }
            if records_reply.is_over && self.resumes_after.is_none() {
                return Ok(ending.print_result(&self.state, prepared, &[]));
            }
            let run_end = self.state.run_end();
            let waits = run_end.is_some_and(|ended| ended.completion_reason == CompletionReason::WaitingForInput);
            if waits {
                tokio::select! {
                    answered = self.answer_one_pending_request() => if !answered? {
                        return Ok(ending.print_result(&self.state, prepared, &[]));
                    },
                    by = signals.wait_for_signal() => self.cancel_now_or_after_resume(&by.to_string()).await?,
                }
            } else if !is_news {
                tokio::select! {
                    () = tokio::time::sleep(FETCH_PAUSE) => {}
                    by = signals.wait_for_signal() => self.cancel_now_or_after_resume(&by.to_string()).await?,
                }
            }
        }
    }

    /// Cancels the run on behalf of `by`. Records the cancellation for later if the run is about to be resumed.
    async fn cancel_now_or_after_resume(&mut self, by: &str) -> Result<(), CliError> {
        if self.resumes_after.is_some() {
            self.cancelled_by = Some(by.to_owned());
            return Ok(());
        }
        let impatient = self.remote.clone().with_fast_failures();
        Ok(impatient.cancel_run(self.id.as_str(), by).await?)
    }

    /// Takes the answer from the options of the command, or asks the operator. Returns `None` if the operator does not answer.
    async fn answer_text(&self, request: PendingRequest) -> Option<(Value, AnswerAuthor)> {
        if let Some(answer) = self.answers.take_answer(&request.address, request.execution) {
            return Some(answer);
        }
        let question_request = QuestionRequest {
            run: self.id.clone(),
            request,
            default: None,
            timeout: None,
            refused: None,
        };
        match self.operator.ask_question(question_request).await {
            operator::OperatorAnswer::Text { text, by } => Some((Value::String(text), by)),
            operator::OperatorAnswer::TimedOut
            | operator::OperatorAnswer::Nobody
            | operator::OperatorAnswer::Postponed => None,
        }
    }

    /// Decides from the options of the command whether a tool may be called, or asks the operator.
    /// Returns `None` if the operator does not decide.
    async fn decide_or_ask_permission(
        &self,
        request: PendingRequest,
        wanted: &ToolPermissionRequest,
    ) -> Option<(PermissionDecision, AnswerAuthor)> {
        let address = request.address.to_string();
        let is_named = |names: &[String]| names.iter().any(|name| matches_tool(name, &wanted.tool));
        if is_named(&self.denied_tools) || self.denied_tools.contains(&address) {
            return Some((PermissionDecision::Denied, self.answers.option_author()));
        }
        if is_named(&self.allowed_tools) {
            return Some((PermissionDecision::Always, self.answers.option_author()));
        }
        if self.allowed_tools.contains(&address) {
            return Some((PermissionDecision::Once, self.answers.option_author()));
        }
        let requested = PermissionRequest {
            run: self.id.clone(),
            request,
            call: "".into(),
            tool: wanted.tool.clone(),
            arguments: wanted.arguments.clone(),
        };
        match self.operator.request_permission(requested).await {
            PermissionAnswer::Decided { decision, by } => Some((decision, by)),
            PermissionAnswer::Cancelled | PermissionAnswer::Nobody => None,
        }
    }

    /// Sends the answer to one pending request and waits a moment. Considers the first request of each execution.
    /// Returns `false` if no request can be answered here.
    async fn answer_one_pending_request(&mut self) -> Result<bool, CliError> {
        let slots = self.state.open_turn().into_iter().flat_map(|turn| &turn.slots);
        let open = slots.filter_map(|slot| match &slot.progress {
            ExecutionProgress::Waiting(requests) => Some((slot.start.clone(), requests.first()?.clone())),
            _ => None,
        });
        let mut answered_request = None;
        for (start, request) in open.collect::<Vec<_>>() {
            let digest = request.digest.clone();
            // The request can be that of a nested run. The answer goes to the outermost run, which passes it on.
            let operator_answer = match request.question.permission.clone() {
                Some(permission) => {
                    let decided = self.decide_or_ask_permission(request, &permission).await;
                    decided.map(|(decision, by)| (Value::Null, Some(decision), by))
                }
                None => self.answer_text(request).await.map(|(answer, by)| (answer, None, by)),
            };
            if let Some(operator_answer) = operator_answer {
                answered_request = Some((start, digest, operator_answer));
                break;
            }
        }
        let Some((start, digest, (answer, decision, by))) = answered_request else {
            return Ok(false);
        };
        let answer = SentQuestionAnswer {
            agent: start.agent.to_string(),
            execution: start.execution,
            asked: self.state.next_seq(),
            answer,
            decision,
            digest,
            by: Some(by),
            at: Utc::now(),
            refuses_exhausted: Some(self.refuses_exhausted),
        };
        self.remote.send_answer(self.id.as_str(), &answer).await?;
        // The run goes on when it has taken the answer.
        tokio::time::sleep(FETCH_PAUSE).await;
        Ok(true)
    }
}
