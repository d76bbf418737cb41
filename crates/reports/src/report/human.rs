//! The report of a run for users: outputs are printed to standard output, everything else to standard error.

mod summary;
mod tools;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Reporter;
use super::console::{ConsoleWriter, StreamedParts, is_call_long};
use super::format::{
    CAUTION, DIM, NAME, TURN, format_count, format_duration, render_failure_heading, render_retried_attempt,
};
use super::parts::{PartsSummary, without_part_keys};
use super::reasons::ShownReasons;
use super::values::{self, render_output};
use super::wrap::{LineWidth, indent_later_lines};
use ensemble_core::conversation::{
    AttemptFailed, ConversationState, Event, ExecutionEnd, ExecutionFinished, PartAttemptEnded, Record, RunEnded,
    TurnStarted,
};
use ensemble_history::{GivenAnswer, list_inner_answers};
use ensemble_language::data::ExecutionFailure;
use ensemble_language::hidden_characters::escape_hidden;
use ensemble_language::plan::Plan;

/// The amount of output about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum OutputVerbosity {
    /// The outputs of the last turn, and failures.
    Quiet,
    /// Outputs, and how the run ended.
    #[default]
    Normal,
    /// Also why agents did not run, attempts, and stderr.
    Verbose,
}

/// A reporter that prints a run for users while it is in progress.
pub struct HumanReporter {
    console: ConsoleWriter,
    out_width: LineWidth,
    err_width: LineWidth,
    verbosity: OutputVerbosity,
    /// In a chat, the user has typed the message and sees the prompt: neither is printed again.
    in_chat: bool,
    /// The address of the engine that has the run, if this process has not.
    engine_url: Option<String>,
    running: Vec<Arc<str>>,
    /// The outputs of the last turn, if they are printed at the end.
    last_outputs: Vec<Arc<Value>>,
    started_at: Option<chrono::DateTime<chrono::Utc>>,
    /// The start of the first turn since then, which is before `started_at` if another run executed the turn.
    first_turn_at: Option<chrono::DateTime<chrono::Utc>>,
    /// The reasons why agents did not run in a turn.
    reasons: ShownReasons,
    /// The parts of the executions under way, by agent.
    parts: HashMap<Arc<str>, Vec<PartAttemptEnded>>,
    /// The answers inside the executions that have not ended.
    answers: HashMap<Arc<str>, Vec<GivenAnswer>>,
    /// The failed parts of the run: the agent and the turn, and the key of the first.
    failed_parts: HashMap<(Arc<str>, u32), Arc<str>>,
    /// The failed executions that were printed: the agent and the turn.
    shown_failures: HashSet<(Arc<str>, u32)>,
    /// True if a text was shortened.
    has_cut: bool,
}

/// The indent of every row of an output, in columns.
const OUTPUT_INDENT: usize = 4;

impl HumanReporter {
    /// Creates a reporter that prints to this writer.
    pub fn new(console: ConsoleWriter, verbosity: OutputVerbosity) -> Self {
        let (out_width, err_width) = console.line_widths();
        Self {
            console,
            out_width,
            err_width,
            verbosity,
            in_chat: false,
            engine_url: None,
            running: Vec::new(),
            last_outputs: Vec::new(),
            started_at: None,
            first_turn_at: None,
            reasons: ShownReasons::default(),
            parts: HashMap::new(),
            answers: HashMap::new(),
            failed_parts: HashMap::new(),
            shown_failures: HashSet::new(),
            has_cut: false,
        }
    }

    /// Sets the address of the engine that drives the run. Suggested commands include the address.
    #[must_use]
    pub fn with_engine_url(mut self, url: Option<&str>) -> Self {
        self.engine_url = url.map(str::to_owned);
        self
    }

    /// Configures the reporter for a chat, which omits headings, repeated messages and texts about a normal end.
    #[must_use]
    pub fn for_chat(mut self) -> Self {
        self.in_chat = true;
        self
    }

    /// Prints text to standard output.
    fn print_result_text(&self, text: &str) {
        self.console.print_or_queue_stdout(text);
    }

    /// Prints sentences of the program to standard error, wrapped.
    fn print_wrapped_note(&self, text: &str) {
        self.console.print_or_queue_stderr(&self.err_width.wrap_sentences(text));
    }

