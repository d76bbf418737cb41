//! Repairs the new file: everything that the loader reports as an error becomes a comment.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::draft::{Line, Lost, Map, Remark, Shape};
use super::{profiles, said, write};
use ensemble_language::check;
use ensemble_language::diagnostic::{Diagnostic, Finding, Severity};
use ensemble_language::loader::document::{Content, Document, Entry, Node};
use ensemble_language::loader::{self, Loaded};
use ensemble_language::plan::Plan;
use ensemble_language::source::{Source, Span, Step};

/// The maximum number of checks of the new file; each time at least one entry is removed from every part with an error.
const ROUNDS: usize = 100;

/// Writes the draft until there are no errors.
pub(super) fn repair(
    draft: &mut Map,
    document: &Document,
    schema: Option<&str>,
    lost: &mut Vec<Diagnostic>,
    remarks: &mut Vec<Remark>,
) -> Result<String, Vec<Diagnostic>> {
    let mut left = Vec::new();
    for _ in 0..ROUNDS {
        let text = write::write(draft, document, remarks, schema);
        let source = Source::new("the imported ensemble", text.as_str());
        let (loaded, errors) = errors(&source);
        if errors.is_empty() {
            return Ok(text);
        }
        let mut touched = HashSet::new();
        let mut mended = false;
        for error in &errors {
            // One entry of each part per round, because removing an entry moves the entries after it.
            if touched.insert(error.at.route.0.iter().take(2).cloned().collect::<Vec<_>>()) {
                mended |= Mender {
                    document,
                    lost,
                    remarks,
                }
                .mend(draft, error);
            }
        }
        left = loader::diagnostics(&source, loaded.document.as_ref(), &errors);
        if !mended {
            break;
        }
    }
    Err(left)
}

fn errors(source: &Source) -> (Loaded, Vec<Finding>) {
    let mut loaded = loader::load(source);
    let mut findings = loaded.findings.clone();
    if let Some(ensemble) = loaded.ensemble.take() {
        findings.extend(check::check(&ensemble));
        findings.extend(Plan::build(Arc::new(ensemble)).err().into_iter().flatten());
    }
    findings.retain(|finding| finding.severity == Severity::Error);
    (loaded, findings)
}

struct Mender<'a> {
    document: &'a Document,
    lost: &'a mut Vec<Diagnostic>,
    remarks: &'a mut Vec<Remark>,
}

