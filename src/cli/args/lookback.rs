//! What can be typed about runs that were recorded.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Output;
use ensemble_core::conversation::CompletionReason;

/// `ensemble runs show`.
#[derive(Debug, Args)]
pub(crate) struct RunsShowArgs {
    /// The run's id, the beginning of it, or its folder; default: the latest run
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Whole outputs, what each execution read, and what it wrote to stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Go on until the run ends, while another process drives it
    #[arg(short, long)]
    pub follow: bool,
    /// human: the story; json: the same as one document; events: the journal's lines
    #[arg(long, value_enum, default_value_t = Output::Human, value_name = "FORM")]
    pub output: Output,
}

/// `ensemble runs diff`.
#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    /// A run's id or its beginning, a journal, a run's folder, or a saved result
    #[arg(value_name = "A")]
    pub a: String,
    /// The other one
    #[arg(value_name = "B")]
    pub b: String,
    /// How the differences are shown
    #[arg(long, value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

/// For whom something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputForm {
    /// For people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// `ensemble runs export`.
#[derive(Debug, Args)]
pub(crate) struct RunsExportArgs {
    /// The run's id, the beginning of it, or its folder; default: the latest run
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// The form of the document
    #[arg(long, value_enum, default_value_t = ExportFormat::Json, value_name = "FORM")]
    pub format: ExportFormat,
    /// Write to this file instead of standard output
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The forms of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The result, as `run --output json` prints it.
    #[default]
    Json,
    /// The story, as forges show it.
    Markdown,
    /// The story as one page for a browser, which needs nothing else.
    Html,
}

/// `ensemble runs prune`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct RunsPruneArgs {
    /// Keep the N latest runs
    #[arg(long, value_name = "N", group = "which")]
    pub keep: Option<usize>,
    /// Only runs whose last record is older than this: 90s, 30m, 12h, 7d, 4weeks
    #[arg(long, value_name = "AGE", group = "which", value_parser = humantime::parse_duration)]
    pub older_than: Option<std::time::Duration>,
    /// Only runs that ended so; several with commas
    #[arg(long, value_name = "OUTCOME", group = "which", value_delimiter = ',', value_parser = CompletionReason::ALL.map(CompletionReason::as_str))]
    pub outcome: Vec<String>,
    /// Also runs that could still be resumed: interrupted, waiting, crashed
    #[arg(long)]
    pub resumable: bool,
    /// Say what would be deleted, and delete nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// `ensemble estimate`.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// The ensemble that is to run: a file, or the name of one
    #[arg(value_name = "FILE|NAME")]
    pub ensemble: String,
    /// The run whose path is taken for the estimate
    #[arg(long, value_name = "RUN")]
    pub from: String,
    /// How it is shown
    #[arg(long, value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}
