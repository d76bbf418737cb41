//! Executions with parts: an agent with `for_each` runs once for each item of a list.
//!
//! Each part is an execution of the agent's own runner, with attempts and a time limit of its own. A part that has ended
//! is logged at once, so that a run which goes on repeats only the parts that had not ended.
//!
//! **Invariant:** the output depends on the list and on what the parts came to, and not on the order in which they ended.

mod combine;
mod list;
mod part;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Map, Value, json};

use self::combine::{Combiner, Judged};
use self::list::List;
use self::part::{LatestAttempt, PartObserved, PartRun};
use super::build_error::BuildError;
use super::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_core::conversation::{ExecutionEnd, PartEnded};
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{Part, Parts, turn_is_up};
use ensemble_language::data::{Failure, FailureKind, JsonMap, Usage};
use ensemble_language::ensemble::{Agent, AgentKind, AtLeast, ForEach, PartFailure, Retry};

/// Performs the executions of an agent with `for_each`.
pub struct ForEachRunner {
    runner: Arc<dyn Runner>,
    list: List,
    combiner: Combiner,
    max_parallel: usize,
    on_error: PartFailure,
    at_least: AtLeast,
    timeout: Option<Duration>,
    retry: Retry,
    /// A model has already been told that its output does not match the schema.
    repairs: bool,
    triggers: bool,
}

impl ForEachRunner {
    /// Performs the parts by `runner`.
    ///
    /// # Errors
    /// An expression of `for_each` is not valid.
    pub fn new(agent: &Agent, spec: &ForEach, runner: Arc<dyn Runner>) -> Result<Self, BuildError> {
        Ok(Self {
            runner,
            list: List::compile(spec)?,
            combiner: Combiner::compile(spec)?,
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
    fn execute(&self, mut execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let Some(parts) = execution.parts.take() else {
                let error = "an agent with `for_each` runs only in a conversation";
                return AttemptOutcome::failure(FailureKind::Unavailable, error);
            };
            let list = match self.list.parts(&parts.facts) {
                Ok(list) => list,
                Err(failure) => return finished(Err(failure)),
            };
            Performing::new(self, &execution, &parts, list).perform().await
        })
    }
}

/// The result of a part.
#[derive(Debug, Clone, PartialEq)]
enum PartResult {
    Open,
    Output(Arc<Value>),
    Failed(Failure),
    /// It was stopped, or not started, because its result cannot matter any more.
    Stopped,
}

/// A part that is performed now.
struct Running {
    at: usize,
    latest: LatestAttempt,
    stop: AbortHandle,
}

/// The parts that are performed now, each with its place in the list.
type PartFutures<'a> = FuturesUnordered<Abortable<BoxFuture<'a, (usize, PartObserved)>>>;

/// An execution with parts while it is performed.
struct Performing<'a> {
    runner: &'a ForEachRunner,
    execution: &'a Execution,
    from_run: &'a Parts,
    list: Vec<Arc<Part>>,
    results: Vec<PartResult>,
    /// The results as the combination sees them.
    table: Vec<Judged>,
    running: Vec<Running>,
    /// How many parts have succeeded.
    succeeded: usize,
    /// How many parts have failed.
    failed: usize,
    /// How many parts are open.
    open: usize,
    /// The next part to look at.
    next: usize,
    /// What the parts have used in this attempt.
    spent: Usage,
}

impl<'a> Performing<'a> {
    fn new(runner: &'a ForEachRunner, execution: &'a Execution, from_run: &'a Parts, list: Vec<Arc<Part>>) -> Self {
        Self {
            runner,
            execution,
            from_run,
            results: vec![PartResult::Open; list.len()],
            table: vec![Judged::Open; list.len()],
            open: list.len(),
            list,
            succeeded: 0,
            failed: 0,
            running: Vec::new(),
            next: 0,
            spent: Usage::default(),
        }
    }

