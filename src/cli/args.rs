//! The command line: what can be typed, and the words that `--help` prints.

mod lookback;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::journal::Durability;

pub use lookback::{EstimateArgs, ExportFormat, RunsDiffArgs, RunsExportArgs, RunsPruneArgs, RunsShowArgs, Told};

/// Run, validate and replay conversations between agents, described in YAML.
#[derive(Debug, Parser)]
#[command(name = "ensemble", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Colours: on a terminal, always, or never
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
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

/// `ensemble run`.
#[derive(Debug, Args)]
pub struct RunArgs {
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
pub struct ChatArgs {
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

/// Who answers, and which models.
#[derive(Debug, Args, Clone, Default)]
pub struct AnsweringArgs {
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

/// How a run is driven.
#[derive(Debug, Args, Clone, Default)]
pub struct DrivingArgs {
    /// End with exit code 4 when a limit ends the conversation
    #[arg(long)]
    pub fail_on_limit: bool,
    /// How much a power failure may take from the journal (a killed process loses nothing)
    #[arg(long, value_enum, default_value_t = Durability::Commit, value_name = "HOW")]
    pub durability: Durability,
}

/// What is shown.
#[derive(Debug, Args, Clone, Default)]
pub struct ShowingArgs {
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
pub enum Output {
    /// The story, for people.
    #[default]
    Human,
    /// The result as one JSON document.
    Json,
    /// The journal's lines as they happen.
    Events,
}

/// `ensemble validate`.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Files, folders (searched for .yaml and .yml), patterns, or - for standard input; default: `ensembles`, else this folder
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// How findings are shown
    #[arg(long, value_enum, default_value_t = ValidateFormat::Human, value_name = "FORM")]
    pub format: ValidateFormat,
    /// Warnings fail too
    #[arg(long)]
    pub deny_warnings: bool,
    /// Pass over findings of this code, a warning's or a hint's; in a file, `# ensemble: allow(CODE) reason` does
    #[arg(long, value_name = "CODE", value_delimiter = ',', action = ArgAction::Append)]
    pub allow: Vec<String>,
    /// Take findings of this code as errors
    #[arg(long, value_name = "CODE", value_delimiter = ',', action = ArgAction::Append)]
    pub deny: Vec<String>,
    /// Say nothing where nothing is wrong
    #[arg(short, long)]
    pub quiet: bool,
}

/// How findings are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ValidateFormat {
    /// With source line, caret and help.
    #[default]
    Human,
    /// One versioned JSON document.
    Json,
    /// Workflow commands, which GitHub Actions shows at the lines of a pull request.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for CI servers: a test case for each file.
    Junit,
}

/// `ensemble explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code, such as E021; without one, all codes are listed
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// `ensemble check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The ensemble: a file, or the name of one
    #[arg(value_name = "FILE|NAME")]
    pub ensemble: String,
    /// The form of the report
    #[arg(long, value_enum, default_value_t = CheckFormat::Human, value_name = "FORM")]
    pub format: CheckFormat,
    /// Give up after so many states, and say what was seen until then
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_states: u32,
}

/// The forms of what `check` reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CheckFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// `ensemble graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// The ensemble: a file, or the name of one; with --run, the one that was run is the default
    #[arg(value_name = "FILE|NAME", required_unless_present = "run")]
    pub ensemble: Option<String>,
    /// The form of the picture
    #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid, value_name = "FORM")]
    pub format: GraphFormat,
    /// Show what became of it in this run: who ran how often, who failed, who did not run and why
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
}

/// The forms of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum GraphFormat {
    /// A flowchart that forges and editors draw.
    #[default]
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A picture of its own, for browsers and documents.
    Svg,
    /// Plain text.
    Ascii,
}

/// `ensemble init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The ensemble's name; default: this folder's
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// `ensemble import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
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
pub struct ManArgs {
    /// The page of this command; without it, that of the program
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub command: Option<String>,
    /// Write all pages into this folder
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// `ensemble replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
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
pub struct ResumeArgs {
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
pub struct ContinueArgs {
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
pub struct ForkArgs {
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
pub struct RerunArgs {
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

/// `ensemble runs`.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
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
pub enum ModelsCommand {
    /// Ask every model for one word, and say what is wrong: no key, no server, no such model
    Check(ModelsArgs),
    /// List the models that each provider offers
    List(ModelsArgs),
}

/// Which models.
#[derive(Debug, Args)]
pub struct ModelsArgs {
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
pub enum ModelsFormat {
    /// A line for each.
    #[default]
    Human,
    /// One JSON document.
    Json,
}
