//! A run for users, written record by record: a recorded run at once, a running one while it is in progress.

use std::collections::HashMap;
use std::sync::Arc;

use super::lines::{INDENT, as_written, decision_line, given, mark, stopped, time, totals, under_way, words};
use super::next::{next, quoted};
use crate::report::console::{call_line, is_long, result_line};
use crate::report::context_window;
use crate::report::format::{BAD, CAUTION, DIM, GOOD, NAME, TURN, count, duration, failed, kind_of, retry};
use crate::report::parts::{Parts, combined};
use crate::report::reasons::Reasons;
use crate::report::stood_in::stood_in;
use crate::report::values::{self, output_text, value_text};
use crate::report::wrap::{LineWidth, hanging};
use ensemble_core::conversation::{CompletionReason, RunStarted};
use ensemble_core::conversation::{
    Event, ExecutionEnd, ExecutionFinished, InputRequested, Interruption, Record, RunEnded,
};
use ensemble_core::operator::visible;
use ensemble_history::Driver;
use ensemble_history::story::{AttemptEnd, Execution, Story, Turn};
use ensemble_language::data::Usage;

/// The number of lines of an output that are shown by default.
const LINES: usize = 8;

/// Renders a run for people.
#[derive(Debug, Default)]
pub struct StoryPrinter {
    /// Whether nothing is shortened or left out.
    whole: bool,
    /// The kinds of the agents: `llm`, `script`, …
    pub kinds: HashMap<Arc<str>, &'static str>,
    /// The name of the run on the command line; `None`: its id.
    pub given: Option<String>,
    /// How long lines may be.
    pub width: LineWidth,
    /// Whether the run may be in progress; then the running agents are named too.
    live: bool,
    /// The reasons why agents did not run.
    reasons: Reasons,
    /// Whether any text was shortened.
    has_cut: bool,
}

impl StoryPrinter {
    /// Creates a writer. `whole`: nothing is shortened; `live`: the running agents are named.
    pub fn new(whole: bool, live: bool) -> Self {
        Self {
            whole,
            live,
            ..Self::default()
        }
    }

    /// The text for the record; `story` already contains it.
    pub fn render(&mut self, record: &Record, story: &Story) -> String {
        match &record.event {
            Event::RunStarted(started) => self.started(started, record),
            Event::RunResumed(_) => {
                let when = time(record);
                format!("\n{NAME}resumed{NAME:#} {DIM}{when}{DIM:#}\n")
            }
            Event::MessageAdded(message) => format!("\n{NAME}you{NAME:#}\n{}", self.block(&message.text)),
            Event::ContextSet(context) => {
                self.has_cut |= !self.whole && given(context, true) != given(context, false);
                let given = given(context, self.whole);
                self.width.sentences(&format!("\n{DIM}given: {given}{DIM:#}\n"))
            }
            Event::TurnStarted(turn) => {
                let mut text = format!("\n{TURN}turn {}{TURN:#}\n", turn.turn);
                if self.live {
                    let names: Vec<&str> = turn.starts.iter().map(|start| &*start.agent).collect();
                    text.push_str(&format!("  {DIM}running: {}{DIM:#}\n", names.join(", ")));
                }
                self.width.sentences(&text)
            }
            Event::AttemptFailed(failed) if self.live => {
                let lines = retry(failed, self.whole);
                self.has_cut |= lines.has_cut;
                self.width.sentences(&lines.text)
            }
            Event::ExecutionFinished(finished) => self.finished(finished, story),
            Event::InputRequested(asked) => self.question(asked),
            Event::TurnFinished(_) => match story.latest_turn() {
                Some(turn) => self.closed(turn),
                None => String::new(),
            },
            Event::Interrupted(cause) => self.interrupted(cause, record, story),
            Event::RunEnded(ended) => self.ended(ended, story),
            _ => String::new(),
        }
    }

