//! What is told of a batch while it is worked on.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::command::shared::surroundings::CliEnvironment;
use ensemble_models::ModelNetwork;
use ensemble_reports::report::format_count;
use ensemble_runs::batch::RowResult;

/// The number of failed rows that are named.
const MOST_NAMED: usize = 10;

/// Tells of rows that have ended: a bar on a terminal, and a line for each of the first failures.
pub(crate) struct BatchProgress<'a> {
    bar: Option<ProgressBar>,
    surroundings: &'a CliEnvironment,
    is_quiet: bool,
    /// The models, whose slowdowns are printed.
    network: ModelNetwork,
    failed: usize,
    unpaid: Option<f64>,
    ended: usize,
}

impl<'a> BatchProgress<'a> {
    pub(crate) fn new(rows: usize, is_quiet: bool, network: ModelNetwork, surroundings: &'a CliEnvironment) -> Self {
        let bar = (surroundings.streams.err_is_terminal && !is_quiet).then(|| {
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
            is_quiet,
            network,
            failed: 0,
            unpaid: None,
            ended: 0,
        }
    }

    /// A row has ended.
    pub(crate) fn add_ended(&mut self, ended: &RowResult<'_>) {
        self.ended += 1;
        self.print_pace_changes();
        if !ended.entry.is_success() && !ended.entry.is_resumable() {
            self.failed += 1;
            self.print_failure(ended);
        }
        let before = *self
            .unpaid
            .get_or_insert(ended.cost.unwrap_or(0.0) - ended.entry.cost().unwrap_or(0.0));
        let Some(bar) = &self.bar else { return };
        let mut message = String::new();
        if self.failed > 0 {
            message.push_str(&format!(" · {} failed", self.failed));
        }
        if let Some(cost) = ended.cost {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let to_come = (cost - before) / self.ended as f64 * ended.remaining_rows as f64;
            message.push_str(&format!(
                " · cost {}, about {} more expected",
                format_money(cost),
                format_money(to_come)
            ));
        }
        bar.set_message(message);
        bar.inc(1);
    }

    fn print_failure(&self, ended: &RowResult<'_>) {
        if self.is_quiet || self.failed > MOST_NAMED {
            return;
        }
        let entry = ended.entry;
        let detail = entry
            .detail
            .as_ref()
            .map_or(String::new(), |detail| format!(": {detail}"));
        let mut line = format!("row {} ({}): {}{detail}\n", ended.number, ended.place, entry.outcome);
        if self.failed == MOST_NAMED {
            line.push_str("the results list further failures\n");
        }
        self.print_line(&line);
    }

    /// Prints the slowdowns of models that have begun or ended.
    fn print_pace_changes(&self) {
        for change in self.network.take_pace_changes() {
            if !self.is_quiet {
                self.print_line(&format!("{change}\n"));
            }
        }
    }

    fn print_line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.surroundings.print_err(line)),
            None => self.surroundings.print_err(line),
        }
    }

    /// No further row ends.
    pub(crate) fn finish_bar(&self) {
        self.print_pace_changes();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns an amount of money, in the unit of the prices.
pub(crate) fn format_money(amount: f64) -> String {
    let text = format!("{amount:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// `1 row`, `2 rows`.
pub(crate) fn format_rows(number: usize) -> String {
    format_count(number as u64, "row")
}
