//! Reports of a batch: the tasks before the rows run, and the results afterwards, failures first.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::BatchArgs;
use super::progress::{format_money, format_rows};
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::conversation::RunCanceller;
use ensemble_language::data::Cost;
use ensemble_runs::batch::{
    Batch, BatchWorkEnd, RowCauseGroup, RowTask, RowTaskGroup, group_failures, group_open_work,
};

/// Maximum number of causes of failures that are printed.
const MAX_NAMED_CAUSES: usize = 10;
/// Maximum number of rows that are printed for a cause.
const MAX_ROWS_OF_CAUSE: usize = 5;

/// Result of one call of `ensemble batch`.
pub(super) struct BatchReport<'a> {
    pub(super) batch: &'a Batch,
    pub(super) name: &'a str,
    pub(super) end: &'a BatchWorkEnd,
    /// The number of rows that had ended before the call and did not run again.
    pub(super) ended_before: usize,
    /// Cost of all tries before the call.
    pub(super) cost_before: Option<Cost>,
    /// The path of the results.
    pub(super) results: &'a Path,
}

/// Prints how many rows would run, and for which reasons.
pub(super) fn print_dry_run(batch: &Batch, name: &str, args: &BatchArgs, surroundings: &CliEnvironment) {
    let (groups, to_do) = (batch.group_rows_by_task(), batch.count_rows_to_run());
    if args.output == DocumentFormat::Json {
        let reasons: Vec<Value> = groups.iter().map(task_group_to_json).collect();
        let document = json!({
            "batch": name,
            "rows": batch.len(),
            "to_run": to_do,
            "reasons": reasons,
            "cost": batch.total_cost(),
            "driver_pid": batch.working_process_id(),
        });
        surroundings.print_out_in_format(args.output, &format!("{document:#}\n"));
        return;
    }
    let (rows, finished) = (format_rows(batch.len()), count_rows_without_task(batch));
    let mut text = format!("{name}: {rows}, {to_do} to run, {finished} finished\n");
    for group in groups.iter().filter(|group| group.task != RowTask::Nothing) {
        text.push_str(&format!("  {}\n", render_task_group(group)));
    }
    let counts = batch.count_rows_by_status();
    if counts.left < counts.rows {
        text.push_str(&format!("  until now: {}\n", counts.to_summary_line()));
    }
    if let Some(cost) = batch.total_cost() {
        text.push_str(&format!("  cost until now {}\n", format_money(cost)));
    }
    if let Some(process) = batch.working_process_id() {
        text.push_str(&format!("  process {process} works on the batch now\n"));
    }
    surroundings.print_out(&text);
}

/// Returns the number of rows that have ended and do not run.
pub(super) fn count_rows_without_task(batch: &Batch) -> usize {
    let groups = batch.group_rows_by_task().into_iter();
    let finished = groups.filter(|group| group.task == RowTask::Nothing);
    finished.map(|group| group.rows).sum()
}

/// Prints a note for each group of rows that ended before but runs again, or that another process executes.
pub(super) fn print_notes_before_run(batch: &Batch, args: &BatchArgs, surroundings: &CliEnvironment) {
    if args.quiet {
        return;
    }
    for group in batch.group_rows_by_task() {
        if matches!(group.task, RowTask::RunOutdated { .. } | RowTask::Elsewhere(_)) {
            surroundings.print_err(&format!("note: {}\n", render_task_group(&group)));
        }
    }
}

/// Renders the task of a group of rows, with the cost until now if the rows are run again.
fn render_task_group(group: &RowTaskGroup) -> String {
    let mut text = group.task.describe_for_rows(group.rows);
    if let (RowTask::RunOutdated { .. }, Some(cost)) = (&group.task, group.cost) {
        text.push_str(&format!("; cost until now {}", format_money(cost)));
    }
    text
}

/// Converts a group of rows with the same task to JSON.
fn task_group_to_json(group: &RowTaskGroup) -> Value {
    let mut document = json!({"reason": group.task.as_str(), "rows": group.rows, "cost": group.cost});
    if let RowTask::RunOutdated { changed } = &group.task {
        document["changed"] = json!(changed);
    }
    document
}

