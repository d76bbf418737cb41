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
mod report_format;
pub(super) mod settings;
pub(super) mod test;
pub(super) mod validate;

use crate::command::setup::completions;
use clap::{ArgAction, Args, ValueEnum};

/// `ensemble validate`.
#[derive(Debug, Default, Args)]
pub(crate) struct ValidateArgs {
    /// Files, folders, patterns, or - for standard input. In folders, all .yaml and .yml files with `agents` are
    /// checked. Default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completions::complete_ensembles())]
    pub paths: Vec<String>,
    /// Choose the output format of the findings [default: human]
    #[arg(long, alias = "format", value_enum, value_name = "FORM")]
    pub output: Option<ValidateFormat>,
    /// Exit with code 2 also for warnings
    #[arg(long, overrides_with = "no_deny_warnings")]
    pub deny_warnings: bool,
    /// Exit with code 0 for warnings, even if the configuration denies warnings
    #[arg(long, overrides_with = "deny_warnings")]
    pub no_deny_warnings: bool,
    /// Ignore warnings or hints with this code. To ignore one finding in a file, write `# ensemble: allow(CODE) reason`
    #[arg(long, value_name = "CODE", add = completions::complete_codes(), value_delimiter = ',', action = ArgAction::Append)]
    pub allow: Vec<String>,
    /// Treat findings with this code as errors
    #[arg(long, value_name = "CODE", add = completions::complete_codes(), value_delimiter = ',', action = ArgAction::Append)]
    pub deny: Vec<String>,
    /// Check for runs in CI, where no user answers; warn of questions without an answer
    #[arg(long, overrides_with = "no_ci")]
    pub ci: bool,
    /// Also check the syntax of scripts with `python3`, `sh`, `bash` and `node`. The scripts are parsed, but not
    /// executed
    #[arg(long)]
    pub check_scripts: bool,
    /// Apply the safe fixes to the files, and report the remaining findings. With -, print the fixed text
    #[arg(long)]
    pub fix: bool,
    /// Also apply fixes that can change the meaning or remove text. Needs --fix or --diff
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Show what --fix would change, and write nothing. The exit code is 1 if --fix would change something
    #[arg(long, conflicts_with = "fix")]
    pub diff: bool,
    /// Check for runs with a user, even if the configuration sets `ci`
    #[arg(long, overrides_with = "ci")]
    pub no_ci: bool,
    /// Leave files and folders that match this .gitignore pattern out of the search
    #[arg(long, value_name = "GLOB", action = ArgAction::Append)]
    pub exclude: Vec<String>,
    /// Leave out excluded and ignored files even if they are arguments. This is for callers that pass all changed files
    #[arg(long)]
    pub force_exclude: bool,
    /// Also search the files and folders that .gitignore and .ignore name
    #[arg(long)]
    pub no_ignore: bool,
    /// Ignore the `validate` settings in `.ensemble/config.yaml`
    #[arg(long)]
    pub no_config: bool,
    /// Print nothing if there are no findings
    #[arg(short, long)]
    pub quiet: bool,
    /// List the files and folders that were left out, with the reasons
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