impl Mender<'_> {
    /// Removes the entry that causes the error.
    fn mend(&mut self, draft: &mut Map, error: &Finding) -> bool {
        let steps = &error.at.route.0;
        let [Step::Key(top), rest @ ..] = &steps[..] else {
            return false;
        };
        match (&**top, rest) {
            ("agents", [Step::Index(index), Step::Key(key), rest @ ..]) => {
                let Some(Shape::List(agents)) = draft.get_mut("agents") else {
                    return false;
                };
                let Some((Shape::Map(agent), _)) = agents.get_mut(*index) else {
                    return false;
                };
                let done = self.agent(agent, key, rest, error);
                if done && agent.get_mut("model_profile").is_some_and(is_placeholder) {
                    profiles::with_placeholder(draft);
                }
                done
            }
            ("model_profiles", [Step::Key(name), rest @ ..]) => {
                let Some(Shape::Map(all)) = draft.get_mut("model_profiles") else {
                    return false;
                };
                self.profile(all, name, rest, error)
            }
            ("conversation_limits", [Step::Key(key), ..]) => match draft.get_mut("conversation_limits") {
                Some(Shape::Map(limits)) => self.take(limits, key, error),
                _ => false,
            },
            ("name" | "agents", _) => false,
            (top, _) => self.take(draft, top, error),
        }
    }

    fn agent(&mut self, agent: &mut Map, key: &str, rest: &[Step], error: &Finding) -> bool {
        match (key, rest) {
            ("name", _) => false,
            ("script" | "ensemble" | "model" | "model_profile" | "input", _) => {
                let Some(at) = agent.position(key) else { return false };
                let done = self.take(agent, key, error);
                // The key may have gone without a comment.
                let after = (at + 1).min(agent.lines.len());
                agent.lines.insert(after, profiles::placeholder_line());
                done
            }
            ("dependencies", [Step::Index(index), rest @ ..]) => {
                let Some(Shape::List(items)) = agent.get_mut("dependencies") else {
                    return false;
                };
                if let (Some((Shape::Map(item), _)), [Step::Key(key), ..]) = (items.get_mut(*index), rest)
                    && &**key != "agent_name"
                {
                    return self.take(item, key, error);
                }
                if *index >= items.len() {
                    return false;
                }
                let (_, from) = items.remove(*index);
                let empty = items.is_empty();
                self.remark("dependencies", from, error);
                if empty {
                    agent
                        .lines
                        .retain(|line| !matches!(line, Line::Entry { key, .. } if key == "dependencies"));
                }
                true
            }
            ("conversation", [Step::Key(inner), ..]) => match agent.get_mut("conversation") {
                Some(Shape::Map(map)) => self.take(map, inner, error),
                _ => self.take(agent, key, error),
            },
            _ => self.take(agent, key, error),
        }
    }

    fn profile(&mut self, all: &mut Map, name: &str, rest: &[Step], error: &Finding) -> bool {
        let Some(shape) = all.get_mut(name) else { return false };
        match (shape, rest) {
            (Shape::Map(profile), [Step::Key(key), ..]) if !matches!(&**key, "provider" | "model") => {
                self.take(profile, key, error)
            }
            (shape, _) if !is_simulated(shape) => {
                let mut instead = profiles::placeholder_map();
                // The fallback answers in the place of a provider that this language does not know.
                if let Shape::Map(profile) = shape
                    && let Some(at) = profile.position("fallback")
                {
                    instead.lines.push(profile.lines.remove(at));
                }
                *shape = Shape::Map(instead);
                self.remark(name, None, error);
                true
            }
            _ => false,
        }
    }

    /// Replaces a key by a comment.
    fn take(&mut self, map: &mut Map, key: &str, error: &Finding) -> bool {
        let Some(at) = map.position(key) else { return false };
        let Line::Entry { from, .. } = &map.lines[at] else {
            return false;
        };
        let from = *from;
        let entry = from.and_then(|span| entry_at(self.document.root(), span));
        match entry {
            Some(entry) => {
                self.tell(key, from, error);
                let instead = error.help.as_deref().unwrap_or("leave it out");
                let lost = Lost::of(self.document.source(), entry, &error.message, instead);
                map.lines[at] = Line::Lost(lost);
            }
            None => {
                self.remark(key, from, error);
                map.lines.remove(at);
            }
        }
        true
    }

    /// Adds a finding, and a comment in the new file.
    fn remark(&mut self, key: &str, from: Option<Span>, error: &Finding) {
        let message = format!("`{key}` is not converted: {}", error.message);
        let help = error.help.as_deref().unwrap_or("leave it out");
        let at = from.map_or(usize::MAX - 1, |span| span.start);
        self.remarks.push(Remark::of(at, &message, help));
        self.tell(key, from, error);
    }

    fn tell(&mut self, key: &str, from: Option<Span>, error: &Finding) {
        let span = from.unwrap_or_else(|| {
            let start = self.document.root().span.start;
            Span::new(start, start)
        });
        let message = format!("`{key}` is not converted: {}", error.message);
        let help = error.help.as_deref().unwrap_or("leave it out");
        let source = self.document.source();
        self.lost.push(said(source, span, Severity::Warning, &message, help));
    }
}

/// The key at this place.
fn entry_at(node: &Node, span: Span) -> Option<&Entry> {
    match &node.content {
        Content::Scalar(_) => None,
        Content::Sequence(items) => items.iter().find_map(|item| entry_at(item, span)),
        Content::Mapping(entries) => entries.iter().find_map(|entry| {
            if entry.key_span == span {
                return Some(entry);
            }
            entry_at(&entry.value, span)
        }),
    }
}

fn is_placeholder(shape: &mut Shape) -> bool {
    matches!(shape, Shape::Plain(Value::String(name)) if name == profiles::PLACEHOLDER)
}

fn is_simulated(shape: &Shape) -> bool {
    let simulated = json!("simulated");
    match shape {
        Shape::Plain(value) => value["provider"] == simulated,
        Shape::Map(map) => map.lines.iter().any(|line| {
            matches!(line, Line::Entry { key, value: Shape::Plain(value), .. } if key == "provider" && *value == simulated)
        }),
        Shape::List(_) => false,
    }
}
