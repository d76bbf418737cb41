//! `ensemble runs export`: writes a run as one document.

use std::sync::Arc;

use crate::command::check::picture::of_ensemble;
use crate::command::runs::private_file::write_bytes;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use ensemble_core::store::RunStore;
use ensemble_history::story::{Story, model_exchanges};
use ensemble_reports::report::RunResult;
use ensemble_reports::report::door::passed;
use ensemble_reports::report::graph::{mermaid, svg};
use ensemble_reports::report::story::{Exported, html, markdown};
use ensemble_runs::{RecordedRun, RunError};

use super::{ExportFormat, RunsExportArgs};

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