    /// The text after the last record, if the run has no end or can continue.
    pub fn close(&self, story: &Story, driver: Driver) -> String {
        let mut text = String::new();
        if story.ended().is_none() {
            let open = story.latest_turn().filter(|turn| turn.finished_at.is_none());
            if let Some(turn) = open {
                text.push_str(&under_way(turn, driver));
            }
            let state = story.history.state(driver);
            text.push_str(&self.width.sentences(&match driver {
                Driver::Process(pid) => format!("\n{CAUTION}… {state}{CAUTION:#} in process {pid}\n"),
                Driver::Nobody => {
                    format!(
                        "\n{BAD}✗ {state}{BAD:#}: its process ended before the run did, and unfinished executions are lost\n"
                    )
                }
            }));
            text.push_str(&self.totals(story));
        }
        for line in next(story, driver) {
            text.push_str(&format!("  {}: {NAME}{}{NAME:#}\n", line.purpose, line.command));
        }
        let id = story.started().map(|started| &*started.run_id);
        let run = self.given.as_deref().or(id).filter(|run| !run.is_empty());
        if let Some(run) = run.filter(|_| self.has_cut) {
            let run = quoted(run);
            text.push_str(&format!(
                "  {DIM}shortened; show everything with: ensemble runs show {run} -v{DIM:#}\n"
            ));
        }
        text
    }

    fn block(&self, text: &str) -> String {
        self.width.block(text, INDENT)
    }

    fn started(&mut self, started: &RunStarted, record: &Record) -> String {
        let agents = count(self.kinds.len() as u64, "agent");
        let file = &started.ensemble_file;
        let mut text = self.width.sentences(&format!(
            "{NAME}{}{NAME:#} {DIM}· {agents} · run {} · {} · {file}{DIM:#}\n",
            started.ensemble,
            started.run_id,
            time(record),
        ));
        if let Some(origin) = &started.forked_from {
            text.push_str(&format!("  forked from {} after turn {}\n", origin.run_id, origin.turn));
        }
        if !started.input.is_empty() {
            let input = self.shortened(&started.input);
            text.push_str(&format!("\n{NAME}input{NAME:#}\n{}", self.block(&input)));
        }
        if !started.context.is_empty() {
            text.push_str(&format!("\n{NAME}given{NAME:#}\n"));
        }
        for (key, value) in started.context.iter() {
            let value = self.value(value);
            text.push_str(&self.block(&format!("{DIM}{key}:{DIM:#} {value}\n")));
        }
        text
    }

    fn finished(&mut self, finished: &ExecutionFinished, story: &Story) -> String {
        let turn = story.latest_turn();
        let execution = turn.and_then(|turn| turn.executions.iter().find(|one| one.agent == finished.agent));
        let mut text = self.title(finished, execution.and_then(Execution::usage));
        if let Some(execution) = execution {
            let lines = self.circumstances(execution);
            text.push_str(&lines);
        }
        let parts = execution.and_then(|execution| Parts::of(&execution.parts));
        if let Some(parts) = &parts {
            let lines = parts.lines(self.whole);
            self.has_cut |= lines.has_cut;
            text.push_str(&self.block(&format!("{DIM}{}{DIM:#}\n{}", parts.counts(true), lines.text)));
        } else {
            self.has_cut |= !self.whole && finished.output().is_some_and(|output| values::is_long(output));
        }
        match &finished.end {
            ExecutionEnd::Failed(failure) => {
                let what = failed(failure, finished.attempt);
                let message = format!("{what}: {}", failure.error.trim_end());
                text.push_str(&self.block(&message));
                self.has_cut |= !self.whole && !failure.error.contains(finished.stderr.trim());
            }
            ExecutionEnd::Succeeded(output) => {
                let said = match parts {
                    Some(_) => output_text(&combined(output), self.whole),
                    None => output_text(output, self.whole),
                };
                let said = self.shortened(&said);
                text.push_str(&self.block(&said));
            }
        }
        let stderr = finished.stderr.trim_end();
        if !stderr.is_empty() && self.whole {
            text.push_str(&as_written(stderr));
        }
        for sandbox in finished.sandboxes.iter().filter(|_| self.whole) {
            let line = format!("{:INDENT$}{DIM}sandbox: {sandbox}{DIM:#}\n", "");
            text.push_str(&self.width.sentences(&line));
        }
        if let Some(line) = context_window::line(finished) {
            let line = format!("{:INDENT$}{DIM}{line}{DIM:#}\n", "");
            text.push_str(&self.width.sentences(&line));
        }
        for warning in &finished.warnings {
            let line = format!("    {CAUTION}warning{CAUTION:#}: {}\n", hanging(warning));
            text.push_str(&self.width.sentences(&line));
        }
        text
    }