    /// Indents and wraps an output or a message for standard output.
    fn indent_and_wrap(&self, text: &str) -> String {
        self.out_width.wrap_block(text, OUTPUT_INDENT)
    }

    /// Prints the heading of the turn and the reasons why agents do not run.
    fn report_turn_start(&mut self, turn: &TurnStarted) {
        self.running = turn.starts.iter().map(|start| start.agent.clone()).collect();
        self.last_outputs.clear();
        self.parts.clear();
        self.show_running_agents(turn.turn, true);
        if self.verbosity > OutputVerbosity::Quiet && !self.in_chat {
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
            self.console.set_pending_heading(Some(text));
        }
        if self.verbosity == OutputVerbosity::Verbose {
            let lines = self.reasons.render_for_turn(turn, false);
            self.has_cut |= lines.has_cut;
            self.print_wrapped_note(&lines.text);
        }
    }

    /// Shows the running agents of the turn in the spinner. `afresh` restarts the shown time.
    fn show_running_agents(&self, turn: u32, afresh: bool) {
        if !self.console.has_spinner() {
            return;
        }
        let running = self.running.iter();
        let running = running
            .map(|name| (name.clone(), self.name_with_progress(name)))
            .collect();
        self.console.show_running_agents(turn, running, afresh);
    }

    /// Returns the name of an agent, or `name 3/12` for an agent with parts.
    fn name_with_progress(&self, name: &str) -> String {
        let ended_parts = self
            .parts
            .get(name)
            .into_iter()
            .flatten()
            .filter(|part| part.is_final());
        match self.parts.get(name).and_then(|parts| parts.last()) {
            Some(last) => format!("{name} {}/{}", ended_parts.count(), last.count),
            None => name.to_owned(),
        }
    }

    /// Adds the answers inside an execution that the record contains.
    fn add_inner_answers(&mut self, record: &Record) {
        let answers = list_inner_answers(record);
        if let (Some(agent), false) = (record.event.agent_name(), answers.is_empty()) {
            self.answers.entry(agent.into()).or_default().extend(answers);
        }
    }

    /// Adds the parts that ended before the run was resumed.
    fn add_earlier_parts(&mut self, state: &ConversationState) {
        for slot in state.open_turn().iter().flat_map(|turn| &turn.slots) {
            let ended_parts: Vec<PartAttemptEnded> = slot
                .parts
                .ended_parts
                .iter()
                .map(|part| without_model_messages(part))
                .collect();
            if let Some(failed) = ended_parts.iter().find(|part| part.failure().is_some()) {
                let place = (failed.agent.clone(), failed.turn);
                self.failed_parts.entry(place).or_insert_with(|| failed.key.clone());
            }
            if !ended_parts.is_empty() {
                self.parts
                    .insert(state.plan().agent_name(slot.agent).clone(), ended_parts);
            }
        }
    }

    /// Updates the progress of the agent, and prints warnings of the part.
    fn report_part_end(&mut self, part: &PartAttemptEnded) {
        let place = (part.agent.clone(), part.turn);
        if part.is_final() && part.failure().is_some() {
            self.failed_parts.entry(place).or_insert_with(|| part.key.clone());
        }
        self.parts
            .entry(part.agent.clone())
            .or_default()
            .push(without_model_messages(part));
        self.show_running_agents(part.turn, false);
        self.show_pause(&part.agent, part.pause);
        for warning in &part.warnings {
            let (agent, key) = (&part.agent, &part.key);
            self.print_wrapped_note(&format!(
                "{CAUTION}warning{CAUTION:#}: {agent}[{}]: {}\n",
                escape_hidden(key),
                indent_later_lines(warning)
            ));
        }
    }

    /// Prints a finished execution, with its notes.
    fn report_execution_end(&mut self, finished: &ExecutionFinished, state: &ConversationState) {
        let shown_parts = self.console.end_streamed_reply(&finished.agent);
        self.console.print_pending_heading();
        self.running.retain(|name| *name != finished.agent);
        self.show_running_agents(finished.turn, false);
        if self.verbosity == OutputVerbosity::Quiet {
            self.collect_quiet_output(finished, state);
        } else {
            self.print_finished_execution(finished, shown_parts, state);
        }
        if finished.failure().is_some() {
            self.shown_failures.insert((finished.agent.clone(), finished.turn));
        }
        self.print_execution_notes(finished, shown_parts);
        self.console.print_queued_output();
    }

