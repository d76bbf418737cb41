//! The environment of the program: the project folder, the configuration of the user, the standard streams.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::args::ColorChoice;
use super::error::CliError;
use super::streams::Streams;
use super::{sandbox, watchdog};
use ensemble_agents::agent::process::collect_orphans;
use ensemble_core::operator::Operator;
use ensemble_runs::{Host, Project, Runs};

/// Makes this the folder of the process, as if the program had been started there.
pub(super) fn enter(folder: &Path) -> Result<(), CliError> {
    std::env::set_current_dir(folder)
        .map_err(|error| CliError::usage(format!("cannot change to the folder {}: {error}", folder.display())))
}

/// The environment of the program, read once at the start.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The project, in which files are searched.
    pub(super) project: Project,
    /// The standard streams.
    pub(super) streams: Streams,
}

impl Surroundings {
    /// Reads the environment.
    pub(super) fn capture(color: ColorChoice) -> Self {
        Self {
            project: Project::of_process(),
            streams: Streams::capture(color),
        }
    }

    /// The runs of the project, without an operator.
    pub(super) fn runs(&self) -> Runs {
        Runs::open(self.project.clone(), Host::system().unattended())
    }

    /// The runs of the project, with this operator and a watchdog.
    pub(super) fn runs_with(&self, operator: &Arc<dyn Operator>) -> Runs {
        // Where the system refuses it, what leaves its group is found by `resume`, as on other systems.
        let _refused = collect_orphans();
        let host = Host::system()
            .with_operator(Arc::clone(operator))
            .with_watchdog(watchdog::command())
            .with_sandbox_helper(sandbox::command());
        Runs::open(self.project.clone(), host)
    }

    /// Prints a result.
    pub(super) fn print(&self, text: &str) {
        let mut out = self.streams.out();
        // An error is noted, and the program ends with it. If the pipe was closed, its reader needs no more output.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Prints a message to standard error.
    pub(super) fn print_err(&self, text: &str) {
        let mut err = self.streams.err();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Whether standard error shows colours.
    pub(super) fn colors_on_stderr(&self) -> bool {
        self.streams.colors_on_stderr()
    }
}
