//! A run for users: outputs go to standard output, everything else to standard error.

mod summary;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Reporter;
use super::console::{ConsoleWriter, Shown, is_long};
use super::format::{CAUTION, DIM, NAME, TURN, count, duration, failed, retry};
use super::parts::{Parts, combined};
use super::reasons::Reasons;
use super::values::{self, output_text};
use super::wrap::{LineWidth, hanging};
use ensemble_core::conversation::{
    AttemptFailed, ConversationState, Event, ExecutionEnd, ExecutionFinished, PartEnded, Record, RunEnded, TurnStarted,
};
use ensemble_language::data::Failure;
use ensemble_language::shown::visible;

/// The verbosity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    /// The outputs of the last turn, and failures.
    Quiet,
    /// Outputs, and how the run ended.
    #[default]
    Normal,
    /// Also why agents did not run, attempts, and stderr.
    Verbose,
}

/// Prints a run while it is in progress.
pub struct Human {
    console: ConsoleWriter,
    out_width: LineWidth,
    err_width: LineWidth,
    verbosity: Verbosity,
    /// In a chat, the user has typed the message and sees the prompt: neither is printed again.
    in_chat: bool,
    /// The address of the engine that has the run, if this process has not.
    on: Option<String>,
    running: Vec<Arc<str>>,
    /// The outputs of the last turn, if they are printed at the end.
    last_outputs: Vec<Arc<Value>>,
    begun: Option<chrono::DateTime<chrono::Utc>>,
    /// The reasons why agents did not run in a turn.
    reasons: Reasons,
    /// The parts of the executions under way, by agent.
    parts: HashMap<Arc<str>, Vec<PartEnded>>,
    /// The failed parts of the run: the agent and the turn, and the key of the first.
    failed_parts: HashMap<(Arc<str>, u32), Arc<str>>,
    /// Whether any text was shortened.
    has_cut: bool,
}

/// The indent of every row of an output.
const INDENT: usize = 4;

impl Human {
    /// Creates a reporter with this writer.
    pub fn new(console: ConsoleWriter, verbosity: Verbosity) -> Self {
        let (out_width, err_width) = console.widths();
        Self {
            console,
            out_width,
            err_width,
            verbosity,
            in_chat: false,
            on: None,
            running: Vec::new(),
            last_outputs: Vec::new(),
            begun: None,
            reasons: Reasons::default(),
            parts: HashMap::new(),
            failed_parts: HashMap::new(),
            has_cut: false,
        }
    }

    /// With the address of the engine that has the run: the next commands name it.
    #[must_use]
    pub fn on(mut self, url: Option<&str>) -> Self {
        self.on = url.map(str::to_owned);
        self
    }

    /// For a chat: no headings, no repetition of the message, no text about a normal end.
    #[must_use]
    pub fn for_chat(mut self) -> Self {
        self.in_chat = true;
        self
    }

    fn print(&self, text: &str) {
        self.console.print(text);
    }

    /// Prints our own sentences to standard error.
    fn print_err(&self, text: &str) {
        self.console.print_err(&self.err_width.sentences(text));
    }

    /// Prints an output or a message to standard output.
    fn block(&self, text: &str) -> String {
        self.out_width.block(text, INDENT)
    }

    fn turn_started(&mut self, turn: &TurnStarted) {
        self.running = turn.starts.iter().map(|start| start.agent.clone()).collect();
        self.last_outputs.clear();
        self.parts.clear();
        self.show_running(turn.turn, true);
        if self.verbosity > Verbosity::Quiet && !self.in_chat {
            let mut text = format!("\n{TURN}turn {}{TURN:#}\n", turn.turn);
            for start in &turn.starts {
                if let Some(request) = &start.request {
                    text.push_str(&format!(
                        "  {DIM}{} was requested by {}{DIM:#}\n",
                        start.agent, request.from
                    ));
                }
            }
            // A turn in which all agents wait for an answer prints nothing.
            self.console.set_heading(Some(text));
        }
        if self.verbosity == Verbosity::Verbose {
            let lines = self.reasons.of_turn(turn, false);
            self.has_cut |= lines.has_cut;
            self.print_err(&lines.text);
        }
    }

    fn show_running(&self, turn: u32, afresh: bool) {
        if !self.console.has_progress() {
            return;
        }
        let running = self.running.iter();
        let running = running.map(|name| (name.clone(), self.with_progress(name))).collect();
        self.console.set_running(turn, running, afresh);
    }

    /// `name`, or `name 3/12` for an agent with parts.
    fn with_progress(&self, name: &str) -> String {
        let ended = self
            .parts
            .get(name)
            .into_iter()
            .flatten()
            .filter(|part| part.is_final());
        match self.parts.get(name).and_then(|parts| parts.last()) {
            Some(last) => format!("{name} {}/{}", ended.count(), last.count),
            None => name.to_owned(),
        }
    }

