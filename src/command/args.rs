//! The command line: the arguments, and the texts that `--help` prints.

mod batch;
mod check;
mod page;
mod run;
mod runs;
mod serve;
mod test;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::command::setup::completions;
use crate::terminal::streams::ColorChoice;

pub(crate) use batch::{BatchArgs, BatchCommand, BatchMergeArgs};
pub(crate) use check::{CheckArgs, ExplainArgs, GraphArgs, GraphFormat, ValidateArgs, ValidateFormat};
pub(crate) use page::{PageArgs, UiArgs};
pub(crate) use run::{
    AnsweringArgs, ChatArgs, ContinueArgs, DrivingArgs, ForkArgs, Output, ReplayArgs, RerunArgs, ResumeArgs, RunArgs,
    ShowingArgs, TelemetryArgs,
};
pub(crate) use runs::{
    EstimateArgs, ExportFormat, ListArgs, OutputForm, RunsDiffArgs, RunsExportArgs, RunsFetchArgs, RunsListArgs,
    RunsPruneArgs, RunsShowArgs,
};

pub(crate) use serve::{McpArgs, SchemaArgs};
pub(crate) use test::{TestArgs, TestFormat};

/// Run, validate and replay conversations between agents, described in YAML.
#[derive(Debug, Parser)]
#[command(name = "ensemble", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Run as if the program had been started in this folder
    #[arg(short = 'C', global = true, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Trust all files of the project for this command, as ENSEMBLE_TRUST=1 does: they say where keys and values of the
    /// environment go
    #[arg(long, global = true)]
    pub trust: bool,
}

/// `ensemble acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The ensemble, or a folder with ensembles; without it, the ensembles of the session's folder
    #[arg(value_name = "FILE|FOLDER")]
    pub served: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a conversation
    Run(RunArgs),
    /// Run an ensemble once for each row of a table
    Batch(BatchArgs),
    /// Chat with an ensemble: each line is a user message
    Chat(ChatArgs),
    /// Check ensemble files without running them
    Validate(ValidateArgs),
    /// Test ensembles, with stubs in the place of agents
    Test(TestArgs),
    /// Explain the code of a finding, with a wrong and a right example
    Explain(ExplainArgs),
    /// Explore all possible conversations of an ensemble, and list the possible outcomes
    Check(CheckArgs),
    /// Draw the agents and their dependencies, optionally with the data of a run
    Graph(GraphArgs),
    /// List the ensembles that can be run by name from here
    List(ListArgs),
    /// Serve an editor over standard input and output (LSP)
    Lsp,
    /// Serve a page for the browser: watch, answer, stop, continue and start runs
    Ui(UiArgs),
    /// Serve MCP clients: each ensemble of the folder is a tool
    Mcp(McpArgs),
    /// Serve an ensemble as one agent to an editor, over standard input and output (ACP)
    Acp(AcpArgs),
    /// Create a small ensemble as a starting point; it can be run immediately
    Init(InitArgs),
    /// Convert ensembles of llm-orc or workflows of Conductor
    Import(ImportArgs),
    /// Decide the turns of a recorded conversation again, and stop at the first difference
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

/// `ensemble init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The name of the ensemble, with or without .yaml; default: the name of the current folder
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// What the ensemble shows
    #[arg(short, long, value_enum, default_value_t = Template::ReviewLoop, value_name = "TEMPLATE")]
    pub template: Template,
    /// List the templates, and write nothing
    #[arg(long, conflicts_with = "name")]
    pub list_templates: bool,
}

/// The pattern that a new ensemble shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// A writer and a reviewer repeat until the text is approved
    ReviewLoop,
    /// A chat with a model that remembers the conversation
    Chat,
    /// A person approves a text before it is published
    Approval,
    /// A chat with a model that calls tools, with a context window
    Assistant,
    /// One agent for each file of a folder, and a vote
    MapFiles,
}

/// `ensemble import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The ensemble of llm-orc or the workflow of Conductor, a folder of them, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// The program that the file was written for; default: what the file looks like
    #[arg(long, value_name = "PROGRAM")]
    pub from: Option<ImportFrom>,
    /// Write to this file, or to a file with the same name in this folder; default: standard output
    #[arg(short = 'o', long, alias = "output", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "to")]
    pub force: bool,
}

/// The programs whose files can be imported.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ImportFrom {
    /// Ensembles of llm-orc
    LlmOrc,
    /// Workflows of Microsoft's Conductor
    Conductor,
}

/// `ensemble man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command; default: the page of the program
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    pub command: Option<String>,
    /// Write all pages to this folder
    #[arg(short = 'o', long, alias = "output", value_name = "FOLDER")]
    pub to: Option<PathBuf>,
}

/// `ensemble runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List all runs of this project, the latest last
    List(RunsListArgs),
    /// Copy a run from a durable execution engine into this project, so that it can be shown, exported, compared and replayed
    Fetch(RunsFetchArgs),
    /// Show a run turn by turn: which agents ran, which did not and why, the outcome, the next commands
    Show(RunsShowArgs),
    /// Show the differences between two runs; exit code 1 if they differ
    Diff(RunsDiffArgs),
    /// Write a run as one document: the result as JSON, or all turns as Markdown or HTML
    Export(RunsExportArgs),
    /// Delete old runs, except runs that another process executes and runs that can be resumed
    Prune(RunsPruneArgs),
    /// Delete runs
    Rm {
        /// The ids of the runs, or the beginnings of the ids
        #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
        runs: Vec<String>,
        /// Delete the latest run
        #[arg(long, conflicts_with = "runs")]
        last: bool,
    },
}

/// `ensemble models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Send a request for one word to every model, and report problems: no key, no server, unknown model
    Check(ModelsArgs),
    /// List the profiles with their models; with --remote, the models that each provider offers
    List(ModelsListArgs),
}

/// `ensemble models list`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// The selection of models.
    #[command(flatten)]
    pub models: ModelsArgs,
    /// Ask each provider for its models; without this, no request is sent
    #[arg(long)]
    pub remote: bool,
}

/// `ensemble trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// A configuration, a folder with one, or an ensemble; default: the configuration of the project
    #[arg(value_name = "PATH", add = completions::ensembles())]
    pub path: Option<String>,
    /// Allow it without asking
    #[arg(long, short)]
    pub yes: bool,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["path", "yes", "remove"])]
    pub list: bool,
    /// Trust this file no longer
    #[arg(long, value_name = "PATH", conflicts_with_all = ["path", "yes"])]
    pub remove: Option<PathBuf>,
}

/// The selection of models.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// The ensemble: a file, or the name of an ensemble; default: all profiles of the configuration
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

#[cfg(test)]
mod tests;
