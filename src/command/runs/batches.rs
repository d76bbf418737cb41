//! Recorded batches: lists, replays, differences and estimates of all their rows.

use std::path::{Component, Path};

use chrono::{DateTime, Local, Utc};
use serde_json::{Value, json};

use crate::command::run::batch::progress::{format_money, format_rows};
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::data::Cost;
use ensemble_reports::report::format_count;
use ensemble_reports::report::sanitized_writer::EscapeStyle;
use ensemble_runs::batch::{self, BatchEntry, BatchSummary, ExhaustedRowPolicy, RowStatus};
use ensemble_runs::replay::{ReplayOptions, ReplayOutcome};
use ensemble_runs::store::files::BatchFiles;
use ensemble_runs::{EnsembleRef, Runs};

/// Maximum number of rows that a report of differences names.
const MAX_NAMED_ROWS: usize = 20;

/// Loads all batches of the project, sorted by their start.
pub(super) fn load_batches(surroundings: &CliEnvironment) -> Result<Vec<BatchSummary>, CliError> {
    let project = &surroundings.project;
    let mut batches = batch::list_batches(&project.project_root(&project.folder))?;
    batches.sort_by_key(|batch| batch.started_at);
    Ok(batches)
}

/// Finds the batch with this name, or the batch in the folder with this path. Returns `None` if there is no such batch.
pub(crate) fn find_batch(given: &str, surroundings: &CliEnvironment) -> Result<Option<BatchSummary>, CliError> {
    let project = &surroundings.project;
    let root = project.project_root(&project.folder);
    let parts: Vec<Component<'_>> = Path::new(given).components().collect();
    let (name, root) = match parts.as_slice() {
        [Component::Normal(name)] => (name.to_str().map(str::to_owned), root),
        _ => {
            let path = project.folder.join(given);
            let folder = path.canonicalize().unwrap_or(path);
            let is_batch = folder.parent().is_some_and(|all| all.ends_with(".ensemble/batches"));
            let name = folder.file_name().and_then(|name| name.to_str()).filter(|_| is_batch);
            let root = folder.ancestors().nth(3).map_or(root, Path::to_path_buf);
            (name.map(str::to_owned), root)
        }
    };
    let Some(name) = name else { return Ok(None) };
    Ok(batch::find_batch(&root, &name)?)
}

/// Returns the batch with this name.
///
/// # Errors
/// There is no such batch. The help text lists the batches.
pub(crate) fn require_batch(name: &str, surroundings: &CliEnvironment) -> Result<BatchSummary, CliError> {
    find_batch(name, surroundings)?.ok_or_else(|| {
        let project = &surroundings.project;
        let names = BatchFiles::list_batch_names(&project.project_root(&project.folder)).unwrap_or_default();
        let message = format!("there is no batch `{name}`");
        match names.is_empty() {
            true => CliError::usage_error(message),
            false => CliError::usage_error_with_help(message, format!("the batches are {}", names.join(", "))),
        }
    })
}

/// Renders one line for each batch.
pub(super) fn render_batches(batches: &[BatchSummary]) -> String {
    let widest = batches
        .iter()
        .map(|batch| batch.name.chars().count())
        .max()
        .unwrap_or(0);
    let lines = batches.iter().map(|batch| {
        let state = match batch.process {
            Some(process) => format!(", process {process} works on it"),
            None => String::new(),
        };
        format!(
            "batch {:widest$}  {}  {}  {}{state}\n",
            batch.name,
            format_time(batch.started_at),
            batch.ensemble,
            describe_counts(batch)
        )
    });
    lines.collect()
}

/// Renders the number of rows by status, and the cost if known.
fn describe_counts(batch: &BatchSummary) -> String {
    let mut text = format_rows(batch.counts.rows);
    if batch.counts.rows > 0 {
        text.push_str(&format!(" · {}", batch.counts.to_summary_line()));
    }
    if let Some(cost) = batch.cost {
        text.push_str(&format!(" · cost {}", format_money(cost)));
    }
    text
}

/// Formats the time in the local time zone, up to the minutes.
fn format_time(time: Option<DateTime<Utc>>) -> String {
    let known = time.map(|time| time.with_timezone(&Local).format("%Y-%m-%d %H:%M").to_string());
    known.unwrap_or_else(|| "at an unknown time".to_owned())
}

