//! `ensemble runs prune`: deletes old runs, except those that may still be needed.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use clap::builder::PossibleValuesParser;
use ensemble_core::conversation::CompletionReason;
use ensemble_core::store::{RunStore, StoreError, StoredRun};
use ensemble_history::{DriverProcess, RunHistory, RunState};
use ensemble_reports::report::format_count;
use ensemble_runs::batch::{BatchEntry, BatchError, BatchSummary, list_batches, remove_idle_batch};

/// `ensemble runs prune`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct RunsPruneArgs {
    /// Keep the N latest runs, and the N latest batches
    #[arg(long, value_name = "N", group = "which")]
    pub keep: Option<usize>,
    /// Delete only runs and batches whose last record is older than AGE: 90s, 30m, 12h, 7d, 4weeks
    #[arg(long, value_name = "AGE", group = "which", value_parser = humantime::parse_duration)]
    pub older_than: Option<std::time::Duration>,
    /// Delete only the oldest runs and batches, until the others need at most SIZE: 500MB, 2GB
    #[arg(long, value_name = "SIZE", group = "which", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Only runs in this state, and batches all of whose rows are; separate several with commas
    #[arg(long, value_name = "STATE", group = "which", value_delimiter = ',', value_parser = PossibleValuesParser::new(RunState::list_state_names()))]
    pub outcome: Vec<String>,
    /// Also delete runs that can be resumed: interrupted, waiting, cancelled, timeout; and batches with such rows
    #[arg(long)]
    pub resumable: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Parses a size in bytes with an optional unit, such as `500MB` or `2GiB`.
fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("B", 1),
        ("", 1),
    ];
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()));
    let size = factor.and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(*factor));
    size.ok_or_else(|| "expected a number of bytes with a unit, such as 500MB or 2GiB".to_owned())
}

/// Executes `ensemble runs prune`: deletes the selected runs and batches, and prints the totals. Returns the exit code.
pub(crate) async fn prune_runs(
    args: &RunsPruneArgs,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let project = &surroundings.project;
    let root = project.project_root(&project.folder);
    let mut runs = store.list_runs().await?;
    let mut batches = list_batches(&root)?;
    batches.sort_by_cached_key(latest_batch_change);
    let oversized = args
        .max_size
        .map(|most| list_folders_beyond_size(most, &runs, &batches));
    let is_chosen = |folder: Option<&Path>| match (&oversized, folder) {
        (Some(oversized), folder) => folder.is_some_and(|folder| oversized.contains(folder)),
        (None, _) => true,
    };
    runs.truncate(runs.len().saturating_sub(args.keep.unwrap_or(0)));
    batches.truncate(batches.len().saturating_sub(args.keep.unwrap_or(0)));
    let mut pruned = PruneResult::default();
    for run in runs.iter().filter(|run| is_chosen(run.run_folder())) {
        match decide_run_deletion(&**run, args).await {
            PruneDecision::Keep => {}
            PruneDecision::Spare(why) => surroundings.print_err(&format!("kept {}: {why}\n", run.id())),
            PruneDecision::Resumable(state) => {
                pruned.resumable += 1;
                surroundings.print_err(&format!("kept {}: {state}, and it can be resumed\n", run.id()));
            }
            PruneDecision::Delete(state) => {
                delete_and_count_run(&**run, state, args.dry_run, &mut pruned, surroundings).await?
            }
        }
    }
    for batch in batches.iter().filter(|batch| is_chosen(Some(&batch.folder))) {
        prune_batch_if_selected(batch, &root, args, &mut pruned, surroundings)?;
    }
    print_totals(&pruned, args.dry_run, surroundings);
    Ok(exit::SUCCESS)
}

/// Prints the numbers and sizes of deleted runs and batches, with hints about those that were kept.
fn print_totals(pruned: &PruneResult, dry_run: bool, surroundings: &CliEnvironment) {
    let (verb, freed) = match dry_run {
        true => ("would delete", "would be freed"),
        false => ("deleted", "freed"),
    };
    let mut deleted = format_count(pruned.runs, "run");
    if pruned.batches > 0 {
        let noun = if pruned.batches == 1 { "batch" } else { "batches" };
        deleted.push_str(&format!(" and {} {noun}", pruned.batches));
    }
    let bytes = indicatif::HumanBytes(pruned.bytes);
    surroundings.print_err(&format!("{verb} {deleted}, {bytes} {freed}\n"));
    if pruned.resumable > 0 {
        let them = format_count(pruned.resumable, "run");
        surroundings.print_err(&format!(
            "  help: --resumable also deletes {them} that can be resumed\n"
        ));
    }
    if pruned.open_batches > 0 {
        surroundings.print_err("  help: --resumable also deletes batches with rows that can continue\n");
    }
}

/// Returns the folders of the oldest runs and batches that must be deleted until the others need at most `most` bytes.
fn list_folders_beyond_size(most: u64, runs: &[Arc<dyn StoredRun>], batches: &[BatchSummary]) -> HashSet<PathBuf> {
    let runs = runs.iter().filter_map(|run| run.run_folder());
    let of_run = |folder: &Path| (modified_time(&folder.join("journal.jsonl")), folder.to_path_buf());
    let mut folders: Vec<(SystemTime, PathBuf)> = runs.map(of_run).collect();
    folders.extend(
        batches
            .iter()
            .map(|batch| (latest_batch_change(batch), batch.folder.clone())),
    );
    folders.sort();
    let mut size = 0_u64;
    let latest_first = folders.into_iter().rev();
    latest_first
        .filter_map(|(_, folder)| {
            size = size.saturating_add(folder_size(&folder));
            (size > most).then_some(folder)
        })
        .collect()
}

