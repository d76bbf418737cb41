//! Edits that are meant in the graph of an ensemble, as splices of its text: agents and dependencies are added, changed and
//! removed.
//!
//! What an edit must come to is computed on the value of the text first (`wish`); then the text is changed step by step
//! (`splice`). **Invariant:** the new text is YAML with exactly the value that was wished for, and with all comments of the
//! old one in their order; otherwise there is no edit.

mod comments;
mod sketch;
mod splice;
#[cfg(test)]
mod tests;
mod wish;
mod yaml;

use serde::Deserialize;
use serde_json::Value;

use crate::fix::{Applicability, Edit, Fix};
use crate::loader::{self, Document, json};
use crate::source::{Source, Span};

pub use sketch::{SketchedAgent, SketchedDependency, sketch};

/// An edit of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Adds an agent behind the last one.
    AddAgent {
        /// Its name.
        name: String,
        /// The key that says what it is: `script`, `model`, `model_profile`, `input`, `ensemble`, `acp` or `tool`.
        kind: String,
        /// The value of that key; of `input`, the question.
        value: String,
        /// The prompt, for models, ensembles and external programs.
        #[serde(default)]
        prompt: Option<String>,
        /// The agents to which it listens.
        #[serde(default)]
        listens_to: Vec<String>,
    },
    /// Removes an agent, and the dependencies and limits that name it.
    RemoveAgent {
        /// Its name.
        agent: String,
    },
    /// Makes an agent listen to another one.
    Connect {
        /// The agent that listens.
        agent: String,
        /// The agent to which it listens.
        to: String,
        /// The condition of the dependency.
        #[serde(default)]
        condition: Option<String>,
        /// Whether the dependency closes a loop.
        #[serde(default)]
        feedback: bool,
    },
    /// Sets or removes the condition of a dependency.
    SetCondition {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, from 0: those of `depends_on` first, then those of `dependencies`.
        at: usize,
        /// The agent to which it listens.
        to: String,
        /// The condition; `None`: it is removed.
        condition: Option<String>,
    },
    /// Sets a key of a dependency, or removes it where the value is what holds without it.
    SetKey {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, as for a condition.
        at: usize,
        /// The agent to which it listens.
        to: String,
        /// `feedback`, `on`, `wait_for` or `max_executions`.
        key: String,
        /// The value; of `max_executions`, `null` means no limit.
        value: Value,
    },
    /// Removes a dependency.
    Disconnect {
        /// The agent that listens.
        agent: String,
        /// The number of the dependency, as for a condition.
        at: usize,
        /// The agent to which it listens.
        to: String,
    },
}

/// The splice of the text that does what the command says.
///
/// # Errors
/// It cannot be done; the message says why.
pub fn edit(source: &Source, command: &Command) -> Result<Fix, String> {
    let document = outline(source)?;
    let before = value(&document)?;
    let wish = wish::of(command, &before)?;
    let mut now = source.clone();
    for step in &wish.steps {
        let document = outline(&now).map_err(|_| stuck(&wish.title))?;
        let text = splice::performed(&now, &document, step).ok_or_else(|| stuck(&wish.title))?;
        now = Source::new(source.name(), text);
    }
    let after = outline(&now).map_err(|_| stuck(&wish.title))?;
    let is_as_wished = value(&after).is_ok_and(|after| after == wish.after);
    if !is_as_wished || comments::of(&document) != comments::of(&after) {
        return Err(stuck(&wish.title));
    }
    Ok(fix(source, now.text(), wish.title))
}

/// The text after the edits of a fix.
pub fn applied(text: &str, fix: &Fix) -> String {
    crate::fix::apply(text, [fix]).0
}

/// The fix that undoes a fix of this text.
pub fn inverse(text: &str, fix: &Fix) -> Fix {
    let mut moved = 0_isize;
    let edits = fix.edits.iter().map(|edit| {
        let start = edit.span.start.saturating_add_signed(moved);
        moved += edit.replacement.len().cast_signed() - (edit.span.end - edit.span.start).cast_signed();
        Edit {
            file: edit.file.clone(),
            span: Span::new(start, start + edit.replacement.len()),
            replacement: text[edit.span.start..edit.span.end].to_owned(),
        }
    });
    Fix {
        title: format!("undo: {}", fix.title),
        applicability: fix.applicability,
        edits: edits.collect(),
    }
}

fn outline(source: &Source) -> Result<Document, String> {
    loader::outline(source).map_err(|findings| match findings.first() {
        Some(finding) => {
            let line = source.place(finding.span.start).line;
            format!(
                "the text cannot be changed from the graph while it is not YAML: line {line}: {}",
                finding.message
            )
        }
        None => "the text cannot be changed from the graph while it is not YAML".to_owned(),
    })
}

fn value(document: &Document) -> Result<Value, String> {
    json(document.root())
        .ok_or_else(|| "the text has a number that is none, so it cannot be changed from the graph".to_owned())
}

fn stuck(title: &str) -> String {
    format!(
        "cannot {title} without changing something else or losing a comment, because of the way in which it is written (an alias, a merge, or brackets); change the \
         text"
    )
}

/// The difference of two texts as one splice.
fn fix(source: &Source, after: &str, title: String) -> Fix {
    let before = source.text();
    let start = common(before.bytes(), after.bytes());
    let start = before.floor_char_boundary(start).min(after.floor_char_boundary(start));
    let end = common(before[start..].bytes().rev(), after[start..].bytes().rev());
    let mut end = before.len() - end;
    while !before.is_char_boundary(end) || !after.is_char_boundary(after.len() - (before.len() - end)) {
        end += 1;
    }
    Fix {
        title,
        applicability: Applicability::Safe,
        edits: vec![Edit {
            file: source.name().into(),
            span: Span::new(start, end),
            replacement: after[start..after.len() - (before.len() - end)].to_owned(),
        }],
    }
}

fn common(one: impl Iterator<Item = u8>, other: impl Iterator<Item = u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}
