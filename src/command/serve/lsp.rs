//! `ensemble lsp`: the language server, over standard input and output.

use std::path::Path;
use std::sync::Arc;

use crate::command::check::picture::of_ensemble;
use crate::command::check::settings;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use ensemble_cases::suite::Suite;
use ensemble_ide::analysis::findings::Checks;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::ensemble::Ensemble;
use ensemble_language::source::Source;
use ensemble_lsp::server::{End, Services, serve};
use ensemble_reports::report::graph::{ascii, dot, mermaid, svg};
use ensemble_runs::{Host, Project, Runs};

/// The checks of `ensemble validate`.
#[derive(Debug)]
pub(crate) struct OfValidate;

impl Checks for OfValidate {
    fn of_tests(&self, source: &Source, path: &Path, project: &Project) -> Vec<Diagnostic> {
        let runs = Runs::open(project.clone(), Host::system().unattended());
        Suite::read(source, path, &runs).findings
    }

    fn of_configuration(&self, source: &Source, path: &Path, project: &Project) -> Vec<Diagnostic> {
        settings::examine(source, path, project)
    }
}

/// `ensemble lsp`.
pub(crate) fn lsp(surroundings: &Surroundings) -> Result<u8, CliError> {
    let services = Services {
        project: surroundings.project.clone(),
        checks: Arc::new(OfValidate),
        version: env!("CARGO_PKG_VERSION"),
        graph,
    };
    match serve(std::io::stdin(), surroundings.streams.frames(), services) {
        End::Exit { after_shutdown: true } => Ok(exit::SUCCESS),
        // As the protocol wants it.
        End::Exit { after_shutdown: false } | End::ClientGone => Ok(exit::FAILURE),
        End::Malformed(why) => Err(CliError::Internal(format!(
            "standard input is not the Language Server Protocol, which editors speak: {why}"
        ))),
    }
}

/// The graph as `ensemble graph` prints it.
pub(crate) fn graph(ensemble: &Ensemble, format: &str) -> Option<String> {
    let picture = of_ensemble(ensemble);
    match format {
        "mermaid" => Some(mermaid(&picture)),
        "dot" => Some(dot(&picture)),
        "svg" => Some(svg(&picture)),
        "ascii" => Some(ascii(&picture)),
        _ => None,
    }
}
