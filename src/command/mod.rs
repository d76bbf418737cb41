//! The commands: arguments in, one call of the run layer, words and an exit code out.
//!
//! A folder for each group of commands, a file for each command: `run/` (conversations), `check/` (files), `runs/` (recorded runs),
//! `serve/` (other programs), `setup/`. Code of several groups is in `shared/`.
//!
//! Invariant: only this module and [`crate::terminal`] print, and only this module ends the process.

#![expect(
    clippy::disallowed_methods,
    reason = "the edge reads the environment, files and the clock"
)]

mod check;
mod command_line;
mod run;
mod runs;
mod serve;
mod setup;
mod shared;

use std::process::ExitCode;

use clap::FromArgMatches;

use self::check::{explain, graph, list, test, validate};
use self::command_line::{Cli, Command};
use self::run::{batch, chat, fork, replay, resume};
use self::runs::estimate;
use self::serve::{acp, lsp, mcp, ui};
use self::setup::{completions, import, import_folder, init, man, models, schema, trust};
use self::shared::error::CliError;
#[cfg(debug_assertions)]
use self::shared::fault_injection;
use self::shared::surroundings::CliEnvironment;
use self::shared::{exit, help, panics, sandbox_helper, simulated_agent, surroundings, watchdog};
use crate::terminal::streams::ColorChoice;
use crate::terminal::{signals, write_errors};
use ensemble_reports::report::sanitized_writer::mark_styles_as_trusted;

/// Runs the process: as an internal helper, as a completion of the shell, or as the command of the command line.
pub(crate) fn main() -> ExitCode {
    panics::install_sanitizing_panic_hook();
    if watchdog::is_started_as_watchdog() {
        watchdog::run_as_watchdog();
        return exit::to_exit_code(exit::SUCCESS);
    }
    if simulated_agent::is_started_as_simulated_agent() {
        simulated_agent::serve_as_simulated_agent();
        return exit::to_exit_code(exit::SUCCESS);
    }
    if let Some(code) = sandbox_helper::run_if_sandbox_helper() {
        return exit::to_exit_code(code);
    }
    #[cfg(unix)]
    signals::ignore_file_size_signal_if_limited();
    match completions::answer_completion_request(help::command_with_help) {
        Ok(false) => {}
        Ok(true) if write_errors::flush_and_take_output_error().is_some() => return exit::to_exit_code(exit::FAILURE),
        Ok(true) => return exit::to_exit_code(exit::SUCCESS),
        // The shell shows nothing of it.
        Err(error) => return exit::to_exit_code(error.exit_code()),
    }
    let cli = match parse_arguments() {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&error),
    };
    let moved = cli
        .folder
        .as_deref()
        .map_or(Ok(()), surroundings::change_process_folder);
    let surroundings = CliEnvironment::detect(cli.color, cli.trust);
    #[cfg(debug_assertions)]
    let moved = moved.and_then(|()| fault_injection::arm_fault_from_environment());
    let code = match moved.and_then(|()| dispatch_command(cli.command, &surroundings)) {
        Ok(code) => code,
        Err(error) => {
            surroundings.print_err(&error.render_for_terminal(surroundings.colors_on_stderr()));
            error.exit_code()
        }
    };
    surroundings
        .telemetry
        .finish_export(|text| surroundings.print_err(text));
    exit::to_exit_code(flush_and_choose_exit_code(code, &surroundings))
}

/// Parses the command line of the process.
fn parse_arguments() -> Result<Cli, clap::Error> {
    let mut program = help::command_with_help();
    let matches = program.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

/// Prints the help, the version or the usage error that clap returned. Returns the exit code.
fn print_clap_error(told: &clap::Error) -> ExitCode {
    let surroundings = CliEnvironment::detect(ColorChoice::Auto, false);
    // An error repeats arguments. Its styles are ours only if no argument contains any.
    let text = match std::env::args_os().any(|argument| argument.to_string_lossy().contains('\u{1b}')) {
        true => told.to_string(),
        false => mark_styles_as_trusted(&told.render().ansi().to_string()),
    };
    if told.use_stderr() {
        surroundings.print_err(&text);
        return exit::to_exit_code(exit::USAGE);
    }
    surroundings.print_out(&text);
    exit::to_exit_code(flush_and_choose_exit_code(exit::SUCCESS, &surroundings))
}

/// Flushes standard output. Returns `code`, or prints an error and returns its code if some output could not be written.
fn flush_and_choose_exit_code(code: u8, surroundings: &CliEnvironment) -> u8 {
    let Some(error) = write_errors::flush_and_take_output_error() else {
        return code;
    };
    let error = CliError::Internal(format!("cannot write to standard output: {error}"));
    surroundings.print_err(&error.render_for_terminal(surroundings.colors_on_stderr()));
    error.exit_code()
}

/// Executes the command and returns its exit code.
fn dispatch_command(command: Command, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    match command {
        Command::Run(args) => run::run::run_ensemble(&args, surroundings),
        Command::Batch(args) => batch::run_batch(&args, surroundings),
        Command::Chat(args) => chat::run_chat(&args, surroundings),
        Command::Validate(args) => validate::validate_files(&args, surroundings),
        Command::Test(args) => test::run_test_command(&args, surroundings),
        Command::Explain(args) => explain::explain_code_or_ensemble(&args, surroundings),
        Command::Check(args) => check::check::explore_and_print(&args, surroundings),
        Command::Graph(args) => graph::draw_graph(&args, surroundings),
        Command::List(args) => list::print_named_ensembles(&args, surroundings),
        Command::Lsp => lsp::serve_lsp(surroundings),
        Command::Ui(args) => ui::serve_ui(&args, surroundings),
        Command::Mcp(args) => mcp::serve_mcp(&args, surroundings),
        Command::Acp(args) => acp::run_acp(&args, surroundings),
        Command::Init(args) => init::create_starter_ensemble(&args, surroundings),
        Command::Import(args) if import_folder::imports_folder(&args, surroundings) => {
            import_folder::import_folder(&args, surroundings)
        }
        Command::Import(args) => import::import_file(&args, surroundings),
        Command::Replay(args) => replay::replay_record(&args, surroundings),
        Command::Resume(args) => resume::resume_run(&args, surroundings),
        Command::Continue(args) => resume::continue_run(&args, surroundings),
        Command::Fork(args) => fork::fork_run(&args, surroundings),
        Command::Rerun(args) => fork::rerun_execution(&args, surroundings),
        Command::Estimate(args) => estimate::print_estimate(&args, surroundings),
        Command::Runs(command) => runs::run_runs_command(&command, surroundings),
        Command::Models(command) => models::run_models_command(&command, surroundings),
        Command::Trust(args) => trust::review_and_trust_file(&args, surroundings),
        Command::Schema(args) => schema::print_schema(&args, surroundings),
        Command::Completions { shell } => {
            surroundings.print_out(&completions::completion_script(shell)?);
            Ok(exit::SUCCESS)
        }
        Command::Man(args) => man::print_or_write_man_pages(&args, help::command_with_help(), surroundings),
    }
}
