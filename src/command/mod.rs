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
use self::shared::surroundings::Surroundings;
use self::shared::{exit, help, panics, sandbox_helper, simulated_agent, surroundings, watchdog};
use crate::terminal::streams::ColorChoice;
use crate::terminal::{signals, write_errors};
use ensemble_reports::report::door::all_ours;

/// The entry point of the program.
pub(crate) fn main() -> ExitCode {
    panics::show_safely();
    if watchdog::is_called() {
        watchdog::watch();
        return exit::code(exit::SUCCESS);
    }
    if simulated_agent::is_called() {
        simulated_agent::serve();
        return exit::code(exit::SUCCESS);
    }
    if let Some(code) = sandbox_helper::helped() {
        return exit::code(code);
    }
    #[cfg(unix)]
    signals::fail_at_the_largest_file();
    match completions::answer(help::build_command) {
        Ok(false) => {}
        Ok(true) if write_errors::first_error().is_some() => return exit::code(exit::FAILURE),
        Ok(true) => return exit::code(exit::SUCCESS),
        // The shell shows nothing of it.
        Err(error) => return exit::code(error.exit_code()),
    }
    let cli = match parse_arguments() {
        Ok(cli) => cli,
        Err(told) => return without_command(&told),
    };
    let moved = cli.folder.as_deref().map_or(Ok(()), surroundings::enter);
    let surroundings = Surroundings::capture(cli.color, cli.trust);
    #[cfg(debug_assertions)]
    let moved = moved.and_then(|()| fault_injection::arm());
    let code = match moved.and_then(|()| dispatch(cli.command, &surroundings)) {
        Ok(code) => code,
        Err(error) => {
            surroundings.print_err(&error.render(surroundings.colors_on_stderr()));
            error.exit_code()
        }
    };
    surroundings.telemetry.finish(|text| surroundings.print_err(text));
    exit::code(unless_unwritten(code, &surroundings))
}

/// Parses the command line of the process.
fn parse_arguments() -> Result<Cli, clap::Error> {
    let mut program = help::build_command();
    let matches = program.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

/// The end of a program that was asked for help or its version, or that was called in a wrong way.
fn without_command(told: &clap::Error) -> ExitCode {
    let surroundings = Surroundings::capture(ColorChoice::Auto, false);
    // An error repeats arguments. Its styles are ours only if no argument contains any.
    let text = match std::env::args_os().any(|argument| argument.to_string_lossy().contains('\u{1b}')) {
        true => told.to_string(),
        false => all_ours(&told.render().ansi().to_string()),
    };
    if told.use_stderr() {
        surroundings.print_err(&text);
        return exit::code(exit::USAGE);
    }
    surroundings.print(&text);
    exit::code(unless_unwritten(exit::SUCCESS, &surroundings))
}

/// The code, or that of an error if some output could not be written.
fn unless_unwritten(code: u8, surroundings: &Surroundings) -> u8 {
    let Some(error) = write_errors::first_error() else {
        return code;
    };
    let error = CliError::Internal(format!("cannot write to standard output: {error}"));
    surroundings.print_err(&error.render(surroundings.colors_on_stderr()));
    error.exit_code()
}

fn dispatch(command: Command, surroundings: &Surroundings) -> Result<u8, CliError> {
    match command {
        Command::Run(args) => run::run::run(&args, surroundings),
        Command::Batch(args) => batch::batch(&args, surroundings),
        Command::Chat(args) => chat::chat(&args, surroundings),
        Command::Validate(args) => validate::validate(&args, surroundings),
        Command::Test(args) => test::test(&args, surroundings),
        Command::Explain(args) => explain::explain(&args, surroundings),
        Command::Check(args) => check::check::check(&args, surroundings),
        Command::Graph(args) => graph::graph(&args, surroundings),
        Command::List(args) => list::list(&args, surroundings),
        Command::Lsp => lsp::lsp(surroundings),
        Command::Ui(args) => ui::ui(&args, surroundings),
        Command::Mcp(args) => mcp::mcp(&args, surroundings),
        Command::Acp(args) => acp::acp(&args, surroundings),
        Command::Init(args) => init::init(&args, surroundings),
        Command::Import(args) if import_folder::is_folder(&args, surroundings) => {
            import_folder::import(&args, surroundings)
        }
        Command::Import(args) => import::import(&args, surroundings),
        Command::Replay(args) => replay::replay(&args, surroundings),
        Command::Resume(args) => resume::resume(&args, surroundings),
        Command::Continue(args) => resume::continue_run(&args, surroundings),
        Command::Fork(args) => fork::fork(&args, surroundings),
        Command::Rerun(args) => fork::rerun(&args, surroundings),
        Command::Estimate(args) => estimate::estimate(&args, surroundings),
        Command::Runs(command) => runs::runs(&command, surroundings),
        Command::Models(command) => models::models(&command, surroundings),
        Command::Trust(args) => trust::trust(&args, surroundings),
        Command::Schema(args) => schema::schema(&args, surroundings),
        Command::Completions { shell } => {
            surroundings.print(&completions::script(shell)?);
            Ok(exit::SUCCESS)
        }
        Command::Man(args) => man::man(&args, help::build_command(), surroundings),
    }
}
