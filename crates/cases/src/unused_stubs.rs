//! Stubs for parts that no execution had.

use ensemble_core::conversation::ConversationState;
use ensemble_core::request::{AddressSegment, RequestAddress};
use ensemble_language::cases::{TestCase, case_route};
use serde_json::Value;

use crate::judge::UnmetExpectation;

/// Returns a failure for each stub or answer of a part that does not exist, if the agent of the outermost ensemble succeeded.
pub(crate) fn find_unused_part_stubs(at: usize, case: &TestCase, state: &ConversationState) -> Vec<UnmetExpectation> {
    let stubs = case.stubs.iter().map(|(name, _)| ("stubs", name));
    let answers = case.answers.iter().map(|(name, _)| ("answers", name));
    let named = stubs.chain(answers).filter_map(|(key, name)| {
        let address: RequestAddress = name.parse().ok()?;
        let existing = list_parts_if_missing(address.segments().first()?, state)?;
        let place = case_route(at).with_key(key).with_key(name.as_ref()).into_key_location();
        Some(UnmetExpectation {
            help: Some("name a part that exists, or remove the entry".to_owned()),
            ..UnmetExpectation::from_difference(
                place,
                format!("no execution used `{name}`"),
                "a part that an execution has",
                format!("the parts {}", existing.join(", ")),
            )
        })
    });
    named.collect()
}

/// Returns the part keys of successful executions of the agent. Returns `None` if one of them is the part of the segment.
fn list_parts_if_missing(segment: &AddressSegment, state: &ConversationState) -> Option<Vec<String>> {
    let key = segment.part.as_deref()?;
    let executions = state.list_executions();
    let outputs = executions.filter(|entry| entry.agent_name == segment.agent && entry.failure.is_none());
    let mut keys: Vec<String> = Vec::new();
    for output in outputs.map(|entry| entry.output_data()) {
        let listed = output["keys"].as_array().into_iter().flatten();
        for listed in listed.filter_map(Value::as_str) {
            if listed == key {
                return None;
            }
            if keys.iter().all(|known| known != listed) {
                keys.push(listed.to_owned());
            }
        }
    }
    (!keys.is_empty()).then(|| keys.iter().map(|key| format!("`{key}`")).collect())
}
