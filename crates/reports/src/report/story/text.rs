//! The story of a run on a terminal, told as its records come: of a recorded run at once, of a running one while it runs.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::Local;

use super::next::{Driver, next};
use super::waiting::grouped;
use crate::report::human::{BAD, CAUTION, DIM, GOOD, NAME, TURN, count, duration, indent, kind_of, plain, said, used};
use crate::report::stage::{called, ended};
use crate::report::window;
use crate::story::{AttemptEnd, Execution, Progress, Story, Turn};
use ensemble_core::conversation::{
    AttemptFailed, Event, ExecutionEnd, ExecutionFinished, InputRequested, Interruption, Record, RunEnded,
};
use ensemble_core::conversation::{CompletionReason, NotRun, RunStarted, Waiting};
use ensemble_language::data::Context;

/// Lines of an answer that are shown unless all are wanted.
const LINES: usize = 8;

/// Groups of agents that did not run which are shown unless all are wanted.
const GROUPS: usize = 6;

/// Tells a run's story.
#[derive(Debug, Default)]
pub struct Storyteller {
    /// Everything is told, nothing is shortened.
    whole: bool,
    /// What the agents are: `llm`, `script`, …
    pub kinds: HashMap<Arc<str>, &'static str>,
    /// It happens now, so who is at work is told too.
    live: bool,
    /// Why each agent did not run, as it was told last.
    reasons: HashMap<Arc<str>, String>,
}

impl Storyteller {
    /// Tells everything if `whole`, and who is at work if it is told `live`.
    pub fn new(whole: bool, live: bool) -> Self {
        Self {
            whole,
            live,
            ..Self::default()
        }
    }

    /// What the record adds; `story` has taken it already.
    pub fn tell(&mut self, record: &Record, story: &Story) -> String {
        match &record.event {
            Event::RunStarted(started) => self.started(started, record),
            Event::RunResumed(_) => {
                let when = time(record);
                format!("\n{NAME}resumed{NAME:#} {DIM}{when}{DIM:#}\n")
            }
            Event::MessageAdded(message) => format!("\n{NAME}you{NAME:#}\n{}", indent(&message.text)),
            Event::ContextSet(context) => format!("\n{DIM}given: {}{DIM:#}\n", given(context)),
            Event::TurnStarted(turn) => {
                let mut text = format!("\n{TURN}turn {}{TURN:#}\n", turn.turn);
                if self.live {
                    let names: Vec<&str> = turn.starts.iter().map(|start| &*start.agent).collect();
                    text.push_str(&format!("  {DIM}at work: {}{DIM:#}\n", names.join(", ")));
                }
                text
            }
            Event::AttemptFailed(failed) if self.live => attempt_failed(failed),
            Event::ExecutionFinished(finished) => self.finished(finished, story),
            Event::InputRequested(asked) => question(asked),
            Event::TurnFinished(_) => match story.turns().last() {
                Some(turn) => self.closed(turn),
                None => String::new(),
            },
            Event::Interrupted(cause) => self.interrupted(cause, record, story),
            Event::RunEnded(ended) => self.ended(ended, story),
            _ => String::new(),
        }
    }

    /// What remains to be said after the last record of a run that has no end, or could go on.
    pub fn close(&self, story: &Story, driver: Driver) -> String {
        let mut text = String::new();
        if story.progress() == Progress::Open {
            let open = story.turns().last().filter(|turn| turn.finished_at.is_none());
            if let Some(turn) = open {
                text.push_str(&under_way(turn, driver));
            }
            text.push_str(&match driver {
                Driver::Process(pid) => format!("\n{CAUTION}… running{CAUTION:#}: process {pid} drives it\n"),
                Driver::Nobody => {
                    format!(
                        "\n{BAD}✗ no end{BAD:#}: the process that drove it is gone, and what was under way is lost\n"
                    )
                }
            });
            text.push_str(&self.totals(story));
        }
        for line in next(story, driver) {
            text.push_str(&format!("  {}: {NAME}{}{NAME:#}\n", line.purpose, line.command));
        }
        text
    }

