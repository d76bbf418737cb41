//! The text of a run for users, rendered record by record, for a recorded or a running run.

use std::collections::HashMap;
use std::sync::Arc;

use super::next_commands::{quote_for_shell, suggest_next_commands};
use super::shared_lines::{
    OUTPUT_INDENT, describe_interruption, format_context_values, format_local_time, outcome_mark,
    render_answered_question, render_decision, render_inner_answers, render_permission_question, render_running_agents,
    render_stderr, render_stopped_agents, totals_lines,
};
use crate::report::console::{is_call_long, render_call_line, render_result_line};
use crate::report::context_window;
use crate::report::format::{
    BAD, CAUTION, DIM, GOOD, NAME, TURN, failure_kind_word, format_count, format_duration, render_failure_heading,
    render_retried_attempt, render_token_sum,
};
use crate::report::parts::{PartsSummary, list_part_warnings, without_part_keys};
use crate::report::reasons::ShownReasons;
use crate::report::replacements::describe_replacements;
use crate::report::values::{self, render_output, render_value};
use crate::report::wrap::{LineWidth, indent_later_lines};
use ensemble_core::conversation::{CompletionReason, RunStarted};
use ensemble_core::conversation::{Event, ExecutionEnd, ExecutionFinished, Record, RunEnded, RunInterruption};
use ensemble_core::operator::escape_hidden;
use ensemble_core::request::PendingRequest;
use ensemble_history::DriverProcess;
use ensemble_history::story::{RunStory, StoryAttemptEnd, StoryExecution, StoryTurn};
use ensemble_language::data::ModelUsage;

/// The number of lines of an output that are shown by default.
const MAX_OUTPUT_LINES: usize = 8;

/// A printer that renders a recorded run for users, one record at a time.
#[derive(Debug, Default)]
pub struct StoryPrinter {
    /// True if nothing is shortened or left out.
    whole: bool,
    /// The kinds of the agents: `llm`, `script`, …
    pub kinds: HashMap<Arc<str>, &'static str>,
    /// The name of the run on the command line. `None` means the id of the run.
    pub given_name: Option<String>,
    /// The maximum length of lines.
    pub width: LineWidth,
    /// True if the run can be in progress, so that the running agents are named as well.
    live: bool,
    /// The reasons why agents did not run.
    reasons: ShownReasons,
    /// True if a text was shortened.
    has_cut: bool,
    /// The numbers of answers inside executions that were shown, by agent and execution.
    shown_answers: HashMap<(Arc<str>, u32), usize>,
}

impl StoryPrinter {
    /// Creates a printer. With `whole`, nothing is shortened. With `live`, the footer names the running agents.
    pub fn new(whole: bool, live: bool) -> Self {
        Self {
            whole,
            live,
            ..Self::default()
        }
    }

    /// Renders the text for the record. `story` already contains the record.
    pub fn render_record(&mut self, record: &Record, story: &RunStory) -> String {
        match &record.event {
            Event::RunStarted(started) => self.render_run_start(started, record),
            Event::RunResumed(_) => {
                let when = format_local_time(record);
                format!("\n{NAME}resumed{NAME:#} {DIM}{when}{DIM:#}\n")
            }
            Event::MessageAdded(message) => format!("\n{NAME}you{NAME:#}\n{}", self.indent_and_wrap(&message.text)),
            Event::ContextSet(context) => {
                self.has_cut |=
                    !self.whole && format_context_values(context, true) != format_context_values(context, false);
                let context_text = format_context_values(context, self.whole);
                self.width
                    .wrap_sentences(&format!("\n{DIM}given: {context_text}{DIM:#}\n"))
            }
            Event::TurnStarted(turn) => {
                let mut text = format!("\n{TURN}turn {}{TURN:#}\n", turn.turn);
                if self.live {
                    let names: Vec<&str> = turn.starts.iter().map(|start| &*start.agent).collect();
                    text.push_str(&format!("  {DIM}running: {}{DIM:#}\n", names.join(", ")));
                }
                self.width.wrap_sentences(&text)
            }
            Event::AttemptFailed(failed) if self.live => {
                let lines = render_retried_attempt(failed, self.whole);
                self.has_cut |= lines.has_cut;
                self.width.wrap_sentences(&lines.text)
            }
            Event::ExecutionFinished(finished) => self.render_execution_end(finished, story),
            Event::TurnFinished(_) => match story.latest_turn() {
                Some(turn) => self.render_turn_end(turn),
                None => String::new(),
            },
            Event::Interrupted(cause) => self.render_interruption(cause, record, story),
            Event::RunEnded(ended) => {
                let text = self.render_open_requests(story);
                let executions = story.latest_turn().into_iter().flat_map(|turn| &turn.executions);
                let waiting = executions.filter(|execution| !execution.open_requests.is_empty());
                waiting.for_each(|execution| self.mark_answers_shown(execution));
                text + &*self.render_run_end(ended, story)
            }
            _ => String::new(),
        }
    }

