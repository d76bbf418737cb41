//! The ledger of an attempt: its usage, the messages of the round under way, and what was observed.
//!
//! Invariant: every request counts once, also if the runner is stopped. A call or a part that is stopped leaves its
//! entries to the attempt that contains it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::MAX_KEPT_STDERR;
use crate::conversation::EnforcedSandbox;
use crate::request::AnswerRecord;
use crate::thread::{Thread, ThreadIteration};
use ensemble_language::data::{ExecutionFailure, ModelUsage};

/// Ledger of an attempt: usage, messages and observations. Clones share one ledger, which can be read after the runner was stopped.
#[derive(Debug, Clone, Default)]
pub struct AttemptLedger(Arc<Mutex<LedgerState>>);

/// Data of a ledger.
#[derive(Debug, Default)]
struct LedgerState {
    entries: LedgerEntries,
    /// The usage without the requests that `made` counts and the parts that were stopped.
    used: ModelUsage,
    /// The counters of the requests that are being made.
    made: Vec<RequestCounter>,
    /// The usage in the records of the attempt.
    recorded: ModelUsage,
    /// The iterations of the latest round, until the attempt has used them.
    exchange: Thread,
    /// The number of these iterations that the records contain.
    recorded_iterations: usize,
    /// The usage in the records of a nested run.
    nested: Option<ModelUsage>,
    /// The parts that were stopped, with their keys.
    stopped_parts: Vec<(Arc<str>, LedgerEntries)>,
}

/// The counter of one request, which counts its repetitions too.
#[derive(Debug)]
struct RequestCounter {
    count: Arc<AtomicU64>,
    writes_summary: bool,
}

impl RequestCounter {
    /// Returns the requests that were made until now.
    fn usage(&self) -> ModelUsage {
        let requests = self.count.load(Ordering::Relaxed);
        ModelUsage {
            requests,
            summaries: if self.writes_summary { requests } else { 0 },
            ..ModelUsage::default()
        }
    }
}

/// The entries of a ledger.
#[derive(Debug, Default, PartialEq)]
pub struct LedgerEntries {
    /// The end of stderr.
    pub stderr: String,
    /// The end of the standard output of the process of the attempt.
    pub stdout: String,
    /// The exit code of the process of the attempt.
    pub exit_code: Option<i32>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// What was enforced for processes with a sandbox, each sandbox once.
    pub sandboxes: Vec<EnforcedSandbox>,
    /// Input agents: the answered question.
    pub answer: Option<AnswerRecord>,
    /// The usage of the attempt, with that of its calls.
    pub usage: Option<ModelUsage>,
    /// The requests under way, and other usage that no record contains: first those inside calls and parts.
    pub stopped: Vec<UnrecordedWork>,
}

/// Usage that no record contains, with the model request for which the tokens were used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnrecordedWork {
    /// The part with its attempt; `None`: no part.
    pub part: Option<(Arc<str>, u32)>,
    /// The ids of the calls that contain the agent, the outermost first.
    pub inside: Vec<Arc<str>>,
    /// The messages that were new to the model; without messages if no request was under way.
    pub iteration: ThreadIteration,
    /// The usage since the latest record.
    pub usage: ModelUsage,
}

impl UnrecordedWork {
    /// Returns whether the attempt itself did the work, and not a part or a tool call.
    fn is_of_attempt_itself(&self) -> bool {
        self.part.is_none() && self.inside.is_empty()
    }
}

impl LedgerEntries {
    /// Removes the open model request of the attempt itself, and returns the request. Returns `None` if the request has no messages.
    pub fn take_open_request(&mut self) -> Option<ThreadIteration> {
        let own_index = self.stopped.iter().position(UnrecordedWork::is_of_attempt_itself)?;
        let iteration = self.stopped.swap_remove(own_index).iteration;
        (!iteration.messages.is_empty()).then_some(iteration)
    }

