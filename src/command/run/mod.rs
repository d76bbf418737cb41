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

use crate::command::run::arguments::{AnsweringArgs, DrivingArgs, ShowingArgs};
use crate::command::setup::completions;
use clap::{ArgAction, Args};
use std::path::PathBuf;

/// `ensemble run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The ensemble: a file, or the name of an ensemble in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// The input: a text, @FILE, or - for standard input
    #[arg(short, long, value_name = "TEXT|@FILE|-")]
    pub input: Option<String>,
    /// Add this message when the conversation has ended, and continue; can be repeated
    #[arg(long = "then", value_name = "TEXT", action = ArgAction::Append)]
    pub then: Vec<String>,
    /// Give the input KEY, or add KEY to the context if the ensemble declares no inputs; VALUE is JSON, or a string if it
    /// is not valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Give every key of this YAML or JSON file as an input, or add it to the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Do not run this agent: this text stands in for each of its results (JSON gives a JSON output); the run and those that go on from it say so
    #[arg(long = "stub", value_name = "AGENT=TEXT|@FILE", add = completions::complete_stubs(), action = ArgAction::Append)]
    pub stub: Vec<String>,
    /// Let the model of this profile answer the questions of this input agent
    #[arg(long = "respond", value_name = "AGENT=PROFILE", add = completions::complete_answers(), action = ArgAction::Append)]
    pub respond: Vec<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Print which agents would run first and why the others would not, and execute nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Serve a page for the browser that shows the run and asks its questions; it stays until Ctrl-C
    #[arg(long, conflicts_with_all = ["then", "dry_run", "on"])]
    pub ui: bool,
    /// The port of the page (0: any that is free)
    #[arg(long, value_name = "PORT", requires = "ui")]
    pub port: Option<u16>,
    /// Run on a durable execution engine, by the address of its ingress, in place of this process: see docs/scale.md
    #[arg(long, value_name = "URL", conflicts_with_all = ["then", "stub", "respond", "cache", "cache_only", "mcp_config", "dry_run", "live", "durability"])]
    pub on: Option<String>,
    /// With --on: print the id of the run, and do not wait for its end
    #[arg(long, requires = "on")]
    pub detach: bool,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
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
    pub showing: ShowingArgs,
    /// The run is on a durable execution engine, with this address: show it from its start, and answer its questions
    #[arg(long, value_name = "URL", conflicts_with_all = ["ensemble", "model", "cache", "cache_only", "mcp_config", "live", "durability"])]
    pub on: Option<String>,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}
