//! One part: its attempts, their time limit and pauses, and what is logged of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::ForEachRunner;
use crate::agent::{AttemptOutcome, AttemptResult, Execution};
use ensemble_core::conversation::{ExecutionEnd, Interruption, PartEnded};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{ExecutionRecords, Part, Parts, no_end_after};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_language::data::{Failure, Remaining, Usage, digest};

/// The key of an output that asks for executions of other agents.
const AGENT_REQUESTS: &str = "agent_requests";

/// The outcome of a part that was performed.
pub(super) enum PartObserved {
    /// It ended, and has used this.
    Ended(Result<Arc<Value>, Failure>, Usage),
    /// Nobody can answer these requests now.
    Waits(Vec<PendingRequest>),
    /// The run inside it was interrupted.
    Interrupted(Interruption),
}

/// A part that is performed.
pub(super) struct PartRun<'a> {
    pub(super) runner: &'a ForEachRunner,
    pub(super) execution: &'a Execution,
    pub(super) from_run: &'a Parts,
    pub(super) part: Arc<Part>,
    pub(super) latest: LatestAttempt,
    pub(super) remaining: Remaining,
}

/// The attempt of a part that started last: its number and its time. Clones share it, so that it is known of a part that
/// is stopped.
#[derive(Clone, Default)]
pub(super) struct LatestAttempt(Arc<Mutex<Option<(u32, Stopwatch)>>>);

impl LatestAttempt {
    fn begin(&self, attempt: u32, stopwatch: &Stopwatch) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((attempt, stopwatch.clone()));
    }

    /// The number of the attempt, and the seconds since it started; `None`: none has started.
    pub(super) fn number_and_seconds(&self) -> Option<(u32, f64)> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (attempt, stopwatch) = latest.as_ref()?;
        Some((*attempt, stopwatch.since_start().as_secs_f64()))
    }
}

