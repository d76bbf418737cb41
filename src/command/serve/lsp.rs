//! `ensemble lsp`: the language server, over standard input and output.

use std::path::Path;
use std::sync::Arc;

use crate::command::check::picture::ensemble_picture;
use crate::command::check::settings;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_cases::suite::TestSuite;
use ensemble_ide::analysis::findings::ProjectFileChecks;
use ensemble_language::diagnostic::Diagnostic;
use ensemble_language::ensemble::Ensemble;
use ensemble_language::source::SourceText;
use ensemble_lsp::server::{LspServerEnd, LspServerOptions, serve_client};
use ensemble_reports::report::graph::{GraphTooLargeError, render_ascii, render_dot, render_mermaid, render_svg};
use ensemble_runs::{Project, RunHost, Runs};

/// Checks of test files and configurations for the language server, the same as those of `ensemble validate`.
#[derive(Debug)]
pub(crate) struct LspFileChecks;

impl ProjectFileChecks for LspFileChecks {
    fn check_test_file(&self, source: &SourceText, path: &Path, project: &Project) -> Vec<Diagnostic> {
        let runs = Runs::for_project(project.clone(), RunHost::from_system().without_operator());
        TestSuite::load_and_check(source, path, &runs).findings
    }

    fn check_configuration(&self, source: &SourceText, path: &Path, project: &Project) -> Vec<Diagnostic> {
        settings::check_config_text(source, path, project)
    }
}

/// Executes `ensemble lsp`: serves the editor on standard input and output until the editor exits. Returns the exit code.
pub(crate) fn serve_lsp(surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let services = LspServerOptions {
        project: surroundings.project.clone(),
        checks: Arc::new(LspFileChecks),
        version: env!("CARGO_PKG_VERSION"),
        graph: render_graph_in_format,
    };
    match serve_client(std::io::stdin(), surroundings.streams.protocol_out(), services) {
        LspServerEnd::Exit { after_shutdown: true } => Ok(exit::SUCCESS),
        // As the protocol wants it.
        LspServerEnd::Exit { after_shutdown: false } | LspServerEnd::ClientGone => Ok(exit::FAILURE),
        LspServerEnd::MalformedMessage(why) => Err(CliError::Internal(format!(
            "standard input is not valid in the Language Server Protocol: {why}"
        ))),
    }
}

/// Renders the graph of the ensemble like `ensemble graph`. Returns `None` if the format is unknown.
pub(crate) fn render_graph_in_format(ensemble: &Ensemble, format: &str) -> Option<String> {
    let picture = ensemble_picture(ensemble);
    match format {
        "mermaid" => Some(render_mermaid(&picture)),
        "dot" => Some(render_dot(&picture)),
        "svg" => Some(render_svg(&picture).unwrap_or_else(GraphTooLargeError::to_error_picture)),
        "ascii" => Some(render_ascii(&picture)),
        _ => None,
    }
}
