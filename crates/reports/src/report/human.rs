//! A run as a person reads it: outputs go to standard output, everything about them to standard error.

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::Reporter;
use super::console::{ConsoleWriter, call_line, is_long, result_line};
use super::reasons::Reasons;
use super::values::{self, output_text};
use super::wrap::LineWidth;
use ensemble_core::conversation::{
    AttemptFailed, CompletionReason, ConversationState, Event, ExecutionFinished, Record, RunEnded, TurnStarted,
};
use ensemble_language::data::Usage;

pub(super) const NAME: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const CAUTION: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const TURN: Style = AnsiColor::Cyan.on_default().bold();

/// How much is printed.
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
    /// In a chat the person has typed the message and sees the prompt: neither is printed again.
    in_chat: bool,
    running: Vec<String>,
    last_outputs: Vec<String>,
    begun: Option<chrono::DateTime<chrono::Utc>>,
    /// Why agents did not run in a turn.
    reasons: Reasons,
    /// Something was not shown whole.
    has_cut: bool,
}

/// Columns before every row of an output.
const INDENT: usize = 4;

impl Human {
    /// Prints with that writer.
    pub fn new(console: ConsoleWriter, verbosity: Verbosity) -> Self {
        let (out_width, err_width) = console.widths();
        Self {
            console,
            out_width,
            err_width,
            verbosity,
            in_chat: false,
            running: Vec::new(),
            last_outputs: Vec::new(),
            begun: None,
            reasons: Reasons::default(),
            has_cut: false,
        }
    }

    /// For a chat: no headings, no echo of the message, nothing about a normal end.
    #[must_use]
    pub fn for_chat(mut self) -> Self {
        self.in_chat = true;
        self
    }

    fn print(&self, text: &str) {
        self.console.print(text);
    }

    /// Sentences on standard error.
    fn print_err(&self, text: &str) {
        self.console.print_err(&self.err_width.sentences(text));
    }

    /// An output or a message, for standard output.
    fn block(&self, text: &str) -> String {
        self.out_width.block(text, INDENT)
    }

    fn turn_started(&mut self, turn: &TurnStarted) {
        self.running = turn.starts.iter().map(|start| start.agent.to_string()).collect();
        self.last_outputs.clear();
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
        let message = match self.running.as_slice() {
            [] => String::new(),
            running => format!("turn {turn} · {}", running.join(", ")),
        };
        self.console.set_progress(message, afresh);
    }

    fn finished(&mut self, finished: &ExecutionFinished, state: &ConversationState) {
        let shown = self.console.close_reply(&finished.agent);
        self.console.print_heading();
        self.running.retain(|name| *name != *finished.agent);
        self.show_running(finished.turn, false);
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
        let title = match shown.title {
            true => format!("    {DIM}{took}{DIM:#}\n"),
            false => format!(
                "  {NAME}{}{NAME:#}{again} {DIM}{kind} · {took}{DIM:#}\n{}",
                finished.agent,
                self.out_width.sentences(&tools_used(finished, self.is_whole()))
            ),
        };
        self.has_cut |= self.cuts(finished, shown.title);
        match (&finished.output, &finished.failure) {
            (Some(output), _) => {
                let rest = match shown.text {
                    true => beside_text(output, self.is_whole()),
                    false => output_text(output, self.is_whole()),
                };
                if self.verbosity > Verbosity::Quiet {
                    self.print(&format!("{title}{}", self.block(&rest)));
                } else {
                    self.last_outputs.push(output_text(output, true));
                }
            }
            (None, Some(failure)) => {
                let kind = kind_of(failure.kind);
                let message = format!("{BAD}failed{BAD:#} ({kind}): {}", failure.error.trim_end());
                if self.verbosity > Verbosity::Quiet {
                    self.print(&format!("{title}{}", self.block(&message)));
                } else {
                    self.print_err(&format!("{}: {message}\n", finished.agent));
                }
            }
            (None, None) => {}
        }
        self.print_notes(finished);
        self.console.print_pending();
    }

