//! Commands that read ensemble files and execute nothing.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::OutputForm;
use crate::command::setup::completions;

/// `ensemble validate`.
#[derive(Debug, Default, Args)]
pub(crate) struct ValidateArgs {
    /// Files, folders (searched for ensembles: .yaml and .yml files with `agents`), patterns, or - for standard input; default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completions::ensembles())]
    pub paths: Vec<String>,
    /// The output format of the findings [default: human]
    #[arg(long, alias = "format", value_enum, value_name = "FORM")]
    pub output: Option<ValidateFormat>,
    /// Exit with code 2 also for warnings
    #[arg(long, overrides_with = "no_deny_warnings")]
    pub deny_warnings: bool,
    /// Exit with code 0 for warnings, also if the configuration denies them
    #[arg(long, overrides_with = "deny_warnings")]
    pub no_deny_warnings: bool,
    /// Ignore findings with this code of a warning or a hint; in a file, use `# ensemble: allow(CODE) reason`
    #[arg(long, value_name = "CODE", add = completions::codes(), value_delimiter = ',', action = ArgAction::Append)]
    pub allow: Vec<String>,
    /// Treat findings with this code as errors
    #[arg(long, value_name = "CODE", add = completions::codes(), value_delimiter = ',', action = ArgAction::Append)]
    pub deny: Vec<String>,
    /// Check for runs in CI, where nobody answers: also warn of questions without an answer
    #[arg(long, overrides_with = "no_ci")]
    pub ci: bool,
    /// Also let `python3`, `sh`, `bash` and `node` parse the scripts that the ensembles name; nothing of them is executed
    #[arg(long)]
    pub check_scripts: bool,
    /// Apply the safe fixes of the findings to the files, and report what is left; with -, print the text
    #[arg(long)]
    pub fix: bool,
    /// With --fix or --diff: also apply the fixes that may change the meaning, or remove something
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Show what --fix would change, and write nothing; exit with code 1 if something would change
    #[arg(long, conflicts_with = "fix")]
    pub diff: bool,
    /// Check for runs with a person, also if the configuration says `ci`
    #[arg(long, overrides_with = "ci")]
    pub no_ci: bool,
    /// Leave these files and folders out of the search in folders, as a line of a .gitignore would
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub exclude: Vec<String>,
    /// Leave out excluded and ignored files also if they are named themselves, for callers that name all changed files
    #[arg(long)]
    pub force_exclude: bool,
    /// Search also what .gitignore and .ignore name
    #[arg(long)]
    pub no_ignore: bool,
    /// Take no levels, exclusions and options from `validate` in `.ensemble/config.yaml`
    #[arg(long)]
    pub no_config: bool,
    /// Print nothing if there are no findings
    #[arg(short, long)]
    pub quiet: bool,
    /// List the files and folders that were left out, and why
    #[arg(short, long)]
    pub verbose: bool,
}

/// The output format of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ValidateFormat {
    /// Readable text with source line, caret and help.
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
pub(crate) struct ExplainArgs {
    /// A code such as E021, or an ensemble: a file or a name; without it, all codes are listed
    #[arg(value_name = "CODE|FILE|NAME", add = completions::codes_and_ensembles())]
    pub code: Option<String>,
}

/// `ensemble check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The ensemble: a file, or the name of an ensemble
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: String,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
    /// Stop after this number of states, and report what was explored
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_states: u32,
    /// Stop after this time, and report what was explored; for all files together
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub max_time: Duration,
    /// Explore runs in CI, where nobody answers: also warn of questions without an answer
    #[arg(long)]
    pub ci: bool,
}

/// `ensemble graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The ensemble: a file, or the name of an ensemble; default with --run or --last: the recorded ensemble
    #[arg(value_name = "FILE|NAME", add = completions::ensembles(), required_unless_present_any = ["run", "last"])]
    pub ensemble: Option<String>,
    /// The format of the picture
    #[arg(long, alias = "format", value_enum, default_value_t = GraphFormat::Mermaid, value_name = "FORM")]
    pub output: GraphFormat,
    /// Add the data of this run: how often each agent ran and failed, and why other agents did not run
    #[arg(long, value_name = "RUN", add = completions::runs())]
    pub run: Option<String>,
    /// Add the data of the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
}

/// The formats of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A flowchart that code hosting sites and editors can draw.
    #[default]
    Mermaid,
    /// For Graphviz.
    Dot,
    /// A complete picture for browsers and documents.
    Svg,
    /// Plain text.
    Ascii,
}