    /// Adds exit code, stdout and stderr of the process to a failure without them.
    pub fn with_process_end(&self, failure: ExecutionFailure) -> ExecutionFailure {
        match failure.has_process_output() {
            true => failure,
            false => failure.with_process_output(self.exit_code, &self.stdout, &self.stderr),
        }
    }
}

impl AttemptLedger {
    /// Replaces the stored end of stderr.
    pub fn set_stderr(&self, text: String) {
        self.lock().entries.stderr = text;
    }

    /// Replaces the stored end of the standard output.
    pub fn set_stdout(&self, text: String) {
        self.lock().entries.stdout = text;
    }

    /// Stores the exit code of the process.
    pub fn set_exit_code(&self, exit_code: Option<i32>) {
        self.lock().entries.exit_code = exit_code;
    }

    /// Appends text to the stored end of stderr, and removes the oldest bytes above the limit.
    pub fn add_stderr(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let stderr = &mut self.lock().entries.stderr;
        if !stderr.is_empty() && !stderr.ends_with('\n') {
            stderr.push('\n');
        }
        stderr.push_str(text);
        let surplus = stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_KEPT_STDERR));
        stderr.drain(..surplus);
    }

    /// Adds a warning for the user.
    pub fn add_warning(&self, warning: impl Into<String>) {
        self.lock().entries.warnings.push(warning.into());
    }

    /// Adds a warning for the user, unless the ledger contains the same warning.
    pub fn add_warning_once(&self, warning: String) {
        let warnings = &mut self.lock().entries.warnings;
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// Removes all warnings and returns them.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().entries.warnings)
    }

    /// Adds the enforced sandbox of a process, unless the ledger contains the same sandbox.
    pub fn add_enforced_sandbox(&self, sandbox: EnforcedSandbox) {
        let sandboxes = &mut self.lock().entries.sandboxes;
        if !sandboxes.contains(&sandbox) {
            sandboxes.push(sandbox);
        }
    }

    /// Stores the answer to the question of the agent.
    pub fn set_answer(&self, answer: AnswerRecord) {
        self.lock().entries.answer = Some(answer);
    }

    /// Marks the stored answer as given without a person.
    pub fn mark_answer_unattended(&self) {
        if let Some(answer) = &mut self.lock().entries.answer {
            answer.unattended = true;
        }
    }

    /// Returns the usage of the attempt so far.
    pub fn usage_so_far(&self) -> ModelUsage {
        self.lock().usage()
    }

    /// Adds usage that no record contains yet.
    pub fn add_usage(&self, usage: ModelUsage) {
        let mut state = self.lock();
        state.used = state.used + usage;
    }

    /// Sets the usage in the records of the nested run. Replaces the previous value.
    pub fn set_nested_usage(&self, usage: ModelUsage) {
        self.lock().nested = Some(usage);
    }

    /// Returns the usage in the records of the nested run. Returns `None` if the attempt has no nested run.
    pub fn nested_usage(&self) -> Option<ModelUsage> {
        self.lock().nested
    }

    /// Adds usage that another record contains already.
    pub fn add_recorded_usage(&self, usage: ModelUsage) {
        let mut state = self.lock();
        state.used = state.used + usage;
        state.recorded = state.recorded + usage;
    }

    /// Returns the counter of a request. It counts at once, so that the request counts even if its future is dropped.
    pub fn start_request_counter(&self) -> Arc<AtomicU64> {
        self.open_counter(false)
    }

    /// Returns the counter of a request that writes a summary for the agent.
    pub fn open_summary_request(&self) -> Arc<AtomicU64> {
        self.open_counter(true)
    }

    fn open_counter(&self, writes_summary: bool) -> Arc<AtomicU64> {
        let count = Arc::<AtomicU64>::default();
        let mut state = self.lock();
        state.add_ended_request_counts();
        state.made.push(RequestCounter {
            count: Arc::clone(&count),
            writes_summary,
        });
        count
    }

    /// Returns the usage since the latest record, and marks the usage as recorded.
    pub fn mark_usage_recorded(&self) -> ModelUsage {
        let mut state = self.lock();
        let used = state.usage();
        let unrecorded = used.subtract_earlier(state.recorded);
        state.recorded = used;
        unrecorded
    }

    /// Starts a round with these iterations. The records contain the first `recorded_iterations` of them.
    pub fn start_round(&self, exchange: Thread, recorded_iterations: usize) {
        let mut state = self.lock();
        (state.exchange, state.recorded_iterations) = (exchange, recorded_iterations);
    }

    /// Runs a function on the iterations of the round.
    pub fn read_exchange<T>(&self, read: impl FnOnce(&Thread) -> T) -> T {
        read(&self.lock().exchange)
    }

    /// Changes the iterations of the round.
    pub fn update_exchange(&self, change: impl FnOnce(Thread) -> Thread) {
        let mut state = self.lock();
        state.exchange = change(std::mem::take(&mut state.exchange));
    }

    /// Returns the latest iteration and the usage since the latest record, and marks both as recorded. Returns `None` without an iteration.
    pub fn mark_iteration_recorded(&self) -> Option<(ThreadIteration, ModelUsage)> {
        let iteration = {
            let mut state = self.lock();
            state.recorded_iterations = state.exchange.iterations().len();
            state.exchange.iterations().last().cloned()?
        };
        Some((iteration, self.mark_usage_recorded()))
    }

    /// Returns the number of iterations of the round that the records contain.
    pub fn recorded_iteration_count(&self) -> usize {
        self.lock().recorded_iterations
    }

    /// Ends the round, so that no request is open. Removes the iterations and returns them.
    pub fn end_round(&self) -> Thread {
        let mut state = self.lock();
        state.recorded_iterations = 0;
        std::mem::take(&mut state.exchange)
    }

    /// Creates the nested ledger of a tool call.
    pub fn open_call_ledger(&self, call: &str, tool: &str) -> NestedLedger {
        NestedLedger::new(
            self,
            LedgerScope::Call {
                id: call.into(),
                tool: tool.into(),
            },
        )
    }

    /// Creates the nested ledger of an attempt of a part.
    pub fn open_part_ledger(&self, key: Arc<str>, attempt: u32) -> NestedLedger {
        NestedLedger::new(self, LedgerScope::Part { key, attempt })
    }

    /// Creates the nested ledger of an attempt in the nested run.
    pub fn open_nested_run_ledger(&self) -> NestedLedger {
        NestedLedger::new(self, LedgerScope::NestedRun)
    }

    /// Removes the entries of a stopped part and returns them.
    pub fn take_stopped_part(&self, key: &str) -> Option<LedgerEntries> {
        let mut state = self.lock();
        let at = state.stopped_parts.iter().position(|(stopped, _)| **stopped == *key)?;
        Some(state.stopped_parts.swap_remove(at).1)
    }

    /// Removes all entries and returns them.
    pub fn take_entries(&self) -> LedgerEntries {
        std::mem::take(&mut *self.lock()).into_entries()
    }

    /// Locks the state, also after a panic of another holder.
    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LedgerState {
    /// Adds the counters of requests that have ended.
    fn add_ended_request_counts(&mut self) {
        let (ended, open): (Vec<RequestCounter>, _) = self
            .made
            .drain(..)
            .partition(|counter| Arc::strong_count(&counter.count) == 1);
        self.made = open;
        self.used = ended.iter().fold(self.used, |sum, counter| sum + counter.usage());
    }

    /// Returns the usage of the attempt so far, including open requests, stopped parts and the nested run.
    fn usage(&self) -> ModelUsage {
        let open_requests = self.made.iter().map(RequestCounter::usage);
        let parts = self.stopped_parts.iter().filter_map(|(_, part)| part.usage);
        let nested = self.nested.unwrap_or_default();
        open_requests
            .chain(parts)
            .fold(self.used + nested, |sum, one| sum + one)
    }

    /// Computes the entries, including the usage and the open request that no record contains.
    fn into_entries(mut self) -> LedgerEntries {
        let used = self.usage();
        for (_, part) in std::mem::take(&mut self.stopped_parts) {
            self.recorded = self.recorded + part.usage.unwrap_or_default();
            self.entries.stopped.extend(part.stopped);
        }
        let unrecorded = used.subtract_earlier(self.recorded);
        let request = self.exchange.iterations().get(self.recorded_iterations).cloned();
        if request.is_some() || !unrecorded.is_empty() {
            self.entries.stopped.push(UnrecordedWork {
                iteration: request.unwrap_or_default(),
                usage: unrecorded,
                ..UnrecordedWork::default()
            });
        }
        LedgerEntries {
            usage: (used != ModelUsage::default()).then_some(used),
            ..self.entries
        }
    }
}

