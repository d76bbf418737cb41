//! `ensemble runs export`: writes a run as one document.

use std::sync::Arc;

use crate::command::check::picture::of_ensemble;
use crate::command::runs::private_file::write_bytes;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use clap::{Args, ValueEnum};
use ensemble_core::store::RunStore;
use ensemble_history::story::{Story, model_exchanges};
use ensemble_reports::report::RunResult;
use ensemble_reports::report::door::passed;
use ensemble_reports::report::graph::{mermaid, svg};
use ensemble_reports::report::story::{Exported, html, markdown};
use ensemble_runs::{RecordedRun, RunError};
use std::path::PathBuf;

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

/// `ensemble runs export`.
pub(crate) async fn export(
    args: &RunsExportArgs,
    store: &dyn RunStore,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let run = super::find(args.run.as_deref(), store, surroundings).await?;
    if args.output == ExportFormat::Otlp {
        return crate::command::runs::trace::export(args, run, surroundings).await;
    }
    let recorded = RecordedRun::read(run, &surroundings.project).await?;
    if recorded.journal.is_torn {
        surroundings.print_err("warning: the last line of the journal is incomplete and has been left out\n");
    }
    let text = written(args.output, &recorded)?;
    let Some(path) = &args.to else {
        surroundings.print_as(args.output, &text);
        return Ok(exit::SUCCESS);
    };
    write_bytes(path, passed(&text, args.output.into()).as_bytes(), surroundings)?;
    Ok(exit::SUCCESS)
}

fn written(format: ExportFormat, recorded: &RecordedRun) -> Result<String, RunError> {
    let RecordedRun {
        run,
        journal,
        prepared,
        state,
    } = recorded;
    if format == ExportFormat::Json {
        return Ok(RunResult(state).to_text());
    }
    let agents: Vec<(Arc<str>, &'static str)> = prepared
        .plan
        .ids()
        .map(|id| (prepared.plan.name(id).clone(), prepared.plan.agent(id).kind_name()))
        .collect();
    let story = Story::from_records(&journal.records);
    let driver = crate::command::runs::show::driver(&**run);
    let mut picture = of_ensemble(prepared.plan.ensemble());
    picture.add_run(&story.history, prepared.plan.ensemble(), prepared.plan.ensemble());
    picture.add_run_title(&story.history, driver);
    let graph = match format {
        ExportFormat::Html => svg(&picture),
        _ => mermaid(&picture),
    };
    let exported = Exported {
        story: &story,
        exchanges: &model_exchanges(&journal.records, &prepared.plan)?,
        agents: &agents,
        context: state.context(),
        driver,
        graph: &graph,
    };
    Ok(match format {
        ExportFormat::Html => html(&exported),
        _ => markdown(&exported),
    })
}
