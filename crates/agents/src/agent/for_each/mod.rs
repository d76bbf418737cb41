//! Executions with parts: an agent with `for_each` runs once for each item of a list.
//!
//! Each part is an execution of the agent's own runner, with attempts and a time limit of its own. A part that has ended
//! is logged at once, so that a run which goes on repeats only the parts that had not ended.
//!
//! **Invariant:** the output depends on the list and on what the parts came to, and not on the order in which they ended.

mod combine;
mod list;
mod noted_reads;
mod part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value, json};

use self::combine::{PartCombineValue, PartCombiner};
use self::list::ForEachItemList;
use self::noted_reads::WarnedReads;
use self::part::{LatestAttempt, PartAttempts, PartOutcome};
use super::build_error::RunnerBuildError;
use super::kinds::input::AnswerQueue;
use super::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_core::conversation::{ExecutionEnd, PartAttemptEnded};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{ExecutionPart, PartedExecutionInput, turn_timeout_failure};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage};
use ensemble_language::ensemble::{Agent, AgentKind, ForEachSpec, PartFailureMode, RequiredPartCount, RetryPolicy};

/// Runner of an agent with `for_each`: it performs one part for each item, in parallel up to a limit.
pub struct ForEachRunner {
    runner: Arc<dyn Runner>,
    list: ForEachItemList,
    combiner: PartCombiner,
    noted_reads: WarnedReads,
    max_parallel: usize,
    on_error: PartFailureMode,
    at_least: RequiredPartCount,
    timeout: Option<Duration>,
    retry: RetryPolicy,
    /// A model has already been told that its output does not match the schema.
    repairs: bool,
    triggers: bool,
    /// The answers of the run, which the parts take in the order of the list.
    answers: Arc<AnswerQueue>,
}

impl ForEachRunner {
    /// Compiles the `for_each` of an agent. `runner` performs the parts. `answers`: the answers of the run.
    ///
    /// # Errors
    /// An expression of `for_each` is not valid.
    pub fn new(
        agent: &Agent,
        spec: &ForEachSpec,
        runner: Arc<dyn Runner>,
        answers: Arc<AnswerQueue>,
    ) -> Result<Self, RunnerBuildError> {
        Ok(Self {
            runner,
            answers,
            list: ForEachItemList::compile_spec(spec)?,
            combiner: PartCombiner::compile_spec(spec)?,
            noted_reads: WarnedReads::default(),
            max_parallel: spec.max_parallel.get() as usize,
            on_error: spec.on_error,
            at_least: spec.at_least,
            timeout: agent.timeout,
            retry: agent.retry.clone(),
            repairs: matches!(agent.kind, AgentKind::Llm(_)),
            triggers: agent.conversation.triggers_conversation,
        })
    }
}

impl Runner for ForEachRunner {
    fn execute_attempt(&self, mut execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let Some(parts) = execution.parts.take() else {
                let error = "an agent with `for_each` runs only in a conversation";
                return AttemptEnd::from_failure(FailureKind::Unavailable, error);
            };
            let mut notes = Vec::new();
            let list = self.list.build_parts(&parts.facts, &mut notes);
            self.noted_reads
                .warn_about_new_reads(&notes, &parts.earlier_warnings, &execution);
            let list = match list {
                Ok(list) => list,
                Err(failure) => return outcome_with_result(Err(failure)),
            };
            PartsExecution::new(self, &execution, &parts, list)
                .perform_parts()
                .await
        })
    }
}

/// State of a part: open, succeeded, failed or stopped.
#[derive(Debug, Clone, PartialEq)]
enum ForEachPartResult {
    Open,
    Output(Arc<Value>),
    Failed(ExecutionFailure),
    /// It was stopped, or not started, because its result cannot matter any more.
    Stopped,
}

/// Part that is running, with the handle that stops it.
struct RunningPart {
    at: usize,
    latest: LatestAttempt,
    stop: AbortHandle,
}