impl PartRun<'_> {
    /// Performs the attempts until one succeeds or none is left. Each is logged when it ends.
    pub(super) async fn perform(self) -> PartObserved {
        let before = self.from_run.before.failed.get(&self.part.key);
        let mut failed = before.map_or(0, |before| before.count);
        let mut last_failure = before.map(|before| before.last.clone());
        let mut requests_made = before
            .and_then(|before| before.usage)
            .map_or(0, |used| used.own_requests());
        let mut lost_attempts = self.execution.lost_attempts;
        let mut used = Usage::default();
        let mut goes_on = true;
        loop {
            let number = self.execution.attempt + failed;
            let nested = self.execution.ledger.open_part(self.part.key.clone(), number);
            let execution = Execution {
                ledger: nested.ledger().clone(),
                attempt: number,
                lost_attempts,
                last_failure: last_failure.clone(),
                requests_made: self.execution.requests_made + u64::from(self.part.index) + requests_made,
                remaining: self.remaining.without(used),
                records: self.records(number, goes_on),
                ..self.first()
            };
            let (attempt, stopwatch) = (execution.attempt, execution.stopwatch.clone());
            self.latest.begin(attempt, &stopwatch);
            let performed = self.runner.runner.execute(execution);
            let timeout = self.runner.timeout;
            let observed = stopwatch.timeout(timeout, performed).await.unwrap_or_else(|_| {
                let failure = no_end_after(timeout.unwrap_or_default());
                AttemptOutcome::failure(failure.kind, failure.error)
            });
            let observation = match observed {
                AttemptOutcome::Finished(observation)
                | AttemptOutcome::Recorded(observation)
                | AttemptOutcome::Reused(observation) => observation,
                AttemptOutcome::NeedsInput(requests) => return PartObserved::Waits(requests),
                AttemptOutcome::Interrupted(cause) => return PartObserved::Interrupted(cause),
            };
            let mut observation = observation;
            let result = self.judged(&mut observation);
            let mut left = nested.end();
            let stopped = left.take_request();
            let usage = observation.usage.or(left.usage);
            used = used + usage.unwrap_or_default();
            let pause = self.pause(&observation, failed + 1, used);
            let mut warnings = left.warnings;
            left.sandboxes
                .into_iter()
                .for_each(|sandbox| self.execution.ledger.add_sandbox(sandbox));
            let mut exchange = std::mem::take(&mut observation.exchange);
            exchange.extend(stopped);
            warnings.extend(self.warning(&observation));
            let ended = PartEnded {
                attempt,
                execution_time: stopwatch.since_start().as_secs_f64(),
                usage,
                stderr: left.stderr,
                warnings,
                exchange,
                pause: pause.map(|pause| pause.as_secs_f64()),
                ..ended(self.execution, &self.part, end(&result))
            };
            self.execution.records.part_ended(ended);
            let (Some(pause), Err(failure)) = (pause, &result) else {
                return PartObserved::Ended(result, used);
            };
            failed += 1;
            lost_attempts = 0;
            goes_on = false;
            requests_made += usage.map_or(0, |usage| usage.own_requests());
            last_failure = Some(failure.clone());
            tokio::time::sleep(pause).await;
        }
    }

    /// The records of an attempt. Only the first one goes on from what was recorded before.
    fn records(&self, attempt: u32, goes_on: bool) -> ExecutionRecords {
        let records = self.execution.records.of_part(&self.part.key, attempt);
        match goes_on {
            true => records,
            false => records.afresh(),
        }
    }

    /// The output, if the combination can use it. If not, the attempt has failed.
    fn judged(&self, observation: &mut AttemptResult) -> Result<Arc<Value>, Failure> {
        let output = Arc::new(Value::Object(observation.result.clone()?));
        let judged = self.runner.combiner.judge(&self.from_run.facts, &self.part, &output);
        if let Err(failure) = judged {
            observation.result = Err(failure.clone());
            return Err(failure);
        }
        Ok(output)
    }

    /// The first attempt.
    fn first(&self) -> Execution {
        let thread = self.from_run.threads.get(&self.part.key);
        Execution {
            thread: thread.cloned().unwrap_or_default(),
            stopwatch: self.execution.stopwatch.inside(),
            origin: self.execution.origin.with_part(self.part.key.clone(), self.part.index),
            part: Some(self.part.clone()),
            ..self.execution.clone()
        }
    }

    /// The pause before the next attempt; `None`: there is none.
    fn pause(&self, observation: &AttemptResult, failed: u32, used: Usage) -> Option<Duration> {
        let failure = observation.result.as_ref().err()?;
        let may_pass = failure.kind.may_pass(self.runner.repairs);
        let used_up = self.remaining.without(used).used_up().is_some();
        let retry = &self.runner.retry;
        (may_pass && !used_up && failed < retry.max_attempts.get()).then(|| retry.pause_after(failed))
    }

    fn warning(&self, observation: &AttemptResult) -> Option<String> {
        let output = observation.result.as_ref().ok()?;
        let asks = self.runner.triggers && output.contains_key(AGENT_REQUESTS);
        asks.then(|| "a part cannot ask for other agents, so its `agent_requests` are ignored".to_owned())
    }
}

fn end(result: &Result<Arc<Value>, Failure>) -> ExecutionEnd {
    match result {
        Ok(output) => ExecutionEnd::Succeeded(output.clone()),
        Err(failure) => ExecutionEnd::Failed(failure.clone()),
    }
}

/// The event of a part that ended so, without what was used and said.
pub(super) fn ended(execution: &Execution, part: &Part, end: ExecutionEnd) -> PartEnded {
    PartEnded {
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
        item_digest: item_digest(part),
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

/// The event of a part whose result is taken over from another run.
pub(super) fn copied(execution: &Execution, part: &Part, known: &PartEnded) -> PartEnded {
    PartEnded {
        execution_time: known.execution_time,
        usage: known.usage,
        exchange: known.exchange.clone(),
        reused: true,
        ..ended(execution, part, known.end.clone())
    }
}

/// Names the item.
pub(super) fn item_digest(part: &Part) -> Arc<str> {
    digest(&part.item.to_string()).into()
}