    /// The first line of an execution, with the usage of all its attempts.
    fn title(&self, finished: &ExecutionFinished, usage: Option<Usage>) -> String {
        let (style, mark) = match finished.end {
            ExecutionEnd::Succeeded(_) => (GOOD, "✓"),
            ExecutionEnd::Failed(_) => (BAD, "✗"),
        };
        let again = match finished.execution {
            1 => String::new(),
            execution => format!(" #{execution}"),
        };
        let mut about = vec![match finished.reused {
            true => "reused".to_owned(),
            false => duration(finished.execution_time),
        }];
        if let Some(kind) = self.kinds.get(&finished.agent) {
            about.insert(0, (*kind).to_owned());
        }
        if let Some(usage) = usage {
            about.push(format!("{} tokens", usage.input_tokens + usage.output_tokens));
        }
        if let Some(answer) = &finished.answer {
            about.push(format!("answered by {}", visible(&answer.by.to_string())));
        }
        format!(
            "  {style}{mark}{style:#} {NAME}{}{NAME:#}{again} {DIM}{}{DIM:#}\n",
            finished.agent,
            about.join(" · ")
        )
    }

    /// The request, the inputs, and the failed attempts of an execution.
    fn circumstances(&mut self, execution: &Execution) -> String {
        let mut text = String::new();
        if let Some(request) = &execution.request {
            let from = &request.from;
            let parameters = self.value(&request.parameters);
            let line = format!("    {DIM}requested by {from}: {parameters}{DIM:#}\n");
            text.push_str(&self.width.sentences(&line));
        }
        if self.whole && !execution.reads.is_empty() {
            let reads: Vec<String> = execution
                .reads
                .iter()
                .map(|(agent, execution)| format!("{agent} #{execution}"))
                .collect();
            let line = format!("    {DIM}read {}{DIM:#}\n", reads.join(", "));
            text.push_str(&self.width.sentences(&line));
        }
        if let Some(asked) = execution.asked.as_ref().filter(|_| self.whole) {
            for file in &asked.attachments {
                let (name, kind) = (self.value(&file["name"]), self.value(&file["mime_type"]));
                let line = format!("    {DIM}attached: {name} ({kind}, {} bytes){DIM:#}\n", file["size"]);
                text.push_str(&self.width.sentences(&line));
            }
            let system = asked.system.as_ref().map(|text| ("system", text));
            for (label, said) in system.into_iter().chain([("prompt", &asked.prompt)]) {
                text.push_str(&self.block(&format!("{DIM}{label}:{DIM:#} {}", said.trim_end())));
            }
        }
        for (number, call) in execution.tool_calls.iter().enumerate() {
            let beside = execution.beside_calls.iter().filter(|(before, _)| *before == number);
            for (_, said) in beside.filter(|_| self.whole) {
                text.push_str(&self.block(said.trim_end()));
            }
            self.has_cut |= !self.whole && is_long(call);
            let (called, ended) = (call_line(call, self.whole), result_line(call, self.whole));
            let lines = format!("    {DIM}→ {called}{DIM:#}\n    {DIM}← {ended}{DIM:#}\n");
            text.push_str(&self.width.sentences(&lines));
        }
        for decided in &execution.permissions {
            let line = format!("    {DIM}· {}{DIM:#}\n", decision_line(decided));
            text.push_str(&self.width.sentences(&line));
        }
        for attempt in &execution.attempts {
            let number = attempt.attempt;
            match &attempt.end {
                AttemptEnd::Failed { failure, pause, stderr } => {
                    let kind = kind_of(failure.kind);
                    let error = self.on_one_line(&failure.error);
                    let pause = duration(*pause);
                    text.push_str(&self.width.sentences(&format!(
                        "    {CAUTION}attempt {number} failed{CAUTION:#} ({kind}): {error}; again after {pause}\n"
                    )));
                    if self.whole && !stderr.trim().is_empty() {
                        text.push_str(&as_written(stderr.trim_end()));
                    }
                    self.has_cut |= !self.whole && !failure.error.contains(stderr.trim());
                }
                AttemptEnd::Lost => text.push_str(&format!(
                    "    {CAUTION}attempt {number} was lost{CAUTION:#}: the process ended before it finished\n"
                )),
                AttemptEnd::Stopped => text.push_str(&format!("    {DIM}attempt {number} was stopped{DIM:#}\n")),
                AttemptEnd::UnderWay | AttemptEnd::Final | AttemptEnd::Asked => {}
            }
        }
        text
    }

