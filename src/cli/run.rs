//! `ensemble run`: one conversation from input to outcome.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use chrono::Utc;

use super::args::{DrivingArgs, Output, RunArgs, ShowingArgs};
use super::clock::SystemClock;
use super::error::CliError;
use super::lines::Lines;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::terminal::AtTheTerminal;
use super::wiring::{Shared, Wired, wire};
use super::{exit, given, signals};
use ensemble_agents::agent::input::{Nobody, Person};
use ensemble_core::conversation::{CompletionReason, ConversationState, Event, MessageAdded, RunEnded, RunStarted};
use ensemble_core::executor::{Executor, run_timeout};
use ensemble_core::resolver::{Decision, decide};
use ensemble_core::thread::{Listener, Silence};
use ensemble_language::data::{Context, digest};
use ensemble_language::diagnostic::Severity;
use ensemble_reports::report::{
    self, ConsoleWriter, Events, Human, Reporter, RunResult, Silent, Verbosity, diagnostics,
};
use ensemble_runs::journal::{Durability, FORMAT, JournalWriter, LedgerError, RunFolder, Store};

/// `ensemble run`.
pub(super) fn run(args: &RunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let path = surroundings.ensemble_file(&args.ensemble)?;
    let prepared = prepare(&path, surroundings)?;
    show_warnings(&prepared, &args.showing, surroundings);
    let showing = showing(&args.showing, surroundings);
    let shared = Shared::given(
        &args.answering,
        &args.answering.model,
        args.driving.durability(),
        &showing,
        &prepared,
        surroundings,
    )?;
    let wired = wire(&prepared, &shared)?;
    let started = RunStarted {
        input: given::input(args, prepared.plan.ensemble(), surroundings)?,
        context: given::context(args.context.as_deref(), &args.set, surroundings)?,
        ..started_with(&prepared, &path, &wired, &args.answering.model, surroundings)
    };
    if args.dry_run {
        return dry_run(&prepared, started, &args.showing, surroundings);
    }
    let new = New {
        prepared: &prepared,
        wired,
        started,
        messages: Box::new(Then::new(&args.then)),
        reporter: showing.reporter,
    };
    new.begin(&args.driving, &args.showing, surroundings)
}

/// How a run of this ensemble starts, without an input and without an id.
pub(super) fn started_with(
    prepared: &Prepared,
    path: &Path,
    wired: &Wired,
    models: &[String],
    surroundings: &Surroundings,
) -> RunStarted {
    RunStarted {
        format: FORMAT,
        run_id: "".into(),
        ensemble: prepared.plan.ensemble().name.clone(),
        ensemble_file: surroundings.folder.join(path).display().to_string(),
        ensemble_digest: digest(prepared.source.text()),
        project_root: prepared.root.display().to_string(),
        input: "".into(),
        context: Context::default(),
        models: models.to_vec(),
        simulated: wired.simulated.clone(),
        forked_from: None,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// A run that has no folder yet.
pub(super) struct New<'a> {
    /// Its ensemble.
    pub prepared: &'a Prepared,
    /// Its agents.
    pub wired: Wired,
    /// How it starts; it gets its id here.
    pub started: RunStarted,
    /// What is said when the conversation has ended.
    pub messages: Box<dyn Messages>,
    /// Who tells of it.
    pub reporter: Box<dyn Reporter + Send>,
}

impl New<'_> {
    /// Makes its folder, and drives it to its end.
    ///
    /// # Errors
    /// The folder or the journal cannot be written.
    pub(super) fn begin(
        self,
        driving: &DrivingArgs,
        showing: &ShowingArgs,
        surroundings: &Surroundings,
    ) -> Result<u8, CliError> {
        let folder = Store::of(&self.prepared.root).create(Utc::now())?;
        let _lock = folder.lock()?;
        folder.keep_ensemble(self.prepared.source.text())?;
        let writer = new_journal(&folder, driving.durability())?;
        let started = RunStarted {
            run_id: folder.id.as_str().into(),
            ..self.started
        };
        let driven = Driven {
            prepared: self.prepared,
            wired: self.wired,
            first: Some(Event::RunStarted(started)),
            messages: self.messages,
            state: ConversationState::new(self.prepared.plan.clone()),
            writer,
            reporter: self.reporter,
            fail_on_limit: driving.fail_on_limit,
        };
        drive(driven, &folder.id, showing, surroundings)
    }
}