/// Futures of the running parts. Each returns the index of its part in the list.
type PartFutures<'a> = FuturesUnordered<Abortable<BoxFuture<'a, (usize, PartOutcome)>>>;

/// Execution of an agent with parts, while the parts are performed.
struct PartsExecution<'a> {
    runner: &'a ForEachRunner,
    execution: &'a ExecutionInput,
    from_run: &'a PartedExecutionInput,
    list: Vec<Arc<ExecutionPart>>,
    results: Vec<ForEachPartResult>,
    /// The results as the combination sees them.
    table: Vec<PartCombineValue>,
    running: Vec<RunningPart>,
    /// How many parts have succeeded.
    succeeded: usize,
    /// How many parts have failed.
    failed: usize,
    /// How many parts are open.
    open: usize,
    /// The next part to look at.
    next: usize,
    /// What the parts have used in this attempt.
    spent: ModelUsage,
}

impl<'a> PartsExecution<'a> {
    /// Creates an execution in which all parts are open.
    fn new(
        runner: &'a ForEachRunner,
        execution: &'a ExecutionInput,
        from_run: &'a PartedExecutionInput,
        list: Vec<Arc<ExecutionPart>>,
    ) -> Self {
        Self {
            runner,
            execution,
            from_run,
            results: vec![ForEachPartResult::Open; list.len()],
            table: vec![PartCombineValue::Open; list.len()],
            open: list.len(),
            list,
            succeeded: 0,
            failed: 0,
            running: Vec::new(),
            next: 0,
            spent: ModelUsage::default(),
        }
    }

    /// Performs the parts until the result is certain or the time is up. Returns the outcome of the execution.
    async fn perform_parts(mut self) -> AttemptEnd {
        self.reuse_ended_parts();
        let mut time_is_up = self.from_run.time_is_up.clone();
        let mut futures = PartFutures::new();
        let mut waiting: BTreeMap<usize, Vec<PendingRequest>> = BTreeMap::new();
        loop {
            self.stop_irrelevant_parts();
            if self.is_result_certain() {
                break;
            }
            self.start_or_fail_open_parts(&mut futures);
            tokio::select! {
                biased;
                ended = futures.next() => match ended {
                    None => break,
                    Some(Err(Aborted)) => {}
                    Some(Ok((at, observed))) => {
                        self.running.retain(|part| part.at != at);
                        match observed {
                            PartOutcome::Ended(result, usage) => {
                                self.spent = self.spent + usage;
                                self.judge_and_set_result(at, result);
                            }
                            PartOutcome::Waits(requests) => {
                                waiting.insert(at, requests);
                            }
                            PartOutcome::Interrupted(cause) => return AttemptEnd::Interrupted(cause),
                        }
                    }
                },
                Ok(_) = time_is_up.wait_for(|is_up| *is_up) => {
                    drop(futures);
                    self.stop_and_fail_open_parts();
                    break;
                }
            }
        }
        if waiting.is_empty() || self.is_result_certain() {
            return outcome_with_result(self.build_result());
        }
        AttemptEnd::NeedsInput(waiting.into_values().flatten().collect())
    }