/// Owner of a nested ledger: a tool call, a part, or a nested run.
#[derive(Debug)]
enum LedgerScope {
    Call {
        id: Arc<str>,
        tool: Arc<str>,
    },
    Part {
        key: Arc<str>,
        attempt: u32,
    },
    /// An attempt in a nested run, whose records are not those of the outer run.
    NestedRun,
}

/// Ledger inside another ledger. Dropping the value before its end adds the entries to the outer ledger.
#[derive(Debug)]
pub struct NestedLedger {
    ledger: AttemptLedger,
    outer: AttemptLedger,
    scope: LedgerScope,
}

impl NestedLedger {
    /// Creates an empty ledger inside `outer`.
    fn new(outer: &AttemptLedger, scope: LedgerScope) -> Self {
        Self {
            ledger: AttemptLedger::default(),
            outer: outer.clone(),
            scope,
        }
    }

    /// Returns the inner ledger, to which entries are added.
    pub fn ledger(&self) -> &AttemptLedger {
        &self.ledger
    }

    /// Ends the call or the part, and returns its entries for its record. Moves stderr and warnings of a call to the outer ledger.
    pub fn end(self) -> LedgerEntries {
        let mut entries = self.ledger.take_entries();
        entries.stopped.retain(UnrecordedWork::is_of_attempt_itself);
        self.forward_stderr_and_warnings(&mut entries);
        entries
    }