    /// What goes to standard error about an execution that has ended.
    fn print_notes(&self, finished: &ExecutionFinished) {
        let show_stderr = self.verbosity == Verbosity::Verbose && !finished.stderr.trim().is_empty();
        if show_stderr {
            // As the script wrote it.
            let text = format!("stderr:\n{}", finished.stderr.trim_end());
            let text = LineWidth::UNLIMITED.block(&text, INDENT);
            self.console.print_err(&format!("{DIM}{text}{DIM:#}"));
        }
        let line = super::context_window::line(finished).filter(|_| self.verbosity == Verbosity::Verbose);
        if let Some(line) = line {
            self.print_err(&format!("{:INDENT$}{DIM}{line}{DIM:#}\n", ""));
        }
        for warning in &finished.warnings {
            self.print_err(&format!("{CAUTION}warning{CAUTION:#}: {}: {warning}\n", finished.agent));
        }
    }

    fn is_whole(&self) -> bool {
        self.verbosity == Verbosity::Verbose
    }

    /// Is something of the execution not shown? Tools that were shown while they were called are always shortened.
    fn cuts(&self, finished: &ExecutionFinished, is_titled: bool) -> bool {
        let mut calls = finished.exchange.iter().flat_map(|iteration| &iteration.tool_calls);
        let cuts_calls = (is_titled || !self.is_whole()) && calls.any(is_long);
        let cuts_output = finished.output.as_deref().is_some_and(values::is_long);
        let stderr = finished.stderr.trim();
        let cuts_stderr = finished
            .failure
            .as_ref()
            .is_some_and(|failure| !failure.error.contains(stderr));
        cuts_calls || !self.is_whole() && (cuts_output || cuts_stderr)
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
    }

    fn ended(&mut self, ended: &RunEnded, record: &Record, state: &ConversationState) {
        self.console.finish();
        if self.verbosity == Verbosity::Quiet {
            let text: String = self
                .last_outputs
                .drain(..)
                .map(|word| format!("{}\n", word.trim_end()))
                .collect();
            self.print(&text);
        }
        let text = self.summary(ended, record, state);
        self.print_err(&text);
        // What is to be typed stays on one line.
        self.console.print_err(&self.commands(ended.completion_reason, state));
        self.has_cut = false;
    }

    fn summary(&self, ended: &RunEnded, record: &Record, state: &ConversationState) -> String {
        let reason = ended.completion_reason;
        let quiet = self.verbosity == Verbosity::Quiet;
        if (quiet || self.in_chat) && reason == CompletionReason::Completed {
            return String::new();
        }
        let (style, mark) = match reason {
            CompletionReason::Completed => (GOOD, "✓"),
            reason if reason.is_limit() => (CAUTION, "■"),
            CompletionReason::WaitingForInput => (CAUTION, "?"),
            _ => (BAD, "✗"),
        };
        let space = if quiet { "" } else { "\n" };
        let mut text = format!("{space}{style}{mark} {reason}{style:#}");
        if let Some(detail) = &ended.detail {
            text.push_str(&format!(": {detail}"));
        }
        let seconds = self.begun.map_or(0.0, |begun| (record.at - begun).as_seconds_f64());
        text.push_str(&format!(
            "\n  {} · {} · {}\n",
            count(u64::from(state.turn_count()), "turn"),
            count(state.history().count() as u64, "execution"),
            duration(seconds),
        ));
        if quiet {
            return text;
        }
        for not_run in &ended.not_run {
            text.push_str(&format!(
                "  {DIM}{} never ran: {}{DIM:#}\n",
                not_run.agent, not_run.reason
            ));
        }
        text.push_str(&self.cost(state));
        text
    }

    /// What to type next.
    fn commands(&self, reason: CompletionReason, state: &ConversationState) -> String {
        if self.verbosity == Verbosity::Quiet {
            return String::new();
        }
        let id = state.started().map_or("", |started| &*started.run_id);
        // A run inside another is driven with that one.
        if id.contains('/') || id.is_empty() {
            return String::new();
        }
        let mut text = match reason {
            CompletionReason::WaitingForInput => {
                let asking = state.open_questions().filter_map(|question| question.asked_by);
                let answers: Vec<String> = asking.map(|agent| format!(" --answer {agent}=…")).collect();
                format!("  answer with: ensemble resume {id}{}\n", answers.concat())
            }
            reason if reason.is_resumable() => format!("  go on with: ensemble resume {id}\n"),
            CompletionReason::Completed if self.in_chat => String::new(),
            _ => format!("  {DIM}recorded: ensemble replay {id}{DIM:#}\n"),
        };
        if self.has_cut {
            text.push_str(&format!(
                "  {DIM}shortened; all of it: ensemble runs show {id} -v{DIM:#}\n"
            ));
        }
        text
    }

