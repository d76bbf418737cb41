//! One part: its attempts, their time limit and pauses, and what is logged of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::ForEachRunner;
use crate::agent::{AttemptEnd, AttemptResult, ExecutionInput};
use ensemble_core::conversation::{ExecutionEnd, PartAttemptEnded, RunInterruption};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{ExecutionPart, ExecutionRecorder, PartedExecutionInput, attempt_timeout_failure};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_language::data::{ExecutionFailure, ModelUsage, RemainingBudget, sha256_of_text};

/// The key of an output that asks for executions of other agents.
const AGENT_REQUESTS_KEY: &str = "agent_requests";

/// Outcome of a performed part: a result with its usage, open requests, or an interruption.
pub(super) enum PartOutcome {
    /// It ended, and has used this.
    Ended(Result<Arc<Value>, ExecutionFailure>, ModelUsage),
    /// Nobody can answer these requests now.
    Waits(Vec<PendingRequest>),
    /// The run inside it was interrupted.
    Interrupted(RunInterruption),
}

/// Part with everything that its attempts need.
pub(super) struct PartAttempts<'a> {
    pub(super) runner: &'a ForEachRunner,
    pub(super) execution: &'a ExecutionInput,
    pub(super) from_run: &'a PartedExecutionInput,
    pub(super) part: Arc<ExecutionPart>,
    pub(super) latest: LatestAttempt,
    pub(super) remaining: RemainingBudget,
}

/// Number and time of the latest attempt of a part. Clones share the value, so that the runner can read it after stopping the part.
#[derive(Clone, Default)]
pub(super) struct LatestAttempt(Arc<Mutex<Option<(u32, Stopwatch)>>>);

impl LatestAttempt {
    /// Sets the number and the stopwatch of the attempt that starts.
    fn set_attempt(&self, attempt: u32, stopwatch: &Stopwatch) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((attempt, stopwatch.clone()));
    }

    /// Returns the number of the attempt and the seconds since its start. Returns `None` if no attempt has started.
    pub(super) fn attempt_and_seconds(&self) -> Option<(u32, f64)> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (attempt, stopwatch) = latest.as_ref()?;
        Some((*attempt, stopwatch.elapsed_with_pauses().as_secs_f64()))
    }
}

