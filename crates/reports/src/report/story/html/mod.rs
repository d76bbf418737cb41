//! A run as one HTML page without other files: no script, and no external picture, style or font.

mod exchanges;
mod markup;
mod timeline;
mod turns;

use std::sync::Arc;

use super::next_commands::suggest_next_commands;
use super::shared_lines::{format_utc, totals_lines};
use crate::report::replacements::describe_replacements;
use ensemble_core::conversation::RunEnded;
use ensemble_history::story::{ModelExchange, RunStory, StoryExecution};
use ensemble_history::{DriverProcess, RunState};
use ensemble_language::data::RunContext;
use markup::{escape_html, render_text_block};

/// The CSS of the page.
const PAGE_STYLE: &str = include_str!("style.css");

/// A recorded run with everything that an exported document shows.
#[derive(Debug, Clone, Copy)]
pub struct ExportedRun<'a> {
    /// The events of the run.
    pub story: &'a RunStory,
    /// The agents and their kinds, in declaration order.
    pub agents: &'a [(Arc<str>, &'static str)],
    /// The last context.
    pub context: &'a RunContext,
    /// The messages between its agents and their models.
    pub exchanges: &'a [ModelExchange],
    /// The process that executes the run.
    pub driver: DriverProcess,
    /// The graph in the format of the document.
    pub graph: &'a str,
}

impl ExportedRun<'_> {
    /// Returns the kind of the agent.
    pub fn agent_kind(&self, agent: &str) -> Option<&'static str> {
        let entry = self.agents.iter().find(|(name, _)| **name == *agent);
        entry.map(|(_, kind)| *kind)
    }

    /// Returns the exchanges of an agent with its models in this execution.
    pub(super) fn exchanges_of_execution(&self, turn: u32, execution: &StoryExecution) -> Vec<&ModelExchange> {
        let is_its = |exchange: &&ModelExchange| {
            let within = &exchange.scope;
            (within.turn, within.execution, &within.agent) == (turn, execution.execution, &execution.agent)
        };
        self.exchanges.iter().filter(is_its).collect()
    }

    /// Returns the state of the run as text, and the CSS class of its colour.
    pub fn state_with_color(&self) -> (String, &'static str) {
        let state = self.story.history.run_state(self.driver);
        match (state, self.driver) {
            (RunState::Running, DriverProcess::Process(process)) => (format!("{state} (process {process})"), "open"),
            (RunState::Running | RunState::Waiting, _) => (state.to_string(), "open"),
            (RunState::Interrupted, _) => (format!("{state}: the process of the run has ended"), "failed"),
            (RunState::Ended(_), _) if self.story.end_event().is_some_and(RunEnded::is_success) => {
                (state.to_string(), "good")
            }
            (RunState::Ended(reason), _) if reason.is_resumable() => (state.to_string(), "open"),
            (RunState::Ended(reason), _) if reason.is_limit() => (format!("cut off by {state}"), "failed"),
            (RunState::Ended(_), _) => (state.to_string(), "failed"),
        }
    }
}

/// Returns the anchor of the execution in the page.
fn execution_anchor(turn: u32, execution: &StoryExecution) -> String {
    format!("turn-{turn}-{}", escape_html(&execution.agent))
}

/// Renders the run as an HTML page without scripts or external files.
pub fn render_html(run: &ExportedRun) -> String {
    let started = run.story.start_event();
    let name = started.map_or("", |started| &*started.ensemble);
    let id = started.map_or("", |started| &*started.run_id);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} · {}</title>\n<style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape_html(name),
        escape_html(id),
    );
    text.push_str(&render_page_head(run, name));
    text.push_str(&render_section("Graph", &format!("<figure>{}</figure>\n", run.graph)));
    text.push_str(&render_section("Timeline", &timeline::render_timeline(run)));
    text.push_str(&render_section("What happened", &turns::render_events(run)));
    if !run.story.warnings.is_empty() {
        let warnings = run.story.warnings.iter();
        let lines: String = warnings
            .map(|warning| format!("<p class=\"warning\">{}</p>\n", escape_html(warning)))
            .collect();
        text.push_str(&render_section("Warnings", &lines));
    }
    text.push_str(&render_section("Final context", &render_context(run.context)));
    text + "</main>\n</body>\n</html>\n"
}

