//! The command line interface: it reads the arguments, calls the other crates, prints, and returns an exit code.
//!
//! One file for each command: arguments in, one call of the run layer, words and an exit code out. Other files contain the arguments
//! (`cli/args.rs`), how a run is driven from the command line (`cli/drive.rs`), which findings are reported and cause a failure
//! (`cli/policy.rs`), the settings of projects for them (`cli/settings.rs`), which files a command means (`cli/inputs.rs`), how they are
//! searched in folders (`cli/walk.rs`) and what is left out (`cli/rules.rs`), parallel work with ordered results (`cli/in_order.rs`), the
//! standard streams (`cli/streams.rs`), words for errors (`cli/error.rs`), exit codes, signals, the terminal, the watchdog process
//! (`cli/watchdog.rs`), the built-in external agent (`cli/external.rs`) and the helper of sandboxes (`cli/sandbox.rs`).
//!
//! Invariant: only this module prints, and only this module ends the process.

#![expect(
    clippy::disallowed_methods,
    reason = "the edge reads the environment, files and the clock"
)]

mod acp;
mod args;
mod batch;
mod chat;
mod check;
mod completing;
mod drive;
mod error;
mod estimate;
mod exit;
mod explain;
mod external;
#[cfg(debug_assertions)]
mod fault;
mod fork;
mod given;
mod graph;
mod help;
mod import;
mod import_folder;
mod in_order;
mod init;
mod inputs;
mod left_alone;
mod lines;
mod list;
mod lsp;
mod man;
mod mcp;
mod mending;
mod models;
mod painting;
mod panics;
mod picture;
mod policy;
mod remote;
mod replay;
mod resume;
mod rules;
mod run;
mod runs;
mod runtime;
mod sandbox;
mod settings;
mod short;
mod shown;
mod signals;
mod spelling;
mod streams;
mod surroundings;
mod telemetry;
mod terminal;
mod test;
mod trust;
mod ui;
mod unwritten;
mod validate;
mod walk;
mod watchdog;

use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Cli, ColorChoice, Command};
use ensemble_reports::report::door::all_ours;
use error::CliError;
use surroundings::Surroundings;

/// The entry point of the program.
pub(crate) fn main() -> ExitCode {
    panics::show_safely();
    if watchdog::is_called() {
        watchdog::watch();
        return exit::code(exit::SUCCESS);
    }
    if external::is_called() {
        external::serve();
        return exit::code(exit::SUCCESS);
    }
    if let Some(code) = sandbox::helped() {
        return exit::code(code);
    }
    #[cfg(unix)]
    signals::fail_at_the_largest_file();
    match completing::answer(help::build_command) {
        Ok(false) => {}
        Ok(true) if unwritten::first_error().is_some() => return exit::code(exit::FAILURE),
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
    let moved = moved.and_then(|()| fault::arm());
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
    let Some(error) = unwritten::first_error() else {
        return code;
    };
    let error = CliError::Internal(format!("cannot write to standard output: {error}"));
    surroundings.print_err(&error.render(surroundings.colors_on_stderr()));
    error.exit_code()
}

fn dispatch(command: Command, surroundings: &Surroundings) -> Result<u8, CliError> {
    match command {
        Command::Run(args) => run::run(&args, surroundings),
        Command::Batch(args) => batch::batch(&args, surroundings),
        Command::Chat(args) => chat::chat(&args, surroundings),
        Command::Validate(args) => validate::validate(&args, surroundings),
        Command::Test(args) => test::test(&args, surroundings),
        Command::Explain(args) => explain::explain(&args, surroundings),
        Command::Check(args) => check::check(&args, surroundings),
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
        Command::Schema(args) => {
            use ensemble_language::loader::schema::{SCHEMA, TEST_SCHEMA, of_config};
            let json = |text: &str| surroundings.print_as(args::OutputForm::Json, text);
            match &args {
                args if args.skill => surroundings.print(ensemble_mcp::skill::SKILL),
                args if args.tests => json(TEST_SCHEMA),
                args if args.config => json(&of_config()),
                _ => json(SCHEMA),
            }
            Ok(exit::SUCCESS)
        }
        Command::Completions { shell } => {
            surroundings.print(&completing::script(shell)?);
            Ok(exit::SUCCESS)
        }
        Command::Man(args) => man::man(&args, surroundings),
    }
}