    async fn perform(mut self) -> AttemptOutcome {
        self.take_over();
        let mut time_is_up = self.from_run.time_is_up.clone();
        let mut futures = PartFutures::new();
        let mut waiting: BTreeMap<usize, Vec<PendingRequest>> = BTreeMap::new();
        loop {
            self.stop_what_cannot_matter();
            if self.is_over() {
                break;
            }
            self.start(&mut futures);
            tokio::select! {
                biased;
                ended = futures.next() => match ended {
                    None => break,
                    Some(Err(Aborted)) => {}
                    Some(Ok((at, observed))) => {
                        self.running.retain(|part| part.at != at);
                        match observed {
                            PartObserved::Ended(result, usage) => {
                                self.spent = self.spent + usage;
                                self.note(at, result);
                            }
                            PartObserved::Waits(requests) => {
                                waiting.insert(at, requests);
                            }
                            PartObserved::Interrupted(cause) => return AttemptOutcome::Interrupted(cause),
                        }
                    }
                },
                Ok(_) = time_is_up.wait_for(|is_up| *is_up) => {
                    drop(futures);
                    self.cut_all();
                    break;
                }
            }
        }
        if waiting.is_empty() || self.is_over() {
            return finished(self.end());
        }
        AttemptOutcome::NeedsInput(waiting.into_values().flatten().collect())
    }

    /// Starts as many parts as may run side by side.
    fn start(&mut self, futures: &mut PartFutures<'a>) {
        while self.running.len() < self.runner.max_parallel && self.next < self.list.len() {
            let at = self.next;
            self.next += 1;
            if self.results[at] != PartResult::Open {
                continue;
            }
            if let Some(limit) = self.execution.remaining.without(self.spent).used_up() {
                let error = format!("`{limit}` is used up, so the part was not started");
                self.cut(at, Failure::new(FailureKind::Model, error), None);
                continue;
            }
            let run = PartRun {
                runner: self.runner,
                execution: self.execution,
                from_run: self.from_run,
                part: self.list[at].clone(),
                latest: LatestAttempt::default(),
                remaining: self.execution.remaining.without(self.spent),
            };
            let (stop, registration) = AbortHandle::new_pair();
            self.running.push(Running {
                at,
                latest: run.latest.clone(),
                stop,
            });
            let performed: BoxFuture<'a, _> = Box::pin(async move { (at, run.perform().await) });
            futures.push(Abortable::new(performed, registration));
        }
    }

    /// Takes over the parts that have ended before, here or in the run from which this one was forked.
    fn take_over(&mut self) {
        for at in 0..self.list.len() {
            let part = &self.list[at];
            let digest = part::item_digest(part);
            let is_same = |ended: &&Arc<PartEnded>| ended.key == part.key && ended.item_digest == digest;
            let before = self.from_run.before.ended.iter().rfind(is_same);
            let known = self.from_run.known.get(&part.key).filter(is_same);
            let end = match (before, known) {
                (Some(before), _) => before.end.clone(),
                (None, Some(known)) => {
                    let copied = part::copied(self.execution, part, known);
                    self.execution.records.part_ended(copied);
                    known.end.clone()
                }
                (None, None) => continue,
            };
            self.note(at, end.into_shared_result());
        }
    }

    fn note(&mut self, at: usize, result: Result<Arc<Value>, Failure>) {
        let judged = result.and_then(|output| {
            let judged = self
                .runner
                .combiner
                .judge(&self.from_run.facts, &self.list[at], &output)?;
            Ok((output, judged))
        });
        self.open -= 1;
        (self.results[at], self.table[at]) = match judged {
            Ok((output, judged)) => {
                self.succeeded += 1;
                (PartResult::Output(output), judged)
            }
            Err(failure) => {
                self.failed += 1;
                (PartResult::Failed(failure), Judged::Out)
            }
        };
    }

