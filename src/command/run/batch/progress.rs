//! The progress of a batch: a bar on a terminal, otherwise a line from time to time.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Local};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::BatchArgs;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::conversation::CompletionReason;
use ensemble_language::data::Cost;
use ensemble_models::ModelNetwork;
use ensemble_reports::report::format_count;
use ensemble_runs::batch::{ExhaustedRowPolicy, RowReport, RowStatus};

/// Maximum number of failed rows that are printed.
const MAX_NAMED_FAILURES: usize = 10;

/// Display of the progress of a batch: a bar or lines, and a line for each of the first failures.
pub(crate) struct BatchProgressDisplay<'a> {
    bar: Option<ProgressBar>,
    surroundings: &'a CliEnvironment,
    is_quiet: bool,
    limits: ExhaustedRowPolicy,
    /// The models, whose slowdowns are printed.
    network: ModelNetwork,
    start: Instant,
    counts: ProgressCounts,
    /// Cost of all tries before this call of the program.
    cost_before: Cost,
}

/// Counts of the rows that one call of the program runs.
#[derive(Debug, Clone, Default)]
struct ProgressCounts {
    rows: usize,
    ended: usize,
    failed: usize,
    waiting: usize,
    cost: Option<Cost>,
}

impl<'a> BatchProgressDisplay<'a> {
    /// Creates the display, with a bar if standard error is a terminal. `rows` is the number of rows that run.
    pub(crate) fn new(
        rows: usize,
        cost_before: Option<Cost>,
        args: &BatchArgs,
        network: ModelNetwork,
        surroundings: &'a CliEnvironment,
    ) -> Self {
        let bar = (surroundings.streams.err_is_terminal && !args.quiet).then(|| {
            let bar = ProgressBar::with_draw_target(Some(rows as u64), ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(200));
            let form = "{bar:30.cyan} {pos} of {len} rows · {per_sec} · {eta} left{msg}";
            match ProgressStyle::with_template(form) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self {
            bar,
            surroundings,
            is_quiet: args.quiet,
            limits: args.exhausted_row_policy(),
            network,
            start: Instant::now(),
            counts: ProgressCounts {
                rows,
                cost: cost_before,
                ..ProgressCounts::default()
            },
            cost_before: cost_before.unwrap_or_default(),
        }
    }

    /// Counts the ended row, prints its failure, and updates the bar with the expected cost.
    pub(crate) fn record_row_end(&mut self, ended: &RowReport<'_>) {
        self.counts.ended += 1;
        self.take_and_print_pace_changes();
        self.counts.cost = ended.cost;
        match ended.entry.status(self.limits) {
            RowStatus::Failed | RowStatus::Limited => {
                self.counts.failed += 1;
                self.print_row_failure(ended);
            }
            RowStatus::Waiting => self.counts.waiting += 1,
            RowStatus::Succeeded | RowStatus::Left => {}
        }
        let Some(bar) = &self.bar else { return };
        let mut message = self.counts.render_failed_and_waiting();
        if let Some(cost) = ended.cost {
            let spent = cost.amount() - self.cost_before.amount();
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let to_come = spent / self.counts.ended as f64 * ended.remaining_rows as f64;
            message.push_str(&format!(
                " · cost {}, about {} more expected",
                format_money(cost),
                format_money(Cost::from_amount(to_come))
            ));
        }
        bar.set_message(message);
        bar.inc(1);
    }

    /// Prints a line about the failed row, unless enough failures were printed.
    fn print_row_failure(&self, ended: &RowReport<'_>) {
        if self.is_quiet || self.counts.failed > MAX_NAMED_FAILURES {
            return;
        }
        let entry = ended.entry;
        let cause = match &entry.detail {
            // The details of an outcome without details of its own begin with the outcome.
            Some(detail) if entry.outcome == CompletionReason::Completed => detail.clone(),
            Some(detail) => format!("{}: {detail}", entry.outcome),
            None => entry.outcome.to_string(),
        };
        let mut line = format!("row {} ({}): {cause}\n", ended.number, ended.place);
        if self.counts.failed == MAX_NAMED_FAILURES {
            line.push_str("the results list further failures\n");
        }
        self.print_above_bar(&line);
    }

    /// Takes the slowdowns of models that began or ended since the last call, and prints them unless the display is quiet.
    fn take_and_print_pace_changes(&self) {
        for change in self.network.take_pace_changes() {
            if !self.is_quiet {
                self.print_above_bar(&format!("{change}\n"));
            }
        }
    }

    /// Prints the line to standard error, above the bar if there is one.
    fn print_above_bar(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.surroundings.print_err(line)),
            None => self.surroundings.print_err(line),
        }
    }

    /// Prints a line with the time and the counts, unless there is a bar or the display is quiet.
    pub(crate) fn print_log_line_without_bar(&self) {
        if self.bar.is_some() || self.is_quiet {
            return;
        }
        self.take_and_print_pace_changes();
        let now = DateTime::<Local>::from(SystemTime::now()).format("%Y-%m-%d %H:%M:%S");
        let counts = self.counts.render_counts(self.start.elapsed());
        self.surroundings.print_err(&format!("{now}  {counts}\n"));
    }

    /// Prints the last slowdowns of models and removes the bar.
    pub(crate) fn clear_bar(&self) {
        self.take_and_print_pace_changes();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl ProgressCounts {
    /// Renders the numbers of failed and waiting rows, each with a separator before it.
    fn render_failed_and_waiting(&self) -> String {
        let mut words = String::new();
        for (count, word) in [(self.failed, "failed"), (self.waiting, "waiting")] {
            if count > 0 {
                words.push_str(&format!(" · {count} {word}"));
            }
        }
        words
    }

    /// Renders all counts, the cost, and the expected remaining time. `elapsed` is the time since the start.
    fn render_counts(&self, elapsed: Duration) -> String {
        let mut words = format!(
            "{} of {} rows done · {} failed · {} waiting",
            self.ended, self.rows, self.failed, self.waiting
        );
        if let Some(cost) = self.cost {
            words.push_str(&format!(" · cost {}", format_money(cost)));
        }
        words.push_str(&match self.ended {
            0 => " · remaining time unknown".to_owned(),
            ended => {
                let remaining = self.rows.saturating_sub(ended);
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let time = elapsed.mul_f64(remaining as f64 / ended as f64);
                format!(" · about {} left", HumanDuration(time))
            }
        });
        words
    }
}

/// Formats the cost with at most four decimals, in the unit of the prices.
pub(crate) fn format_money(amount: Cost) -> String {
    let text = format!("{:.4}", amount.amount());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Formats a number of rows: `1 row`, `2 rows`.
pub(crate) fn format_rows(number: usize) -> String {
    format_count(number as u64, "row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_has_the_counts_the_cost_and_the_remaining_time() {
        let mut counts = ProgressCounts {
            rows: 300,
            ..ProgressCounts::default()
        };
        assert_eq!(
            counts.render_counts(Duration::from_secs(60)),
            "0 of 300 rows done · 0 failed · 0 waiting · remaining time unknown"
        );
        (counts.ended, counts.failed, counts.waiting) = (100, 5, 20);
        counts.cost = Some(Cost::from_amount(1.25));
        assert_eq!(
            counts.render_counts(Duration::from_secs(60)),
            "100 of 300 rows done · 5 failed · 20 waiting · cost 1.25 · about 2 minutes left"
        );
    }
}
