//! `ensemble test`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::completing;

/// `ensemble test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Test files (*.test.yaml), ensembles, whose test files are beside them, folders (searched for test files), or patterns; default: `ensembles`, or else the current folder
    #[arg(value_name = "PATH", add = completing::ensembles())]
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
