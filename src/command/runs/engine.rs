//! Runs on a durable execution engine: `ensemble runs list --on`, `runs show --on`, `runs cancel` and `runs fetch`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::command::runs::show::{EngineFooter, RunsShowArgs, print_run_or_messages};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use ensemble_core::store::{MemoryStore, RunId, RunStore};
use ensemble_history::RunState;
use ensemble_remote::{EngineAdminClient, EngineClient, EngineClientError, EngineRunState, PausedCall};

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

/// `ensemble runs cancel`.
#[derive(Debug, Args)]
pub(crate) struct RunsCancelArgs {
    /// The id of the run, or the beginning of the id
    #[arg(value_name = "RUN", required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Cancel on the durable execution engine with this ingress address
    #[arg(long, value_name = "URL", required = true)]
    pub on: String,
    /// Use this admin address of the engine, which resumes a paused run to end it; default: port 9070 of the host of --on
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
}

/// Maximum number of runs in the list.
const MAX_LISTED_RUNS: usize = 100;

/// Time within which a cancelled run must end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(8);
/// Pause between two checks whether a cancelled run has ended.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Paused calls of an engine, by their runs.
pub(crate) type PausedCallsByRun = BTreeMap<RunId, Vec<PausedCall>>;

/// Lists the paused calls of the engine. Returns no calls if the admin interface cannot be reached.
///
/// # Errors
/// The interface that `admin` names cannot be reached.
pub(crate) async fn list_paused_calls(
    admin: Option<&str>,
    ingress: &str,
) -> Result<(EngineAdminClient, PausedCallsByRun), CliError> {
    let is_named = admin.is_some();
    let admin = EngineAdminClient::from_urls(admin, ingress)?;
    match admin.list_paused_calls_by_run().await {
        Ok(paused) => Ok((admin, paused)),
        Err(error) if is_named => Err(error.into()),
        Err(_) => Ok((admin, PausedCallsByRun::new())),
    }
}

/// Prints the latest runs of the engine as a list (`ensemble runs list --on`).
pub(crate) async fn print_engine_runs(
    url: &str,
    admin: Option<&str>,
    as_json: bool,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(url)?.with_fast_failures();
    let runs = remote.list_latest_briefs(MAX_LISTED_RUNS).await?;
    let (_, paused) = list_paused_calls(admin, url).await?;
    let mut rows = Vec::new();
    for (id, brief) in runs {
        let state = remote.fetch_run_state(&id, &brief, &paused).await?;
        rows.push((id, brief, state));
    }
    let rows = rows.into_iter().map(|(id, brief, state)| super::ListedRun {
        id,
        ensemble: brief.ensemble,
        started_at: brief.started_at,
        state: state.as_str(),
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
    let rows: Vec<super::ListedRun> = rows.collect();
    Ok(super::print_run_list(&rows, &[], remote.url(), as_json, surroundings))
}

/// Copies a run of the engine into the store and prints its id (`ensemble runs fetch`).
/// Replaces an earlier copy, unless the copy was continued here.
pub(crate) async fn fetch_run(
    args: &RunsFetchArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(&args.on)?.with_fast_failures();
    let id = remote.resolve_run_id(args.run.as_deref()).await?;
    let run = remote.copy_or_replace_run(&id, store).await?;
    let place = run
        .run_folder()
        .map_or_else(|| store.describe_location(), |folder| folder.display().to_string());
    let place = surroundings.project.relative_path(place.as_ref()).display().to_string();
    surroundings.print_err(&format!("fetched {id} into {place}\n"));
    surroundings.print_out(&format!("{id}\n"));
    Ok(exit::SUCCESS)
}

/// Prints a run of the engine turn by turn, with its state on the engine (`ensemble runs show --on`).
pub(crate) async fn print_engine_run(
    url: &str,
    args: &RunsShowArgs,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(url)?.with_fast_failures();
    let id = remote.resolve_run_id(args.run.as_deref()).await?;
    let (_, paused) = list_paused_calls(args.admin.as_deref(), url).await?;
    let state = remote
        .fetch_run_state(&id, &remote.fetch_existing_brief(&id).await?, &paused)
        .await?;
    let run = remote.copy_run(&id, &MemoryStore::new()).await?;
    let failure = paused
        .get(&id)
        .and_then(|calls| calls.iter().find_map(|call| call.failure.clone()));
    let footer = EngineFooter {
        state: state.as_str(),
        text: describe_state(&id, state, failure.as_deref(), url),
    };
    print_run_or_messages(args, run, Some(footer), surroundings).await
}

/// Renders the lines after the records of a run on an engine: its state, and the command that continues or copies the run.
fn describe_state(id: &RunId, state: EngineRunState, failure: Option<&str>, url: &str) -> String {
    let failure = failure.map(|failure| format!(" after: {failure}")).unwrap_or_default();
    let resume = format!("ensemble resume {id} --on {url}");
    match state {
        EngineRunState::Paused => format!("\npaused by the engine{failure}\n  continue with: {resume}\n"),
        EngineRunState::Lost => format!(
            "\nlost: the engine no longer executes the run\n  copy it with: ensemble runs fetch {id} --on {url}\n"
        ),
        EngineRunState::Recorded(RunState::Running) => format!("\nrunning on {url}\n  watch it: {resume}\n"),
        EngineRunState::Recorded(RunState::Waiting) => format!("  answer with: {resume}\n"),
        EngineRunState::Recorded(state) if state.is_resumable() => format!("  resume with: {resume}\n"),
        EngineRunState::Recorded(_) => format!("  copy it with: ensemble runs fetch {id} --on {url}\n"),
    }
}

/// Cancels a run on the engine, resumes its paused calls, and waits a limited time for its end (`ensemble runs cancel`).
///
/// # Errors
/// The run has already ended, or no worker answers.
pub(crate) async fn cancel_engine_run(args: &RunsCancelArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let remote = EngineClient::from_url(&args.on)?.with_fast_failures();
    let id = remote.resolve_run_id(args.run.as_deref()).await?;
    let brief = remote.fetch_existing_brief(&id).await?;
    let (admin, paused) = list_paused_calls(args.admin.as_deref(), &args.on).await?;
    let state = remote.fetch_run_state(&id, &brief, &paused).await?;
    if brief.has_ended() || state == EngineRunState::Lost {
        let state = state.as_str();
        return Err(CliError::usage_error(format!(
            "run {id} is not running: its state is `{state}`"
        )));
    }
    match remote.cancel_run(id.as_str(), "`runs cancel`").await {
        // The engine has stored the request.
        Err(error @ EngineClientError::NoWorkerAnswers(_)) => {
            surroundings.print_err(&format!(
                "note: the engine cancels run {id} as soon as a worker answers\n"
            ));
            return Err(error.into());
        }
        cancelled => cancelled?,
    }
    if let Some(calls) = paused.get(&id) {
        admin.resume_calls(calls).await?;
    }
    let ended = async {
        while !remote.fetch_has_run_ended(id.as_str()).await? {
            tokio::time::sleep(CANCEL_POLL_INTERVAL).await;
        }
        Ok::<_, EngineClientError>(())
    };
    match tokio::time::timeout(CANCEL_TIMEOUT, ended).await {
        Ok(ended) => ended?,
        Err(_late) => surroundings.print_err(&format!("note: run {id} has not ended yet\n")),
    }
    surroundings.print_err(&format!("cancelled {id}\n"));
    surroundings.print_out(&format!("{id}\n"));
    Ok(exit::SUCCESS)
}
