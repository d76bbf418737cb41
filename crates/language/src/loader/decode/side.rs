//! The small files that a command line may name: prepared answers, and an initial context.

use std::sync::Arc;

use serde_json::Value;

use crate::data::JsonMap;
use crate::loader::document::{Content, Document, ScalarValue};
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{Cursor, empty, wrong_type};

/// The prepared answers of one agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    /// The same answer for every execution.
    Always(Value),
    /// Execution n gets answer n. Never empty.
    Each(Vec<Value>),
}

/// Reads a map from agents to a string, a map, or a list of these.
pub(in crate::loader) fn answers(document: &Document, findings: &mut Findings) -> Option<Vec<(Arc<str>, Answers)>> {
    answers_at(&Cursor::root(document.root()), findings)
}

/// Likewise, from any place.
pub(super) fn answers_at(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(Arc<str>, Answers)>> {
    let mut answers = Vec::new();
    for (agent, entry) in at.entries("a map from agents to answers", findings)? {
        let read = if let Content::Sequence(items) = &entry.node.content {
            if items.is_empty() {
                empty(&entry, "this list of answers is empty", findings);
            }
            let items = entry.items("a list of answers", findings)?;
            let values: Vec<_> = items.iter().map(|item| answer(item, findings)).collect();
            values.into_iter().collect::<Option<Vec<_>>>().map(Answers::Each)
        } else {
            answer(&entry, findings).map(Answers::Always)
        };
        answers.extend(read.map(|read| (agent.clone(), read)));
    }
    Some(answers)
}

/// The text that a person would type, or the output itself. Numbers and booleans are used as they are written.
fn answer(at: &Cursor<'_>, findings: &mut Findings) -> Option<Value> {
    match &at.node.content {
        Content::Mapping(_) => json::map(at, findings).map(Value::Object),
        Content::Scalar(scalar) if scalar.value != ScalarValue::Null => Some(Value::from(&*scalar.text)),
        _ => {
            wrong_type(at, "an answer (a string or a map)", findings);
            None
        }
    }
}

/// Reads a map with any values.
pub(in crate::loader) fn context(document: &Document, findings: &mut Findings) -> Option<JsonMap> {
    json::map(&Cursor::root(document.root()), findings)
}
