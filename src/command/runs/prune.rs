//! `ensemble runs prune`: deletes old runs, except those that may still be needed.

use std::path::Path;
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use clap::builder::PossibleValuesParser;
use ensemble_core::store::{RunStore, StoreError, StoredRun};
use ensemble_history::{RunDriver, RunHistory, RunState};
use ensemble_reports::report::format_count;

/// `ensemble runs prune`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct RunsPruneArgs {
    /// Keep the N latest runs
    #[arg(long, value_name = "N", group = "which")]
    pub keep: Option<usize>,
    /// Delete only runs whose last record is older than AGE: 90s, 30m, 12h, 7d, 4weeks
    #[arg(long, value_name = "AGE", group = "which", value_parser = humantime::parse_duration)]
    pub older_than: Option<std::time::Duration>,
    /// Only runs in this state; separate several with commas
    #[arg(long, value_name = "STATE", group = "which", value_delimiter = ',', value_parser = PossibleValuesParser::new(RunState::state_names()))]
    pub outcome: Vec<String>,
    /// Also delete runs that can be resumed: interrupted, waiting, cancelled, timeout
    #[arg(long)]
    pub resumable: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// `ensemble runs prune`.
pub(crate) async fn prune_runs(
    args: &RunsPruneArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let mut runs = store.list_runs().await?;
    runs.truncate(runs.len().saturating_sub(args.keep.unwrap_or(0)));
    let mut pruned = PruneTotals::default();
    for run in runs {
        match decide_run(&*run, args).await {
            PruneDecision::Keep => {}
            PruneDecision::Spare(why) => surroundings.print_err(&format!("kept {}: {why}\n", run.id())),
            PruneDecision::Resumable(state) => {
                pruned.resumable += 1;
                surroundings.print_err(&format!("kept {}: {state}, and it can be resumed\n", run.id()));
            }
            PruneDecision::Delete(state) => delete_run(&*run, state, args.dry_run, &mut pruned, surroundings).await?,
        }
    }
    let (verb, freed) = if args.dry_run {
        ("would delete", "would be freed")
    } else {
        ("deleted", "freed")
    };
    surroundings.print_err(&format!(
        "{verb} {}, {} {freed}\n",
        format_count(pruned.runs, "run"),
        indicatif::HumanBytes(pruned.bytes)
    ));
    if pruned.resumable > 0 {
        let them = format_count(pruned.resumable, "run");
        surroundings.print_err(&format!(
            "  help: --resumable also deletes {them} that can be resumed\n"
        ));
    }
    Ok(exit::SUCCESS)
}

/// The result of the deletions.
#[derive(Default)]
struct PruneTotals {
    runs: u64,
    bytes: u64,
    /// The number of selected runs that are kept because they can be resumed.
    resumable: u64,
}

/// The decision about a run.
enum PruneDecision {
    /// The run is not selected.
    Keep,
    /// The run is selected, but must be kept, for this reason.
    Spare(String),
    /// The run is selected, but is kept because it can be resumed; with its state.
    Resumable(RunState),
    /// The run is deleted; with its state.
    Delete(RunState),
}

async fn decide_run(run: &dyn StoredRun, args: &RunsPruneArgs) -> PruneDecision {
    if let Some(pid) = run.driver_pid() {
        return PruneDecision::Spare(format!("process {pid} executes it"));
    }
    let journal = match run.read_journal().await {
        Ok(journal) => journal,
        Err(error) => return PruneDecision::Spare(format!("{error}; `ensemble runs rm` deletes it")),
    };
    let history = RunHistory::from_records(&journal.records);
    if !is_old(&history, args) {
        return PruneDecision::Keep;
    }
    let state = history.run_state(RunDriver::NoProcess);
    if !args.outcome.is_empty() && !args.outcome.iter().any(|wanted| wanted == state.as_str()) {
        return PruneDecision::Keep;
    }
    if state.is_resumable() && !args.resumable {
        return PruneDecision::Resumable(state);
    }
    PruneDecision::Delete(state)
}

fn is_old(history: &RunHistory, args: &RunsPruneArgs) -> bool {
    let Some(age) = args.older_than else { return true };
    let age = chrono::Duration::from_std(age).unwrap_or(chrono::Duration::MAX);
    let before = DateTime::<Utc>::from(SystemTime::now())
        .checked_sub_signed(age)
        .unwrap_or(DateTime::<Utc>::MIN_UTC);
    history.latest_at().is_some_and(|latest| latest < before)
}

async fn delete_run(
    run: &dyn StoredRun,
    state: RunState,
    dry_run: bool,
    pruned: &mut PruneTotals,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let bytes = run.folder().map_or(0, folder_size);
    if !dry_run {
        // Another process may have started to execute the run in the meantime.
        let _lease = match run.acquire_lease().await {
            Ok(lease) => lease,
            Err(error @ StoreError::Leased { .. }) => {
                surroundings.print_err(&format!("kept {}: {error}\n", run.id()));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        run.remove_run().await?;
    }
    pruned.runs += 1;
    pruned.bytes += bytes;
    surroundings.print_out(&format!("{}  {state}\n", run.id()));
    Ok(())
}

/// Returns the size of all files below the folder, in bytes.
fn folder_size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(about) if about.is_dir() => folder_size(&entry.path()),
            Ok(about) => about.len(),
            Err(_) => 0,
        })
        .sum()
}
