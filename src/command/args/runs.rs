//! The arguments of the commands for recorded runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Output;
use crate::command::setup::completions;
use ensemble_core::conversation::CompletionReason;

/// `ensemble runs show`.
#[derive(Debug, Args)]
pub(crate) struct RunsShowArgs {
    /// The id of the run, the beginning of the id, or its folder; default: the latest run
    #[arg(value_name = "RUN", add = completions::runs())]
    pub run: Option<String>,
    /// Use the latest run, as without RUN
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Also print complete outputs, what each execution read and was asked, and its stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Print what the models were sent and what they replied, complete; of one agent, or of one of its executions
    #[arg(long, value_name = "AGENT[@TURN]", num_args = 0..=1, default_missing_value = "", conflicts_with = "follow")]
    pub messages: Option<String>,
    /// Keep printing until the run ends, while another process executes it
    #[arg(short, long)]
    pub follow: bool,
    /// human: readable text; json: the same as one document; events: the lines of the journal
    #[arg(long, alias = "format", value_enum, default_value_t = Output::Human, value_name = "FORM")]
    pub output: Output,
}

/// `ensemble runs diff`.
#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    /// A run id or its beginning, a journal, the folder of a run, or a saved result
    #[arg(value_name = "A", add = completions::runs())]
    pub a: String,
    /// The other record
    #[arg(value_name = "B", add = completions::runs(), required_unless_present = "last")]
    pub b: Option<String>,
    /// Compare with the latest run
    #[arg(long, conflicts_with = "b")]
    pub last: bool,
    /// The output format of the differences
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputForm {
    /// Readable text.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// The output format of a list.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    output: OutputForm,
    /// The same as `--output json`
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
}

impl ListArgs {
    /// Returns whether one JSON document is printed.
    pub(crate) fn is_json(&self) -> bool {
        self.json || self.output == OutputForm::Json
    }
}

/// `ensemble runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// The output format.
    #[command(flatten)]
    pub form: ListArgs,
    /// List the latest 100 runs on the durable execution engine with this address
    #[arg(long, value_name = "URL")]
    pub on: Option<String>,
}

/// `ensemble runs fetch`.
#[derive(Debug, Args)]
pub(crate) struct RunsFetchArgs {
    /// The id of the run, or the beginning of the id
    #[arg(value_name = "RUN", required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The address of the engine's ingress
    #[arg(long, value_name = "URL", required = true)]
    pub on: String,
}

/// `ensemble runs export`.
#[derive(Debug, Args)]
pub(crate) struct RunsExportArgs {
    /// The id of the run, the beginning of the id, or its folder; default: the latest run
    #[arg(value_name = "RUN", add = completions::runs())]
    pub run: Option<String>,
    /// Use the latest run, as without RUN
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The format of the document
    #[arg(long, alias = "format", value_enum, default_value_t = ExportFormat::Json, value_name = "FORM")]
    pub output: ExportFormat,
    /// Write to this file instead of standard output
    #[arg(short = 'o', long, alias = "out", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// With --output otlp: spans also contain what was said
    #[arg(long)]
    pub otlp_content: bool,
}

/// The formats of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The result, as `run --output json` prints it.
    #[default]
    Json,
    /// All turns as Markdown, for code hosting sites.
    Markdown,
    /// All turns as one HTML page without other files.
    Html,
    /// The run as a trace of OpenTelemetry: OTLP as JSON, or as protobuf into a file whose name ends with `.pb`.
    Otlp,
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
    /// Only runs with this outcome; separate several with commas
    #[arg(long, value_name = "OUTCOME", group = "which", value_delimiter = ',', value_parser = CompletionReason::ALL.map(CompletionReason::as_str))]
    pub outcome: Vec<String>,
    /// Also runs that can still be resumed: interrupted, waiting, cancelled, timeout
    #[arg(long)]
    pub resumable: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// `ensemble estimate`.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// The ensemble to run: a file, or the name of an ensemble
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: String,
    /// The recorded run that the estimate is based on
    #[arg(long, value_name = "RUN", add = completions::runs(), required_unless_present = "last")]
    pub from: Option<String>,
    /// Base the estimate on the latest run
    #[arg(long, conflicts_with = "from")]
    pub last: bool,
    /// The output format
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
}
