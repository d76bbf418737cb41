//! The command line: what can be typed, and the words that `--help` prints.

mod conversing;
mod examining;
mod lookback;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(super) use conversing::{
    AnsweringArgs, ChatArgs, ContinueArgs, DrivingArgs, ForkArgs, Output, ReplayArgs, RerunArgs, ResumeArgs, RunArgs,
    ShowingArgs,
};
pub(super) use examining::{CheckArgs, CheckFormat, ExplainArgs, GraphArgs, GraphFormat, ValidateArgs, ValidateFormat};
pub(super) use lookback::{
    EstimateArgs, ExportFormat, OutputForm, RunsDiffArgs, RunsExportArgs, RunsPruneArgs, RunsShowArgs,
};

/// Run, validate and replay conversations between agents, described in YAML.
#[derive(Debug, Parser)]
#[command(name = "ensemble", version, propagate_version = true, max_term_width = 100)]
pub(super) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Colours: on a terminal, always, or never
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Hold a conversation from input to outcome
    Run(RunArgs),
    /// Talk with an ensemble: each line is a user message
    Chat(ChatArgs),
    /// Check ensemble files without running them
    Validate(ValidateArgs),
    /// Say what the code of a finding means, with a wrong and a right example
    Explain(ExplainArgs),
    /// Walk through all conversations that an ensemble can hold, and tell how they can end
    Check(CheckArgs),
    /// Draw who listens to whom, and what a run made of it
    Graph(GraphArgs),
    /// Write a small ensemble that runs at once, to start from
    Init(InitArgs),
    /// Make an ensemble of a plain one of llm-orc, and list what could not be carried over
    Import(ImportArgs),
    /// Decide a recorded conversation again and stop where the decision differs
    Replay(ReplayArgs),
    /// Go on with a run that was interrupted or waits for an answer
    Resume(ResumeArgs),
    /// Say something more to a run that has ended, and go on
    Continue(ContinueArgs),
    /// Start a new run from a turn of another
    Fork(ForkArgs),
    /// Tell what a run would take, from what a recorded one took
    Estimate(EstimateArgs),
    /// Repeat an execution of a run and what followed from it, in a new run
    Rerun(RerunArgs),
    /// Look at recorded runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Try the models that profiles name, or list what their providers offer
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Print the JSON Schema of ensemble files, for editors
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print a manual page, or write them all into a folder
    Man(ManArgs),
}

/// `ensemble init`.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The ensemble's name; default: this folder's
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `ensemble import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The ensemble of llm-orc, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: String,
    /// Write into this file, or into this folder under the same name; without it, to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// `ensemble man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The page of this command; without it, that of the program
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub command: Option<String>,
    /// Write all pages into this folder
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// `ensemble runs`.
#[derive(Debug, Subcommand)]
pub(super) enum RunsCommand {
    /// All runs of this project, the latest last
    List {
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// The story of a run, turn by turn: who ran, who did not and why, how it ended, what to type next
    Show(RunsShowArgs),
    /// Where two runs part; exit code 1 when they differ
    Diff(RunsDiffArgs),
    /// A run as one document: its result as JSON, its story as Markdown or as a page
    Export(RunsExportArgs),
    /// Delete old runs; those that are driven stay, and so do those that can be resumed
    Prune(RunsPruneArgs),
    /// Delete runs
    Rm {
        /// Their ids, or the beginnings of them
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<String>,
    },
}

/// `ensemble models`.
#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// Ask every model for one word, and say what is wrong: no key, no server, no such model
    Check(ModelsArgs),
    /// List the models that each provider offers
    List(ModelsArgs),
}

/// Which models.
#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    /// The ensemble whose models are meant: a file, or the name of one; default: all profiles of the configuration
    #[arg(value_name = "FILE|NAME")]
    pub ensemble: Option<String>,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// How the answers are shown
    #[arg(long, value_enum, default_value_t = ModelsFormat::Human, value_name = "FORM")]
    pub format: ModelsFormat,
}

/// How the answers of models are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum ModelsFormat {
    /// A line for each.
    #[default]
    Human,
    /// One JSON document.
    Json,
}
