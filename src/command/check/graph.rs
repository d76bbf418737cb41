//! `ensemble graph`: draws an ensemble, optionally with the data of a run.

use crate::command::check::picture::ensemble_picture;
use crate::command::runs::find_driver;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{Args, ValueEnum};
use ensemble_history::RunHistory;
use ensemble_reports::report::graph::{
    GraphPicture, GraphTooLargeError, render_ascii, render_dot, render_mermaid, render_svg,
};
use ensemble_runs::{EnsembleRef, RecordedRun};

/// `ensemble graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The ensemble: a file, or the name of an ensemble. With --run or --last, the default is the recorded ensemble
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles(), required_unless_present_any = ["run", "last"])]
    pub ensemble: Option<String>,
    /// Choose the format of the picture
    #[arg(long, alias = "format", value_enum, default_value_t = GraphFormat::Mermaid, value_name = "FORM")]
    pub output: GraphFormat,
    /// Add the data of this run: executions, failures, and why agents did not run
    #[arg(long, value_name = "RUN", add = completions::complete_runs())]
    pub run: Option<String>,
    /// Add the data of the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
}

/// Output formats of `ensemble graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A flowchart that code hosting sites and editors can draw.
    #[default]
    Mermaid,
    /// For Graphviz.
    Dot,
    /// An image for browsers and documents.
    Svg,
    /// Plain text.
    Ascii,
}

/// Executes `ensemble graph`: draws an ensemble in the chosen format. Returns the exit code.
pub(crate) fn draw_graph(args: &GraphArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let picture = build_graph_picture(args, surroundings)?;
    let text = match args.output {
        GraphFormat::Mermaid => render_mermaid(&picture),
        GraphFormat::Dot => render_dot(&picture),
        GraphFormat::Svg => render_svg(&picture)
            .map_err(|error| CliError::usage_error_with_help(error.to_string(), GraphTooLargeError::ADVICE))?,
        GraphFormat::Ascii => render_ascii(&picture),
    };
    surroundings.print_out_in_format(args.output, &text);
    Ok(exit::SUCCESS)
}

/// Builds the picture of the ensemble, with the data of a run if the options name a run.
fn build_graph_picture(args: &GraphArgs, surroundings: &CliEnvironment) -> Result<GraphPicture, CliError> {
    let prepared_ensemble = match &args.ensemble {
        Some(file) => Some(
            surroundings
                .runs_without_operator()
                .load_prepared_ensemble(&EnsembleRef::from_file_or_name(&**file))?,
        ),
        None => None,
    };
    if args.run.is_none() && !args.last {
        let prepared_ensemble =
            prepared_ensemble.ok_or_else(|| CliError::usage_error("name an ensemble, or a run with --run"))?;
        return Ok(ensemble_picture(prepared_ensemble.plan.ensemble()));
    }
    let recorded_run = block_on(async {
        let runs = surroundings.runs_without_operator();
        Ok(RecordedRun::load(runs.resolve_run(args.run.as_deref()).await?, runs.project()).await?)
    })?;
    let recorded = recorded_run.prepared.plan.ensemble();
    let shown_ensemble = prepared_ensemble
        .as_ref()
        .map_or(recorded, |given| given.plan.ensemble());
    let mut picture = ensemble_picture(shown_ensemble);
    let history = RunHistory::from_records(&recorded_run.journal.records);
    let driver = find_driver(&*recorded_run.run);
    picture.add_run_data(&history, history.run_state(driver), shown_ensemble, recorded);
    picture.set_run_subtitle(&history, driver);
    Ok(picture)
}