impl BatchReport<'_> {
    /// Prints the report as text, or as one JSON document.
    pub(super) fn print(&self, args: &BatchArgs, surroundings: &CliEnvironment) {
        let text = match args.output {
            DocumentFormat::Json => format!("{:#}\n", self.to_json(args)),
            DocumentFormat::Human => self.to_text(args, surroundings),
        };
        surroundings.print_out_in_format(args.output, &text);
    }

    /// Returns the cost of the tries of this call. Returns `None` if no cost is known.
    fn call_cost(&self) -> Option<f64> {
        let cost = self.batch.total_cost()?.amount() - self.cost_before.unwrap_or_default().amount();
        Some(Cost::from_amount(cost).amount())
    }

    /// Converts the report to JSON.
    fn to_json(&self, args: &BatchArgs) -> Value {
        let batch = self.batch;
        let outcomes = batch.count_rows_by_outcome().into_iter();
        let by_outcome: Map<String, Value> = outcomes
            .map(|(reason, count)| (reason.to_string(), json!(count)))
            .collect();
        let groups_to_json = |groups: Vec<RowCauseGroup>, key: &str| -> Vec<Value> {
            let groups = groups.into_iter();
            groups
                .map(|group| json!({key: group.cause, "count": group.rows.len(), "rows": group.rows, "run": group.run}))
                .collect()
        };
        let causes = groups_to_json(group_failures(batch.table_lines()), "cause");
        let open_work = groups_to_json(group_open_work(batch.table_lines()), "work");
        let counts = batch.count_rows_by_status();
        json!({
            "batch": self.name,
            "rows": batch.len(),
            "failed": counts.failed,
            "causes": causes,
            "open_work": open_work,
            "waiting": counts.count_waiting_rows(),
            "waiting_for": counts.waiting,
            "limited": counts.limited,
            "completed": counts.succeeded,
            "left": counts.left,
            "outcomes": by_outcome,
            "cost": batch.total_cost(),
            "call_cost": self.call_cost(),
            "unpriced": batch.count_unpriced_rows(),
            "stopped": match self.end {
                BatchWorkEnd::Done => None,
                BatchWorkEnd::CostLimit(_) => Some("max_cost"),
                BatchWorkEnd::StoppedBy(_) => Some("cancelled"),
            },
            "results": self.results.display().to_string(),
            "questions": args.questions.as_ref().map(|path| path.display().to_string()),
        })
    }

    /// Renders the report as text: counts, failures by cause, remarks, and the path of the results.
    fn to_text(&self, args: &BatchArgs, surroundings: &CliEnvironment) -> String {
        let batch = self.batch;
        let counts = batch.count_rows_by_status();
        let mut text = format!("{}: {}", self.name, format_rows(batch.len()));
        if counts.rows > 0 {
            text.push_str(&format!(" · {}", counts.to_summary_line()));
        }
        text.push('\n');
        self.push_stop_reason(args, &mut text);
        self.push_failures(surroundings, &mut text);
        let open_work = group_open_work(batch.table_lines());
        if !open_work.is_empty() {
            text.push_str("  completed, but:\n");
            push_cause_groups(&open_work, "remarks", &mut text);
        }
        if counts.count_waiting_rows() > 0 {
            text.push_str(&match &args.questions {
                Some(path) => format!(
                    "  questions: {}; to answer, fill in the column `answer` and add: --answers {}\n",
                    path.display(),
                    path.display()
                ),
                None => "  to write the questions into a table, add: --questions FILE.csv\n".to_owned(),
            });
        }
        if self.ended_before > 0 {
            text.push_str(&format!("  {} had already ended\n", format_rows(self.ended_before)));
        }
        if let Some(cost) = batch.total_cost() {
            text.push_str(&format!("  cost {}", format_money(cost)));
            if self.cost_before.is_some() {
                let call_cost = Cost::from_amount(self.call_cost().unwrap_or_default());
                text.push_str(&format!(", {} of it in this call", format_money(call_cost)));
            }
            text.push('\n');
        }
        if args.max_cost.is_some() && batch.count_unpriced_rows() > 0 {
            text.push_str(&format!(
                "  the cost of {} is not known, because their models have no price: --max-cost does not limit them\n",
                format_rows(batch.count_unpriced_rows())
            ));
        }
        text.push_str(&format!("  results: {}\n", self.results.display()));
        text
    }

    /// Appends a line about the end of the work, if a signal or the cost limit stopped the batch.
    fn push_stop_reason(&self, args: &BatchArgs, text: &mut String) {
        match self.end {
            BatchWorkEnd::Done => {}
            BatchWorkEnd::CostLimit(rows) => {
                let most = args.max_cost.unwrap_or_default();
                text.push_str(&format!(
                    "  stopped by --max-cost {most}: {} did not run; to continue, repeat the command with a higher amount\n",
                    format_rows(*rows)
                ));
            }
            BatchWorkEnd::StoppedBy(_) => text.push_str("  stopped; to continue, repeat the command\n"),
        }
    }

    /// Appends the causes of failures, and commands that show or repeat the failed runs.
    fn push_failures(&self, surroundings: &CliEnvironment, text: &mut String) {
        let groups = group_failures(self.batch.table_lines());
        push_cause_groups(&groups, "causes", text);
        if let Some(group) = groups.first() {
            let folder = surroundings.project.relative_path(&self.batch.run_folder(&group.run));
            text.push_str(&format!(
                "  to show a failed run: ensemble runs show {}\n  to run failed rows again, add: --retry failed\n",
                folder.display()
            ));
        }
    }
}