    /// Renders the text after the last record of a run that has no end or can continue.
    pub fn render_footer(&self, story: &RunStory, driver: DriverProcess) -> String {
        let mut text = String::new();
        if story.end_event().is_none() {
            text.push_str(&self.render_open_requests(story));
            let open = story.latest_turn().filter(|turn| turn.finished_at.is_none());
            if let Some(turn) = open {
                text.push_str(&render_running_agents(turn, driver));
            }
            let state = story.history.run_state(driver);
            text.push_str(&self.width.wrap_sentences(&match driver {
                DriverProcess::Process(pid) => format!("\n{CAUTION}… {state}{CAUTION:#} in process {pid}\n"),
                DriverProcess::NoProcess => {
                    format!(
                        "\n{BAD}✗ {state}{BAD:#}: the process of the run has ended; unfinished executions are lost\n"
                    )
                }
            }));
            text.push_str(&self.render_totals(story));
        }
        for line in suggest_next_commands(story, driver) {
            text.push_str(&format!("  {}: {NAME}{}{NAME:#}\n", line.purpose, line.command));
        }
        let id = story.start_event().map(|started| &*started.run_id);
        let run = self.given_name.as_deref().or(id).filter(|run| !run.is_empty());
        if let Some(run) = run.filter(|_| self.has_cut) {
            let run = quote_for_shell(run);
            text.push_str(&format!(
                "  {DIM}shortened; show everything with: ensemble runs show {run} -v{DIM:#}\n"
            ));
        }
        text
    }

    /// Indents and wraps a text.
    fn indent_and_wrap(&self, text: &str) -> String {
        self.width.wrap_block(text, OUTPUT_INDENT)
    }

    /// Renders the heading of the run, its input and its context.
    fn render_run_start(&mut self, started: &RunStarted, record: &Record) -> String {
        let agents = format_count(self.kinds.len() as u64, "agent");
        let file = &started.ensemble_file;
        let mut text = self.width.wrap_sentences(&format!(
            "{NAME}{}{NAME:#} {DIM}· {agents} · run {} · {} · {file}{DIM:#}\n",
            started.ensemble,
            started.run_id,
            format_local_time(record),
        ));
        if let Some(origin) = &started.forked_from {
            let (label, runs) = origin.describe_origin();
            text.push_str(&format!("  {label} {runs}\n"));
        }
        if !started.input.is_empty() {
            let input = self.shorten_lines(&started.input);
            text.push_str(&format!("\n{NAME}input{NAME:#}\n{}", self.indent_and_wrap(&input)));
        }
        if !started.context.is_empty() {
            text.push_str(&format!("\n{NAME}given{NAME:#}\n"));
        }
        for (key, value) in started.context.iter() {
            let value = self.render_value_on_line(value);
            text.push_str(&self.indent_and_wrap(&format!("{DIM}{key}:{DIM:#} {value}\n")));
        }
        text
    }