/// Prints a line for each row of the batch, or one JSON document (`ensemble runs list --batch`).
pub(super) fn print_batch_rows(name: &str, as_json: bool, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let batch = require_batch(name, surroundings)?;
    let rows = batch.rows_to_json();
    if as_json {
        let mut document = batch.to_json_without_rows();
        document["version"] = json!(1);
        document["runs"] = rows.into();
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
        return Ok(exit::SUCCESS);
    }
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let longest = rows.iter().map(|row| text(row, "run").len()).max().unwrap_or(0);
    let lines: String = rows
        .iter()
        .map(|row| {
            let outcome = row["cause"].as_str().or(row["outcome"].as_str()).unwrap_or("not ended");
            format!(
                "{:longest$}  row {:<6} {outcome}\n",
                text(row, "run"),
                row["row"].to_string()
            )
        })
        .collect();
    surroundings.print_out(&format!("{}: {}\n{lines}", batch.name, describe_counts(&batch)));
    Ok(exit::SUCCESS)
}

/// Result of replaying the rows of a batch.
#[derive(Debug, Default)]
struct BatchReplayResult {
    same: usize,
    /// Number of rows whose runs have no journal, because the runs have not begun or were deleted.
    missing: usize,
    /// Rows that differ or cannot be read, each with the reason.
    different: Vec<(usize, String)>,
}

/// Replays the runs of all rows of the batch and prints the result (`ensemble replay BATCH`). Returns the exit code.
pub(crate) async fn replay_batch(
    batch: &BatchSummary,
    ensemble: Option<&str>,
    as_json: bool,
    (runs, surroundings): (&Runs, &CliEnvironment),
) -> Result<u8, CliError> {
    let mut replayed = BatchReplayResult::default();
    for (number, folder) in batch.list_run_folders() {
        let path = folder.display().to_string();
        if !folder.join("journal.jsonl").is_file() {
            replayed.missing += 1;
            continue;
        }
        let options = ReplayOptions {
            ensemble: ensemble.map(str::to_owned),
            ..ReplayOptions::default()
        };
        let result = match runs.resolve_record(Some(path.as_str())).await {
            Ok(record) => runs.replay_record(record, options).await,
            Err(error) => Err(error),
        };
        match result.map(|result| result.outcome) {
            Ok(ReplayOutcome::Same | ReplayOutcome::CutShort { .. }) => replayed.same += 1,
            Ok(ReplayOutcome::Diverged(divergence)) => replayed.different.push((
                number,
                format!(
                    "diverged in turn {}: recorded {}, decided {}",
                    divergence.turn, divergence.recorded, divergence.decided
                ),
            )),
            Err(error) => replayed.different.push((number, error.to_string())),
        }
    }
    if as_json {
        let different: Vec<Value> = replayed
            .different
            .iter()
            .map(|(row, detail)| json!({"row": row, "detail": detail}))
            .collect();
        let document = json!({
            "batch": batch.name,
            "same": replayed.same,
            "missing": replayed.missing,
            "different": different,
        });
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
    } else {
        surroundings.print_out(&render_batch_replay(batch, &replayed));
    }
    Ok(if replayed.different.is_empty() {
        exit::SUCCESS
    } else {
        exit::DIVERGED
    })
}

/// Renders the numbers of equal, different and missing rows, and the first differences.
fn render_batch_replay(batch: &BatchSummary, replayed: &BatchReplayResult) -> String {
    let mark = if replayed.different.is_empty() { "✓" } else { "✗" };
    let mut text = format!(
        "{mark} {}: {} replayed, the same",
        batch.name,
        format_rows(replayed.same)
    );
    if !replayed.different.is_empty() {
        text.push_str(&format!(" · {} different", replayed.different.len()));
    }
    if replayed.missing > 0 {
        text.push_str(&format!(" · {} without a run", replayed.missing));
    }
    text.push('\n');
    let lines = replayed
        .different
        .iter()
        .map(|(row, detail)| format!("row {row}: {detail}"));
    push_first_lines(&mut text, lines.collect());
    text
}

/// Appends the first lines, and the number of the other lines.
fn push_first_lines(text: &mut String, lines: Vec<String>) {
    for line in lines.iter().take(MAX_NAMED_ROWS) {
        text.push_str(&format!("  {line}\n"));
    }
    if lines.len() > MAX_NAMED_ROWS {
        text.push_str(&format!("  and {} more\n", lines.len() - MAX_NAMED_ROWS));
    }
}