/// Appends one line for each of the largest groups, and the number of other groups. `noun` is the plural for groups.
fn push_cause_groups(groups: &[RowCauseGroup], noun: &str, text: &mut String) {
    for group in groups.iter().take(MAX_NAMED_CAUSES) {
        let (count, rows) = (group.rows.len(), format_row_numbers(group));
        text.push_str(&format!("  {count} × {} ({rows})\n", group.cause));
    }
    if groups.len() > MAX_NAMED_CAUSES {
        let others = groups.len() - MAX_NAMED_CAUSES;
        text.push_str(&format!("  {others} further {noun}: the results list them\n"));
    }
}

/// Formats the rows of a group: `row 3`, `rows 3, 17, 20 and 11 more`.
fn format_row_numbers(group: &RowCauseGroup) -> String {
    let numbers: Vec<String> = group
        .rows
        .iter()
        .take(MAX_ROWS_OF_CAUSE)
        .map(usize::to_string)
        .collect();
    let noun = if group.rows.len() == 1 { "row" } else { "rows" };
    match group.rows.len().saturating_sub(MAX_ROWS_OF_CAUSE) {
        0 => format!("{noun} {}", numbers.join(", ")),
        more => format!("{noun} {} and {more} more", numbers.join(", ")),
    }
}

/// Returns the exit code of the batch: of the signal or the cost limit that stopped the work, or of the worst row.
pub(super) fn batch_exit_code(batch: &Batch, end: &BatchWorkEnd, args: &BatchArgs) -> u8 {
    match end {
        BatchWorkEnd::StoppedBy(RunCanceller::Signal) => return 143,
        BatchWorkEnd::StoppedBy(_) => return 130,
        BatchWorkEnd::CostLimit(_) => return exit::BUDGET,
        BatchWorkEnd::Done => {}
    }
    if has_rows_of_other_processes(batch) {
        return exit::FAILURE;
    }
    let entries = batch.table_lines().filter_map(|line| line.entry);
    let codes: Vec<u8> = entries
        .map(|entry| entry.exit_code(args.exhausted_row_policy()))
        .collect();
    let worst = [exit::FAILURE, 4, 3, 130].into_iter().find(|code| codes.contains(code));
    worst.unwrap_or(exit::SUCCESS)
}

/// Returns whether other processes execute runs of rows.
fn has_rows_of_other_processes(batch: &Batch) -> bool {
    let is_elsewhere = |group: &RowTaskGroup| matches!(group.task, RowTask::Elsewhere(_));
    !batch.busy_rows().is_empty() || batch.group_rows_by_task().iter().any(is_elsewhere)
}
