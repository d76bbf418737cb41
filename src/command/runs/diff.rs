//! `ensemble runs diff`: shows the differences between two runs.

use super::batches::diff_batches;
use super::{OpenedRecord, find_batch, load_record};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_history::story::{ComparedRun, compare_runs};
use ensemble_reports::report::story::{NamedRun, comparison_to_json, render_comparison};

/// `ensemble runs diff`.
#[derive(Debug, Args)]
pub(crate) struct RunsDiffArgs {
    /// A run id or its beginning, a journal, the folder of a run, a saved result, or the name of a batch
    #[arg(value_name = "A", add = completions::complete_runs())]
    pub a: String,
    /// The record or batch to compare with A
    #[arg(value_name = "B", add = completions::complete_runs(), required_unless_present = "last")]
    pub b: Option<String>,
    /// Compare with the latest run
    #[arg(long, conflicts_with = "b")]
    pub last: bool,
    /// Choose the output format of the differences
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    pub output: DocumentFormat,
}

/// Executes `ensemble runs diff`: prints the differences between two runs or two batches. Returns the exit code.
pub(crate) async fn diff_runs(args: &RunsDiffArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if let Some(a) = find_batch(&args.a, surroundings)? {
        let b = args
            .b
            .as_deref()
            .map(|b| find_batch(b, surroundings))
            .transpose()?
            .flatten();
        let Some(b) = b else {
            let message = format!("`{}` is a batch, and the other record is not", args.a);
            return Err(CliError::usage_error_with_help(message, "name two runs or two batches"));
        };
        return Ok(diff_batches(
            (&a, &b),
            args.output == DocumentFormat::Json,
            surroundings,
        ));
    }
    let a = load_record(Some(&args.a), surroundings).await?;
    let b = load_record(args.b.as_deref(), surroundings).await?;
    let compared = compare_runs(a.comparison_side(), b.comparison_side());
    let latest = b.story.start_event().map_or("", |started| &*started.run_id);
    let named_runs = [
        a.to_named_run(&args.a),
        b.to_named_run(args.b.as_deref().unwrap_or(latest)),
    ];
    let text = match args.output {
        DocumentFormat::Human => render_comparison(&compared, &named_runs, surroundings.streams.out_width()),
        DocumentFormat::Json => format!("{:#}\n", comparison_to_json(&compared, &named_runs)),
    };
    surroundings.print_out_in_format(args.output, &text);
    Ok(if compared.same { exit::SUCCESS } else { exit::DIFFERENT })
}

impl OpenedRecord {
    /// Returns the record as one side of a comparison.
    fn comparison_side(&self) -> ComparedRun<'_> {
        ComparedRun {
            story: &self.story,
            context: self.context.as_ref(),
        }
    }

    /// Returns the run with the name that the user gave.
    fn to_named_run<'a>(&'a self, given: &'a str) -> NamedRun<'a> {
        NamedRun {
            given_name: given,
            story: &self.story,
            state: self.run_state(),
        }
    }
}