    /// Starts open parts until the limit of parallel parts is reached.
    fn start_or_fail_open_parts(&mut self, futures: &mut PartFutures<'a>) {
        while self.running.len() < self.runner.max_parallel && self.next < self.list.len() {
            let at = self.next;
            self.next += 1;
            if self.results[at] != ForEachPartResult::Open {
                continue;
            }
            if let Some(limit) = self
                .execution
                .remaining
                .subtract_usage(self.spent)
                .find_exhausted_limit()
            {
                let error = format!("`{limit}` is used up, so the part was not started");
                self.record_failed_part(at, ExecutionFailure::new(FailureKind::Model, error), None);
                continue;
            }
            let run = PartAttempts {
                runner: self.runner,
                execution: self.execution,
                from_run: self.from_run,
                part: self.list[at].clone(),
                latest: LatestAttempt::default(),
                remaining: self.execution.remaining.subtract_usage(self.spent),
            };
            let (stop, registration) = AbortHandle::new_pair();
            self.running.push(RunningPart {
                at,
                latest: run.latest.clone(),
                stop,
            });
            let part = &self.list[at];
            let position = self
                .execution
                .origin
                .set_last_part(part.key.clone(), part.index)
                .position;
            let open_part = self
                .runner
                .answers
                .guard_open_part(position, self.execution.stopwatch.clone());
            let performed: BoxFuture<'a, _> = Box::pin(async move {
                let _open_part = open_part;
                (at, run.perform_attempts().await)
            });
            futures.push(Abortable::new(performed, registration));
        }
    }

    /// Reuses the recorded results of parts that ended earlier, in this run or in the run that this run was forked from.
    fn reuse_ended_parts(&mut self) {
        for at in 0..self.list.len() {
            let part = &self.list[at];
            let digest = part::digest_item(part);
            let is_same = |ended: &&Arc<PartAttemptEnded>| ended.key == part.key && ended.item_digest == digest;
            let before = self.from_run.earlier_parts.ended_parts.iter().rfind(is_same);
            let reusable_part = self.from_run.reusable_parts.get(&part.key).filter(is_same);
            let end = match (before, reusable_part) {
                (Some(before), _) => before.end.clone(),
                (None, Some(reusable_part)) => {
                    let copied = part::copied_part_event(self.execution, part, reusable_part);
                    self.execution.records.record_part_end(copied);
                    reusable_part.end.clone()
                }
                (None, None) => continue,
            };
            self.judge_and_set_result(at, end.into_shared_result());
        }
    }

    /// Judges the output of a part with the combiner, and sets the result of the part.
    fn judge_and_set_result(&mut self, at: usize, result: Result<Arc<Value>, ExecutionFailure>) {
        let judged = result.and_then(|output| {
            let judged = self.runner.combiner.evaluate_part_output(
                &self.from_run.facts,
                &self.list[at],
                &output,
                &mut Vec::new(),
            )?;
            Ok((output, judged))
        });
        self.open -= 1;
        (self.results[at], self.table[at]) = match judged {
            Ok((output, judged)) => {
                self.succeeded += 1;
                (ForEachPartResult::Output(output), judged)
            }
            Err(failure) => {
                self.failed += 1;
                (ForEachPartResult::Failed(failure), PartCombineValue::Excluded)
            }
        };
    }

    /// Records a part as failed that did not end by itself. `running` has the running part, if it had started.
    fn record_failed_part(&mut self, at: usize, failure: ExecutionFailure, running: Option<&RunningPart>) {
        let stopped = self.execution.ledger.take_stopped_part(&self.list[at].key);
        let stopped_part = stopped.unwrap_or_default();
        let failure = stopped_part.with_process_end(failure);
        self.spent = self.spent + stopped_part.usage.unwrap_or_default();
        let attempt_and_seconds = running.and_then(|part| part.latest.attempt_and_seconds());
        let (attempt, execution_time) = attempt_and_seconds.unwrap_or((self.execution.attempt, 0.0));
        let part_end = PartAttemptEnded {
            attempt,
            execution_time,
            usage: stopped_part.usage,
            stderr: stopped_part.stderr,
            warnings: stopped_part.warnings,
            ..part::part_ended_event(self.execution, &self.list[at], ExecutionEnd::Failed(failure.clone()))
        };
        self.execution.records.record_part_end(part_end);
        self.judge_and_set_result(at, Err(failure));
    }

    /// Stops all open parts and records them as failed, because the time of the turn is up.
    fn stop_and_fail_open_parts(&mut self) {
        let running = std::mem::take(&mut self.running);
        for at in 0..self.list.len() {
            if self.results[at] == ForEachPartResult::Open {
                let part = running.iter().find(|part| part.at == at);
                self.record_failed_part(at, turn_timeout_failure(), part);
            }
        }
    }

    /// Returns how many parts must succeed.
    fn required_success_count(&self) -> usize {
        match self.runner.on_error {
            PartFailureMode::Fail => self.list.len(),
            PartFailureMode::Collect => self.runner.at_least.required_part_count(self.list.len()),
        }
    }

    /// Returns whether too few parts can still succeed.
    fn has_too_many_failures(&self) -> bool {
        self.list.len() - self.failed < self.required_success_count()
    }

    /// Returns whether the execution has failed for certain or no part is open.
    fn is_result_certain(&self) -> bool {
        self.has_too_many_failures() || self.open == 0
    }

    /// Stops the parts whose results cannot change the result of the execution, and marks unstarted ones as stopped.
    fn stop_irrelevant_parts(&mut self) {
        let matter = self.runner.combiner.count_relevant_parts(&self.table);
        let waits_for_more =
            self.runner.on_error == PartFailureMode::Collect && self.succeeded < self.required_success_count();
        if matter == self.list.len() || waits_for_more {
            return;
        }
        for result in &mut self.results[matter..] {
            if *result == ForEachPartResult::Open {
                *result = ForEachPartResult::Stopped;
                self.open -= 1;
            }
        }
        let running = std::mem::take(&mut self.running);
        for part in running {
            if self.results[part.at] == ForEachPartResult::Stopped {
                part.stop.abort();
                self.table[part.at] = PartCombineValue::Excluded;
            } else {
                self.running.push(part);
            }
        }
    }

    /// Builds the output of the execution from the results of the parts, or the failure of the execution.
    fn build_result(self) -> Result<JsonMap, ExecutionFailure> {
        let mut failed = self
            .list
            .iter()
            .zip(&self.results)
            .filter_map(|(part, result)| match result {
                ForEachPartResult::Failed(failure) => Some((part, failure)),
                _ => None,
            });
        if self.has_too_many_failures() {
            return Err(match failed.next() {
                Some((part, failure)) => self.execution_failure_from_part(&part.key, failure),
                None => list::list_failure("too few parts succeeded".to_owned()),
            });
        }
        let failed: Vec<Value> = failed
            .map(|(part, failure)| {
                json!({"key": &*part.key, "item": &*part.item, "error": failure.error, "kind": failure.kind})
            })
            .collect();
        let outputs = self.results.iter().map(|result| match result {
            ForEachPartResult::Output(output) => Value::clone(output),
            _ => Value::Null,
        });
        let outputs: Vec<Value> = outputs.collect();
        let mut combined = Map::new();
        self.runner
            .combiner
            .add_result_keys(&mut combined, &self.table, &outputs);
        let keys = self.list.iter().map(|part| Value::from(&*part.key));
        let mut output = Map::new();
        output.insert("items".to_owned(), outputs.into());
        output.insert("keys".to_owned(), keys.collect());
        output.insert("failed".to_owned(), failed.into());
        output.insert("count".to_owned(), self.list.len().into());
        output.extend(combined);
        Ok(output)
    }

    /// Creates the failure of the execution from the failure of a part, with the key of the part.
    fn execution_failure_from_part(&self, key: &str, failure: &ExecutionFailure) -> ExecutionFailure {
        let succeeded = self.succeeded;
        let error = match self.runner.on_error {
            PartFailureMode::Fail => format!("part `{key}`: {}", failure.error),
            PartFailureMode::Collect => format!(
                "{succeeded} of {} parts succeeded, but at least {} must succeed; part `{key}`: {}",
                self.list.len(),
                self.required_success_count(),
                failure.error
            ),
        };
        ExecutionFailure {
            error,
            ..failure.clone()
        }
    }
}

/// Wraps the result in an outcome without usage and messages.
fn outcome_with_result(result: Result<JsonMap, ExecutionFailure>) -> AttemptEnd {
    AttemptEnd::Finished(AttemptResult::from_result(result))
}