    fn started(&self, started: &RunStarted, record: &Record) -> String {
        let agents = count(self.kinds.len() as u64, "agent");
        let file = &started.ensemble_file;
        let mut text = format!(
            "{NAME}{}{NAME:#} {DIM}· {agents} · run {} · {} · {file}{DIM:#}\n",
            started.ensemble,
            started.run_id,
            time(record),
        );
        if let Some(origin) = &started.forked_from {
            text.push_str(&format!("  forked from {} after turn {}\n", origin.run_id, origin.turn));
        }
        if !started.input.is_empty() {
            text.push_str(&format!(
                "\n{NAME}input{NAME:#}\n{}",
                indent(&self.shortened(&started.input))
            ));
        }
        if !started.context.is_empty() {
            text.push_str(&format!("\n{NAME}given{NAME:#}\n"));
        }
        for (key, value) in started.context.iter() {
            text.push_str(&format!("    {DIM}{key}:{DIM:#} {}\n", plain(value, self.whole)));
        }
        text
    }

    fn finished(&self, finished: &ExecutionFinished, story: &Story) -> String {
        let turn = story.turns().last();
        let execution = turn.and_then(|turn| turn.executions.iter().find(|one| one.agent == finished.agent));
        let mut text = self.title(finished);
        if let Some(execution) = execution {
            text.push_str(&self.circumstances(execution));
        }
        match &finished.end {
            ExecutionEnd::Failed(failure) => {
                let kind = kind_of(failure.kind);
                let message = format!("{BAD}failed{BAD:#} ({kind}): {}", failure.error.trim_end());
                text.push_str(&indent(&message));
            }
            ExecutionEnd::Succeeded(output) => text.push_str(&indent(&self.shortened(&said(output, self.whole)))),
        }
        let stderr = finished.stderr.trim_end();
        if !stderr.is_empty() && self.whole {
            text.push_str(&indent(&format!("{DIM}stderr:{DIM:#}\n{}", stderr)));
        }
        if let Some(line) = window::line(finished) {
            text.push_str(&format!("{DIM}{}{DIM:#}", indent(&line)));
        }
        for warning in &finished.warnings {
            text.push_str(&format!("    {CAUTION}warning{CAUTION:#}: {warning}\n"));
        }
        text
    }

    fn title(&self, finished: &ExecutionFinished) -> String {
        let (style, mark) = match finished.end {
            ExecutionEnd::Succeeded(_) => (GOOD, "✓"),
            ExecutionEnd::Failed(_) => (BAD, "✗"),
        };
        let again = match finished.execution {
            1 => String::new(),
            execution => format!(" #{execution}"),
        };
        let mut about = vec![match finished.reused {
            true => "taken over".to_owned(),
            false => duration(finished.execution_time),
        }];
        if let Some(kind) = self.kinds.get(&finished.agent) {
            about.insert(0, (*kind).to_owned());
        }
        if let Some(usage) = finished.usage {
            about.push(format!("{} tokens", usage.input_tokens + usage.output_tokens));
        }
        format!(
            "  {style}{mark}{style:#} {NAME}{}{NAME:#}{again} {DIM}{}{DIM:#}\n",
            finished.agent,
            about.join(" · ")
        )
    }

    /// Who asked for it, what it read, and the attempts before the last.
    fn circumstances(&self, execution: &Execution) -> String {
        let mut text = String::new();
        if let Some(request) = &execution.request {
            let from = &request.from;
            let parameters = plain(&request.parameters, self.whole);
            text.push_str(&format!("    {DIM}asked by {from}: {parameters}{DIM:#}\n"));
        }
        if self.whole && !execution.reads.is_empty() {
            let reads: Vec<String> = execution
                .reads
                .iter()
                .map(|(agent, execution)| format!("{agent} #{execution}"))
                .collect();
            text.push_str(&format!("    {DIM}read {}{DIM:#}\n", reads.join(", ")));
        }
        for call in &execution.tool_calls {
            text.push_str(&format!("    {DIM}→ {}\n    ← {}{DIM:#}\n", called(call), ended(call)));
        }
        for attempt in &execution.attempts {
            let number = attempt.attempt;
            match &attempt.end {
                AttemptEnd::Failed { failure, pause, stderr } => {
                    let kind = kind_of(failure.kind);
                    let error = self.on_one_line(&failure.error);
                    let pause = duration(*pause);
                    text.push_str(&format!(
                        "    {CAUTION}attempt {number} failed{CAUTION:#} ({kind}): {error}; again after {pause}\n"
                    ));
                    if self.whole && !stderr.trim().is_empty() {
                        text.push_str(&indent(&format!("{DIM}stderr:{DIM:#}\n{}", stderr.trim_end())));
                    }
                }
                AttemptEnd::Lost => text.push_str(&format!(
                    "    {CAUTION}attempt {number} was lost{CAUTION:#}: the process died meanwhile\n"
                )),
                AttemptEnd::Stopped => text.push_str(&format!("    {DIM}attempt {number} was stopped{DIM:#}\n")),
                AttemptEnd::UnderWay | AttemptEnd::Final | AttemptEnd::Asked => {}
            }
        }
        text
    }

