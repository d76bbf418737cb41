//! Commands that run a conversation, or continue one.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use crate::command::setup::completions;
use ensemble_core::store::Durability;

/// `ensemble run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The ensemble: a file, or the name of an ensemble in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
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
    #[arg(long = "stub", value_name = "AGENT=TEXT|@FILE", add = completions::stubs(), action = ArgAction::Append)]
    pub stub: Vec<String>,
    /// Let the model of this profile answer the questions of this input agent
    #[arg(long = "respond", value_name = "AGENT=PROFILE", add = completions::answers(), action = ArgAction::Append)]
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

/// `ensemble chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The ensemble: a file, or the name of an ensemble in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Continue this run, which has ended: its id, or the beginning of its id
    #[arg(long, value_name = "RUN", add = completions::runs(), conflicts_with_all = ["ensemble", "set", "context"])]
    pub run: Option<String>,
    /// Continue the latest run
    #[arg(long, conflicts_with_all = ["run", "ensemble", "set", "context"])]
    pub last: bool,
    /// Give the input KEY, or add KEY to the context if the ensemble declares no inputs; VALUE is JSON, or a string if it
    /// is not valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Give every key of this YAML or JSON file as an input, or add it to the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A run id or its beginning, a journal, the folder of a run, or a saved result
    #[arg(value_name = "RECORD", add = completions::runs(), required_unless_present = "last")]
    pub record: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "record")]
    pub last: bool,
    /// Use this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Execute these agents instead of reading their outputs from the record
    #[arg(long, value_name = "AGENT", add = completions::agents(), value_delimiter = ',')]
    pub live: Vec<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
}

/// `ensemble resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Continue with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
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

/// `ensemble continue`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct ContinueArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
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
    /// Set an input or a value of the context; the value is JSON, or a text
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Continue with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The last turn to keep; 0 keeps only the input
    #[arg(long, value_name = "N")]
    pub at_turn: u32,
    /// Give the input KEY anew, or add KEY to the context, before the run continues; VALUE is JSON, or a string if it is not
    /// valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Continue with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble rerun`.
#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The execution to repeat: the agent and the turn in which it ran; AGENT[KEY]@TURN repeats one of its parts
    #[arg(long, value_name = "AGENT@TURN", add = completions::executions())]
    pub from: String,
    /// Continue with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// Answers and models.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct AnsweringArgs {
    /// Answer the next question of this agent; given n times, the next n questions
    #[arg(long = "answer", value_name = "ADDRESS=TEXT", add = completions::answers(), action = ArgAction::Append)]
    pub answer: Vec<String>,
    /// Answer every question of this agent
    #[arg(long = "always-answer", value_name = "ADDRESS=TEXT", add = completions::answers(), action = ArgAction::Append)]
    pub always_answer: Vec<String>,
    /// Read answers from a YAML file: a map from agents to a string, or to a list of strings, one for each execution
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Read replies of models from this folder if it contains them, and store new replies there
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Call no model: a request without a reply in the cache fails
    #[arg(long, requires = "cache")]
    pub cache_only: bool,
    /// Allow models to call this tool without asking ('*': every tool; SERVER.TOOL; the address of one call)
    #[arg(long = "allow-tool", value_name = "NAME", action = ArgAction::Append)]
    pub allow_tool: Vec<String>,
    /// Deny calls of this tool that need permission, or the call with this address; wins over --allow-tool
    #[arg(long = "deny-tool", value_name = "NAME", action = ArgAction::Append)]
    pub deny_tool: Vec<String>,
    /// Read the servers of tools with `mcp: client` from a JSON file such as `.mcp.json`: {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// Output.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct ShowingArgs {
    /// human: readable text; json: the result as one document; events: the lines of the journal as they are written
    #[arg(long, alias = "format", value_enum, default_value_t = Output::Human, value_name = "FORM")]
    pub output: Output,
    /// Print only the final output
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print why agents did not run, their stderr, and what a context window left out
    #[arg(short, long)]
    pub verbose: bool,
}

/// The output formats of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// Readable text, turn by turn.
    #[default]
    Human,
    /// The result as one JSON document.
    Json,
    /// The lines of the journal as they are written.
    Events,
}

/// The execution of a run.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct DrivingArgs {
    /// Use exit code 4 if a limit ends the conversation
    #[arg(long)]
    pub fail_on_limit: bool,
    /// With --output events: also print the text of models while it arrives, the begin and end of tool calls, and retries,
    /// as lines with the key `live`
    #[arg(long)]
    pub live: bool,
    /// How much of the journal a power failure can lose (a killed process loses nothing)
    #[arg(long, value_enum, default_value_t = Sync::Commit, value_name = "HOW")]
    durability: Sync,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Telemetry.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct TelemetryArgs {
    /// Send OpenTelemetry spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, by default http://localhost:4318
    #[arg(long)]
    pub otlp: bool,
    /// Spans also contain what was said: inputs, prompts, replies, arguments and results of tools, outputs
    #[arg(long)]
    pub otlp_content: bool,
}

/// The part of a journal that a power failure can lose, as an option value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Sync {
    /// What the operating system has not written yet.
    None,
    /// At most the current turn.
    Turn,
    /// At most the last instant: every result is on the disk before the next execution starts.
    #[default]
    Commit,
}

impl DrivingArgs {
    /// Returns which part of a journal a power failure can lose.
    pub(crate) fn durability(&self) -> Durability {
        self.durability.durability()
    }
}

impl Sync {
    /// Returns which part of a journal a power failure can lose.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Turn => Durability::Turn,
            Self::Commit => Durability::Commit,
        }
    }
}
