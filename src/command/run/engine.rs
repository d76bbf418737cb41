//! `run --on` and `resume --on`: runs on a durable execution engine, shown as runs of this process are.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use serde_json::Value;

use super::run_options;
use crate::command::run::arguments::Output;
use crate::command::run::driver::Ending;
use crate::command::run::reporters::Showing;
use crate::command::run::{ResumeArgs, RunArgs};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use crate::terminal::signals::{self, Signals};
use ensemble_agents::agent::kinds::input::AnswerQueue;
use ensemble_agents::agent::tools::means;
use ensemble_core::conversation::{
    CompletionReason, ConversationState, Event, OpenExecution, PermissionDecision, Record,
};
use ensemble_core::operator::{self, Operator, PermissionAnswer, PermissionRequest, QuestionRequest};
use ensemble_core::request::{AnswerSource, Answerer, PendingRequest};
use ensemble_core::store::RunId;
use ensemble_language::data::WantedPermission;
use ensemble_language::source::Source;
use ensemble_project::prepare::prepare_text;
use ensemble_remote::protocol::{Answer, StartRun};
use ensemble_remote::{Remote, RemoteError};
use ensemble_reports::report::Reporter;
use ensemble_runs::batch::GivenToRun;
use ensemble_runs::{Host, Prepared, RunError, RunOptions, Runs, check_option_answers};

/// The pause before the engine is asked for more records.
const PAUSE: Duration = Duration::from_millis(50);

/// `ensemble run --on`.
pub(crate) fn run(
    url: &str,
    args: &RunArgs,
    runs: &Runs,
    prepared: Arc<Prepared>,
    showing: Showing,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let remote = Remote::at(url)?;
    let mut options = run_options::answering(&args.answering, surroundings)?;
    let given = GivenToRun {
        answers: options.answers.clone(),
        allowed_tools: options.allowed_tools.clone(),
        denied_tools: options.denied_tools.clone(),
    };
    options.input = args
        .input
        .as_deref()
        .map(|given| run_options::text(given, surroundings))
        .transpose()?;
    let options = run_options::with_values(options, args.context.as_deref(), &args.set, surroundings)?;
    // Inputs, answers, models and tools are checked here, before anything is sent.
    let ready = runs.ready_with(Arc::clone(&prepared), options)?;
    let id = new_id(&Host::system());
    let start = StartRun::of(&ready, &id, ready.now(), &given);
    let start = start.map_err(|error| CliError::usage_with_help(error, "-C names another folder as the project"))?;
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let signals = signals::listen();
        remote.start(&start).await?;
        if args.detach {
            match args.showing.output {
                Output::Human => surroundings.print(&format!("{id}\n")),
                form => surroundings.print_as(form, &format!("{}\n", serde_json::json!({"run_id": id}))),
            }
            return Ok(exit::SUCCESS);
        }
        let followed = Followed {
            remote,
            id,
            state: ConversationState::new(prepared.plan.clone()),
            reporter: showing.reporter,
            operator: showing.operator,
            answers: AnswerQueue::default(),
            allowed: Vec::new(),
            denied: Vec::new(),
            goes_on_after: None,
            cancelled_by: None,
        };
        followed.show_until_its_end(&prepared, signals, ending).await
    })
}