    /// Renders a finished execution with its output or failure.
    fn render_execution_end(&mut self, finished: &ExecutionFinished, story: &RunStory) -> String {
        let turn = story.latest_turn();
        let execution = turn.and_then(|turn| turn.executions.iter().find(|one| one.agent == finished.agent));
        let mut text = self.execution_title(finished, execution.and_then(StoryExecution::total_usage));
        if let Some(execution) = execution {
            let lines = self.render_execution_circumstances(execution);
            text.push_str(&lines);
        }
        let parts = execution.and_then(|execution| PartsSummary::from_events(&execution.parts));
        if let Some(parts) = &parts {
            let lines = parts.render_part_lines(self.whole);
            self.has_cut |= lines.has_cut;
            text.push_str(&self.indent_and_wrap(&format!(
                "{DIM}{}{DIM:#}\n{}",
                parts.render_part_counts(true),
                lines.text
            )));
        } else {
            self.has_cut |= !self.whole
                && finished
                    .output()
                    .is_some_and(|output| values::has_shortened_keys(output));
        }
        match &finished.end {
            ExecutionEnd::Failed(failure) => {
                let failure_text = render_failure_heading(failure, finished.attempt);
                let message = format!("{failure_text}: {}", failure.error.trim_end());
                text.push_str(&self.indent_and_wrap(&message));
                self.has_cut |= !self.whole && !failure.error.contains(finished.stderr.trim());
            }
            ExecutionEnd::Succeeded(output) => {
                let output_text = match parts {
                    Some(_) => render_output(&without_part_keys(output), self.whole),
                    None => render_output(output, self.whole),
                };
                let output_text = self.shorten_lines(&output_text);
                text.push_str(&self.indent_and_wrap(&output_text));
            }
        }
        let stderr = finished.stderr.trim_end();
        if !stderr.is_empty() && self.whole {
            text.push_str(&render_stderr(stderr));
        }
        for sandbox in finished.sandboxes.iter().filter(|_| self.whole) {
            let line = format!("{:OUTPUT_INDENT$}{DIM}sandbox: {sandbox}{DIM:#}\n", "");
            text.push_str(&self.width.wrap_sentences(&line));
        }
        if let Some(line) = context_window::dropped_messages_line(finished) {
            let line = format!("{:OUTPUT_INDENT$}{DIM}{line}{DIM:#}\n", "");
            text.push_str(&self.width.wrap_sentences(&line));
        }
        let parts = execution
            .map(|execution| execution.parts.as_slice())
            .unwrap_or_default();
        for warning in list_part_warnings(parts)
            .into_iter()
            .chain(finished.warnings.iter().cloned())
        {
            let warning = warning.as_str();
            let line = format!("    {CAUTION}warning{CAUTION:#}: {}\n", indent_later_lines(warning));
            text.push_str(&self.width.wrap_sentences(&line));
        }
        text
    }