    /// Keeps the output of a finished execution for the end of the run. Prints a failure immediately.
    fn collect_quiet_output(&mut self, finished: &ExecutionFinished, state: &ConversationState) {
        match &finished.end {
            ExecutionEnd::Succeeded(output) => self.last_outputs.push(Arc::clone(output)),
            ExecutionEnd::Failed(failure) => {
                let message = render_failure(failure, finished, state.plan());
                self.print_wrapped_note(&format!("{}: {}\n", finished.agent, indent_later_lines(&message)));
            }
        }
    }

    /// Prints the title, the output or the failure of an execution, except parts that were streamed.
    fn print_finished_execution(
        &mut self,
        finished: &ExecutionFinished,
        shown: StreamedParts,
        state: &ConversationState,
    ) {
        let plan = state.plan();
        let kind = plan
            .find_agent_id(&finished.agent)
            .map_or("", |id| plan.agent(id).kind_name());
        let again = if finished.execution > 1 {
            format!(" #{}", finished.execution)
        } else {
            String::new()
        };
        let took = if finished.reused {
            "reused".to_owned()
        } else {
            format_duration(finished.execution_time)
        };
        let author = match &finished.answer {
            Some(answer) if answer.unattended => {
                let author = escape_hidden(&answer.describe_authorship());
                format!(" · {DIM:#}{CAUTION}{author}{CAUTION:#}{DIM}")
            }
            Some(answer) => format!(" · {}", escape_hidden(&answer.describe_authorship())),
            None => String::new(),
        };
        let mut title = match shown.title {
            true => format!("    {DIM}{took}{author}{DIM:#}\n"),
            false => format!(
                "  {NAME}{}{NAME:#}{again} {DIM}{kind} · {took}{author}{DIM:#}\n",
                finished.agent
            ),
        };
        if !shown.title || shown.missed && self.is_verbose() {
            title.push_str(&tools::render_tool_calls(finished, self.is_verbose(), self.out_width));
        }
        for given in self.answers.remove(&finished.agent).unwrap_or_default() {
            let line = format!("    {DIM}· {}{DIM:#}\n", given.describe());
            title.push_str(&self.out_width.wrap_sentences(&line));
        }
        let part_ends = self.parts.remove(&finished.agent).unwrap_or_default();
        if let Some(parts) = PartsSummary::from_events(&part_ends) {
            let lines = parts.render_part_lines(self.is_verbose());
            self.has_cut |= lines.has_cut;
            let mut text = format!("{DIM}{}{DIM:#}\n{}", parts.render_part_counts(true), lines.text);
            text.push_str(&match &finished.end {
                ExecutionEnd::Succeeded(output) => render_output(&without_part_keys(output), self.is_verbose()),
                ExecutionEnd::Failed(failure) => render_failure(failure, finished, plan),
            });
            return self.print_result_text(&format!("{title}{}", self.indent_and_wrap(&text)));
        }
        self.has_cut |= self.shortens_execution(finished);
        let text = match &finished.end {
            ExecutionEnd::Succeeded(output) if shown.text => render_other_keys(output, self.is_verbose()),
            ExecutionEnd::Succeeded(output) => render_output(output, self.is_verbose()),
            ExecutionEnd::Failed(failure) => render_failure(failure, finished, plan),
        };
        self.print_result_text(&format!("{title}{}", self.indent_and_wrap(&text)));
    }

