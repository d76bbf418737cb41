//! Commands that read ensemble files and execute no run.

#[expect(clippy::module_inception, reason = "a file is named after its command")]
pub(super) mod check;
pub(super) mod explain;
pub(super) mod files;
pub(super) mod fixes;
pub(super) mod graph;
pub(super) mod list;
pub(super) mod picture;
pub(super) mod policy;
pub(super) mod settings;
pub(super) mod test;
pub(super) mod validate;

use crate::command::setup::completions;
use clap::{ArgAction, Args, ValueEnum};

/// `ensemble validate`.
#[derive(Debug, Default, Args)]
pub(crate) struct ValidateArgs {
    /// Files, folders (searched for ensembles: .yaml and .yml files with `agents`), patterns, or - for standard input; default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completions::complete_ensembles())]
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
    #[arg(long, value_name = "CODE", add = completions::complete_codes(), value_delimiter = ',', action = ArgAction::Append)]
    pub allow: Vec<String>,
    /// Treat findings with this code as errors
    #[arg(long, value_name = "CODE", add = completions::complete_codes(), value_delimiter = ',', action = ArgAction::Append)]
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
