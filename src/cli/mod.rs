//! The command line interface: it reads the arguments, calls the other crates, prints, and returns an exit code.

#![expect(
    clippy::disallowed_methods,
    reason = "the edge reads the environment, files and the clock"
)]

mod args;
mod chat;
mod check;
mod completing;
mod drive;
mod error;
mod estimate;
mod exit;
mod explain;
mod fault;
mod fork;
mod given;
mod graph;
mod import;
mod in_order;
mod init;
mod inputs;
mod lines;
mod list;
mod man;
mod models;
mod picture;
mod policy;
mod replay;
mod resume;
mod run;
mod runs;
mod runtime;
mod short;
mod shown;
mod signals;
mod streams;
mod surroundings;
mod terminal;
mod validate;
mod watchdog;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use error::CliError;
use surroundings::Surroundings;

/// The entry point of the program.
pub(crate) fn main() -> ExitCode {
    if watchdog::is_called() {
        watchdog::watch();
        return exit::code(exit::SUCCESS);
    }
    match completing::answer(Cli::command) {
        Ok(false) => {}
        Ok(true) => return exit::code(exit::SUCCESS),
        // The shell shows nothing of it.
        Err(error) => return exit::code(error.exit_code()),
    }
    let cli = Cli::parse();
    let moved = cli.folder.as_deref().map_or(Ok(()), surroundings::enter);
    let surroundings = Surroundings::capture(cli.color);
    let code = match moved
        .and_then(|()| fault::arm())
        .and_then(|()| dispatch(cli.command, &surroundings))
    {
        Ok(code) => code,
        Err(error) => {
            surroundings.print_err(&error.render(surroundings.colors_on_stderr()));
            error.exit_code()
        }
    };
    exit::code(code)
}

fn dispatch(command: Command, surroundings: &Surroundings) -> Result<u8, CliError> {
    match command {
        Command::Run(args) => run::run(&args, surroundings),
        Command::Chat(args) => chat::chat(&args, surroundings),
        Command::Validate(args) => validate::validate(&args, surroundings),
        Command::Explain(args) => explain::explain(&args, surroundings),
        Command::Check(args) => check::check(&args, surroundings),
        Command::Graph(args) => graph::graph(&args, surroundings),
        Command::List(args) => list::list(&args, surroundings),
        Command::Init(args) => init::init(&args, surroundings),
        Command::Import(args) => import::import(&args, surroundings),
        Command::Replay(args) => replay::replay(&args, surroundings),
        Command::Resume(args) => resume::resume(&args, surroundings),
        Command::Continue(args) => resume::continue_run(&args, surroundings),
        Command::Fork(args) => fork::fork(&args, surroundings),
        Command::Rerun(args) => fork::rerun(&args, surroundings),
        Command::Estimate(args) => estimate::estimate(&args, surroundings),
        Command::Runs(command) => runs::runs(&command, surroundings),
        Command::Models(command) => models::models(&command, surroundings),
        Command::Schema => {
            surroundings.print(ensemble_language::loader::schema::SCHEMA);
            Ok(exit::SUCCESS)
        }
        Command::Completions { shell } => {
            surroundings.print(&completing::script(shell)?);
            Ok(exit::SUCCESS)
        }
        Command::Man(args) => man::man(&args, surroundings),
    }
}
