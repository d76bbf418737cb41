//! `ensemble acp`: serves an ensemble as one agent of the Agent Client Protocol, over standard input and output.

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::sandbox_helper;
use crate::command::shared::simulated_agent;
use crate::command::shared::surroundings::CliEnvironment;
use crate::command::shared::watchdog;
use clap::Args;
use ensemble_acp::server::{AcpServices, serve_acp};
use ensemble_process::become_orphan_collector;
use ensemble_runs::{Project, RunHost, Runs};

/// `ensemble acp`.
#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    /// The ensemble, or a folder with ensembles; default: the session's folder
    #[arg(value_name = "FILE|FOLDER")]
    pub served: Option<String>,
}

/// Executes `ensemble acp`: serves the client on standard input and output until the input ends. Returns the exit code.
pub(crate) fn run_acp(args: &AcpArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let project = surroundings.project.clone();
    let folder = project.folder.canonicalize().unwrap_or_else(|_| project.folder.clone());
    let served = match args.served.as_deref() {
        None => None,
        Some(name) if folder.join(name).is_dir() => Some(folder.join(name)),
        Some(name) => Some(folder.join(project.resolve_ensemble_file(name)?)),
    };
    // Where the system refuses it, what leaves its group is found by `resume`, as on other systems.
    let _refused = become_orphan_collector();
    let host = RunHost::from_system()
        .with_watchdog(watchdog::watchdog_command())
        .with_sandbox_helper(sandbox_helper::sandbox_helper_command())
        .with_simulated_acp(simulated_agent::simulated_agent_command())
        .with_shared_model_network();
    let services = AcpServices {
        runs: Box::new(move |folder| {
            let project = Project {
                folder: folder.to_owned(),
                ..project.clone()
            };
            Runs::for_project(project, host.clone())
        }),
        served_path: served,
        folder,
        version: env!("CARGO_PKG_VERSION"),
    };
    let frames = surroundings.streams.protocol_out();
    block_on(async {
        serve_acp(Box::new(std::io::stdin()), Box::new(frames), services).await;
        Ok(exit::SUCCESS)
    })
}
