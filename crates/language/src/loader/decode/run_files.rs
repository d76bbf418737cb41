//! The small files that a command line may name: prepared answers, and an initial context.

use std::sync::Arc;

use serde_json::Value;

use crate::data::JsonMap;
use crate::loader::document::{ScalarValue, YamlContent, YamlDocument};
use crate::loader::findings::FindingList;
use crate::loader::json;
use crate::loader::value_decoders::{NodeCursor, report_empty, report_wrong_type};

/// The prepared answers of one agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentAnswers {
    /// The same answer for every execution.
    Always(Value),
    /// Execution n gets answer n. Never empty.
    Each(Vec<Value>),
}

/// Reads a map from agents to a string, a map, or a list of these.
pub(in crate::loader) fn decode_answers(
    document: &YamlDocument,
    findings: &mut FindingList,
) -> Option<Vec<(Arc<str>, AgentAnswers)>> {
    let at = NodeCursor::from_root(document.root());
    let mut answers = Vec::new();
    for (agent, entry) in at.require_entries("a map from agents to answers", findings)? {
        let read = decode_agent_answers(&entry, findings);
        answers.extend(read.map(|read| (agent.clone(), read)));
    }
    Some(answers)
}

/// Decodes the answers of one agent: one for every execution, or a list with one for each.
pub(super) fn decode_agent_answers(entry: &NodeCursor<'_>, findings: &mut FindingList) -> Option<AgentAnswers> {
    let YamlContent::Sequence(items) = &entry.node.content else {
        return decode_answer(entry, findings).map(AgentAnswers::Always);
    };
    if items.is_empty() {
        report_empty(entry, "this list of answers is empty", findings);
    }
    let items = entry.require_items("a list of answers", findings)?;
    let values: Vec<_> = items.iter().map(|item| decode_answer(item, findings)).collect();
    values.into_iter().collect::<Option<Vec<_>>>().map(AgentAnswers::Each)
}

/// Returns the text that a person would type, or the output itself. Numbers and booleans are used as they are written.
fn decode_answer(at: &NodeCursor<'_>, findings: &mut FindingList) -> Option<Value> {
    match &at.node.content {
        YamlContent::Mapping(_) => json::decode_json_map(at, findings).map(Value::Object),
        YamlContent::Scalar(scalar) if scalar.value != ScalarValue::Null => Some(Value::from(&*scalar.text)),
        _ => {
            report_wrong_type(at, "an answer (a string or a map)", findings);
            None
        }
    }
}

/// Reads a map with any values.
pub(in crate::loader) fn decode_context(document: &YamlDocument, findings: &mut FindingList) -> Option<JsonMap> {
    json::decode_json_map(&NodeCursor::from_root(document.root()), findings)
}