/// Row that two batches have in common, with its entries in both batches.
struct RowOfTwoBatches<'a> {
    number: usize,
    before: Option<&'a BatchEntry>,
    after: Option<&'a BatchEntry>,
}

impl RowOfTwoBatches<'_> {
    /// Describes the different outcomes or results. Returns `None` if the row is the same in both batches.
    fn describe_difference(&self) -> Option<String> {
        let outcome =
            |entry: Option<&BatchEntry>| entry.map_or("not ended".to_owned(), |entry| entry.outcome.to_string());
        let (before, after) = (outcome(self.before), outcome(self.after));
        if before != after {
            return Some(format!("row {}: {before} → {after}", self.number));
        }
        let (before, after) = (self.before?, self.after?);
        (before.result != after.result).then(|| match find_first_different_key(&before.result, &after.result) {
            Some((key, before, after)) => {
                format!(
                    "row {}: `{key}` {} → {}",
                    self.number,
                    shorten_value(before),
                    shorten_value(after)
                )
            }
            None => format!("row {}: another result", self.number),
        })
    }
}

/// Finds the first key with different values in the two objects. Returns the key and both values.
/// Returns `None` if a value is no object.
fn find_first_different_key<'v>(before: &'v Value, after: &'v Value) -> Option<(&'v str, &'v Value, &'v Value)> {
    const NOTHING: &Value = &Value::Null;
    let (before, after) = (before.as_object()?, after.as_object()?);
    let keys = before.keys().chain(after.keys());
    keys.map(|key| {
        (
            key.as_str(),
            before.get(key).unwrap_or(NOTHING),
            after.get(key).unwrap_or(NOTHING),
        )
    })
    .find(|(_, before, after)| before != after)
}

