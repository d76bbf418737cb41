//! The expected costs of the rows that run, so that a batch does not start rows for which its budget has no room.
//!
//! Invariant: a row starts only if the costs until now and the expected costs of the running rows are below the budget.

use std::collections::BTreeMap;

use ensemble_language::data::Cost;

use super::{BatchEntry, PlannedRow};

/// The average cost of the rows that have ended, and the rows that run.
#[derive(Debug, Default)]
pub(super) struct CostForecast {
    ended_rows: usize,
    ended_cost: f64,
    /// What each running row has cost already, by its position: a row that was interrupted and continues.
    running: BTreeMap<usize, f64>,
}

impl CostForecast {
    /// Creates the forecast from the rows that have ended in earlier calls.
    pub(super) fn from_rows(rows: &[PlannedRow]) -> Self {
        let mut forecast = Self::default();
        for entry in rows.iter().filter_map(|planned| planned.tries.entry.as_ref()) {
            forecast.add_ended_try(entry);
        }
        forecast
    }

    /// Adds the cost of a try to the average. A try without a known cost counts as free, and an interrupted try does not count.
    pub(super) fn add_ended_try(&mut self, entry: &BatchEntry) {
        if !entry.is_cancelled() {
            self.ended_rows += 1;
            self.ended_cost += entry.cost().unwrap_or_default().amount();
        }
    }

    /// Adds a row that starts, with what its latest try has cost already.
    pub(super) fn start_row(&mut self, at: usize, paid: Option<Cost>) {
        self.running.insert(at, paid.unwrap_or_default().amount());
    }

    /// Removes a row that does not run any more.
    pub(super) fn end_row(&mut self, at: usize) {
        self.running.remove(&at);
    }

    /// Returns whether another row can start within the budget. Until a row has ended, the cost of a row is unknown and only one row runs.
    pub(super) fn has_room(&self, spent: Cost, most: Option<Cost>) -> bool {
        let Some(most) = most else { return true };
        if self.ended_rows == 0 {
            return self.running.is_empty() && spent < most;
        }
        let average = self.ended_cost / self.ended_rows as f64;
        let expected: f64 = self.running.values().map(|paid| (average - paid).max(0.0)).sum();
        spent + Cost::from_amount(expected) < most
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::conversation::CompletionReason;
    use serde_json::{Value, json};

    use super::*;

    fn entry_with_cost(cost: Option<f64>, outcome: CompletionReason) -> BatchEntry {
        BatchEntry {
            id: "row".to_owned(),
            run: "row".to_owned(),
            outcome,
            success: Some(true),
            exhausted: Vec::new(),
            failed_work: Vec::new(),
            nested_failures: Vec::new(),
            detail: None,
            questions: Vec::new(),
            turns: 1,
            result: Value::Null,
            usage: cost.map_or(Value::Null, |cost| json!({"cost": cost})),
        }
    }

    /// Runs rows with these costs, at most `jobs` at once, and returns the cost at the end. `order` chooses which row ends next.
    fn spend(costs: &[f64], jobs: usize, most: f64, order: impl Fn(usize) -> usize) -> f64 {
        let mut forecast = CostForecast::default();
        let (mut spent, mut next, mut running) = (Cost::default(), 0, Vec::new());
        loop {
            while next < costs.len() && running.len() < jobs && forecast.has_room(spent, Some(Cost::from_amount(most)))
            {
                forecast.start_row(next, None);
                running.push(next);
                next += 1;
            }
            if running.is_empty() {
                return spent.amount();
            }
            let at = running.remove(order(running.len()) % running.len());
            forecast.end_row(at);
            forecast.add_ended_try(&entry_with_cost(Some(costs[at]), CompletionReason::Completed));
            spent = spent + Cost::from_amount(costs[at]);
        }
    }

    #[test]
    fn rows_of_equal_cost_exceed_the_budget_by_less_than_one_row() {
        for (rows, jobs, cost, most) in [
            (60, 8, 0.03, 0.5),
            (60, 1, 0.03, 0.5),
            (300, 20, 0.001, 0.0605),
            (5, 8, 0.2, 3.0),
            (40, 8, 0.7, 0.1),
            (1, 1, 1.0, 0.5),
        ] {
            for seed in 0..10 {
                let total = spend(&vec![cost; rows], jobs, most, |running| seed + running);
                let what = format!("{total} of {most}: {rows} rows of {cost}, {jobs} jobs");
                assert!(total < most + cost, "{what}");
                // Rows are left only if the budget is spent.
                assert!(total + 1e-6 >= most.min(cost * rows as f64), "{what}");
            }
        }
    }

    #[test]
    fn one_row_runs_until_a_cost_is_known_and_unpriced_rows_are_not_limited() {
        let most = Some(Cost::from_amount(1.0));
        let mut forecast = CostForecast::default();
        assert!(forecast.has_room(Cost::default(), most));
        forecast.start_row(0, None);
        assert!(!forecast.has_room(Cost::default(), most));
        assert!(forecast.has_room(Cost::default(), None));
        // An interrupted try says nothing about the cost of a row.
        forecast.end_row(0);
        forecast.add_ended_try(&entry_with_cost(Some(0.1), CompletionReason::Cancelled));
        forecast.start_row(1, None);
        assert!(!forecast.has_room(Cost::default(), most));
        forecast.end_row(1);
        forecast.add_ended_try(&entry_with_cost(None, CompletionReason::Completed));
        for at in 2..20 {
            assert!(forecast.has_room(Cost::default(), most));
            forecast.start_row(at, None);
        }
    }

    #[test]
    fn what_a_continued_row_has_cost_already_is_not_expected_again() {
        let (spent, most) = (Cost::from_amount(0.5), Some(Cost::from_amount(0.6)));
        let mut forecast = CostForecast::default();
        forecast.add_ended_try(&entry_with_cost(Some(0.3), CompletionReason::Completed));
        forecast.start_row(1, Some(Cost::from_amount(0.25)));
        assert!(forecast.has_room(spent, most));
        forecast.start_row(1, None);
        assert!(!forecast.has_room(spent, most));
    }
}