    /// Renders the first line of an execution, with the usage of all its attempts.
    fn execution_title(&self, finished: &ExecutionFinished, usage: Option<ModelUsage>) -> String {
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
            false => format_duration(finished.execution_time),
        }];
        if let Some(kind) = self.kinds.get(&finished.agent) {
            about.insert(0, (*kind).to_owned());
        }
        about.extend(usage.as_ref().and_then(render_token_sum));
        if let Some(answer) = &finished.answer {
            about.push(escape_hidden(&answer.describe_authorship()).to_string());
        }
        format!(
            "  {style}{mark}{style:#} {NAME}{}{NAME:#}{again} {DIM}{}{DIM:#}\n",
            finished.agent,
            about.join(" · ")
        )
    }

    /// Renders the request, the read outputs, and the failed attempts of an execution.
    fn render_execution_circumstances(&mut self, execution: &StoryExecution) -> String {
        let mut text = String::new();
        if let Some(request) = &execution.request {
            let from = &request.from;
            let parameters = self.render_value_on_line(&request.parameters);
            let line = format!("    {DIM}requested by {from}: {parameters}{DIM:#}\n");
            text.push_str(&self.width.wrap_sentences(&line));
        }
        if self.whole && !execution.reads.is_empty() {
            let reads: Vec<String> = execution
                .reads
                .iter()
                .map(|(agent, execution)| format!("{agent} #{execution}"))
                .collect();
            let line = format!("    {DIM}read {}{DIM:#}\n", reads.join(", "));
            text.push_str(&self.width.wrap_sentences(&line));
        }
        if let Some(first_request) = execution.first_request.as_ref().filter(|_| self.whole) {
            for file in &first_request.attachments {
                let (name, kind) = (
                    self.render_value_on_line(&file["name"]),
                    self.render_value_on_line(&file["mime_type"]),
                );
                let line = format!("    {DIM}attached: {name} ({kind}, {} bytes){DIM:#}\n", file["size"]);
                text.push_str(&self.width.wrap_sentences(&line));
            }
            let system = first_request.system.as_ref().map(|text| ("system", text));
            for (label, said) in system.into_iter().chain([("prompt", &first_request.prompt)]) {
                text.push_str(&self.indent_and_wrap(&format!("{DIM}{label}:{DIM:#} {}", said.trim_end())));
            }
        }
        if let Some(question) = render_answered_question(execution) {
            let line = format!("    {DIM}{}{DIM:#}\n", escape_hidden(&question));
            text.push_str(&self.width.wrap_sentences(&line));
        }
        for (number, call) in execution.tool_calls.iter().enumerate() {
            let beside = execution.beside_calls.iter().filter(|(before, _)| *before == number);
            for (_, said) in beside.filter(|_| self.whole) {
                text.push_str(&self.indent_and_wrap(said.trim_end()));
            }
            self.has_cut |= !self.whole && is_call_long(call);
            let (called, ended) = (render_call_line(call, self.whole), render_result_line(call, self.whole));
            let lines = format!("    {DIM}→ {called}{DIM:#}\n    {DIM}← {ended}{DIM:#}\n");
            text.push_str(&self.width.wrap_sentences(&lines));
        }
        text.push_str(&self.render_new_answers(execution, "    "));
        self.mark_answers_shown(execution);
        for decided in &execution.permissions {
            let line = format!("    {DIM}· {}{DIM:#}\n", render_decision(decided));
            text.push_str(&self.width.wrap_sentences(&line));
            if let Some(question) = render_permission_question(decided).filter(|_| self.whole) {
                text.push_str(&self.indent_and_wrap(&format!("{DIM}{question}{DIM:#}")));
            }
        }
        for attempt in &execution.attempts {
            let number = attempt.attempt;
            match &attempt.end {
                StoryAttemptEnd::Failed { failure, pause, stderr } => {
                    let kind = failure_kind_word(failure.kind);
                    let error = self.shorten_to_line(&failure.error);
                    let pause = format_duration(*pause);
                    text.push_str(&self.width.wrap_sentences(&format!(
                        "    {CAUTION}attempt {number} failed{CAUTION:#} ({kind}): {error}; again after {pause}\n"
                    )));
                    if self.whole && !stderr.trim().is_empty() {
                        text.push_str(&render_stderr(stderr.trim_end()));
                    }
                    self.has_cut |= !self.whole && !failure.error.contains(stderr.trim());
                }
                StoryAttemptEnd::ProcessLost => text.push_str(&format!(
                    "    {CAUTION}attempt {number} was lost{CAUTION:#}: the process ended before it finished\n"
                )),
                StoryAttemptEnd::Stopped => text.push_str(&format!("    {DIM}attempt {number} was stopped{DIM:#}\n")),
                StoryAttemptEnd::InProgress | StoryAttemptEnd::Final | StoryAttemptEnd::AskedQuestion => {}
            }
        }
        text
    }

    /// Renders the agents that did not run in the turn, and its warnings.
    fn render_turn_end(&mut self, turn: &StoryTurn) -> String {
        let ran: Vec<Arc<str>> = turn.executions.iter().map(|one| one.agent.clone()).collect();
        let lines = self.reasons.render_new_reasons(&turn.skipped_agents, &ran, self.whole);
        self.has_cut |= lines.has_cut;
        let mut text = lines.text;
        for warning in &turn.warnings {
            text.push_str(&format!(
                "  {CAUTION}warning{CAUTION:#}: {}\n",
                indent_later_lines(warning)
            ));
        }
        self.width.wrap_sentences(&text)
    }

    /// Renders an interruption and the agents that it stopped.
    fn render_interruption(&self, cause: &RunInterruption, record: &Record, story: &RunStory) -> String {
        let open = story.latest_turn().filter(|turn| turn.finished_at.is_none());
        let stopped = open.map(render_stopped_agents).unwrap_or_default();
        let cause = describe_interruption(cause);
        format!(
            "{stopped}\n{NAME}{cause}{NAME:#} {DIM}{}{DIM:#}\n",
            format_local_time(record)
        )
    }

    /// Renders the outcome, the agents that never ran, and the totals.
    fn render_run_end(&mut self, ended: &RunEnded, story: &RunStory) -> String {
        let mut text = String::new();
        if let Some(turn) = story.latest_turn().filter(|turn| turn.finished_at.is_none()) {
            text.push_str(&self.render_turn_end(turn));
        }
        let reason = ended.completion_reason;
        let (style, mark) = outcome_mark(ended);
        // The failure is shown above.
        let (sentence, outcome_end) = ended.to_sentence_without_error();
        let (outcome, details) = sentence.split_at(outcome_end);
        let mut line = format!("\n{style}{mark} {outcome}{style:#}");
        // The questions are shown above.
        if reason != CompletionReason::WaitingForInput {
            line.push_str(&indent_later_lines(details));
        }
        line.push('\n');
        text.push_str(&self.width.wrap_sentences(&line));
        // An agent that has not run yet may run when the run continues.
        let tells_all = self.whole || !reason.is_resumable();
        let not_run = ended.not_run.iter().filter(|_| tells_all);
        for not_run_agent in not_run {
            let sentence = self.shorten_to_line(&not_run_agent.to_sentence());
            let line = format!("  {DIM}{sentence}{DIM:#}\n");
            text.push_str(&self.width.wrap_sentences(&line));
        }
        text + self.render_totals(story).as_str()
    }

    /// Renders the totals of the run and its replacements.
    fn render_totals(&self, story: &RunStory) -> String {
        let mut text = format!("  {}\n", totals_lines(story).join("\n  "));
        if let Some(budget) = story.budget_status() {
            text.push_str(&format!("  budget: {budget}{}\n", budget.scope_words()));
        }
        for (what, told) in story.start_event().map(describe_replacements).unwrap_or_default() {
            text.push_str(&format!("  {CAUTION}{what}{CAUTION:#}: {told}\n"));
        }
        self.width.wrap_sentences(&text)
    }

    /// Renders a value on one line. Records whether the value was shortened.
    fn render_value_on_line(&mut self, value: &serde_json::Value) -> String {
        let value_text = render_value(value, self.whole);
        self.has_cut |= !self.whole && value_text != render_value(value, true);
        value_text
    }

    /// Returns the first lines of the text. Records whether lines were left out.
    fn shorten_lines(&mut self, text: &str) -> String {
        let lines = text.lines().count();
        if self.whole || lines <= MAX_OUTPUT_LINES + 1 {
            return text.to_owned();
        }
        self.has_cut = true;
        let first: Vec<&str> = text.lines().take(MAX_OUTPUT_LINES).collect();
        format!(
            "{}\n{DIM}… {} more lines (-v){DIM:#}",
            first.join("\n"),
            lines - MAX_OUTPUT_LINES
        )
    }

    /// Returns the text on one line, shortened. Records whether the text was shortened.
    fn shorten_to_line(&mut self, text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ");
        if self.whole {
            return line;
        }
        let short = values::shorten_text(&line);
        self.has_cut |= short != line;
        short
    }

    /// Renders the open requests of the latest turn in the order of the file, with the answers that were given inside their
    /// executions. The records have the requests in the order in which they were asked.
    fn render_open_requests(&self, story: &RunStory) -> String {
        let executions = story.latest_turn().into_iter().flat_map(|turn| &turn.executions);
        let waiting = executions.filter(|execution| !execution.open_requests.is_empty());
        let mut text = String::new();
        for execution in waiting {
            text.push_str(&self.render_new_answers(execution, "  "));
            let requests = execution.open_requests.iter();
            text.extend(requests.map(|request| self.render_open_request(request)));
        }
        text
    }

    /// Renders the answers inside the execution that were not shown yet.
    fn render_new_answers(&self, execution: &StoryExecution, indent: &str) -> String {
        let key = (execution.agent.clone(), execution.execution);
        let shown = self.shown_answers.get(&key).copied().unwrap_or_default();
        let new_answers = render_inner_answers(execution).into_iter().skip(shown);
        new_answers
            .map(|answer| {
                let line = format!("{indent}{DIM}· {answer}{DIM:#}\n");
                self.width.wrap_sentences(&line)
            })
            .collect()
    }

    fn mark_answers_shown(&mut self, execution: &StoryExecution) {
        let key = (execution.agent.clone(), execution.execution);
        self.shown_answers.insert(key, execution.answers.len());
    }

    /// Renders an open request with its choices.
    fn render_open_request(&self, request: &PendingRequest) -> String {
        let mut text = format!(
            "  {CAUTION}?{CAUTION:#} {NAME}{}{NAME:#} is waiting for an answer\n{}",
            request.address,
            self.indent_and_wrap(&request.question.prompt)
        );
        for choice in &request.question.choices {
            text.push_str(&self.width.wrap_sentences(&format!("    · {choice}\n")));
        }
        text
    }
}