    fn part_ended(&mut self, part: &PartEnded) {
        let place = (part.agent.clone(), part.turn);
        if part.is_final() && part.failure().is_some() {
            self.failed_parts.entry(place).or_insert_with(|| part.key.clone());
        }
        let kept = PartEnded {
            exchange: Vec::new(),
            ..part.clone()
        };
        self.parts.entry(part.agent.clone()).or_default().push(kept);
        self.show_running(part.turn, false);
        self.show_pause(&part.agent, part.pause);
        for warning in &part.warnings {
            let (agent, key) = (&part.agent, &part.key);
            self.print_err(&format!(
                "{CAUTION}warning{CAUTION:#}: {agent}[{}]: {}\n",
                visible(key),
                hanging(warning)
            ));
        }
    }

    fn finished(&mut self, finished: &ExecutionFinished, state: &ConversationState) {
        let shown = self.console.close_reply(&finished.agent);
        self.console.print_heading();
        self.running.retain(|name| *name != finished.agent);
        self.show_running(finished.turn, false);
        if self.verbosity == Verbosity::Quiet {
            self.finished_quietly(finished);
        } else {
            self.print_finished(finished, shown, state);
        }
        self.print_notes(finished, shown);
        self.console.print_pending();
    }

    fn finished_quietly(&mut self, finished: &ExecutionFinished) {
        match &finished.end {
            ExecutionEnd::Succeeded(output) => self.last_outputs.push(Arc::clone(output)),
            ExecutionEnd::Failed(failure) => {
                let message = failure_text(failure, finished.attempt);
                self.print_err(&format!("{}: {}\n", finished.agent, hanging(&message)));
            }
        }
    }

    fn print_finished(&mut self, finished: &ExecutionFinished, shown: Shown, state: &ConversationState) {
        let plan = state.plan();
        let kind = plan.id(&finished.agent).map_or("", |id| plan.agent(id).kind_name());
        let again = if finished.execution > 1 {
            format!(" #{}", finished.execution)
        } else {
            String::new()
        };
        let took = if finished.reused {
            "reused".to_owned()
        } else {
            duration(finished.execution_time)
        };
        let mut title = match shown.title {
            true => format!("    {DIM}{took}{DIM:#}\n"),
            false => format!(
                "  {NAME}{}{NAME:#}{again} {DIM}{kind} · {took}{DIM:#}\n",
                finished.agent
            ),
        };
        if !shown.title || shown.missed && self.is_whole() {
            title.push_str(&tools::used(finished, self.is_whole(), self.out_width));
        }
        let own = self.parts.remove(&finished.agent).unwrap_or_default();
        if let Some(parts) = Parts::of(&own) {
            let lines = parts.lines(self.is_whole());
            self.has_cut |= lines.has_cut;
            let mut text = format!("{DIM}{}{DIM:#}\n{}", parts.counts(true), lines.text);
            text.push_str(&match &finished.end {
                ExecutionEnd::Succeeded(output) => output_text(&combined(output), self.is_whole()),
                ExecutionEnd::Failed(failure) => failure_text(failure, finished.attempt),
            });
            return self.print(&format!("{title}{}", self.block(&text)));
        }
        self.has_cut |= self.cuts(finished);
        let text = match &finished.end {
            ExecutionEnd::Succeeded(output) if shown.text => beside_text(output, self.is_whole()),
            ExecutionEnd::Succeeded(output) => output_text(output, self.is_whole()),
            ExecutionEnd::Failed(failure) => failure_text(failure, finished.attempt),
        };
        self.print(&format!("{title}{}", self.block(&text)));
    }

    /// The text on standard error about a finished execution.
    fn print_notes(&self, finished: &ExecutionFinished, shown: Shown) {
        let show_stderr = self.verbosity == Verbosity::Verbose && !finished.stderr.trim().is_empty();
        if show_stderr {
            // The text of the script, unchanged.
            let text = format!("stderr:\n{}", finished.stderr.trim_end());
            let text = LineWidth::UNLIMITED.block(&text, INDENT);
            self.console.print_err(&format!("{DIM}{text}{DIM:#}"));
        }
        let is_verbose = self.verbosity == Verbosity::Verbose;
        for sandbox in finished.sandboxes.iter().filter(|_| is_verbose) {
            self.console
                .print_err(&format!("{DIM}{:INDENT$}sandbox: {sandbox}{DIM:#}\n", ""));
        }
        let was_shown = shown.reasoning && !shown.missed;
        let reasoning = super::reasoning::text(finished).filter(|_| self.is_whole() && !was_shown);
        if let Some(text) = reasoning {
            let text = LineWidth::UNLIMITED.block(&format!("reasoning:\n{text}"), INDENT);
            self.console.print_err(&format!("{DIM}{text}{DIM:#}"));
        }
        let line = super::context_window::line(finished).filter(|_| self.verbosity == Verbosity::Verbose);
        if let Some(line) = line {
            self.print_err(&format!("{:INDENT$}{DIM}{line}{DIM:#}\n", ""));
        }
        for warning in &finished.warnings {
            let warning = hanging(warning);
            self.print_err(&format!("{CAUTION}warning{CAUTION:#}: {}: {warning}\n", finished.agent));
        }
    }