    fn cost(&self, state: &ConversationState) -> String {
        let usage = state.usage();
        let simulated = state.started().map_or(&[][..], |started| &started.simulated);
        let mut text = String::new();
        if usage.requests > 0 {
            text.push_str(&format!("  {}\n", used(&usage)));
        }
        let by_agent = ensemble_core::conversation::usage_by_agent(state);
        if self.verbosity == Verbosity::Verbose && by_agent.len() > 1 {
            for (name, usage) in &by_agent {
                text.push_str(&format!("    {DIM}{name}: {}{DIM:#}\n", used(usage)));
            }
        }
        if !simulated.is_empty() {
            text.push_str(&format!(
                "  {CAUTION}simulated{CAUTION:#}: no model was asked for {}\n",
                simulated.join(", ")
            ));
        }
        text
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
                        "{NAME}{}{NAME:#} {DIM}· run {} goes on in turn {turn}{DIM:#}\n",
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
            Event::ExecutionFinished(finished) => self.finished(finished, state),
            Event::TurnFinished(finished) => {
                for warning in &finished.warnings {
                    self.print_err(&format!("{CAUTION}warning{CAUTION:#}: {warning}\n"));
                }
            }
            Event::RunEnded(ended) => self.ended(ended, record, state),
            _ => {}
        }
    }
}

/// The terminal is left as it was found, also where a run ends in an error.
impl Drop for Human {
    fn drop(&mut self) {
        self.console.finish();
    }
}

/// A text, and whether something of it was left out.
#[derive(Debug, Default)]
pub(super) struct Shortened {
    pub(super) text: String,
    pub(super) has_cut: bool,
}

/// An attempt that is not the last: the first line of its error, or all of them.
pub(super) fn retry(failed: &AttemptFailed, whole: bool) -> Shortened {
    let error = failed.failure.error.trim_end();
    let has_cut = !whole && error.contains('\n');
    let error = match whole {
        true => error.replace('\n', "\n    "),
        false => error.lines().next().unwrap_or_default().to_owned(),
    };
    let text = format!(
        "  {CAUTION}retry{CAUTION:#}: {} failed ({}: {error}{}), again in {}\n",
        failed.agent,
        kind_of(failed.failure.kind),
        if has_cut { " …" } else { "" },
        duration(failed.pause),
    );
    Shortened { text, has_cut }
}

/// Requests, tokens and what they cost, in a few words.
pub(super) fn used(usage: &Usage) -> String {
    let estimated = if usage.estimated { ", estimated" } else { "" };
    let cached = match usage.cached {
        0 => String::new(),
        cached => format!(" ({cached} from the cache)"),
    };
    let cost = usage.cost.map_or_else(String::new, |cost| format!(" · cost {cost}"));
    format!(
        "{}{cached} · {} tokens in, {} out{estimated}{cost}",
        count(usage.requests, "model request"),
        usage.input_tokens,
        usage.output_tokens
    )
}

/// The tools that a model has called, a line each.
fn tools_used(finished: &ExecutionFinished, whole: bool) -> String {
    let calls = finished.exchange.iter().flat_map(|iteration| &iteration.tool_calls);
    let lines = calls.map(|call| {
        let (called, ended) = (call_line(call, whole), result_line(call, whole));
        format!("    {DIM}→ {called}{DIM:#}\n    {DIM}← {ended}{DIM:#}\n")
    });
    lines.collect()
}

/// What an output holds beside the text that was shown while it came.
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

pub(super) fn kind_of(kind: ensemble_language::data::FailureKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// `1 turn`, `2 turns`.
pub fn count(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// `3 ms`, `1.2 s`, `2 min 5 s`, `1 h 20 min`.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3600.0 {
        format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor())
    } else {
        let minutes = (seconds / 60.0).floor();
        format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let table = [
            (0.0, "0 ms"),
            (0.0123, "12 ms"),
            (1.25, "1.2 s"),
            (125.0, "2 min 5 s"),
            (119.9, "1 min 59 s"),
            (4_800.0, "1 h 20 min"),
        ];
        for (seconds, words) in table {
            assert_eq!(duration(seconds), words);
        }
    }
}