    /// Prints notes about a finished execution to standard error, such as warnings.
    fn print_execution_notes(&self, finished: &ExecutionFinished, shown: StreamedParts) {
        let show_stderr = self.verbosity == OutputVerbosity::Verbose && !finished.stderr.trim().is_empty();
        if show_stderr {
            // The text of the script, unchanged.
            let text = format!("stderr:\n{}", finished.stderr.trim_end());
            let text = LineWidth::UNLIMITED.wrap_block(&text, OUTPUT_INDENT);
            self.console.print_or_queue_stderr(&format!("{DIM}{text}{DIM:#}"));
        }
        let is_verbose = self.verbosity == OutputVerbosity::Verbose;
        for sandbox in finished.sandboxes.iter().filter(|_| is_verbose) {
            self.console
                .print_or_queue_stderr(&format!("{DIM}{:OUTPUT_INDENT$}sandbox: {sandbox}{DIM:#}\n", ""));
        }
        let was_shown = shown.reasoning && !shown.missed;
        let reasoning = super::reasoning::reasoning_text(finished).filter(|_| self.is_verbose() && !was_shown);
        if let Some(text) = reasoning {
            let text = LineWidth::UNLIMITED.wrap_block(&format!("reasoning:\n{text}"), OUTPUT_INDENT);
            self.console.print_or_queue_stderr(&format!("{DIM}{text}{DIM:#}"));
        }
        let line = super::context_window::dropped_messages_line(finished)
            .filter(|_| self.verbosity == OutputVerbosity::Verbose);
        if let Some(line) = line {
            self.print_wrapped_note(&format!("{:OUTPUT_INDENT$}{DIM}{line}{DIM:#}\n", ""));
        }
        for warning in finished
            .warnings
            .iter()
            .filter(|warning| !self.console.has_printed_warning(warning))
        {
            let warning = indent_later_lines(warning);
            self.print_wrapped_note(&format!("{CAUTION}warning{CAUTION:#}: {}: {warning}\n", finished.agent));
        }
    }

    /// Prints warnings that belong to no execution.
    fn print_warnings<'w>(&self, warnings: impl Iterator<Item = &'w String>) {
        for warning in warnings {
            self.print_wrapped_note(&format!(
                "{CAUTION}warning{CAUTION:#}: {}\n",
                indent_later_lines(warning)
            ));
        }
    }

    /// Returns whether nothing is shortened.
    fn is_verbose(&self) -> bool {
        self.verbosity == OutputVerbosity::Verbose
    }

    /// Returns whether the output leaves out a part of the execution.
    fn shortens_execution(&self, finished: &ExecutionFinished) -> bool {
        if self.is_verbose() {
            return false;
        }
        let mut calls = finished.exchange.iter().flat_map(|iteration| &iteration.tool_calls);
        let cuts_calls = calls.any(is_call_long);
        let cuts_output = finished
            .output()
            .is_some_and(|output| values::has_shortened_keys(output));
        let stderr = finished.stderr.trim();
        let cuts_stderr = finished
            .failure()
            .is_some_and(|failure| !failure.error.contains(stderr));
        cuts_calls || cuts_output || cuts_stderr
    }

    /// Prints a failed attempt, and shows the pause before the next one.
    fn report_failed_attempt(&mut self, failed: &AttemptFailed) {
        self.console.end_streamed_reply(&failed.agent);
        if self.verbosity == OutputVerbosity::Quiet {
            return;
        }
        let lines = render_retried_attempt(failed, self.is_verbose());
        self.has_cut |= lines.has_cut;
        self.print_wrapped_note(&lines.text);
        self.console.print_queued_output();
        self.show_pause(&failed.agent, Some(failed.pause));
    }

    /// Shows in the spinner that the agent retries after a pause, in seconds.
    fn show_pause(&self, agent: &Arc<str>, seconds: Option<f64>) {
        let pause = seconds.map(Duration::try_from_secs_f64);
        if let Some(Ok(pause)) = pause.filter(|_| self.console.has_spinner()) {
            self.console.show_retry_pause(agent, pause);
        }
    }

    /// Prints the outputs in quiet mode, the warnings, the summary and the suggested commands.
    fn report_run_end(&mut self, ended: &RunEnded, record: &Record, state: &ConversationState) {
        self.console.finish_output();
        if self.verbosity == OutputVerbosity::Quiet {
            let outputs = std::mem::take(&mut self.last_outputs);
            let text: String = select_quiet_outputs(ended, outputs, state)
                .iter()
                .map(|output| format!("{}\n", render_output(output, true).trim_end()))
                .collect();
            self.print_result_text(&text);
        }
        self.print_warnings(ended.warnings.iter());
        let text = self.render_run_summary(ended, record, state);
        self.print_wrapped_note(&text);
        // Text to be typed stays on one line.
        self.console
            .print_or_queue_stderr(&self.render_next_commands(ended.completion_reason, state));
        self.has_cut = false;
    }
}