/// Returns the time of the last modification, or the Unix epoch if the file cannot be read.
fn modified_time(path: &Path) -> SystemTime {
    let modified = std::fs::metadata(path).and_then(|about| about.modified());
    modified.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the time of the latest change of the files and runs of the batch.
fn latest_batch_change(batch: &BatchSummary) -> SystemTime {
    let files = ["rows.jsonl", "batch.json", "results.jsonl"].map(|name| batch.folder.join(name));
    let journals = batch.list_run_folders().map(|(_, folder)| folder.join("journal.jsonl"));
    let times = files.into_iter().chain(journals).map(|path| modified_time(&path));
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Deletes the batch if the options select it and no process works on it, and adds the numbers to `pruned`. With `--dry-run`, only counts.
fn prune_batch_if_selected(
    batch: &BatchSummary,
    root: &Path,
    args: &RunsPruneArgs,
    pruned: &mut PruneResult,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let name = &batch.name;
    if let Some(process) = batch.process {
        surroundings.print_err(&format!("kept batch {name}: process {process} works on it\n"));
        return Ok(());
    }
    let age = SystemTime::now()
        .duration_since(latest_batch_change(batch))
        .unwrap_or_default();
    if args.older_than.is_some_and(|least| age <= least) {
        return Ok(());
    }
    let is_wanted = |state: RunState| args.outcome.iter().any(|wanted| wanted == state.as_str());
    if !args.outcome.is_empty()
        && !batch
            .list_row_entries()
            .into_iter()
            .all(|entry| is_wanted(row_state(entry)))
    {
        return Ok(());
    }
    if batch.has_resumable_rows() && !args.resumable {
        pruned.open_batches += 1;
        let counts = batch.counts.to_summary_line();
        surroundings.print_err(&format!("kept batch {name}: {counts}, and rows can continue\n"));
        return Ok(());
    }
    let bytes = folder_size(&batch.folder);
    if !args.dry_run {
        match remove_idle_batch(root, name) {
            Err(error @ BatchError::Busy { .. }) => {
                surroundings.print_err(&format!("kept batch {name}: {error}\n"));
                return Ok(());
            }
            removed => removed?,
        }
    }
    pruned.batches += 1;
    pruned.bytes += bytes;
    surroundings.print_out(&format!("batch {name}  {}\n", batch.counts.to_summary_line()));
    Ok(())
}

/// Returns the state of the run of a row. A row without an entry is interrupted.
fn row_state(entry: Option<&BatchEntry>) -> RunState {
    match entry.map(|entry| entry.outcome) {
        None => RunState::Interrupted,
        Some(CompletionReason::WaitingForInput) => RunState::Waiting,
        Some(outcome) => RunState::Ended(outcome),
    }
}

/// Numbers and sizes of the deleted runs and batches.
#[derive(Default)]
struct PruneResult {
    runs: u64,
    bytes: u64,
    /// Number of selected runs that are kept because they can be resumed.
    resumable: u64,
    batches: u64,
    /// Number of selected batches that are kept because their rows can continue.
    open_batches: u64,
}

/// Decision to keep or delete a run.
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

/// Decides whether the options select the run, and whether the run must be kept.
async fn decide_run_deletion(run: &dyn StoredRun, args: &RunsPruneArgs) -> PruneDecision {
    if let Some(pid) = run.lease_holder_pid() {
        return PruneDecision::Spare(format!("process {pid} executes it"));
    }
    let journal = match run.read_journal().await {
        Ok(journal) => journal,
        Err(error) => return PruneDecision::Spare(format!("{error}; `ensemble runs rm` deletes it")),
    };
    let history = RunHistory::from_records(&journal.records);
    if !is_older_than_option(&history, args) {
        return PruneDecision::Keep;
    }
    let state = history.run_state(DriverProcess::NoProcess);
    if !args.outcome.is_empty() && !args.outcome.iter().any(|wanted| wanted == state.as_str()) {
        return PruneDecision::Keep;
    }
    if state.is_resumable() && !args.resumable {
        return PruneDecision::Resumable(state);
    }
    PruneDecision::Delete(state)
}

/// Returns whether the last record is older than `--older-than`. Returns `true` without the option.
fn is_older_than_option(history: &RunHistory, args: &RunsPruneArgs) -> bool {
    let Some(age) = args.older_than else { return true };
    let age = chrono::Duration::from_std(age).unwrap_or(chrono::Duration::MAX);
    let before = DateTime::<Utc>::from(SystemTime::now())
        .checked_sub_signed(age)
        .unwrap_or(DateTime::<Utc>::MIN_UTC);
    history.latest_record_at().is_some_and(|latest| latest < before)
}

/// Deletes the run under its lease, and adds it to `pruned`. With `dry_run`, only counts. Keeps a run that another process executes.
async fn delete_and_count_run(
    run: &dyn StoredRun,
    state: RunState,
    dry_run: bool,
    pruned: &mut PruneResult,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let bytes = run.run_folder().map_or(0, folder_size);
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

/// Returns the size of all files below the folder, in bytes. Skips entries that cannot be read.
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