    /// The agents that did not run in the turn, and its warnings.
    fn closed(&mut self, turn: &Turn) -> String {
        let ran: Vec<Arc<str>> = turn.executions.iter().map(|one| one.agent.clone()).collect();
        let lines = self.reasons.lines(&turn.waiting, &ran, self.whole);
        self.has_cut |= lines.has_cut;
        let mut text = lines.text;
        for warning in &turn.warnings {
            text.push_str(&format!("  {CAUTION}warning{CAUTION:#}: {}\n", hanging(warning)));
        }
        self.width.sentences(&text)
    }

    fn interrupted(&self, cause: &Interruption, record: &Record, story: &Story) -> String {
        let open = story.latest_turn().filter(|turn| turn.finished_at.is_none());
        let stopped = open.map(stopped).unwrap_or_default();
        let cause = words(cause);
        format!("{stopped}\n{NAME}{cause}{NAME:#} {DIM}{}{DIM:#}\n", time(record))
    }

    fn ended(&mut self, ended: &RunEnded, story: &Story) -> String {
        let mut text = String::new();
        if let Some(turn) = story.latest_turn().filter(|turn| turn.finished_at.is_none()) {
            text.push_str(&self.closed(turn));
        }
        let reason = ended.completion_reason;
        let (style, mark) = mark(reason);
        let mut line = format!("\n{style}{mark} {reason}{style:#}");
        // The questions are shown above.
        let detail = ended
            .detail
            .as_ref()
            .filter(|_| reason != CompletionReason::WaitingForInput);
        if let Some(detail) = detail {
            line.push_str(&format!(": {}", hanging(detail)));
        }
        line.push('\n');
        text.push_str(&self.width.sentences(&line));
        // An agent that has not run yet may run when the run continues.
        let tells_all = self.whole || !reason.is_resumable();
        let not_run = ended.not_run.iter().filter(|_| tells_all);
        for one in not_run {
            let sentence = self.on_one_line(&one.sentence());
            let line = format!("  {DIM}{sentence}{DIM:#}\n");
            text.push_str(&self.width.sentences(&line));
        }
        text + self.totals(story).as_str()
    }

    fn totals(&self, story: &Story) -> String {
        let mut text = format!("  {}\n", totals(story).join("\n  "));
        for (what, told) in story.started().map(stood_in).unwrap_or_default() {
            text.push_str(&format!("  {CAUTION}{what}{CAUTION:#}: {told}\n"));
        }
        self.width.sentences(&text)
    }

    /// A value on one line.
    fn value(&mut self, value: &serde_json::Value) -> String {
        let shown = value_text(value, self.whole);
        self.has_cut |= !self.whole && shown != value_text(value, true);
        shown
    }

    /// The first lines.
    fn shortened(&mut self, text: &str) -> String {
        let lines = text.lines().count();
        if self.whole || lines <= LINES + 1 {
            return text.to_owned();
        }
        self.has_cut = true;
        let first: Vec<&str> = text.lines().take(LINES).collect();
        format!("{}\n{DIM}… {} more lines (-v){DIM:#}", first.join("\n"), lines - LINES)
    }

    /// Shortened, without line breaks.
    fn on_one_line(&mut self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ");
        if self.whole {
            return line;
        }
        let short = values::shortened(&line);
        self.has_cut |= short != line;
        short
    }

    fn question(&self, asked: &InputRequested) -> String {
        let address = asked.pending_request().address;
        let mut text = format!(
            "  {CAUTION}?{CAUTION:#} {NAME}{address}{NAME:#} is waiting for an answer\n{}",
            self.block(&asked.question.prompt)
        );
        for choice in &asked.question.choices {
            text.push_str(&self.width.sentences(&format!("    · {choice}\n")));
        }
        text
    }
}