impl Reporter for HumanReporter {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        self.add_inner_answers(record);
        match &record.event {
            Event::RunStarted(started) => {
                self.start_segment(record.at);
                if self.verbosity > OutputVerbosity::Quiet {
                    let agents = format_count(state.plan().agent_count() as u64, "agent");
                    let from = match &started.forked_from {
                        Some(from) => format!(", from turn {} of {}", from.turn, from.run_id),
                        None => String::new(),
                    };
                    self.print_wrapped_note(&format!(
                        "{NAME}{}{NAME:#} {DIM}· {agents} · run {}{from}{DIM:#}\n",
                        started.ensemble, started.run_id
                    ));
                }
            }
            Event::RunResumed(_) => {
                self.start_segment(record.at);
                self.add_earlier_parts(state);
                let turn = state.turn_count() + 1;
                if let Some(started) = state.run_start().filter(|_| self.verbosity > OutputVerbosity::Quiet) {
                    let text = format!(
                        "{NAME}{}{NAME:#} {DIM}· run {} continues in turn {turn}{DIM:#}\n",
                        started.ensemble, started.run_id
                    );
                    self.print_wrapped_note(&text);
                }
            }
            Event::MessageAdded(message) => {
                self.start_segment(record.at);
                if self.verbosity > OutputVerbosity::Quiet && !self.in_chat {
                    self.print_result_text(&format!("\n{NAME}you{NAME:#}\n{}", self.indent_and_wrap(&message.text)));
                }
            }
            Event::TurnStarted(turn) => {
                self.first_turn_at.get_or_insert(record.at);
                self.print_warnings(turn.warnings.iter().map(|warning| &warning.message));
                self.report_turn_start(turn);
            }
            Event::AttemptFailed(failed) => self.report_failed_attempt(failed),
            Event::PartEnded(part) => self.report_part_end(part),
            Event::ExecutionFinished(finished) => {
                self.report_execution_end(state.finished_execution(&finished.agent).unwrap_or(finished), state);
            }
            Event::TurnFinished(finished) => {
                self.print_warnings(finished.warnings.iter());
            }
            Event::RunEnded(ended) => self.report_run_end(ended, record, state),
            _ => {}
        }
    }
}

/// Restores the terminal, also if the run ends with an error.
impl Drop for HumanReporter {
    fn drop(&mut self) {
        self.console.finish_output();
    }
}

/// Returns the outputs to print: the declared result of an ended run, or the last outputs.
fn select_quiet_outputs(ended: &RunEnded, last: Vec<Arc<Value>>, state: &ConversationState) -> Vec<Arc<Value>> {
    match state.evaluate_declared_result() {
        None => last,
        Some(result) if ended.completion_reason.is_resumable() || result.value.is_null() => Vec::new(),
        Some(result) => vec![result.value],
    }
}

/// Renders the failure and its effect on the run.
fn render_failure(failure: &ExecutionFailure, finished: &ExecutionFinished, plan: &Plan) -> String {
    let effect = plan.ensemble().failure_effect(&finished.agent).sentence();
    let effect = effect.map_or_else(String::new, |effect| format!("\n{effect}"));
    let failed = render_failure_heading(failure, finished.attempt);
    format!("{failed}: {}{effect}", failure.error.trim_end())
}

/// Renders the keys of an output other than the streamed text.
fn render_other_keys(output: &Value, whole: bool) -> String {
    let Some(object) = output.as_object() else {
        return String::new();
    };
    let other_entries = object.iter().filter(|(key, _)| *key != "response");
    render_output(
        &Value::Object(other_entries.map(|(key, value)| (key.clone(), value.clone())).collect()),
        whole,
    )
}

/// Copies the event without its messages.
fn without_model_messages(part: &PartAttemptEnded) -> PartAttemptEnded {
    PartAttemptEnded {
        exchange: Vec::new(),
        ..part.clone()
    }
}
