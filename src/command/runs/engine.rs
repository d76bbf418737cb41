//! `ensemble runs list --on` and `ensemble runs fetch`.

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_core::store::RunStore;
use ensemble_remote::EngineClient;

/// `ensemble runs fetch`.
#[derive(Debug, Args)]
pub(crate) struct RunsFetchArgs {
    /// The id of the run, or the beginning of the id
    #[arg(value_name = "RUN", required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Copy from the durable execution engine with this ingress address
    #[arg(long, value_name = "URL", required = true)]
    pub on: String,
}

/// The most runs that are listed.
const LISTED: usize = 100;

/// Lists the latest runs of an engine.
pub(crate) async fn list_remote_runs(url: &str, as_json: bool, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(url)?;
    let runs = remote.list_runs(LISTED).await?;
    let rows = runs.into_iter().map(|(id, brief)| super::RunListRow {
        id,
        ensemble: brief.ensemble,
        started_at: brief.started_at,
        state: brief.state,
        process: None,
        outcome: brief.outcome,
        success: brief.success,
        detail: brief.detail,
        turns: brief.turns,
        executions: brief.executions,
        failed: brief.failed,
        failed_work: brief.failed_work,
        usage: brief.usage,
    });
    let rows: Vec<super::RunListRow> = rows.collect();
    Ok(super::print_runs(&rows, &[], remote.url(), as_json, surroundings))
}

/// `ensemble runs fetch`. A copy that was fetched before is replaced, unless it went on here.
pub(crate) async fn fetch_run(
    args: &RunsFetchArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(&args.on)?;
    let id = remote.resolve_run_id(args.run.as_deref()).await?;
    let run = remote.update_copy(&id, store).await?;
    let place = run
        .folder()
        .map_or_else(|| store.describe_place(), |folder| folder.display().to_string());
    let place = surroundings.project.relative_path(place.as_ref()).display().to_string();
    surroundings.print_err(&format!("fetched {id} into {place}\n"));
    surroundings.print_out(&format!("{id}\n"));
    Ok(exit::SUCCESS)
}
