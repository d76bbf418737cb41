//! Commands that run a conversation, or continue one.

pub(super) mod arguments;
pub(super) mod batch;
pub(super) mod chat;
pub(super) mod driver;
pub(super) mod engine;
pub(super) mod fork;
pub(super) mod replay;
pub(super) mod reporters;
pub(super) mod resume;
#[expect(clippy::module_inception, reason = "a file is named after its command")]
pub(super) mod run;
pub(super) mod run_options;

use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs, RunOutputArgs};
use crate::command::setup::completions;
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// `ensemble run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The ensemble: a file, or a name in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Pass this input: a text, @FILE, or - for standard input
    #[arg(short, long, value_name = "TEXT|@FILE|-")]
    pub input: Option<String>,
    /// Add this message when the conversation has ended, and continue; can be repeated
    #[arg(long = "then", value_name = "TEXT", action = ArgAction::Append)]
    pub then: Vec<String>,
    /// Pass the input KEY; can be repeated. VALUE is JSON, or a string if VALUE is not valid JSON. If the ensemble
    /// declares no inputs, KEY is added to the context
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Pass each key of this YAML or JSON file as an input. If the ensemble declares no inputs, the keys are added to
    /// the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Replace every result of this agent with TEXT; the agent does not run. A TEXT that is valid JSON becomes a JSON
    /// output. The reports of the run, and of runs that continue it, name the stub
    #[arg(long = "stub", value_name = "AGENT=TEXT|@FILE", add = completions::complete_stub_agents(), action = ArgAction::Append)]
    pub stub: Vec<String>,
    /// Let the model of this profile answer for this input agent or script agent
    #[arg(long = "respond", value_name = "AGENT=PROFILE", add = completions::complete_responder_agents(), action = ArgAction::Append)]
    pub respond: Vec<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Print which agents would run first and why others would not, but run none
    #[arg(long)]
    pub dry_run: bool,
    /// Serve a browser page that shows the run and asks its questions, until Ctrl-C
    #[arg(long, conflicts_with_all = ["then", "dry_run", "on"])]
    pub ui: bool,
    /// Use this port for the page (0: any free port)
    #[arg(long, value_name = "PORT", requires = "ui")]
    pub port: Option<u16>,
    /// Run on the durable execution engine with this ingress address (docs/scale.md)
    #[arg(long, value_name = "URL", conflicts_with_all = ["then", "stub", "respond", "cache", "cache_only", "mcp_config", "dry_run", "live", "durability"])]
    pub on: Option<String>,
    /// Print the run id and exit, without waiting for the run to end; needs --on
    #[arg(long, requires = "on")]
    pub detach: bool,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// `ensemble resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::complete_runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Continue with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Resume a run on the durable execution engine with this ingress address. The command shows the run from its
    /// start, and answers its questions
    #[arg(long, value_name = "URL", conflicts_with_all = ["ensemble", "model", "cache", "cache_only", "mcp_config", "live", "durability"])]
    pub on: Option<String>,
    /// Use this admin address of the engine, which resumes a paused run; default: port 9070 of the host of --on
    #[arg(long, value_name = "URL", requires = "on")]
    pub admin: Option<String>,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}
