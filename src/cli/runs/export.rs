//! `ensemble runs export`: a run as one document.

use std::sync::Arc;

use crate::cli::args::{ExportFormat, RunsExportArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::picture::{of_ensemble, overlay};
use crate::cli::prepare::Prepared;
use crate::cli::project::Surroundings;
use crate::cli::resume::{recorded_ensemble, started};
use ensemble_core::conversation::ConversationState;
use ensemble_reports::report::RunResult;
use ensemble_reports::report::graph::{Picture, mermaid, svg};
use ensemble_reports::report::story::{Exported, html, markdown};
use ensemble_reports::story::Story;
use ensemble_runs::journal::{Journal, RunFolder, Store, read};

/// `ensemble runs export`.
pub(super) fn export(args: &RunsExportArgs, store: &Store, surroundings: &Surroundings) -> Result<u8, CliError> {
    let folder = super::find(args.run.as_deref(), store, surroundings)?;
    let journal = read(&folder.journal())?;
    if journal.torn {
        surroundings.complain("warning: the last line of the journal was torn and has been left out\n");
    }
    let prepared = recorded_ensemble(&folder, started(&journal)?, surroundings)?;
    let text = written(args.format, &folder, &journal, &prepared);
    let Some(path) = &args.out else {
        surroundings.print(&text);
        return Ok(exit::SUCCESS);
    };
    let path = surroundings.folder.join(path);
    let shown = surroundings.relative(&path);
    std::fs::write(&path, &text)
        .map_err(|error| CliError::usage(format!("cannot write {}: {error}", shown.display())))?;
    surroundings.complain(&format!("wrote {}\n", shown.display()));
    Ok(exit::SUCCESS)
}

fn written(format: ExportFormat, folder: &RunFolder, journal: &Journal, prepared: &Prepared) -> String {
    let mut state = ConversationState::new(prepared.plan.clone());
    journal.records.iter().for_each(|record| state.apply(record));
    if format == ExportFormat::Json {
        let text = serde_json::to_string_pretty(&RunResult(&state));
        return text.expect("results have string keys") + "\n";
    }
    let agents: Vec<(Arc<str>, &'static str)> = prepared
        .plan
        .ids()
        .map(|id| (prepared.plan.name(id).clone(), prepared.plan.agent(id).kind_name()))
        .collect();
    let picture = drawn(prepared, journal);
    let graph = match format {
        ExportFormat::Html => svg(&picture),
        _ => mermaid(&picture),
    };
    let exported = Exported {
        story: &Story::of(&journal.records),
        agents: &agents,
        context: state.context(),
        driver: super::show::driver(folder),
        graph: &graph,
    };
    match format {
        ExportFormat::Html => html(&exported),
        _ => markdown(&exported),
    }
}

/// The ensemble, and what the run made of it.
fn drawn(prepared: &Prepared, journal: &Journal) -> Picture {
    let ensemble = prepared.plan.ensemble();
    let mut picture = of_ensemble(ensemble);
    overlay(&mut picture, ensemble, ensemble, journal);
    picture
}
