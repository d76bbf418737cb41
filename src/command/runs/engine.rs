//! `ensemble runs list --on` and `ensemble runs fetch`.

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::Surroundings;
use clap::Args;
use ensemble_core::store::RunStore;
use ensemble_remote::Remote;

/// `ensemble runs fetch`.
#[derive(Debug, Args)]
pub(crate) struct RunsFetchArgs {
    /// The id of the run, or the beginning of the id
    #[arg(value_name = "RUN", required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// The address of the engine's ingress
    #[arg(long, value_name = "URL", required = true)]
    pub on: String,
}

/// The most runs that are listed.
const LISTED: usize = 100;

/// Lists the latest runs of an engine.
pub(crate) async fn list(url: &str, as_json: bool, surroundings: &Surroundings) -> Result<u8, CliError> {
    let remote = Remote::at(url)?;
    let runs = remote.list(LISTED).await?;
    let listed = runs.into_iter().map(|(id, brief)| super::ListedRun {
        id,
        ensemble: brief.ensemble,
        started_at: brief.started_at,
        state: brief.state,
        process: None,
        outcome: brief.outcome,
        turns: brief.turns,
        executions: brief.executions,
        failed: brief.failed,
        usage: brief.usage,
    });
    let listed: Vec<super::ListedRun> = listed.collect();
    Ok(super::print_runs(&listed, remote.url(), as_json, surroundings))
}

/// `ensemble runs fetch`. A copy that was fetched before is replaced, unless it went on here.
pub(crate) async fn fetch(
    args: &RunsFetchArgs,
    store: &dyn RunStore,
    surroundings: &Surroundings,
) -> Result<u8, CliError> {
    let remote = Remote::at(&args.on)?;
    let id = remote.find(args.run.as_deref()).await?;
    let run = remote.update(&id, store).await?;
    let place = run
        .folder()
        .map_or_else(|| store.place(), |folder| folder.display().to_string());
    let place = surroundings.project.relative(place.as_ref()).display().to_string();
    surroundings.print_err(&format!("fetched {id} into {place}\n"));
    surroundings.print(&format!("{id}\n"));
    Ok(exit::SUCCESS)
}