/// Formats the value as JSON, with at most 60 characters.
fn shorten_value(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Compares the rows with the same inputs in both batches, and prints the differences (`ensemble runs diff BATCH BATCH`).
pub(super) fn diff_batches((a, b): (&BatchSummary, &BatchSummary), as_json: bool, surroundings: &CliEnvironment) -> u8 {
    let keys_of_b: std::collections::HashMap<&str, usize> = b.list_row_keys().zip(0..).collect();
    let keys_of_a: std::collections::HashSet<&str> = a.list_row_keys().collect();
    let (entries_of_a, entries_of_b) = (a.list_row_entries(), b.list_row_entries());
    let mut only_in_a = 0;
    let mut compared = Vec::new();
    for ((number, key), before) in a.list_row_numbers().zip(a.list_row_keys()).zip(&entries_of_a) {
        match keys_of_b.get(key) {
            Some(at) => compared.push(RowOfTwoBatches {
                number,
                before: *before,
                after: entries_of_b.get(*at).copied().flatten(),
            }),
            None => only_in_a += 1,
        }
    }
    let only_in_b = b.list_row_keys().filter(|key| !keys_of_a.contains(key)).count();
    let differences: Vec<String> = compared
        .iter()
        .filter_map(RowOfTwoBatches::describe_difference)
        .collect();
    let same = compared.len() - differences.len();
    let is_same = differences.is_empty() && only_in_a + only_in_b == 0;
    if as_json {
        let document = json!({
            "a": a.to_json_without_rows(),
            "b": b.to_json_without_rows(),
            "same_rows": same,
            "different_rows": differences,
            "only_in_a": only_in_a,
            "only_in_b": only_in_b,
            "same": is_same,
        });
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
    } else {
        let mut text = format!(
            "{}: {}\n{}: {}\n",
            a.name,
            describe_counts(a),
            b.name,
            describe_counts(b)
        );
        text.push_str(&format!("{} with the same result\n", format_rows(same)));
        if !differences.is_empty() {
            text.push_str(&format!("{} with another result\n", format_rows(differences.len())));
            push_first_lines(&mut text, differences);
        }
        for (count, name) in [(only_in_a, &a.name), (only_in_b, &b.name)] {
            if count > 0 {
                text.push_str(&format!("{} only in {name}\n", format_rows(count)));
            }
        }
        surroundings.print_out(&text);
    }
    if is_same { exit::SUCCESS } else { exit::DIFFERENT }
}

/// Totals of the rows of a batch that have ended: requests, tokens and cost.
struct EndedRowTotals {
    rows: usize,
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost: Option<Cost>,
    highest_cost: Option<Cost>,
}

impl EndedRowTotals {
    /// Sums up the rows that have ended, without waiting and interrupted rows.
    fn from_batch(batch: &BatchSummary) -> Self {
        let entries = batch.list_row_entries();
        let ended = || {
            let entries = entries.iter().copied().flatten();
            entries.filter(|entry| {
                !matches!(
                    entry.status(ExhaustedRowPolicy::Accepted),
                    RowStatus::Left | RowStatus::Waiting
                )
            })
        };
        let sum = |what: &str| ended().map(|entry| entry.usage_count(what)).sum();
        Self {
            rows: ended().count(),
            requests: sum("requests"),
            input_tokens: sum("input_tokens"),
            output_tokens: sum("output_tokens"),
            cost: ended().filter_map(BatchEntry::cost).reduce(|sum, cost| sum + cost),
            highest_cost: ended().filter_map(BatchEntry::cost).max(),
        }
    }

    /// Returns the expected cost of this number of rows, from the average cost of a row.
    fn expected_cost(&self, rows: usize) -> Option<Cost> {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let share = rows as f64 / self.rows.max(1) as f64;
        Some(Cost::from_amount(self.cost?.amount() * share))
    }
}

/// Prints the expected usage of a row and of all rows, from the rows of the batch (`ensemble estimate --from BATCH`).
pub(super) fn print_batch_estimate(
    ensemble: &str,
    batch: &BatchSummary,
    as_json: bool,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let runs = surroundings.runs_without_operator();
    let prepared = runs.load_prepared_ensemble(&EnsembleRef::from_file_or_name(ensemble))?;
    let changed = batch.list_changed_version_parts(&runs, &prepared)?;
    let figures = EndedRowTotals::from_batch(batch);
    if figures.rows == 0 {
        return Err(CliError::usage_error(format!(
            "no row of the batch `{}` has ended",
            batch.name
        )));
    }
    let per_row = |sum: u64| sum.div_ceil(figures.rows as u64);
    let (one, all) = (figures.expected_cost(1), figures.expected_cost(batch.counts.rows));
    if as_json {
        let document = json!({
            "ensemble": ensemble,
            "batch": batch.name,
            "rows": batch.counts.rows,
            "rows_ended": figures.rows,
            "changed": changed,
            "row": {
                "requests": per_row(figures.requests),
                "input_tokens": per_row(figures.input_tokens),
                "output_tokens": per_row(figures.output_tokens),
                "cost": one,
                "highest_cost": figures.highest_cost,
            },
            "cost": all,
        });
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
        return Ok(exit::SUCCESS);
    }
    surroundings.print_out(&render_batch_estimate(ensemble, batch, &figures, &changed));
    Ok(exit::SUCCESS)
}

/// Renders the expected usage of a row and of all rows, with a note about the parts of the ensemble that changed.
fn render_batch_estimate(ensemble: &str, batch: &BatchSummary, figures: &EndedRowTotals, changed: &[String]) -> String {
    let per_row = |sum: u64| sum.div_ceil(figures.rows as u64);
    let (one, all) = (figures.expected_cost(1), figures.expected_cost(batch.counts.rows));
    let mut text = format!(
        "{ensemble}, estimated from {} of batch {}\n\na row on average: {}, {} in, {} out",
        format_rows(figures.rows),
        batch.name,
        format_count(per_row(figures.requests), "request"),
        format_count(per_row(figures.input_tokens), "token"),
        per_row(figures.output_tokens),
    );
    if let (Some(one), Some(highest)) = (one, figures.highest_cost) {
        text.push_str(&format!(
            ", cost {} (at most {})",
            format_money(one),
            format_money(highest)
        ));
    }
    text.push('\n');
    if let Some(all) = all {
        text.push_str(&format!(
            "{}: cost {}\n",
            format_rows(batch.counts.rows),
            format_money(all)
        ));
    }
    if !changed.is_empty() {
        text.push_str(&format!(
            "changed since, so the figures can be wrong: {}\n",
            changed.join(", ")
        ));
    }
    text
}