/// Begins the journal of a run.
pub(super) fn new_journal(folder: &RunFolder, durability: Durability) -> Result<JournalWriter, CliError> {
    let path = folder.journal();
    JournalWriter::create(&path, durability).map_err(|source| CliError::Ledger(LedgerError::Write { path, source }))
}

/// What a user says when the conversation has ended.
pub(super) trait Messages {
    /// The next thing, or nothing more.
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>>;

    /// Nothing more is said.
    fn farewell(&self, _run_id: &str) {}
}

/// `--then`: what was said beforehand. A conversation that did not end well hears no more of it.
#[derive(Debug, Default)]
pub(super) struct Then(VecDeque<Arc<str>>);

impl Then {
    /// In this order.
    pub(super) fn new(texts: &[String]) -> Self {
        Self(texts.iter().map(|text| text.as_str().into()).collect())
    }
}

impl FromIterator<Arc<str>> for Then {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(texts: I) -> Self {
        Self(texts.into_iter().collect())
    }
}

impl Messages for Then {
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        let well = ended.completion_reason == CompletionReason::Completed || ended.completion_reason.is_limit();
        let text = if well { self.0.pop_front() } else { None };
        Box::pin(std::future::ready(text))
    }
}

/// A run that is about to be driven.
pub(super) struct Driven<'a> {
    /// Its ensemble.
    pub prepared: &'a Prepared,
    /// Its agents.
    pub wired: Wired,
    /// The event with which this process begins, unless it stands in the journal.
    pub first: Option<Event>,
    /// What is said each time the conversation has ended.
    pub messages: Box<dyn Messages>,
    /// The state so far.
    pub state: ConversationState,
    /// Its journal.
    pub writer: JournalWriter,
    /// Who tells of it.
    pub reporter: Box<dyn Reporter + Send>,
    /// Does a limit make it fail?
    pub fail_on_limit: bool,
}

/// Drives a run to its end, shows the result, and gives the exit code.
pub(super) fn drive(
    mut driven: Driven,
    run_id: &str,
    showing: &ShowingArgs,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?;
    let ended = runtime.block_on(async {
        let mut executor = Executor {
            runners: driven.wired.runners,
            ledger: &mut driven.writer,
            reporter: &mut *driven.reporter,
            clock: &SystemClock,
            interruptions: signals::listen(run_id.into()),
            timeout: run_timeout(&driven.prepared.plan),
        };
        if let Some(first) = driven.first {
            executor.commit(&mut driven.state, first)?;
        }
        let mut ended = executor.drive(&mut driven.state).await?;
        loop {
            let text = tokio::select! {
                text = driven.messages.next(&ended) => text,
                _ = executor.interruptions.recv() => None,
            };
            let Some(text) = text else {
                if !ended.completion_reason.is_resumable() {
                    driven.messages.farewell(run_id);
                }
                break;
            };
            let message = Event::MessageAdded(MessageAdded { text });
            executor.commit(&mut driven.state, message)?;
            ended = executor.drive(&mut driven.state).await?;
        }
        driven.wired.servers.close().await;
        Ok::<_, LedgerError>(ended)
    });
    // A thread that waits for a person must not keep the process.
    runtime.shutdown_background();
    let ended = ended?;
    complain_of_condition(&ended, driven.prepared, surroundings);
    if showing.output == Output::Json {
        print_result(&driven.state, surroundings);
    }
    let cause = driven.state.interrupted();
    Ok(exit::of_run(ended.completion_reason, cause, driven.fail_on_limit))
}

/// The result as one JSON document on standard output.
pub(super) fn print_result(state: &ConversationState, surroundings: &Surroundings) {
    let mut text = serde_json::to_string_pretty(&RunResult(state)).expect("results have string keys");
    text.push('\n');
    surroundings.print(&text);
}

/// Shows the condition that had no answer where it stands in the file.
pub(super) fn complain_of_condition(ended: &RunEnded, prepared: &Prepared, surroundings: &Surroundings) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.complain(&diagnostics::human(&[diagnostic], surroundings.colors_on_stderr()));
}

