//! Commands that look at ensemble files and run nothing.

use clap::{ArgAction, Args, ValueEnum};

/// `ensemble validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
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
pub(crate) enum ValidateFormat {
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
pub(crate) struct ExplainArgs {
    /// The code, such as E021; without one, all codes are listed
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// `ensemble check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
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
pub(crate) enum CheckFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// `ensemble graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
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
pub(crate) enum GraphFormat {
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