impl PartAttempts<'_> {
    /// Performs attempts until one succeeds or no retry is left. Records each attempt when it ends.
    pub(super) async fn perform_attempts(self) -> PartOutcome {
        let before = self.from_run.earlier_parts.failed_attempts.get(&self.part.key);
        let mut failed = before.map_or(0, |before| before.count);
        let mut last_failure = before.map(|before| before.last.clone());
        let used_before = before.and_then(|before| before.usage).unwrap_or_default();
        let (mut requests_made, mut summaries_made) = (used_before.own_requests(), used_before.summaries);
        let mut lost_attempts = self.execution.lost_attempts;
        let mut used = ModelUsage::default();
        let mut goes_on = true;
        loop {
            let number = self.execution.attempt + failed;
            let nested = self.execution.ledger.open_part_ledger(self.part.key.clone(), number);
            let execution = ExecutionInput {
                ledger: nested.ledger().clone(),
                attempt: number,
                ended_requests: u32::try_from(requests_made).unwrap_or(u32::MAX),
                lost_attempts,
                last_failure: last_failure.clone(),
                requests_made: self.execution.requests_made + u64::from(self.part.index) + requests_made,
                summaries_made: self.execution.summaries_made + u64::from(self.part.index) + summaries_made,
                remaining: self.remaining.subtract_usage(used),
                records: self.attempt_records(number, goes_on),
                ..self.first_attempt_input()
            };
            let (attempt, stopwatch) = (execution.attempt, execution.stopwatch.clone());
            self.latest.set_attempt(attempt, &stopwatch);
            let performed = self.runner.runner.execute_attempt(execution);
            let timeout = self.runner.timeout;
            let observed = stopwatch
                .run_with_timeout(timeout, performed)
                .await
                .unwrap_or_else(|_| {
                    let failure = attempt_timeout_failure(timeout.unwrap_or_default());
                    AttemptEnd::from_failure(failure.kind, failure.error)
                });
            let observation = match observed {
                AttemptEnd::Finished(observation)
                | AttemptEnd::Recorded(observation)
                | AttemptEnd::Reused(observation) => observation,
                AttemptEnd::NeedsInput(requests) => return PartOutcome::Waits(requests),
                AttemptEnd::Interrupted(cause) => return PartOutcome::Interrupted(cause),
            };
            let mut observation = observation;
            let result = self.check_combinable_output(&mut observation);
            let mut ledger_entries = nested.end();
            let result = result.map_err(|failure| ledger_entries.with_process_end(failure));
            let stopped = ledger_entries.take_open_request();
            let usage = observation.usage.or(ledger_entries.usage);
            used = used + usage.unwrap_or_default();
            let pause = self.retry_pause(&observation, failed + 1, used);
            let mut warnings = ledger_entries.warnings;
            ledger_entries
                .sandboxes
                .into_iter()
                .for_each(|sandbox| self.execution.ledger.add_enforced_sandbox(sandbox));
            let mut exchange = std::mem::take(&mut observation.exchange);
            exchange.extend(stopped);
            warnings.extend(self.ignored_requests_warning(&observation));
            let end_event = PartAttemptEnded {
                attempt,
                execution_time: stopwatch.elapsed_with_pauses().as_secs_f64(),
                usage,
                stderr: ledger_entries.stderr,
                warnings,
                exchange,
                pause: pause.map(|pause| pause.as_secs_f64()),
                ..part_ended_event(self.execution, &self.part, execution_end(&result))
            };
            self.execution.records.record_part_end(end_event);
            let (Some(pause), Err(failure)) = (pause, &result) else {
                return PartOutcome::Ended(result, used);
            };
            failed += 1;
            lost_attempts = 0;
            goes_on = false;
            requests_made += usage.map_or(0, |usage| usage.own_requests());
            summaries_made += usage.map_or(0, |usage| usage.summaries);
            last_failure = Some(failure.clone());
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the records for an attempt. Only the first attempt continues recorded messages (`goes_on`).
    fn attempt_records(&self, attempt: u32, goes_on: bool) -> ExecutionRecorder {
        let records = self.execution.records.for_part_attempt(&self.part.key, attempt);
        match goes_on {
            true => records,
            false => records.without_earlier_records(),
        }
    }

    /// Returns the output if the combination can use it. Otherwise turns the attempt into a failure.
    fn check_combinable_output(&self, observation: &mut AttemptResult) -> Result<Arc<Value>, ExecutionFailure> {
        let output = Arc::new(Value::Object(observation.result.clone()?));
        let mut notes = Vec::new();
        let judged = self
            .runner
            .combiner
            .evaluate_part_output(&self.from_run.facts, &self.part, &output, &mut notes);
        let earlier = &self.from_run.earlier_warnings;
        self.runner
            .noted_reads
            .warn_about_new_reads(&notes, earlier, self.execution);
        if let Err(failure) = judged {
            observation.result = Err(failure.clone());
            return Err(failure);
        }
        Ok(output)
    }

    /// Creates the input of the first attempt.
    fn first_attempt_input(&self) -> ExecutionInput {
        let thread = self.from_run.threads.get(&self.part.key);
        ExecutionInput {
            thread: thread.cloned().unwrap_or_default(),
            stopwatch: self.execution.stopwatch.nested_stopwatch(),
            origin: self
                .execution
                .origin
                .set_last_part(self.part.key.clone(), self.part.index),
            part: Some(self.part.clone()),
            ..self.execution.clone()
        }
    }

    /// Returns the pause before the next attempt. Returns `None` if no attempt follows.
    fn retry_pause(&self, observation: &AttemptResult, failed: u32, used: ModelUsage) -> Option<Duration> {
        let failure = observation.result.as_ref().err()?;
        let may_pass = failure.kind.is_retryable(self.runner.repairs);
        let used_up = self.remaining.subtract_usage(used).find_exhausted_limit().is_some();
        let retry = &self.runner.retry;
        (may_pass && !used_up && failed < retry.max_attempts.get()).then(|| retry.pause_after(failed))
    }

    /// Returns a warning if the output contains `agent_requests`, which a part cannot make.
    fn ignored_requests_warning(&self, observation: &AttemptResult) -> Option<String> {
        let output = observation.result.as_ref().ok()?;
        let asks = self.runner.triggers && output.contains_key(AGENT_REQUESTS_KEY);
        asks.then(|| "a part cannot request other agents, so its `agent_requests` are ignored".to_owned())
    }
}

/// Converts the result of a part to the end of an execution.
fn execution_end(result: &Result<Arc<Value>, ExecutionFailure>) -> ExecutionEnd {
    match result {
        Ok(output) => ExecutionEnd::Succeeded(output.clone()),
        Err(failure) => ExecutionEnd::Failed(failure.clone()),
    }
}

/// Creates the event of an ended part, without usage and messages.
pub(super) fn part_ended_event(
    execution: &ExecutionInput,
    part: &ExecutionPart,
    end: ExecutionEnd,
) -> PartAttemptEnded {
    PartAttemptEnded {
        turn: execution.turn_count + 1,
        agent: execution.agent_name.clone(),
        execution: execution.execution,
        attempt: execution.attempt,
        part: part.index,
        key: part.key.clone(),
        count: part.variable["count"]
            .as_u64()
            .and_then(|count| count.try_into().ok())
            .unwrap_or_default(),
        item_digest: digest_item(part),
        end,
        execution_time: 0.0,
        usage: None,
        stderr: String::new(),
        warnings: Vec::new(),
        exchange: Vec::new(),
        pause: None,
        reused: false,
    }
}

/// Creates the event of a part whose result is copied from another run.
pub(super) fn copied_part_event(
    execution: &ExecutionInput,
    part: &ExecutionPart,
    known: &PartAttemptEnded,
) -> PartAttemptEnded {
    PartAttemptEnded {
        execution_time: known.execution_time,
        usage: known.usage,
        exchange: known.exchange.clone(),
        reused: true,
        ..part_ended_event(execution, part, known.end.clone())
    }
}

/// Returns the digest of the item of a part.
pub(super) fn digest_item(part: &ExecutionPart) -> Arc<str> {
    sha256_of_text(&part.item.to_string()).into()
}
