//! Converts a simple ensemble of llm-orc to this language, and lists the parts that could not be converted.
//!
//! A `draft` of the new file is built key by key from the tree of the old file. Parts without a counterpart become
//! comments. Then the loader and the checks examine the text, and everything that they report as an error becomes a
//! comment too, until there are no errors. **Invariant:** the resulting text has no errors.
//!
//! Ensembles of llm-orc, and in `import/conductor` workflows of Conductor, whose routes become dependencies (`import/conductor/flow.rs`)
//! and whose templates and conditions are translated name by name (`import/conductor/jinja.rs`, `import/conductor/expression.rs`, both over
//! `import/conductor/names.rs`). It drafts the new file key by key and passes the draft to the loader, the checks and the plan. A part that
//! they reject becomes a comment (`import/repair.rs`).

mod advice;
mod agents;
mod comments;
mod conductor;
mod coordinator;
mod dependencies;
mod draft;
mod guard;
mod limits;
mod names;
mod profiles;
#[cfg(test)]
mod random_tests;
mod repair;
mod responses;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod write;

use std::collections::HashSet;

use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::loader;
use ensemble_language::loader::document::{Content, Document, Entry, Node};
use ensemble_language::source::{Source, Span};

use dependencies::Graph;
use draft::{Line, Lost, Map, Remark, Shape};
use names::Names;
use profiles::Profiles;

/// The files around the file that is imported.
pub struct Beside<'a> {
    /// The name for an ensemble without a name: that of the file.
    pub stem: &'a str,
    /// The configurations of llm-orc, the nearest first.
    pub configurations: &'a [Document],
    /// How the new file refers to a script, if the script is found.
    pub script: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a script, if the script is found.
    pub script_text: &'a dyn Fn(&str) -> Option<Source>,
    /// Whether the new file can use this ensemble.
    pub ensemble: &'a dyn Fn(&str) -> bool,
    /// The schema for editors, named in the first line.
    pub schema: Option<&'a str>,
}

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The new file; it has no errors.
    pub text: String,
    /// The parts that were not converted, each with its place and its replacement, in the order of the text.
    pub lost: Vec<Diagnostic>,
}

/// The program that a file was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Ensembles of llm-orc.
    LlmOrc,
    /// Workflows of Microsoft's Conductor.
    Conductor,
}

/// Converts an ensemble of llm-orc or a workflow of Conductor; the error means that the text is neither.
///
/// Without an `origin`, the keys of the text decide.
pub fn import(source: &Source, beside: &Beside<'_>, origin: Option<Origin>) -> Result<Imported, Vec<Diagnostic>> {
    let document = loader::parse(source)?;
    let detected = if conductor::is_workflow(&document) {
        Origin::Conductor
    } else {
        Origin::LlmOrc
    };
    let origin = origin.unwrap_or(detected);
    if origin == Origin::Conductor && detected != origin {
        let help = "a workflow of Conductor has `workflow` with an `entry_point`, and a list of `agents`";
        let message = "this is not a workflow of Conductor";
        return Err(vec![said(source, document.root().span, Severity::Error, message, help)]);
    }
    let agents = document.root().get("agents").and_then(Node::items);
    if agents.is_none_or(<[_]>::is_empty) {
        let span = document
            .root()
            .get("agents")
            .map_or(document.root().span, |node| node.span);
        let help = "an ensemble of llm-orc has a list of `agents`";
        return Err(vec![said(
            source,
            span,
            Severity::Error,
            "this is not an ensemble of llm-orc",
            help,
        )]);
    }
    let names = Names::of(&document);
    let mut task = Task {
        document: &document,
        beside,
        graph: Graph::of(&document, &names),
        names,
        lost: Vec::new(),
        remarks: Vec::new(),
        profiles: Profiles::of(&document, beside.configurations),
        read_scripts: HashSet::new(),
    };
    let mut draft = match origin {
        Origin::LlmOrc => task.ensemble(),
        Origin::Conductor => task.conductor(),
    };
    let mut lost = task.lost;
    let mut remarks = task.remarks;
    let text = repair::repair(&mut draft, &document, beside.schema, &mut lost, &mut remarks)?;
    lost.sort_by_key(|one| (one.source.name() != source.name(), one.span.start));
    Ok(Imported { text, lost })
}

/// The conversion of one file.
struct Task<'a> {
    document: &'a Document,
    beside: &'a Beside<'a>,
    names: Names,
    graph: Graph,
    lost: Vec<Diagnostic>,
    /// Findings that are not in a comment of a key.
    remarks: Vec<Remark>,
    profiles: Profiles<'a>,
    /// The scripts whose text was examined.
    read_scripts: HashSet<String>,
}