/// Who tells of a run, who hears it, and who is asked in it.
pub(super) struct Showing {
    /// Who tells.
    pub reporter: Box<dyn Reporter + Send>,
    /// Who hears agents speak.
    pub listener: Arc<dyn Listener>,
    /// Who is asked.
    pub person: Arc<dyn Person>,
}

/// The reporter, the listener and the person that the command line asks for.
pub(super) fn showing(args: &ShowingArgs, surroundings: &Surroundings) -> Showing {
    let human = |console: &ConsoleWriter| Human::new(console.clone(), verbosity(args));
    showing_by(args, surroundings, &Lines::default(), human)
}

/// Likewise, with a human reporter of one's own, and lines that somebody else reads too.
pub(super) fn showing_by(
    args: &ShowingArgs,
    surroundings: &Surroundings,
    lines: &Lines,
    human: impl FnOnce(&ConsoleWriter) -> Human,
) -> Showing {
    let streams = surroundings.streams;
    let mut asks_on = None;
    let mut listener: Arc<dyn Listener> = Arc::new(Silence);
    let reporter: Box<dyn Reporter + Send> = match args.output {
        Output::Json => Box::new(Silent),
        Output::Events => Box::new(Events::new(streams.out())),
        Output::Human => {
            let show = streams.err_is_terminal && !args.quiet;
            let showing = report::ConsoleOptions {
                progress: show,
                live: show && streams.out_is_terminal,
                out_width: streams.out_width(),
                err_width: streams.err_width(),
            };
            let console = ConsoleWriter::new(streams.out(), streams.err(), showing);
            asks_on = Some(console.clone());
            listener = Arc::new(console.clone());
            Box::new(human(&console))
        }
    };
    let person: Arc<dyn Person> = if streams.in_is_terminal && streams.err_is_terminal {
        Arc::new(AtTheTerminal::new(streams, asks_on, lines.clone()))
    } else {
        Arc::new(Nobody)
    };
    Showing {
        reporter,
        listener,
        person,
    }
}

/// How much is said.
pub(super) fn verbosity(args: &ShowingArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}

/// What is odd about the ensemble, for the person who runs it.
pub(super) fn show_warnings(prepared: &Prepared, args: &ShowingArgs, surroundings: &Surroundings) {
    let warnings: Vec<_> = prepared
        .warnings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning)
        .cloned()
        .collect();
    if !warnings.is_empty() && !args.quiet {
        surroundings.complain(&diagnostics::human(&warnings, surroundings.colors_on_stderr()));
    }
}

/// Who would run first, and why the others would not.
fn dry_run(
    prepared: &Prepared,
    started: RunStarted,
    args: &ShowingArgs,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let mut state = ConversationState::new(prepared.plan.clone());
    state.apply(&ensemble_core::conversation::Record {
        seq: 0,
        at: Utc::now(),
        event: Event::RunStarted(started),
    });
    let decision = decide(&prepared.plan, &state);
    let text = match (&decision, args.output) {
        (Decision::StartTurn(turn), Output::Human) => {
            let mut text = String::from("turn 1 would run\n");
            for start in &turn.starts {
                text.push_str(&format!("  {}\n", start.agent));
            }
            if !turn.waiting.is_empty() {
                text.push_str("and not yet\n");
            }
            for waiting in &turn.waiting {
                text.push_str(&format!("  {}: {}\n", waiting.agent, waiting.reason));
            }
            text
        }
        (Decision::StartTurn(turn), _) => format!("{}\n", serde_json::to_string(turn).unwrap_or_default()),
        (Decision::End(ended), Output::Human) => format!("nothing would run: {}\n", ended.completion_reason),
        (Decision::End(ended), _) => format!("{}\n", serde_json::to_string(ended).unwrap_or_default()),
        (Decision::Perform | Decision::FinishTurn(_), _) => String::new(),
    };
    surroundings.print(&text);
    match &decision {
        Decision::End(ended) => {
            complain_of_condition(ended, prepared, surroundings);
            Ok(exit::of_run(ended.completion_reason, None, false))
        }
        _ => Ok(exit::SUCCESS),
    }
}

/// The file that a run was started from, if it is still there.
pub(super) fn original_folder(started: &RunStarted) -> Option<&Path> {
    Path::new(&started.ensemble_file).parent()
}
