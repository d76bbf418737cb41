//! What the program finds when it starts: the folder, the user's configuration, the standard streams.

use std::io::Write;
use std::sync::Arc;

use super::args::ColorChoice;
use super::streams::Streams;
use super::watchdog;
use ensemble_core::operator::Operator;
use ensemble_runs::{Host, Project, Runs};

/// The program's surroundings, read once.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// Where files are looked for.
    pub(super) project: Project,
    /// Standard streams.
    pub(super) streams: Streams,
}

impl Surroundings {
    /// Reads them.
    pub(super) fn capture(color: ColorChoice) -> Self {
        Self {
            project: Project::of_process(),
            streams: Streams::capture(color),
        }
    }

    /// The runs of the project, with nobody to ask.
    pub(super) fn runs(&self) -> Runs {
        Runs::open(self.project.clone(), Host::system().unattended())
    }

    /// The runs of the project, with this operator and a watchdog.
    pub(super) fn runs_with(&self, operator: Arc<dyn Operator>) -> Runs {
        let host = Host::system()
            .with_operator(operator)
            .with_watchdog(watchdog::command());
        Runs::open(self.project.clone(), host)
    }

    /// Prints a result.
    pub(super) fn print(&self, text: &str) {
        let mut out = self.streams.out();
        // Whoever closed the pipe has seen enough.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Says something beside the result.
    pub(super) fn complain(&self, text: &str) {
        let mut err = self.streams.err();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Does standard error show colours?
    pub(super) fn colors_on_stderr(&self) -> bool {
        self.streams.colors_on_stderr()
    }
}
