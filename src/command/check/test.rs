//! `ensemble test`: runs the cases of test files, and compares the results with the expectations.
//!
//! Files are tested on all cores. Results are printed in the order of the files.

mod case;
mod coverage_picture;
mod dependencies;
mod files;
mod mutations;
mod report;
mod suggestions;
mod trial;
mod updates;
mod watch;

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `ensemble test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Test files (*.test.yaml), ensembles, folders, or patterns. An ensemble selects the test files next to it, a
    /// folder all test files in it. Default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completions::complete_ensembles())]
    pub paths: Vec<String>,
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = TestFormat::Human, value_name = "FORM")]
    pub output: TestFormat,
    /// Run only the cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Also report which agents, dependencies, conditions and outcomes no case reaches
    #[arg(long)]
    pub coverage: bool,
    /// Draw the graph with the coverage of one test file; needs --coverage. The name of the file ends with .svg, .mmd
    /// (Mermaid), .dot or .txt
    #[arg(long, value_name = "FILE", requires = "coverage")]
    pub graph: Option<PathBuf>,
    /// Replace failed expectations with the actual values. If the variable CI is set, this needs --force-update
    #[arg(long, conflicts_with = "mutate")]
    pub update: bool,
    /// Allow --update to write in CI
    #[arg(long, requires = "update")]
    pub force_update: bool,
    /// Print new cases for everything that no case reaches. Add the cases to the test file; standard error shows what
    /// was tried
    #[arg(long, conflicts_with_all = ["update", "mutate"])]
    pub suggest: bool,
    /// Change the ensembles in memory, and report changes that no case detects. The changes affect conditions, limits
    /// and dependencies
    #[arg(long)]
    pub mutate: bool,
    /// Run the cases again when a file that they depend on changes, until Ctrl-C
    #[arg(long, conflicts_with_all = ["update", "suggest", "mutate", "graph"])]
    pub watch: bool,
    /// Try no further changes after this time, such as `30s` or `5m`; needs --mutate
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration, requires = "mutate")]
    pub max_time: Duration,
}
/// The output format of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TestFormat {
    /// A line for each case, then the failures.
    #[default]
    Human,
    /// One versioned JSON document.
    Json,
    /// Workflow commands, which GitHub Actions shows at the lines of a pull request.
    Github,
    /// JUnit XML, for CI servers: a test case for each case.
    Junit,
}

/// Executes `ensemble test` once, or until Ctrl-C with `--watch`. Returns the exit code.
pub(crate) fn run_test_command(args: &TestArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    updates::check_update_allowed(args)?;
    match args.watch {
        true => watch::watch_tests(args, surroundings),
        false => report::test_files_and_print(args, &files::collect_test_files(args, surroundings)?, surroundings),
    }
}
