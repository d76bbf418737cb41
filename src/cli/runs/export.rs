//! `ensemble runs export`: a run as one document.

use crate::cli::args::{ExportFormat, RunsExportArgs};
use crate::cli::error::CliError;
use crate::cli::exit;
use crate::cli::project::Surroundings;
use crate::cli::resume::{recorded_ensemble, started};
use crate::conversation::ConversationState;
use crate::journal::{Store, read};
use crate::report::RunResult;

/// `ensemble runs export`.
pub fn export(args: &RunsExportArgs, store: &Store, surroundings: &Surroundings) -> Result<u8, CliError> {
    let folder = super::find(args.run.as_deref(), store, surroundings)?;
    let journal = read(&folder.journal())?;
    let prepared = recorded_ensemble(&folder, started(&journal)?, surroundings)?;
    let mut state = ConversationState::new(prepared.plan.clone());
    journal.records.iter().for_each(|record| state.apply(record));
    let text = match args.format {
        ExportFormat::Json => {
            let text = serde_json::to_string_pretty(&RunResult(&state));
            text.expect("results have string keys") + "\n"
        }
        ExportFormat::Markdown | ExportFormat::Html => String::new(),
    };
    match &args.out {
        None => surroundings.print(&text),
        Some(path) => {
            let path = surroundings.folder.join(path);
            std::fs::write(&path, &text).map_err(|error| {
                let shown = surroundings.relative(&path);
                CliError::usage(format!("cannot write {}: {error}", shown.display()))
            })?;
            surroundings.complain(&format!("wrote {}\n", surroundings.relative(&path).display()));
        }
    }
    Ok(exit::SUCCESS)
}