    /// Moves stderr and warnings of a tool call to the outer ledger.
    fn forward_stderr_and_warnings(&self, entries: &mut LedgerEntries) {
        if let LedgerScope::Call { tool, .. } = &self.scope {
            self.outer.add_stderr(&std::mem::take(&mut entries.stderr));
            for warning in std::mem::take(&mut entries.warnings) {
                self.outer.add_warning(format!("tool {tool}: {warning}"));
            }
        }
    }
}

impl Drop for NestedLedger {
    fn drop(&mut self) {
        let mut entries = self.ledger.take_entries();
        self.forward_stderr_and_warnings(&mut entries);
        match &self.scope {
            LedgerScope::Call { id, .. } => {
                for work in &mut entries.stopped {
                    work.inside.insert(0, id.clone());
                }
                self.outer
                    .add_recorded_usage(entries.usage.unwrap_or_default().as_tool_usage());
                self.outer.lock().entries.stopped.append(&mut entries.stopped);
            }
            LedgerScope::NestedRun => {
                for work in entries.stopped {
                    self.outer.add_usage(match work.inside.is_empty() {
                        true => work.usage,
                        false => work.usage.as_tool_usage(),
                    });
                }
            }
            LedgerScope::Part { key, attempt } => {
                for work in &mut entries.stopped {
                    work.part = Some((key.clone(), *attempt));
                }
                if entries != LedgerEntries::default() {
                    self.outer.lock().stopped_parts.push((key.clone(), entries));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