    /// Who did not run in the turn, and what it warned of. A reason that was told in an earlier turn is not told again.
    fn closed(&mut self, turn: &Turn) -> String {
        let mut text = String::new();
        let is_known = |waiting: &&Waiting| self.reasons.get(&waiting.agent) == Some(&waiting.reason.to_string());
        let (known, new): (Vec<&Waiting>, Vec<&Waiting>) = turn
            .waiting
            .iter()
            .partition(|waiting| !self.whole && is_known(waiting));
        let groups = grouped(&new);
        let shown = if self.whole { groups.len() } else { GROUPS };
        for (agents, reason) in groups.iter().take(shown) {
            let reason = self.on_one_line(reason);
            text.push_str(&format!("  {DIM}– {}: {reason}{DIM:#}\n", agents.join(", ")));
        }
        if groups.len() > shown {
            let more = groups.len() - shown;
            text.push_str(&format!("  {DIM}– and {more} more (-v){DIM:#}\n"));
        }
        if !known.is_empty() {
            let names: Vec<&str> = known.iter().map(|waiting| &*waiting.agent).collect();
            text.push_str(&format!("  {DIM}– {}: as before{DIM:#}\n", names.join(", ")));
        }
        for start in &turn.executions {
            self.reasons.remove(&start.agent);
        }
        let told = turn
            .waiting
            .iter()
            .map(|waiting| (waiting.agent.clone(), waiting.reason.to_string()));
        self.reasons.extend(told);
        for warning in &turn.warnings {
            text.push_str(&format!("  {CAUTION}warning{CAUTION:#}: {warning}\n"));
        }
        text
    }

    fn interrupted(&self, cause: &Interruption, record: &Record, story: &Story) -> String {
        let open = story.turns().last().filter(|turn| turn.finished_at.is_none());
        let stopped = open.map(stopped).unwrap_or_default();
        let cause = words(cause);
        format!("{stopped}\n{NAME}{cause}{NAME:#} {DIM}{}{DIM:#}\n", time(record))
    }

    fn ended(&mut self, ended: &RunEnded, story: &Story) -> String {
        let mut text = String::new();
        if let Some(turn) = story.turns().last().filter(|turn| turn.finished_at.is_none()) {
            text.push_str(&self.closed(turn));
        }
        let reason = ended.completion_reason;
        let (style, mark) = mark(reason);
        text.push_str(&format!("\n{style}{mark} {reason}{style:#}"));
        // The questions stand above.
        let detail = ended
            .detail
            .as_ref()
            .filter(|_| reason != CompletionReason::WaitingForInput);
        if let Some(detail) = detail {
            text.push_str(&format!(": {detail}"));
        }
        text.push('\n');
        // Who has not run yet may run when it goes on.
        let not_run = ended.not_run.iter().filter(|_| self.whole || !reason.is_resumable());
        for NotRun { agent, reason } in not_run {
            let reason = self.on_one_line(reason);
            text.push_str(&format!("  {DIM}{agent} never ran: {reason}{DIM:#}\n"));
        }
        text + self.totals(story).as_str()
    }

    fn totals(&self, story: &Story) -> String {
        let mut text = format!("  {}\n", totals(story).join("\n  "));
        if let Some(started) = story.started.as_ref().filter(|started| !started.simulated.is_empty()) {
            text.push_str(&format!(
                "  {CAUTION}simulated{CAUTION:#}: no model was asked for {}\n",
                started.simulated.join(", ")
            ));
        }
        text
    }

