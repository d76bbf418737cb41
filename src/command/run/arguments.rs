//! The options that commands share which run a conversation.

use crate::command::setup::completions;
use clap::{ArgAction, Args, ValueEnum};
use ensemble_core::store::Durability;
use std::path::PathBuf;

/// Answers and models.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct AnsweringArgs {
    /// Answer the next question of this agent; given n times, the next n questions
    #[arg(long = "answer", value_name = "ADDRESS=TEXT", add = completions::complete_answers(), action = ArgAction::Append)]
    pub answer: Vec<String>,
    /// Answer every question of this agent
    #[arg(long = "always-answer", value_name = "ADDRESS=TEXT", add = completions::complete_answers(), action = ArgAction::Append)]
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
    #[arg(long, alias = "format", value_enum, default_value_t = RunOutput::Human, value_name = "FORM")]
    pub output: RunOutput,
    /// Print only the final output
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print why agents did not run, their stderr, and what a context window left out
    #[arg(short, long)]
    pub verbose: bool,
}

/// The output formats of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RunOutput {
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
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Commit, value_name = "HOW")]
    durability: DurabilityChoice,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

impl DrivingArgs {
    /// Returns which part of a journal a power failure can lose.
    pub(crate) fn chosen_durability(&self) -> Durability {
        self.durability.to_durability()
    }
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
pub(crate) enum DurabilityChoice {
    /// What the operating system has not written yet.
    None,
    /// At most the current turn.
    Turn,
    /// At most the last instant: every result is on the disk before the next execution starts.
    #[default]
    Commit,
}

impl DurabilityChoice {
    /// Returns which part of a journal a power failure can lose.
    pub(crate) fn to_durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Turn => Durability::Turn,
            Self::Commit => Durability::Commit,
        }
    }
}
