//! `ensemble resume` and `ensemble continue`: continue a run from its journal.

use super::driver::{Ending, QueuedMessages, drive, warn_incomplete_record};
use super::engine;
use super::reporters::{showing, showing_on};
use super::run_options;
use crate::command::run::ResumeArgs;
use crate::command::run::arguments::{AnsweringArgs, DrivingArgs, ShowingArgs};
use crate::command::run::fork::print_changes;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use clap::{ArgAction, Args};
use ensemble_core::conversation::ConversationState;
use ensemble_reports::report::Reporter;
use ensemble_runs::{RecordedRun, RunError};

/// `ensemble continue`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ContinueArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The message: a text, @FILE, or - for standard input
    #[arg(value_name = "TEXT|@FILE|-")]
    pub message: String,
    /// Add this message when the conversation has ended again, and continue; can be repeated
    #[arg(long = "then", value_name = "TEXT", action = ArgAction::Append)]
    pub then: Vec<String>,
    /// Set an input or a value of the context; the value is JSON, or a text
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Continue with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble resume`.
pub(crate) fn resume(args: &ResumeArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let showing = showing_on(args.on.as_deref(), &args.showing, surroundings);
    if let Some(url) = &args.on {
        return engine::resume(url, args, showing, surroundings);
    }
    let runs = surroundings.runs_with(&showing.operator);
    let mut options = run_options::options(&args.answering, &args.driving, showing, surroundings)?;
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        if let Some(file) = &args.ensemble {
            let fork = runs.resume_edited(args.run.as_deref(), file, options).await?;
            print_changes(&fork.changes, &args.showing, surroundings);
            return drive(fork.ready, QueuedMessages::default(), ending).await;
        }
        let held = runs.hold(args.run.as_deref()).await?;
        held.check_answers(&mut options).await?;
        let recorded = held.recorded();
        if recorded.journal.is_torn {
            warn_incomplete_record(recorded.run.folder(), surroundings);
        }
        if recorded.has_ended() {
            for reporter in &mut options.reporters {
                report_again(recorded, &mut **reporter)?;
            }
            return Ok(ending.show(&recorded.state, &recorded.prepared));
        }
        if !args.showing.quiet {
            note_changes(recorded, "resume", surroundings);
        }
        let ending = ending.with_unused_answers_refused();
        drive(held.resume(options)?, QueuedMessages::default(), ending).await
    })
}

/// `ensemble continue`.
pub(crate) fn continue_run(args: &ContinueArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let showing = showing(&args.showing, surroundings);
    let runs = surroundings.runs_with(&showing.operator);
    let options = run_options::options(&args.answering, &args.driving, showing, surroundings)?;
    let mut options = run_options::with_set(options, &args.set)?;
    let set = std::mem::take(&mut options.context);
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    let messages: QueuedMessages = args.then.iter().map(|text| text.as_str().into()).collect();
    block_on(async {
        let held = runs.hold(args.run.as_deref()).await?;
        let recorded = held.recorded();
        if recorded.journal.is_torn {
            warn_incomplete_record(recorded.run.folder(), surroundings);
        }
        // The error that the run has not ended comes before other errors.
        let message = match run_options::text(&args.message, surroundings) {
            Err(error) if recorded.can_continue() => return Err(error),
            message => message.unwrap_or_default(),
        };
        if let Some(file) = &args.ensemble {
            drop(held);
            let run = args.run.as_deref();
            let fork = runs.continue_edited(run, file, message, set, options).await?;
            print_changes(&fork.changes, &args.showing, surroundings);
            return drive(fork.ready, messages, ending).await;
        }
        if !args.showing.quiet && recorded.can_continue() {
            note_changes(recorded, "continue", surroundings);
        }
        drive(held.continue_with(message, set, options)?, messages, ending).await
    })
}

/// Prints notes if the file has other agents than the recorded copy, which the run uses, and if something behind the agents
/// has changed.
fn note_changes(recorded: &RecordedRun, command: &str, surroundings: &Surroundings) {
    if let Some((file, changes)) = recorded.changed_file(&surroundings.project) {
        let id = recorded.run.id();
        surroundings.print_err(&format!(
            "note: {file} has changed since the run started ({changes}); the run continues with its recorded copy\n  to continue with the file: ensemble {command} {id} --ensemble {file}\n"
        ));
    }
    let changed = recorded.changed_definitions(&surroundings.project);
    if !changed.is_empty() {
        surroundings.print_err(&format!(
            "note: since the run started, files behind its agents have changed; the run continues with the files as they are now\n  {}\n",
            changed.join("\n  ")
        ));
    }
}

/// Reports a run that has already ended once more.
fn report_again(recorded: &RecordedRun, reporter: &mut dyn Reporter) -> Result<(), RunError> {
    let mut state = ConversationState::new(recorded.prepared.plan.clone());
    for record in &recorded.journal.records {
        state.apply(record)?;
        reporter.report(record, &state);
    }
    Ok(())
}
