//! `ensemble run`: one conversation from input to outcome.

use std::path::Path;
use std::sync::Arc;

use chrono::Utc;

use super::args::{Output, RunArgs, ShowingArgs};
use super::clock::SystemClock;
use super::error::CliError;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::terminal::{AtTheTerminal, Nobody};
use super::wiring::{Shared, Wired, wire};
use super::{exit, given, signals};
use crate::agent::input::Person;
use crate::conversation::{CompletionReason, ConversationState, Event, MessageAdded, RunEnded, RunStarted};
use crate::data::digest;
use crate::diagnostic::Severity;
use crate::executor::{Executor, run_timeout};
use crate::journal::{Durability, FORMAT, JournalWriter, LedgerError, RunFolder, Store};
use crate::report::{Events, Human, Reporter, RunResult, Silent, Verbosity, diagnostics};
use crate::resolver::{Decision, decide};

/// `ensemble run`.
pub fn run(args: &RunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let path = surroundings.ensemble_file(&args.ensemble)?;
    let prepared = prepare(&path, surroundings)?;
    show_warnings(&prepared, &args.showing, surroundings);
    let showing = showing(&args.showing, surroundings);
    let shared = Shared::given(
        &args.answering,
        &args.answering.model,
        args.driving.durability,
        showing.person,
        &prepared,
        surroundings,
    )?;
    let wired = wire(&prepared, &shared)?;
    let started = |run_id: &str| -> Result<RunStarted, CliError> {
        Ok(RunStarted {
            format: FORMAT,
            run_id: run_id.into(),
            ensemble: prepared.plan.ensemble().name.clone(),
            ensemble_file: surroundings.folder.join(&path).display().to_string(),
            ensemble_digest: digest(prepared.source.text()),
            project_root: prepared.root.display().to_string(),
            input: given::input(args, prepared.plan.ensemble(), surroundings)?,
            context: given::context(args, surroundings)?,
            models: args.answering.model.clone(),
            simulated: wired.simulated.clone(),
            forked_from: None,
            program: env!("CARGO_PKG_VERSION").to_owned(),
        })
    };
    if args.dry_run {
        return dry_run(&prepared, started("dry-run")?, &args.showing, surroundings);
    }
    let started_fields = started("")?;
    let folder = Store::of(&prepared.root).create(Utc::now())?;
    let _lock = folder.lock()?;
    folder.keep_ensemble(prepared.source.text())?;
    let writer = new_journal(&folder, args.driving.durability)?;
    let started = RunStarted {
        run_id: folder.id.as_str().into(),
        ..started_fields
    };
    let driven = Driven {
        prepared: &prepared,
        wired,
        first: Some(Event::RunStarted(started)),
        then: args.then.iter().map(|text| text.as_str().into()).collect(),
        state: ConversationState::new(prepared.plan.clone()),
        writer,
        reporter: showing.reporter,
        fail_on_limit: args.driving.fail_on_limit,
    };
    drive(driven, &folder.id, &args.showing, surroundings)
}

/// Begins the journal of a run.
pub fn new_journal(folder: &RunFolder, durability: Durability) -> Result<JournalWriter, CliError> {
    let path = folder.journal();
    JournalWriter::create(&path, durability).map_err(|source| CliError::Ledger(LedgerError::Write { path, source }))
}

/// A run that is about to be driven.
pub struct Driven<'a> {
    /// Its ensemble.
    pub prepared: &'a Prepared,
    /// Its agents.
    pub wired: Wired,
    /// The event with which this process begins, unless it stands in the journal.
    pub first: Option<Event>,
    /// What is said each time the conversation has ended.
    pub then: Vec<Arc<str>>,
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
pub fn drive(
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
        for text in driven.then {
            if ended.completion_reason != CompletionReason::Completed && !ended.completion_reason.is_limit() {
                break;
            }
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
pub fn print_result(state: &ConversationState, surroundings: &Surroundings) {
    let mut text = serde_json::to_string_pretty(&RunResult(state)).expect("results have string keys");
    text.push('\n');
    surroundings.print(&text);
}

/// Shows the condition that had no answer where it stands in the file.
pub fn complain_of_condition(ended: &RunEnded, prepared: &Prepared, surroundings: &Surroundings) {
    if ended.completion_reason != CompletionReason::ConditionFailed {
        return;
    }
    let Some(diagnostic) = prepared.condition_diagnostic(ended) else {
        return;
    };
    surroundings.complain(&diagnostics::human(&[diagnostic], surroundings.colors_on_stderr()));
}

/// Who tells of a run, and who is asked in it.
pub struct Showing {
    /// Who tells.
    pub reporter: Box<dyn Reporter + Send>,
    /// Who is asked.
    pub person: Arc<dyn Person>,
}

/// The reporter and the person that the command line asks for.
pub fn showing(args: &ShowingArgs, surroundings: &Surroundings) -> Showing {
    let streams = surroundings.streams;
    let mut progress = indicatif::ProgressBar::hidden();
    let reporter: Box<dyn Reporter + Send> = match args.output {
        Output::Json => Box::new(Silent),
        Output::Events => Box::new(Events::new(streams.out())),
        Output::Human => {
            let show_progress = streams.err_is_terminal && !args.quiet;
            let human = Human::new(streams.out(), streams.err(), verbosity(args), show_progress);
            progress = human.progress();
            Box::new(human)
        }
    };
    let person: Arc<dyn Person> = if streams.in_is_terminal && streams.err_is_terminal {
        Arc::new(AtTheTerminal::new(streams, progress))
    } else {
        Arc::new(Nobody)
    };
    Showing { reporter, person }
}

/// How much is said.
pub fn verbosity(args: &ShowingArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}

fn show_warnings(prepared: &Prepared, args: &ShowingArgs, surroundings: &Surroundings) {
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
    state.apply(&crate::conversation::Record {
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
pub fn original_folder(started: &RunStarted) -> Option<&Path> {
    Path::new(&started.ensemble_file).parent()
}
