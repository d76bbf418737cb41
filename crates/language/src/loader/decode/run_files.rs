//! The small files that a command line may name: prepared answers, and an initial context.

use std::sync::Arc;

use serde_json::Value;

use crate::data::JsonMap;
use crate::loader::document::{ScalarValue, YamlContent, YamlDocument};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::value_decoders::{NodeCursor, report_empty, report_wrong_type};

/// The prepared answers of one agent: one for every execution, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentAnswers {
    /// The same answer for every execution.
    Always(Value),
    /// Execution n gets answer n. Never empty.
    Each(Vec<Value>),
}

/// The prepared answers of several agents, by agent.
pub(crate) type AnswersByAgent = Vec<(Arc<str>, AgentAnswers)>;

/// The prepared answers of a batch: for all rows, and for each row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BatchAnswers {
    /// The answers for all rows, by agent.
    pub common: AnswersByAgent,
    /// The answers for single rows: the name of the row, and its answers by agent.
    pub rows: Vec<(Arc<str>, AnswersByAgent)>,
}

/// Decodes the answers of a batch: a map from agents to answers, and from rows to such maps. A key is a row if its value
/// is a map and `is_agent` is false.
pub(in crate::loader) fn decode_batch_answers(
    document: &YamlDocument,
    is_agent: &dyn Fn(&str) -> bool,
    findings: &mut LimitedFindingList,
) -> Option<BatchAnswers> {
    let at = NodeCursor::from_root(document.root());
    let mut answers = BatchAnswers::default();
    for (name, entry) in at.require_entries("a map from agents or rows to answers", findings)? {
        if is_agent(name) || !matches!(entry.node.content, YamlContent::Mapping(_)) {
            let read = decode_agent_answers(&entry, findings);
            answers.common.extend(read.map(|read| (name.clone(), read)));
            continue;
        }
        answers
            .rows
            .push((name.clone(), decode_answers_by_agent(&entry, findings)?));
    }
    Some(answers)
}

/// Decodes a map from agents to a string, a map, or a list of these.
pub(in crate::loader) fn decode_answers(
    document: &YamlDocument,
    findings: &mut LimitedFindingList,
) -> Option<AnswersByAgent> {
    decode_answers_by_agent(&NodeCursor::from_root(document.root()), findings)
}

/// Decodes a map from agents to their answers.
fn decode_answers_by_agent(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<AnswersByAgent> {
    let mut answers = Vec::new();
    for (agent, entry) in at.require_entries("a map from agents to answers", findings)? {
        let read = decode_agent_answers(&entry, findings);
        answers.extend(read.map(|read| (agent.clone(), read)));
    }
    Some(answers)
}

/// Decodes the answers of one agent: one for every execution, or a list with one for each.
pub(super) fn decode_agent_answers(entry: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<AgentAnswers> {
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

/// Decodes the text that an operator would type, or the output itself. Numbers and booleans stay as they are written.
fn decode_answer(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Value> {
    match &at.node.content {
        YamlContent::Mapping(_) => json::decode_json_map(at, findings).map(Value::Object),
        YamlContent::Scalar(scalar) if scalar.value != ScalarValue::Null => Some(Value::from(&*scalar.text)),
        _ => {
            report_wrong_type(at, "an answer (a string or a map)", findings);
            None
        }
    }
}

/// Decodes a map with any values.
pub(in crate::loader) fn decode_context_file(
    document: &YamlDocument,
    findings: &mut LimitedFindingList,
) -> Option<JsonMap> {
    json::decode_json_map(&NodeCursor::from_root(document.root()), findings)
}
