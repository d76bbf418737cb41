//! `ensemble resume` and `ensemble continue`: continue a run from its journal.

use super::driver::{CommandLineMessages, RunEndReporter, drive_run_to_end, print_incomplete_record_warning};
use super::engine;
use super::reporters::{build_display, build_engine_run_display};
use super::run_options;
use crate::command::run::ResumeArgs;
use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs, RunOutputArgs};
use crate::command::run::fork::print_changes;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{ArgAction, Args};
use ensemble_core::conversation::ConversationState;
use ensemble_reports::report::Reporter;
use ensemble_runs::{RecordedRun, RunError};

/// `ensemble continue`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ContinueArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::complete_runs(), required_unless_present = "last")]
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
    /// Set an input or a value of the context; can be repeated. VALUE is JSON, or a string if VALUE is not valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Continue with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// Executes `ensemble resume`: continues an interrupted or waiting run to its end. Returns the exit code.
pub(crate) fn resume_run(args: &ResumeArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let showing =
        build_engine_run_display(args.on.as_deref(), &args.showing, surroundings).with_limit_refusal(&args.driving);
    if let Some(url) = &args.on {
        return engine::resume_on_engine(url, args, showing, surroundings);
    }
    let runs = surroundings.runs_with_operator(&showing.operator);
    let mut options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        if let Some(file) = &args.ensemble {
            let fork = runs.prepare_edited_resume(args.run.as_deref(), file, options).await?;
            print_changes(&fork.changes, &args.showing, surroundings);
            return drive_run_to_end(fork.ready, CommandLineMessages::default(), ending).await;
        }
        let leased_run = runs.lease_and_load_run(args.run.as_deref()).await?;
        leased_run.check_resume_options(&mut options).await?;
        let recorded = leased_run.recorded_run();
        if recorded.journal.is_torn {
            print_incomplete_record_warning(recorded.run.run_folder(), surroundings);
        }
        if recorded.has_final_end() {
            for reporter in &mut options.reporters {
                report_all_records(recorded, &mut **reporter)?;
            }
            return Ok(ending.print_result(&recorded.state, &recorded.prepared, &[]));
        }
        if !args.showing.quiet {
            print_change_notes(recorded, "resume", surroundings);
        }
        let ending = ending.with_unused_answers_refused();
        drive_run_to_end(
            leased_run.prepare_resume(options)?,
            CommandLineMessages::default(),
            ending,
        )
        .await
    })
}

/// Executes `ensemble continue`: adds a message to a run that has ended, and drives the run to its end. Returns the exit code.
pub(crate) fn continue_run(args: &ContinueArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let showing = build_display(&args.showing, surroundings).with_limit_refusal(&args.driving);
    let runs = surroundings.runs_with_operator(&showing.operator);
    let options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    let mut options = run_options::with_set_values(options, &args.set)?;
    let set = std::mem::take(&mut options.context);
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    let messages: CommandLineMessages = args.then.iter().map(|text| text.as_str().into()).collect();
    block_on(async {
        let leased_run = runs.lease_and_load_run(args.run.as_deref()).await?;
        let recorded = leased_run.recorded_run();
        if recorded.journal.is_torn {
            print_incomplete_record_warning(recorded.run.run_folder(), surroundings);
        }
        // The error that the run has not ended comes before other errors.
        let message = match run_options::read_text_argument(&args.message, surroundings) {
            Err(error) if recorded.can_continue_with_message() => return Err(error),
            message => message.unwrap_or_default(),
        };
        if let Some(file) = &args.ensemble {
            drop(leased_run);
            let run = args.run.as_deref();
            let fork = runs
                .prepare_edited_continuation(run, file, message, set, options)
                .await?;
            print_changes(&fork.changes, &args.showing, surroundings);
            return drive_run_to_end(fork.ready, messages, ending).await;
        }
        if !args.showing.quiet && recorded.can_continue_with_message() {
            print_change_notes(recorded, "continue", surroundings);
        }
        drive_run_to_end(
            leased_run.prepare_continuation(message, set, options)?,
            messages,
            ending,
        )
        .await
    })
}

/// Prints a note if the ensemble file differs from the recorded copy, and a warning if scripts or other files of agents have changed.
/// The note contains a command of `ensemble` with the name `command`.
fn print_change_notes(recorded: &RecordedRun, command: &str, surroundings: &CliEnvironment) {
    if let Some((file, changes)) = recorded.compare_current_file(&surroundings.project) {
        let id = recorded.run.id();
        surroundings.print_err(&format!(
            "note: {file} has changed since the run started ({changes}); the run continues with its recorded copy\n  to continue with the file: ensemble {command} {id} --ensemble {file}\n"
        ));
    }
    let changed = recorded.describe_changed_definitions(&surroundings.project);
    if !changed.is_empty() {
        surroundings.print_err(&format!(
            "warning: scripts or other files of the agents have changed since the run recorded them; the run continues with the changed files\n  {}\n",
            changed.join("\n  ")
        ));
    }
}

/// Reports every record of a run that has already ended.
fn report_all_records(recorded: &RecordedRun, reporter: &mut dyn Reporter) -> Result<(), RunError> {
    let mut state = ConversationState::new(recorded.prepared.plan.clone());
    for record in &recorded.journal.records {
        state.apply_record(record)?;
        reporter.report_event(record, &state);
    }
    Ok(())
}
