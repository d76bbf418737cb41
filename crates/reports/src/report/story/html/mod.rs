//! A run as one HTML page without other files: no script, and no external picture, style or font.

mod exchanges;
mod markup;
mod timeline;
mod turns;

use std::sync::Arc;

use super::lines::totals;
use super::next::next;
use crate::report::stood_in::stood_in;
use ensemble_core::conversation::CompletionReason;
use ensemble_history::story::{Execution, ModelExchange, Story};
use ensemble_history::{Driver, RunState};
use ensemble_language::data::Context;
use markup::{block, escaped};

const STYLE: &str = include_str!("style.css");

/// The data of a document.
#[derive(Debug, Clone, Copy)]
pub struct Exported<'a> {
    /// The events of the run.
    pub story: &'a Story,
    /// The agents and their kinds, in declaration order.
    pub agents: &'a [(Arc<str>, &'static str)],
    /// The last context.
    pub context: &'a Context,
    /// The messages between its agents and their models.
    pub exchanges: &'a [ModelExchange],
    /// The process that executes the run.
    pub driver: Driver,
    /// The graph in the format of the document.
    pub graph: &'a str,
}

impl Exported<'_> {
    /// The kind of the agent.
    pub fn kind(&self, agent: &str) -> Option<&'static str> {
        let found = self.agents.iter().find(|(name, _)| **name == *agent);
        found.map(|(_, kind)| *kind)
    }

    /// The messages between the agent and its models in this execution.
    pub(super) fn exchanges_of(&self, turn: u32, execution: &Execution) -> Vec<&ModelExchange> {
        let is_its = |exchange: &&ModelExchange| {
            let within = &exchange.within;
            (within.turn, within.execution, &within.agent) == (turn, execution.execution, &execution.agent)
        };
        self.exchanges.iter().filter(is_its).collect()
    }

    /// Returns the state of the run in words, and its colour.
    pub fn outcome(&self) -> (String, &'static str) {
        let state = self.story.history.state(self.driver);
        match (state, self.driver) {
            (RunState::Running, Driver::Process(process)) => (format!("{state} (process {process})"), "open"),
            (RunState::Running | RunState::Waiting, _) => (state.to_string(), "open"),
            (RunState::Interrupted, _) => (format!("{state}: its process has ended"), "failed"),
            (RunState::Ended(CompletionReason::Completed), _) => (state.to_string(), "good"),
            (RunState::Ended(reason), _) if reason.is_limit() || reason.is_resumable() => (state.to_string(), "open"),
            (RunState::Ended(_), _) => (state.to_string(), "failed"),
        }
    }
}

/// The anchor of the execution in the page.
fn anchor(turn: u32, execution: &Execution) -> String {
    format!("turn-{turn}-{}", escaped(&execution.agent))
}

/// Writes the page.
pub fn html(run: &Exported) -> String {
    let started = run.story.started();
    let name = started.map_or("", |started| &*started.ensemble);
    let id = started.map_or("", |started| &*started.run_id);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{} · {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escaped(name),
        escaped(id),
    );
    text.push_str(&head(run, name));
    text.push_str(&section("Graph", &format!("<figure>{}</figure>\n", run.graph)));
    text.push_str(&section("Timeline", &timeline::timeline(run)));
    text.push_str(&section("What happened", &turns::events(run)));
    if !run.story.warnings.is_empty() {
        let warnings = run.story.warnings.iter();
        let lines: String = warnings
            .map(|warning| format!("<p class=\"warning\">{}</p>\n", escaped(warning)))
            .collect();
        text.push_str(&section("Warnings", &lines));
    }
    text.push_str(&section("Context at the end", &context(run.context)));
    text + "</main>\n</body>\n</html>\n"
}

fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

/// The name, the outcome, and the numbers.
fn head(run: &Exported, name: &str) -> String {
    let story = run.story;
    let (outcome, class) = run.outcome();
    let mut text = format!(
        "<header>\n<h1>{} <span class=\"outcome {class}\">{}</span></h1>\n",
        escaped(name),
        escaped(&outcome)
    );
    if let Some(detail) = story.ended().and_then(|ended| ended.detail.as_ref()) {
        text.push_str(&block(detail, "text detail"));
    }
    text.push_str("<dl class=\"facts\">\n");
    for (label, fact) in facts(run) {
        text.push_str(&format!("<div><dt>{label}</dt><dd>{}</dd></div>\n", escaped(&fact)));
    }
    text.push_str("</dl>\n");
    if let Some(input) = story
        .started()
        .map(|started| &started.input)
        .filter(|input| !input.is_empty())
    {
        text.push_str(&format!("<p class=\"label\">input</p>\n{}", block(input, "text")));
    }
    let given = story.started().map(|started| &started.context);
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        text.push_str(&format!("<p class=\"label\">given</p>\n{}", context(given)));
    }
    // An agent that has not run yet may run when the run continues.
    let ended = story.ended().filter(|ended| !ended.completion_reason.is_resumable());
    if let Some(ended) = ended.filter(|ended| !ended.not_run.is_empty()) {
        text.push_str("<ul class=\"idle\">\n");
        for one in &ended.not_run {
            text.push_str(&format!(
                "<li><b>{}</b> never ran: {}</li>\n",
                escaped(&one.agent),
                escaped(&one.reason)
            ));
        }
        text.push_str("</ul>\n");
    }
    for line in next(story, run.driver)
        .iter()
        .filter(|line| line.purpose != "save it as a page")
    {
        text.push_str(&format!(
            "<p class=\"next\">{}: <code>{}</code></p>\n",
            line.purpose,
            escaped(&line.command)
        ));
    }
    text + "</header>\n"
}

/// The entries at the head of a document, by name.
pub(super) fn facts(run: &Exported) -> Vec<(&'static str, String)> {
    let story = run.story;
    let mut facts = Vec::new();
    if let Some(started) = story.started() {
        facts.push(("run", started.run_id.to_string()));
        if let Some(origin) = &started.forked_from {
            facts.push(("forked from", format!("{} after turn {}", origin.run_id, origin.turn)));
        }
    }
    if let Some(begun) = story.history.started_at() {
        facts.push(("begun", begun.format("%Y-%m-%d %H:%M:%S UTC").to_string()));
    }
    let mut totals = totals(story).into_iter();
    facts.extend(totals.next().map(|line| ("took", line)));
    facts.extend(totals.next().map(|line| ("models", line)));
    if let Some(started) = story.started() {
        facts.extend(stood_in(started));
        facts.push(("ensemble", started.ensemble_file.clone()));
        facts.push(("program", format!("ensemble {}", started.program)));
    }
    facts
}

fn context(context: &Context) -> String {
    if context.is_empty() {
        return "<p class=\"label\">empty</p>\n".to_owned();
    }
    let mut text = String::from("<dl>\n");
    for (key, value) in context.iter() {
        text.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(key), turns::value(value)));
    }
    text + "</dl>\n"
}