/// `ensemble resume --on`.
pub(crate) fn resume(
    url: &str,
    args: &ResumeArgs,
    showing: Showing,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let remote = Remote::at(url)?;
    let mut options = run_options::answering(&args.answering, surroundings)?;
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let signals = signals::listen();
        let id = remote.find(args.run.as_deref()).await?;
        let sent = remote.records(id.as_str(), 0).await?;
        let records = remote.decoded(&sent.lines)?;
        let mut goes_on_after = None;
        if let Some(reason) = cut_short(&records).filter(|_| sent.is_over) {
            match remote.resume(id.as_str(), Utc::now()).await {
                Err(RemoteError::Refused { status: 409, .. }) => {
                    return Err(CliError::usage_with_help(
                        format!(
                            "run {id} has ended ({reason}), and the engine does not wait for its resumption any more"
                        ),
                        format!(
                            "`ensemble runs fetch {id} --on {url}` copies it here, and `ensemble resume {id}` goes on with the copy"
                        ),
                    ));
                }
                resumed => resumed?,
            }
            goes_on_after = Some(records.len() as u64);
        }
        let start = sent.start.ok_or_else(|| RemoteError::NoRun {
            id: id.to_string(),
            url: remote.url().to_owned(),
        })?;
        let root = std::path::PathBuf::from(&start.started.project_root);
        let file = root.join(&start.file);
        let folder = file.parent().unwrap_or(&root).to_owned();
        let source = Source::new(&*start.file, &*start.ensemble);
        let prepared = Arc::new(prepare_text(source, file, folder, root)?);
        check_answers(&mut options, &prepared, &records)?;
        let followed = Followed {
            remote,
            id,
            state: ConversationState::new(prepared.plan.clone()),
            reporter: showing.reporter,
            operator: showing.operator,
            answers: AnswerQueue::new(options.answers),
            allowed: options.allowed_tools,
            denied: options.denied_tools,
            goes_on_after,
            cancelled_by: None,
        };
        followed.show_until_its_end(&prepared, signals, ending).await
    })
}

/// Checks the answers of the command against the requests of the run, before the first is used.
fn check_answers(options: &mut RunOptions, prepared: &Prepared, records: &[Record]) -> Result<(), CliError> {
    let state = ConversationState::from_records(prepared.plan.clone(), records).map_err(RunError::from)?;
    let pending: Vec<PendingRequest> = state.pending_requests().cloned().collect();
    let is_over = state
        .ended()
        .is_some_and(|ended| !ended.completion_reason.is_resumable());
    let checked = check_option_answers(options, &pending, records.iter(), is_over);
    checked.map_err(|refusal| CliError::from(RunError::from(refusal)))
}

/// Returns the outcome of a run that could be resumed if it were recorded on this machine.
fn cut_short(records: &[Record]) -> Option<CompletionReason> {
    match &records.last()?.event {
        Event::RunEnded(ended) => Some(ended.completion_reason).filter(|reason| reason.is_resumable()),
        _ => None,
    }
}

/// An id for a new run.
fn new_id(host: &Host) -> RunId {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number from 0 to the number of ids"
    )]
    let number = (host.random() * f64::from(RunId::PER_TIME)) as u32;
    RunId::at(Utc::now(), number)
}

/// A run on the engine that is shown here.
struct Followed {
    remote: Remote,
    id: RunId,
    state: ConversationState,
    reporter: Box<dyn Reporter + Send>,
    operator: Arc<dyn Operator>,
    /// Answers that were given with the command.
    answers: AnswerQueue,
    /// Tools that may be called, and tools that may not, of which nobody is asked here.
    allowed: Vec<String>,
    denied: Vec<String>,
    /// The run was cut short after so many records, and goes on soon: until then its end is none.
    goes_on_after: Option<u64>,
    /// Who cancelled the run before it went on.
    cancelled_by: Option<String>,
}

