//! The command line: the commands of the program and its global options.

use crate::command::check::ValidateArgs;
use crate::command::check::check::CheckArgs;
use crate::command::check::explain::ExplainArgs;
use crate::command::check::graph::GraphArgs;
use crate::command::check::test::TestArgs;
use crate::command::run::batch::BatchArgs;
use crate::command::run::chat::ChatArgs;
use crate::command::run::fork::{ForkArgs, RerunArgs};
use crate::command::run::replay::ReplayArgs;
use crate::command::run::resume::ContinueArgs;
use crate::command::run::{ResumeArgs, RunArgs};
use crate::command::runs::RunsCommand;
use crate::command::runs::estimate::EstimateArgs;
use crate::command::serve::acp::AcpArgs;
use crate::command::serve::mcp::McpArgs;
use crate::command::serve::ui::UiArgs;
use crate::command::setup::import::ImportArgs;
use crate::command::setup::init::InitArgs;
use crate::command::setup::man::ManArgs;
use crate::command::setup::models::ModelsCommand;
use crate::command::setup::schema::SchemaArgs;
use crate::command::setup::trust::TrustArgs;
use crate::command::shared::output_form::DocumentFormatArgs;
use crate::terminal::streams::ColorChoice;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Run, validate and replay conversations between agents, described in YAML.
#[derive(Debug, Parser)]
#[command(name = "ensemble", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Choose when the output has colors
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Run as if the program had been started in this folder
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Trust all files of the project for this command, like ENSEMBLE_TRUST=1. Trusted files decide where the program
    /// sends keys and values of the environment
    #[arg(long, global = true)]
    pub trust: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a conversation
    Run(RunArgs),
    /// Run an ensemble once for each row of a table
    Batch(Box<BatchArgs>),
    /// Chat with an ensemble: each line is a user message
    Chat(ChatArgs),
    /// Check ensemble files without running them
    Validate(ValidateArgs),
    /// Test ensembles, with agents replaced by stubs
    Test(TestArgs),
    /// Explain the code of a finding, with a wrong and a right example
    Explain(ExplainArgs),
    /// Explore all possible conversations of an ensemble, and list their outcomes
    Check(CheckArgs),
    /// Draw the agents and their dependencies, optionally with the data of a run
    Graph(GraphArgs),
    /// List the ensembles that you can run by name in this folder
    List(DocumentFormatArgs),
    /// Serve the language server for editors over standard input and output (LSP)
    Lsp,
    /// Serve a browser page that shows, answers, stops, continues and starts runs
    Ui(UiArgs),
    /// Serve each ensemble of a folder as a tool to MCP clients
    Mcp(McpArgs),
    /// Serve an ensemble as an agent to editors over standard input and output (ACP)
    Acp(AcpArgs),
    /// Create a small ensemble that you can run immediately
    Init(InitArgs),
    /// Convert ensembles of llm-orc or workflows of Conductor
    Import(ImportArgs),
    /// Repeat the decisions of a recorded run, and stop at the first difference
    Replay(ReplayArgs),
    /// Continue a run that was interrupted or waits for an answer
    Resume(ResumeArgs),
    /// Add a message to a run that has ended, and continue it
    Continue(ContinueArgs),
    /// Start a new run from a turn of another run
    Fork(ForkArgs),
    /// Estimate tokens, cost and time of a run from a recorded run
    Estimate(EstimateArgs),
    /// Repeat an execution of a run and everything that depends on it, in a new run
    Rerun(RerunArgs),
    /// List, show, compare, export and delete recorded runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Test the models of profiles, or list the models that providers offer
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Allow a file to use keys and values of the environment
    Trust(TrustArgs),
    /// Print the JSON Schema of ensemble files, for editors
    Schema(SchemaArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print a manual page, or write all manual pages to a folder
    Man(ManArgs),
}

#[cfg(test)]
mod tests;
