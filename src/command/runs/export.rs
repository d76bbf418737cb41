//! `ensemble runs export`: writes a run as one document.

use std::sync::Arc;

use crate::command::check::picture::ensemble_picture;
use crate::command::runs::private_file::write_bytes_and_report;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::store::RunStore;
use ensemble_history::story::{RunStory, collect_model_exchanges};
use ensemble_reports::report::RunResult;
use ensemble_reports::report::graph::{GraphTooLargeError, render_mermaid, render_svg};
use ensemble_reports::report::sanitized_writer::sanitize_text;
use ensemble_reports::report::story::{ExportedRun, render_html, render_markdown};
use ensemble_runs::{RecordedRun, RunError};

use super::{ExportFormat, RunsExportArgs};

/// Executes `ensemble runs export`: writes a run as one document to a file or to standard output.
pub(crate) async fn export_run(
    args: &RunsExportArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let run = super::find_run_or_latest(args.run.as_deref(), store, surroundings).await?;
    if args.output == ExportFormat::Otlp {
        return crate::command::runs::trace::export_trace(args, run, surroundings).await;
    }
    let recorded = RecordedRun::load(run, &surroundings.project).await?;
    if recorded.journal.is_torn {
        surroundings.print_err("warning: the last line of the journal is incomplete and has been left out\n");
    }
    let text = render_recorded_run(args.output, &recorded)?;
    let Some(path) = &args.to else {
        surroundings.print_out_in_format(args.output, &text);
        return Ok(exit::SUCCESS);
    };
    write_bytes_and_report(path, sanitize_text(&text, args.output.into()).as_bytes(), surroundings)?;
    Ok(exit::SUCCESS)
}

/// Renders the recorded run in the format: JSON, Markdown or HTML.
fn render_recorded_run(format: ExportFormat, recorded: &RecordedRun) -> Result<String, RunError> {
    let RecordedRun {
        run,
        journal,
        prepared,
        state,
    } = recorded;
    if format == ExportFormat::Json {
        return Ok(RunResult(state).to_json_text());
    }
    let agents: Vec<(Arc<str>, &'static str)> = prepared
        .plan
        .agent_ids()
        .map(|id| {
            (
                prepared.plan.agent_name(id).clone(),
                prepared.plan.agent(id).kind_name(),
            )
        })
        .collect();
    let story = RunStory {
        limits: Some(prepared.plan.ensemble().limits.clone()),
        ..RunStory::from_records(&journal.records)
    };
    let driver = crate::command::runs::show::find_driver(&**run);
    let mut picture = ensemble_picture(prepared.plan.ensemble());
    let (run_state, ensemble) = (story.history.run_state(driver), prepared.plan.ensemble());
    picture.add_run_data(&story.history, run_state, ensemble, ensemble);
    picture.set_run_subtitle(&story.history, driver);
    let graph = match format {
        ExportFormat::Html => render_svg(&picture).unwrap_or_else(GraphTooLargeError::to_error_picture),
        _ => render_mermaid(&picture),
    };
    let exported = ExportedRun {
        story: &story,
        exchanges: &collect_model_exchanges(&journal.records, &prepared.plan)?,
        agents: &agents,
        context: state.context(),
        driver,
        graph: &graph,
    };
    Ok(match format {
        ExportFormat::Html => render_html(&exported),
        _ => render_markdown(&exported),
    })
}