    fn is_whole(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Returns whether a part of the execution is not shown.
    fn cuts(&self, finished: &ExecutionFinished) -> bool {
        if self.is_whole() {
            return false;
        }
        let mut calls = finished.exchange.iter().flat_map(|iteration| &iteration.tool_calls);
        let cuts_calls = calls.any(is_long);
        let cuts_output = finished.output().is_some_and(|output| values::is_long(output));
        let stderr = finished.stderr.trim();
        let cuts_stderr = finished
            .failure()
            .is_some_and(|failure| !failure.error.contains(stderr));
        cuts_calls || cuts_output || cuts_stderr
    }

    fn attempt_failed(&mut self, failed: &AttemptFailed) {
        self.console.close_reply(&failed.agent);
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        let lines = retry(failed, self.is_whole());
        self.has_cut |= lines.has_cut;
        self.print_err(&lines.text);
        self.console.print_pending();
        self.show_pause(&failed.agent, Some(failed.pause));
    }

    /// Shows that the agent tries again after a pause.
    fn show_pause(&self, agent: &Arc<str>, seconds: Option<f64>) {
        let pause = seconds.map(Duration::try_from_secs_f64);
        if let Some(Ok(pause)) = pause.filter(|_| self.console.has_progress()) {
            self.console.set_waiting(agent, pause);
        }
    }

    fn ended(&mut self, ended: &RunEnded, record: &Record, state: &ConversationState) {
        self.console.finish();
        if self.verbosity == Verbosity::Quiet {
            let outputs = std::mem::take(&mut self.last_outputs);
            let text: String = quiet_outputs(ended, outputs, state)
                .iter()
                .map(|output| format!("{}\n", output_text(output, true).trim_end()))
                .collect();
            self.print(&text);
        }
        for warning in &ended.warnings {
            self.print_err(&format!("{CAUTION}warning{CAUTION:#}: {}\n", hanging(warning)));
        }
        let text = self.summary(ended, record, state);
        self.print_err(&text);
        // Text to be typed stays on one line.
        self.console.print_err(&self.commands(ended.completion_reason, state));
        self.has_cut = false;
    }
}

impl Reporter for Human {
    fn report(&mut self, record: &Record, state: &ConversationState) {
        match &record.event {
            Event::RunStarted(started) => {
                self.begun = Some(record.at);
                if self.verbosity > Verbosity::Quiet {
                    let agents = count(state.plan().len() as u64, "agent");
                    let from = match &started.forked_from {
                        Some(from) => format!(", from turn {} of {}", from.turn, from.run_id),
                        None => String::new(),
                    };
                    self.print_err(&format!(
                        "{NAME}{}{NAME:#} {DIM}· {agents} · run {}{from}{DIM:#}\n",
                        started.ensemble, started.run_id
                    ));
                }
            }
            Event::RunResumed(_) => {
                self.begun = Some(record.at);
                let turn = state.turn_count() + 1;
                if let Some(started) = state.started().filter(|_| self.verbosity > Verbosity::Quiet) {
                    let text = format!(
                        "{NAME}{}{NAME:#} {DIM}· run {} continues in turn {turn}{DIM:#}\n",
                        started.ensemble, started.run_id
                    );
                    self.print_err(&text);
                }
            }
            Event::MessageAdded(message) => {
                self.begun = Some(record.at);
                if self.verbosity > Verbosity::Quiet && !self.in_chat {
                    self.print(&format!("\n{NAME}you{NAME:#}\n{}", self.block(&message.text)));
                }
            }
            Event::TurnStarted(turn) => self.turn_started(turn),
            Event::AttemptFailed(failed) => self.attempt_failed(failed),
            Event::PartEnded(part) => self.part_ended(part),
            Event::ExecutionFinished(finished) => {
                self.finished(state.finished(&finished.agent).unwrap_or(finished), state);
            }
            Event::TurnFinished(finished) => {
                for warning in &finished.warnings {
                    self.print_err(&format!("{CAUTION}warning{CAUTION:#}: {}\n", hanging(warning)));
                }
            }
            Event::RunEnded(ended) => self.ended(ended, record, state),
            _ => {}
        }
    }
}

/// Restores the terminal, also if the run ends with an error.
impl Drop for Human {
    fn drop(&mut self) {
        self.console.finish();
    }
}

/// Returns the outputs to print: the declared result of a run that has ended, or the last outputs.
fn quiet_outputs(ended: &RunEnded, last: Vec<Arc<Value>>, state: &ConversationState) -> Vec<Arc<Value>> {
    match state.run_value() {
        None => last,
        Some(result) if ended.completion_reason.is_resumable() || result.value.is_null() => Vec::new(),
        Some(result) => vec![result.value],
    }
}

fn failure_text(failure: &Failure, attempt: u32) -> String {
    format!("{}: {}", failed(failure, attempt), failure.error.trim_end())
}

/// The keys of an output besides the text that was already streamed.
fn beside_text(output: &Value, whole: bool) -> String {
    let Some(object) = output.as_object() else {
        return String::new();
    };
    let others = object.iter().filter(|(key, _)| *key != "response");
    output_text(
        &Value::Object(others.map(|(key, value)| (key.clone(), value.clone())).collect()),
        whole,
    )
}
