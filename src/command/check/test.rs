//! `ensemble test`: holds the conversations of test files, and compares them with what is expected.
//!
//! Files are tried on all cores; results are printed in the order of the files.

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
    /// Test files (*.test.yaml), ensembles, whose test files are beside them, folders (searched for test files), or patterns; default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completions::complete_ensembles())]
    pub paths: Vec<String>,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = TestFormat::Human, value_name = "FORM")]
    pub output: TestFormat,
    /// Only the cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Also report which agents, dependencies, conditions and outcomes no case reaches
    #[arg(long)]
    pub coverage: bool,
    /// Draw the graph of the ensemble with what the cases reach, into this file: .svg, .mmd (Mermaid), .dot or .txt; for one test file
    #[arg(long, value_name = "FILE", requires = "coverage")]
    pub graph: Option<PathBuf>,
    /// Write what happened in the place of expectations that it contradicts; not in CI (the variable CI)
    #[arg(long, conflicts_with = "mutate")]
    pub update: bool,
    /// With --update: write also in CI
    #[arg(long, requires = "update")]
    pub force_update: bool,
    /// Print cases for what no case reaches, to be added to the test file; what was tried goes to standard error
    #[arg(long, conflicts_with_all = ["update", "mutate"])]
    pub suggest: bool,
    /// Change conditions, limits and dependencies of the ensembles in memory, and report the changes that no case notices
    #[arg(long)]
    pub mutate: bool,
    /// Try the cases again whenever a file changes on which they depend, until Ctrl-C
    #[arg(long, conflicts_with_all = ["update", "suggest", "mutate", "graph"])]
    pub watch: bool,
    /// With --mutate: the time after which no further change is tried, such as `30s` or `5m`
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

/// `ensemble test`.
pub(crate) fn test(args: &TestArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    updates::check_update_allowed(args)?;
    match args.watch {
        true => watch::watch_tests(args, surroundings),
        false => report::test_once(args, &files::collect_test_files(args, surroundings)?, surroundings),
    }
}
