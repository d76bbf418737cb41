//! Commands that hold a conversation, or go on with one.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use ensemble_core::store::Durability;

/// `ensemble run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The ensemble: a file, or the name of one in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME")]
    pub ensemble: String,
    /// The input: a text, @FILE, or - for standard input
    #[arg(short, long, value_name = "TEXT|@FILE|-")]
    pub input: Option<String>,
    /// Say this when the conversation has ended, and go on; may be repeated
    #[arg(long = "then", value_name = "TEXT", action = ArgAction::Append)]
    pub then: Vec<String>,
    /// Put KEY into the context before the first turn; VALUE is JSON if it parses, else text
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Put every key of this YAML or JSON file into the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Show who would run first and why the others would not, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The ensemble: a file, or the name of one in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", required_unless_present = "run")]
    pub ensemble: Option<String>,
    /// Go on with this run, which has ended: its id, or the beginning of it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["ensemble", "set", "context"])]
    pub run: Option<String>,
    /// Put KEY into the context before the first turn; VALUE is JSON if it parses, else text
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Put every key of this YAML or JSON file into the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A run's id or its beginning, a journal, a run's folder, or a saved result
    #[arg(value_name = "RECORD", required_unless_present = "last")]
    pub record: Option<String>,
    /// The latest run
    #[arg(long, conflicts_with = "record")]
    pub last: bool,
    /// Decide by this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME")]
    pub ensemble: Option<String>,
    /// Run these agents for real instead of answering from the record
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    pub live: Vec<String>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
}

/// `ensemble resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: its id, the beginning of it, or the path of its folder or journal
    #[arg(value_name = "RUN", required_unless_present = "last")]
    pub run: Option<String>,
    /// The latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Go on with this ensemble instead of the recorded one, in a new run
    #[arg(long, value_name = "FILE|NAME")]
    pub ensemble: Option<String>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble continue`.
#[derive(Debug, Args)]
pub(crate) struct ContinueArgs {
    /// The run: its id, the beginning of it, or the path of its folder or journal
    #[arg(value_name = "RUN")]
    pub run: String,
    /// What is said: a text, @FILE, or - for standard input
    #[arg(value_name = "TEXT|@FILE|-")]
    pub message: String,
    /// Say this after that, and go on; may be repeated
    #[arg(long = "then", value_name = "TEXT", action = ArgAction::Append)]
    pub then: Vec<String>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run: its id, the beginning of it, or the path of its folder or journal
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The last turn to keep; 0 keeps only the input
    #[arg(long, value_name = "N")]
    pub at_turn: u32,
    /// Put KEY into the context before it goes on; VALUE is JSON if it parses, else text
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Go on with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME")]
    pub ensemble: Option<String>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// `ensemble rerun`.
#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run: its id, the beginning of it, or the path of its folder or journal
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The execution that is repeated: the agent, and the turn in which it ran
    #[arg(long, value_name = "AGENT@TURN")]
    pub from: String,
    /// Go on with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME")]
    pub ensemble: Option<String>,
    /// Who answers, and which models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// What is shown.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// How it is driven.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// Who answers, and which models.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct AnsweringArgs {
    /// Answer in the place of an input agent, every time it asks
    #[arg(long = "answer", value_name = "AGENT=TEXT", action = ArgAction::Append)]
    pub answer: Vec<String>,
    /// Answers from a YAML file: agent → text, or a list of texts by execution
    #[arg(long, value_name = "FILE")]
    pub answers: Option<PathBuf>,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Answer requests to models from this folder where it has the reply, and keep new replies there
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Ask no model: a request that --cache has no reply to fails
    #[arg(long, requires = "cache")]
    pub cache_only: bool,
    /// Let models call this tool without asking ('*': every tool); a server's tool is SERVER.TOOL
    #[arg(long = "allow-tool", value_name = "NAME", action = ArgAction::Append)]
    pub allow_tool: Vec<String>,
}

/// What is shown.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct ShowingArgs {
    /// human: the story; json: the result as one document; events: the journal's lines as they happen
    #[arg(long, value_enum, default_value_t = Output::Human, value_name = "FORM")]
    pub output: Output,
    /// Only the last word
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also why agents did not run, what they wrote to stderr, and what a context window left out
    #[arg(short, long)]
    pub verbose: bool,
}

/// The forms of a run's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// The story, for people.
    #[default]
    Human,
    /// The result as one JSON document.
    Json,
    /// The journal's lines as they happen.
    Events,
}

/// How a run is driven.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct DrivingArgs {
    /// End with exit code 4 when a limit ends the conversation
    #[arg(long)]
    pub fail_on_limit: bool,
    /// How much a power failure may take from the journal (a killed process loses nothing)
    #[arg(long, value_enum, default_value_t = Sync::Commit, value_name = "HOW")]
    durability: Sync,
}

/// How much a power failure may take, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Sync {
    /// What the operating system had not written yet.
    None,
    /// At most the turn under way.
    Turn,
    /// At most what was said in the last instant: everything is on the disk before the next execution begins.
    #[default]
    Commit,
}

impl DrivingArgs {
    /// How much a power failure may take.
    pub(crate) fn durability(&self) -> Durability {
        match self.durability {
            Sync::None => Durability::None,
            Sync::Turn => Durability::Turn,
            Sync::Commit => Durability::Commit,
        }
    }
}