/// A finding that does not belong to a rule, so it has no code.
fn said(source: &Source, span: Span, severity: Severity, message: &str, help: &str) -> Diagnostic {
    Diagnostic {
        severity,
        code: Code::NONE,
        message: message.to_owned(),
        source: source.clone(),
        span,
        related: Vec::new(),
        help: Some(help.to_owned()),
        fix: None,
    }
}

impl<'a> Task<'a> {
    fn ensemble(&mut self) -> Map {
        let mut map = Map::default();
        let root: &'a Node = self.document.root();
        let entries = entries(root);
        map.put("name", self.name(root), span_of(entries, "name"));
        let tasks = ["default_task", "task", "default_input"];
        let task = tasks.iter().find(|key| is_text(root.get(key)));
        for entry in entries {
            match &*entry.key {
                "name" | "model_profiles" => {}
                "description" => match entry.value.text() {
                    Some(text) => map.put("description", text.trim_end(), Some(entry.key_span)),
                    None => map.lose(self.lose(entry, "it is not a string", "write a string")),
                },
                key if task == Some(&key) => {
                    let text = entry.value.text().map_or("", |text| text.trim_end());
                    map.put("default_task", text, Some(entry.key_span));
                }
                "agents" => {
                    let agents = self.agents(&entry.value);
                    map.lines
                        .push(Line::entry("agents", Shape::List(agents), Some(entry.key_span)));
                }
                "coordinator" | "synthesis" if self.is_coordinator(&entry.value) => {
                    map.lines.push(Line::Pass(entry.key_span));
                }
                "conversation_limits" => map.entry("conversation_limits", values::draft(&entry.value), entry.key_span),
                key => {
                    let (why, instead) = advice::ensemble(key);
                    map.lose(self.lose(entry, why, instead));
                }
            }
        }
        limits::raise(&mut map, root);
        let profiles = self.take_profiles();
        if !profiles.lines.is_empty() {
            let from = span_of(entries, "model_profiles");
            map.lines
                .push(Line::entry("model_profiles", Shape::Map(profiles), from));
        }
        map
    }

    fn name(&mut self, root: &Node) -> String {
        let given = root.get("name").map(values::text_of).filter(|name| !name.is_empty());
        let name = names::sound(given.as_deref().unwrap_or(self.beside.stem), "ensemble");
        match given {
            Some(given) if given == name => {}
            Some(given) => {
                let span = root.get("name").map_or(root.span, |node| node.span);
                let message = format!("the name `{given}` has become `{name}`");
                self.note(span, &message, names::HELP);
            }
            None => self.note(
                root.span,
                &format!("the ensemble has no name; it is called `{name}`"),
                names::HELP,
            ),
        }
        name
    }

    /// Adds a finding about a place of the file, and a comment in the new file.
    fn note(&mut self, span: Span, message: &str, help: &str) {
        self.remarks.push(Remark::of(span.start, message, help));
        self.tell(span, message, help);
    }

    fn tell(&mut self, span: Span, message: &str, help: &str) {
        let source = self.document.source();
        self.lost.push(said(source, span, Severity::Warning, message, help));
    }

    /// Adds a finding about a place of a file with profiles.
    fn note_in(&mut self, source: &Source, span: Span, message: &str, help: &str) {
        if source.name() == self.document.source().name() {
            return self.note(span, message, help);
        }
        let message_there = format!("{message} ({}:{})", source.name(), source.place(span.start).line);
        self.remarks.push(Remark::of(usize::MAX - 1, &message_there, help));
        self.lost.push(said(source, span, Severity::Warning, message, help));
    }

    /// Reports that a key is not converted, and returns the comment that replaces it.
    fn lose(&mut self, entry: &Entry, why: &str, instead: &str) -> Lost {
        self.tell(
            entry.key_span,
            &format!("`{}` is not converted: {why}", entry.key),
            instead,
        );
        Lost::of(self.document.source(), entry, why, instead)
    }
}

/// The keys of a map; none for other values.
fn entries(node: &Node) -> &[Entry] {
    match &node.content {
        Content::Mapping(entries) => entries,
        _ => &[],
    }
}

fn span_of(entries: &[Entry], key: &str) -> Option<Span> {
    entries
        .iter()
        .find(|entry| *entry.key == *key)
        .map(|entry| entry.key_span)
}

fn is_text(node: Option<&Node>) -> bool {
    node.and_then(Node::text).is_some_and(|text| !text.trim().is_empty())
}