impl Followed {
    /// Shows the run until it is over, or waits for an answer that nobody here gives. A signal cancels the run.
    async fn show_until_its_end(
        mut self,
        prepared: &Prepared,
        mut signals: Signals,
        ending: Ending<'_>,
    ) -> Result<u8, CliError> {
        signals.of_run(&self.id);
        loop {
            let next = self.state.next_seq();
            let sent = self.remote.records(self.id.as_str(), next).await?;
            let records = self.remote.decoded(&sent.lines)?;
            let is_news = !records.is_empty();
            for record in records {
                self.state.apply(&record).map_err(RunError::from)?;
                self.reporter.report(&record, &self.state);
            }
            if self
                .goes_on_after
                .is_some_and(|records| self.state.next_seq() > records)
            {
                self.goes_on_after = None;
                if let Some(by) = self.cancelled_by.take() {
                    self.cancel(&by).await?;
                }
                continue;
            }
            if sent.is_over && self.goes_on_after.is_none() {
                return Ok(ending.show(&self.state, prepared));
            }
            let ended = self.state.ended();
            let waits = ended.is_some_and(|ended| ended.completion_reason == CompletionReason::WaitingForInput);
            if waits {
                tokio::select! {
                    answered = self.answer() => if !answered? {
                        return Ok(ending.show(&self.state, prepared));
                    },
                    by = signals.next() => self.cancel(&by.to_string()).await?,
                }
            } else if !is_news {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    by = signals.next() => self.cancel(&by.to_string()).await?,
                }
            }
        }
    }

    async fn cancel(&mut self, by: &str) -> Result<(), CliError> {
        if self.goes_on_after.is_some() {
            self.cancelled_by = Some(by.to_owned());
            return Ok(());
        }
        Ok(self.remote.cancel(self.id.as_str(), by).await?)
    }

    /// The answer that was given with the command, or that somebody gives here.
    async fn text(&self, request: PendingRequest) -> Option<(Value, Answerer)> {
        if let Some(answer) = self.answers.take_answer(&request.address, request.execution) {
            return Some(answer);
        }
        let asked = QuestionRequest {
            run: self.id.clone(),
            request,
            default: None,
            timeout: None,
            refused: None,
        };
        match self.operator.ask(asked).await {
            operator::Answer::Text { text, by } => Some((Value::String(text), by)),
            operator::Answer::TimedOut | operator::Answer::Nobody => None,
        }
    }

    /// Returns whether a tool may be called: what was said with the command, or what somebody decides here.
    async fn decision(
        &self,
        request: PendingRequest,
        wanted: &WantedPermission,
    ) -> Option<(PermissionDecision, Answerer)> {
        let address = request.address.to_string();
        let is_named = |names: &[String]| names.iter().any(|name| means(name, &wanted.tool));
        if is_named(&self.denied) || self.denied.contains(&address) {
            return Some((PermissionDecision::Denied, AnswerSource::Option.into()));
        }
        if is_named(&self.allowed) {
            return Some((PermissionDecision::Always, AnswerSource::Option.into()));
        }
        if self.allowed.contains(&address) {
            return Some((PermissionDecision::Once, AnswerSource::Option.into()));
        }
        let requested = PermissionRequest {
            run: self.id.clone(),
            request,
            call: "".into(),
            tool: wanted.tool.clone(),
            arguments: wanted.arguments.clone(),
        };
        match self.operator.permit(requested).await {
            PermissionAnswer::Decided { decision, by } => Some((decision, by)),
            PermissionAnswer::Cancelled | PermissionAnswer::Nobody => None,
        }
    }

    /// Answers the first request for which there is an answer here. Only the first request of each execution is asked. Returns
    /// `false` if nobody here can answer any.
    async fn answer(&mut self) -> Result<bool, CliError> {
        let slots = self.state.open_turn().into_iter().flat_map(|turn| &turn.slots);
        let open = slots.filter_map(|slot| match &slot.progress {
            OpenExecution::Waiting(requests) => Some((slot.start.clone(), requests.first()?.clone())),
            _ => None,
        });
        let mut found = None;
        for (start, request) in open.collect::<Vec<_>>() {
            let digest = request.digest.clone();
            // The request can be that of a nested run. The answer goes to the outermost run, which passes it on.
            let given = match request.question.permission.clone() {
                Some(wanted) => {
                    let decided = self.decision(request, &wanted).await;
                    decided.map(|(decision, by)| (Value::Null, Some(decision), by))
                }
                None => self.text(request).await.map(|(answer, by)| (answer, None, by)),
            };
            if let Some(given) = given {
                found = Some((start, digest, given));
                break;
            }
        }
        let Some((start, digest, (answer, decision, by))) = found else {
            return Ok(false);
        };
        let answer = Answer {
            agent: start.agent.to_string(),
            execution: start.execution,
            asked: self.state.next_seq(),
            answer,
            decision,
            digest,
            by: Some(by),
            at: Utc::now(),
        };
        self.remote.answer(self.id.as_str(), &answer).await?;
        // The run goes on when it has taken the answer.
        tokio::time::sleep(PAUSE).await;
        Ok(true)
    }
}