    /// A part that did not end by itself has failed. `running`: what there is of it, if it had started.
    fn cut(&mut self, at: usize, failure: Failure, running: Option<&Running>) {
        let stopped = self.execution.ledger.take_stopped_part(&self.list[at].key);
        let left = stopped.unwrap_or_default();
        self.spent = self.spent + left.usage.unwrap_or_default();
        let begun = running.and_then(|part| part.latest.number_and_seconds());
        let (attempt, execution_time) = begun.unwrap_or((self.execution.attempt, 0.0));
        let ended = PartEnded {
            attempt,
            execution_time,
            usage: left.usage,
            stderr: left.stderr,
            warnings: left.warnings,
            ..part::ended(self.execution, &self.list[at], ExecutionEnd::Failed(failure.clone()))
        };
        self.execution.records.part_ended(ended);
        self.note(at, Err(failure));
    }

    /// The time of the turn is up.
    fn cut_all(&mut self) {
        let running = std::mem::take(&mut self.running);
        for at in 0..self.list.len() {
            if self.results[at] == PartResult::Open {
                let part = running.iter().find(|part| part.at == at);
                self.cut(at, turn_is_up(), part);
            }
        }
    }

    /// Returns how many parts must succeed.
    fn needed(&self) -> usize {
        match self.runner.on_error {
            PartFailure::Fail => self.list.len(),
            PartFailure::Collect => self.runner.at_least.of(self.list.len()),
        }
    }

    /// Returns whether too few parts can still succeed.
    fn has_failed(&self) -> bool {
        self.list.len() - self.failed < self.needed()
    }

    /// Returns whether no part needs to run any more.
    fn is_over(&self) -> bool {
        self.has_failed() || self.open == 0
    }

    /// Stops the parts, and does not start those, whose result cannot change that of the execution.
    fn stop_what_cannot_matter(&mut self) {
        let matter = self.runner.combiner.matter(&self.table);
        let waits_for_more = self.runner.on_error == PartFailure::Collect && self.succeeded < self.needed();
        if matter == self.list.len() || waits_for_more {
            return;
        }
        for result in &mut self.results[matter..] {
            if *result == PartResult::Open {
                *result = PartResult::Stopped;
                self.open -= 1;
            }
        }
        let running = std::mem::take(&mut self.running);
        for part in running {
            if self.results[part.at] == PartResult::Stopped {
                part.stop.abort();
                self.table[part.at] = Judged::Out;
            } else {
                self.running.push(part);
            }
        }
    }

    /// The output of the execution, or its failure.
    fn end(self) -> Result<JsonMap, Failure> {
        let mut failed = self
            .list
            .iter()
            .zip(&self.results)
            .filter_map(|(part, result)| match result {
                PartResult::Failed(failure) => Some((&part.key, failure)),
                _ => None,
            });
        if self.has_failed() {
            return Err(match failed.next() {
                Some((key, failure)) => self.failure(key, failure),
                None => list::wrong("too few parts succeeded".to_owned()),
            });
        }
        let failed: Vec<Value> = failed
            .map(|(key, failure)| json!({"key": &**key, "error": failure.error, "kind": failure.kind}))
            .collect();
        let outputs = self.results.iter().map(|result| match result {
            PartResult::Output(output) => Value::clone(output),
            _ => Value::Null,
        });
        let outputs: Vec<Value> = outputs.collect();
        let mut combined = Map::new();
        self.runner.combiner.add_to(&mut combined, &self.table, &outputs);
        let keys = self.list.iter().map(|part| Value::from(&*part.key));
        let mut output = Map::new();
        output.insert("items".to_owned(), outputs.into());
        output.insert("keys".to_owned(), keys.collect());
        output.insert("failed".to_owned(), failed.into());
        output.insert("count".to_owned(), self.list.len().into());
        output.extend(combined);
        Ok(output)
    }

    fn failure(&self, key: &str, failure: &Failure) -> Failure {
        let succeeded = self.succeeded;
        let error = match self.runner.on_error {
            PartFailure::Fail => format!("part `{key}`: {}", failure.error),
            PartFailure::Collect => format!(
                "{succeeded} of {} parts succeeded, and at least {} must; part `{key}`: {}",
                self.list.len(),
                self.needed(),
                failure.error
            ),
        };
        Failure::new(failure.kind, error)
    }
}

fn finished(result: Result<JsonMap, Failure>) -> AttemptOutcome {
    AttemptOutcome::Finished(AttemptResult::from_result(result))
}