/// Renders a section with a title.
fn render_section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

/// Renders the head of the page: the name, the outcome and the totals.
fn render_page_head(run: &ExportedRun, name: &str) -> String {
    let story = run.story;
    let (outcome, class) = run.state_with_color();
    let mut text = format!(
        "<header>\n<h1>{} <span class=\"outcome {class}\">{}</span></h1>\n",
        escape_html(name),
        escape_html(&outcome)
    );
    if let Some(detail) = story.end_event().and_then(|ended| ended.detail.as_ref()) {
        text.push_str(&render_text_block(detail, "text detail"));
    }
    text.push_str("<dl class=\"facts\">\n");
    for (label, fact) in list_header_entries(run) {
        text.push_str(&format!("<div><dt>{label}</dt><dd>{}</dd></div>\n", escape_html(&fact)));
    }
    text.push_str("</dl>\n");
    if let Some(input) = story
        .start_event()
        .map(|started| &started.input)
        .filter(|input| !input.is_empty())
    {
        text.push_str(&format!(
            "<p class=\"label\">input</p>\n{}",
            render_text_block(input, "text")
        ));
    }
    let start_context = story.start_event().map(|started| &started.context);
    if let Some(start_context) = start_context.filter(|given| !given.is_empty()) {
        text.push_str(&format!(
            "<p class=\"label\">given</p>\n{}",
            render_context(start_context)
        ));
    }
    // An agent that has not run yet may run when the run continues.
    let run_end = story
        .end_event()
        .filter(|ended| !ended.completion_reason.is_resumable());
    if let Some(run_end) = run_end.filter(|ended| !ended.not_run.is_empty()) {
        text.push_str("<ul class=\"idle\">\n");
        for idle_agent in &run_end.not_run {
            text.push_str(&format!(
                "<li><b>{}</b> did not run: {}</li>\n",
                escape_html(&idle_agent.agent),
                escape_html(&idle_agent.reason)
            ));
        }
        text.push_str("</ul>\n");
    }
    for line in suggest_next_commands(story, run.driver)
        .iter()
        .filter(|line| line.purpose != "save it as a page")
    {
        text.push_str(&format!(
            "<p class=\"next\">{}: <code>{}</code></p>\n",
            line.purpose,
            escape_html(&line.command)
        ));
    }
    text + "</header>\n"
}

/// Returns the names and values at the head of a document.
pub(super) fn list_header_entries(run: &ExportedRun) -> Vec<(&'static str, String)> {
    let story = run.story;
    let mut facts = Vec::new();
    if let Some(started) = story.start_event() {
        facts.push(("run", started.run_id.to_string()));
        if let Some(origin) = &started.forked_from {
            facts.push(origin.describe_origin());
        }
    }
    if let Some(started_at) = story.history.started_at() {
        facts.push(("begun", format_utc(&started_at)));
    }
    let mut totals = totals_lines(story).into_iter();
    facts.extend(totals.next().map(|line| ("took", line)));
    facts.extend(totals.next().map(|line| ("models", line)));
    if let Some(budget) = story.budget_status() {
        facts.push(("budget", format!("{budget}{}", budget.scope_words())));
    }
    if let Some(started) = story.start_event() {
        facts.extend(describe_replacements(started));
        facts.push(("ensemble", started.ensemble_file.clone()));
        facts.push(("program", format!("ensemble {}", started.program)));
    }
    facts
}

/// Renders the entries of a context.
fn render_context(context: &RunContext) -> String {
    if context.is_empty() {
        return "<p class=\"label\">empty</p>\n".to_owned();
    }
    let mut text = String::from("<dl>\n");
    for (key, value) in context.iter() {
        text.push_str(&format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            escape_html(key),
            turns::render_value(value)
        ));
    }
    text + "</dl>\n"
}
