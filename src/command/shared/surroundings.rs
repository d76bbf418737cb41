//! The environment of the program: the project folder, the configuration of the user, the standard streams.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::sandbox_helper;
use super::simulated_agent;
use super::watchdog;
use crate::command::shared::error::CliError;
use crate::command::shared::telemetry::CliTelemetry;
use crate::command::shared::untrusted_files::render_ignored_file_note;
use crate::terminal::streams::ColorChoice;
use crate::terminal::streams::StandardStreams;
use ensemble_core::operator::Operator;
use ensemble_process::become_orphan_collector;
use ensemble_reports::report::sanitized_writer::EscapeStyle;
use ensemble_runs::{ClientServers, Project, RunHost, Runs};

/// Environment variable with the effect of `--trust`, for CI.
const TRUST_VARIABLE: &str = "ENSEMBLE_TRUST";

/// Environment variables with the name of the user of the operating system.
const USER_VARIABLES: [&str; 3] = ["USER", "LOGNAME", "USERNAME"];

/// Makes the folder the current folder of the process.
pub(crate) fn change_process_folder(folder: &Path) -> Result<(), CliError> {
    std::env::set_current_dir(folder)
        .map_err(|error| CliError::usage_error(format!("cannot change to the folder {}: {error}", folder.display())))
}

/// Environment of the program, read once at the start.
#[derive(Debug, Clone)]
pub(crate) struct CliEnvironment {
    /// Project in which files are searched.
    pub(crate) project: Project,
    /// Standard streams.
    pub(crate) streams: StandardStreams,
    /// Name of the user of the operating system, if known.
    pub(crate) user: Option<String>,
    /// Telemetry of runs, if a command has started the export.
    pub(crate) telemetry: CliTelemetry,
}

impl CliEnvironment {
    /// Detects the streams, the project and the user. With `trusts_all`, every file of the project is trusted.
    /// Prints a note to standard error whenever an untrusted file is ignored.
    pub(crate) fn detect(color: ColorChoice, trusts_all: bool) -> Self {
        let streams = StandardStreams::detect(color);
        let project = Project::from_process();
        let trusts_all = trusts_all || std::env::var_os(TRUST_VARIABLE).is_some_and(|value| value == "1");
        let err = streams;
        let trust = project
            .trust
            .clone()
            .or_trust_everything(trusts_all)
            .with_ignored_listener(move |left_alone| {
                let _it_was_tried = err
                    .human_err()
                    .write_all(render_ignored_file_note(left_alone).as_bytes());
            });
        Self {
            project: project.with_trust(trust),
            streams,
            user: USER_VARIABLES.iter().find_map(|name| std::env::var(name).ok()),
            telemetry: CliTelemetry::default(),
        }
    }

    /// Opens the runs of the project, without an operator.
    pub(crate) fn runs_without_operator(&self) -> Runs {
        Runs::for_project(self.project.clone(), RunHost::from_system().without_operator())
    }

    /// Opens the runs of the project, with this operator, a watchdog and a sandbox helper.
    /// Makes the process the collector of orphaned child processes.
    pub(crate) fn runs_with_operator(&self, operator: &Arc<dyn Operator>) -> Runs {
        // Where the system refuses it, what leaves its group is found by `resume`, as on other systems.
        let _refused = become_orphan_collector();
        let host = RunHost::from_system()
            .with_operator(Arc::clone(operator))
            .with_watchdog(watchdog::watchdog_command())
            .with_sandbox_helper(sandbox_helper::sandbox_helper_command())
            .with_simulated_acp(simulated_agent::simulated_agent_command());
        Runs::for_project(self.project.clone(), host)
    }

    /// Opens the runs of the project for a server: with a watchdog and these MCP servers, without an operator.
    /// Makes the process the collector of orphaned child processes. The holder of a run answers its questions.
    pub(crate) fn runs_for_clients(&self, servers: ClientServers) -> Runs {
        let _refused = become_orphan_collector();
        let host = RunHost::from_system()
            .with_watchdog(watchdog::watchdog_command())
            .with_sandbox_helper(sandbox_helper::sandbox_helper_command())
            .with_simulated_acp(simulated_agent::simulated_agent_command())
            .with_default_client_servers(servers)
            .with_shared_model_network();
        Runs::for_project(self.project.clone(), host)
    }

    /// Prints a text for people to standard output. A failed write is recorded and becomes the exit code later.
    pub(crate) fn print_out(&self, text: &str) {
        self.print_out_in_format(EscapeStyle::Text, text);
    }

    /// Prints a result in a format to standard output. A failed write is recorded and becomes the exit code later.
    pub(crate) fn print_out_in_format(&self, spelling: impl Into<EscapeStyle>, text: &str) {
        let mut out = self.streams.out_in_format(spelling.into());
        // An error is noted, and the program ends with it. If the pipe was closed, its reader needs no more output.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Prints a message to standard error. Ignores a failed write.
    pub(crate) fn print_err(&self, text: &str) {
        let mut err = self.streams.human_err();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Returns whether standard error shows colours.
    pub(crate) fn colors_on_stderr(&self) -> bool {
        self.streams.colors_on_stderr()
    }
}