    /// The first lines.
    fn shortened(&self, text: &str) -> String {
        let lines = text.lines().count();
        if self.whole || lines <= LINES + 1 {
            return text.to_owned();
        }
        let first: Vec<&str> = text.lines().take(LINES).collect();
        format!("{}\n{DIM}… {} more lines (-v){DIM:#}", first.join("\n"), lines - LINES)
    }

    /// Shortened, without line breaks.
    fn on_one_line(&self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        plain(&words.join(" ").into(), self.whole)
    }
}

/// What a run came to: turns and time, requests and tokens.
pub(super) fn totals(story: &Story) -> Vec<String> {
    let mut lines = vec![format!(
        "{} · {} · {}",
        count(story.turn_count() as u64, "turn"),
        count(story.execution_count() as u64, "execution"),
        duration(story.active),
    )];
    let whole = story
        .latest
        .zip(story.begun)
        .map(|(latest, begun)| (latest - begun).as_seconds_f64());
    if let Some(whole) = whole.filter(|whole| whole - story.active >= 1.0) {
        lines[0].push_str(&format!(", {} with pauses", duration(whole)));
    }
    let usage = story.usage;
    if usage.requests > 0 {
        lines.push(used(&usage));
    }
    lines
}

/// A cause as people say it.
pub(super) fn words(cause: &Interruption) -> String {
    match cause {
        Interruption::Cancelled { by } => format!("stopped by {by}"),
        Interruption::Timeout => "stopped: the run's time was up".to_owned(),
    }
}

fn mark(reason: CompletionReason) -> (anstyle::Style, &'static str) {
    match reason {
        CompletionReason::Completed => (GOOD, "✓"),
        reason if reason.is_limit() => (CAUTION, "■"),
        CompletionReason::WaitingForInput => (CAUTION, "?"),
        _ => (BAD, "✗"),
    }
}

fn attempt_failed(failed: &AttemptFailed) -> String {
    format!(
        "  {CAUTION}retry{CAUTION:#}: {} failed ({}: {}), again in {}\n",
        failed.agent,
        kind_of(failed.failure.kind),
        failed.failure.error.lines().next().unwrap_or_default(),
        duration(failed.pause),
    )
}

fn question(asked: &InputRequested) -> String {
    let agent = asked.question.asked_by.as_ref().unwrap_or(&asked.agent);
    let mut text = format!(
        "  {CAUTION}?{CAUTION:#} {NAME}{agent}{NAME:#} asks and has no answer\n{}",
        indent(&asked.question.prompt)
    );
    for choice in &asked.question.choices {
        text.push_str(&format!("    · {choice}\n"));
    }
    text
}

/// Who was at work when the run was stopped.
fn stopped(turn: &Turn) -> String {
    let stopped = turn.executions.iter().filter(|execution| {
        let last = execution.attempts.last();
        last.is_some_and(|attempt| attempt.end == AttemptEnd::Stopped)
    });
    stopped
        .map(|execution| {
            let agent = &execution.agent;
            format!("  {CAUTION}■{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}was stopped{DIM:#}\n")
        })
        .collect()
}

/// Who is at work, or was when the process died.
fn under_way(turn: &Turn, driver: Driver) -> String {
    let open = turn.executions.iter().filter(|execution| execution.finished.is_none());
    let tell = |execution: &Execution| {
        let agent = &execution.agent;
        let what = match (execution.attempts.last(), driver) {
            (None, _) => "has not begun".to_owned(),
            (Some(attempt), Driver::Process(_)) => format!(
                "attempt {}, since {}",
                attempt.attempt,
                attempt.started_at.with_timezone(&Local).format("%H:%M:%S")
            ),
            (Some(attempt), Driver::Nobody) => format!("attempt {} was under way", attempt.attempt),
        };
        format!("  {CAUTION}…{CAUTION:#} {NAME}{agent}{NAME:#} {DIM}{what}{DIM:#}\n")
    };
    open.map(tell).collect()
}

fn time(record: &Record) -> String {
    record.at.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S").to_string()
}

/// Values that were put into a context, on one line.
pub(super) fn given(context: &Context) -> String {
    let pairs: Vec<String> = context
        .iter()
        .map(|(key, value)| format!("{key} = {}", plain(value, false)))
        .collect();
    pairs.join(", ")
}
