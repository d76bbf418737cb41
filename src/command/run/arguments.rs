//! Options that the commands share which run a conversation.

use crate::command::setup::completions;
use clap::{ArgAction, Args, ValueEnum};
use ensemble_core::store::Durability;
use std::path::PathBuf;

/// Answers and models.
#[derive(Debug, Args, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnsweringArgs {
    /// Answer the next question of this agent; repeat the option for later questions
    #[arg(long = "answer", value_name = "ADDRESS=TEXT", add = completions::complete_answer_addresses(), action = ArgAction::Append)]
    pub answer: Vec<String>,
    /// Answer every question of this agent
    #[arg(long = "always-answer", value_name = "ADDRESS=TEXT", add = completions::complete_answer_addresses(), action = ArgAction::Append)]
    pub always_answer: Vec<String>,
    /// Read answers from a YAML file. The file maps each agent to a string, or to a list with one string for each
    /// execution. For `batch`, it can also map rows to such maps, in YAML, JSON or CSV
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Use another model for a profile ('*' for all): PROVIDER/MODEL, or simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Reuse the model replies in this folder, and store new replies there
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Call no model: a request without a reply in the cache fails
    #[arg(long, requires = "cache")]
    pub cache_only: bool,
    /// Allow models to call this tool without asking. NAME is a tool, SERVER.TOOL, the address of one call, or '*' for
    /// every tool
    #[arg(long = "allow-tool", value_name = "NAME", action = ArgAction::Append)]
    pub allow_tool: Vec<String>,
    /// Deny calls of this tool that need permission; overrides --allow-tool. NAME is the same as for --allow-tool
    #[arg(long = "deny-tool", value_name = "NAME", action = ArgAction::Append)]
    pub deny_tool: Vec<String>,
    /// Read the servers of tools with `mcp: client` from a file such as `.mcp.json`. The file has the form
    /// {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// Output.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct RunOutputArgs {
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = RunOutputFormat::Human, value_name = "FORM")]
    pub output: RunOutputFormat,
    /// Print only the final output
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print stderr, why agents did not run, and what context windows left out
    #[arg(short, long)]
    pub verbose: bool,
}

/// The output formats of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RunOutputFormat {
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
pub(crate) struct RunExecutionArgs {
    /// Exit with code 4 instead of 0 if an agent still had work at its own limit
    #[arg(long)]
    pub fail_on_limit: bool,
    /// Also print text while it arrives, tool calls and retries; needs --output events. The lines have the key `live`
    #[arg(long)]
    pub live: bool,
    /// Limit the records that a power failure can lose; a killed process loses none
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Commit, value_name = "HOW")]
    durability: DurabilityChoice,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

impl RunExecutionArgs {
    /// Returns the durability of the journal that the option selects.
    pub(crate) fn journal_durability(&self) -> Durability {
        self.durability.to_durability()
    }
}

/// Telemetry.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct TelemetryArgs {
    /// Send OpenTelemetry spans to a collector. OTEL_EXPORTER_OTLP_ENDPOINT is its address; default:
    /// http://localhost:4318
    #[arg(long)]
    pub otlp: bool,
    /// Add content to the spans: inputs, prompts, replies, tool calls and outputs
    #[arg(long)]
    pub otlp_content: bool,
}

/// The part of a journal that a power failure can lose, as an option value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DurabilityChoice {
    /// All records that the operating system has not written yet.
    None,
    /// At most the records of the current turn.
    Turn,
    /// At most the latest records: each result is saved before the next execution.
    #[default]
    Commit,
}

impl DurabilityChoice {
    /// Converts the option value to the durability of a journal.
    pub(crate) fn to_durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Turn => Durability::Turn,
            Self::Commit => Durability::Commit,
        }
    }
}
