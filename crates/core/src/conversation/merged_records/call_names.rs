//! New ids for tool calls of a merged run whose ids the thread of their agent contains already.
//!
//! Invariant: a thread contains each id once, so that each result belongs to one call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::conversation::event::{Event, Record};
use crate::conversation::state::ConversationState;
use crate::thread::{ThreadIteration, find_unused_id};

/// New ids of tool calls by the old id.
pub(super) type NewCallIds = HashMap<String, String>;

/// Returns new ids for the calls of these records whose id is used already in a thread of the merged run, by agent.
pub(super) fn find_new_call_ids(records: &[Record], merged: &ConversationState) -> HashMap<String, NewCallIds> {
    let plan = merged.plan();
    let mut used: HashMap<String, HashSet<String>> = HashMap::new();
    for id in plan.agent_ids() {
        let agent = merged.agent_state(id);
        let threads = std::iter::once(agent.thread()).chain(agent.threads_by_key().values());
        let calls = threads.flat_map(|thread| list_call_ids(thread.iterations()));
        used.insert(plan.agent_name(id).to_string(), calls.collect());
    }
    let mut names: HashMap<String, NewCallIds> = HashMap::new();
    for record in records {
        let Some(agent) = record.event.agent_name() else {
            continue;
        };
        let Some(used) = used.get_mut(agent).filter(|used| !used.is_empty()) else {
            continue;
        };
        let of_agent = names.entry(agent.to_owned()).or_default();
        for id in list_call_ids(list_iterations(&record.event)) {
            if used.contains(&id) && !of_agent.contains_key(&id) {
                let name = find_unused_id(&id, used);
                of_agent.insert(id, name.clone());
                used.insert(name);
            }
        }
    }
    names
}

/// Returns the ids of the tool calls in these iterations.
fn list_call_ids(iterations: &[ThreadIteration]) -> Vec<String> {
    let calls = iterations.iter().flat_map(|iteration| &iteration.tool_calls);
    calls.map(|call| call.id.clone()).collect()
}

/// Returns the iterations that the event contains.
fn list_iterations(event: &Event) -> &[ThreadIteration] {
    match event {
        Event::ReplyReceived(event) => std::slice::from_ref(&event.iteration),
        Event::RequestStopped(event) => std::slice::from_ref(&event.iteration),
        Event::AttemptFailed(event) => &event.exchange,
        Event::PartEnded(event) => &event.exchange,
        Event::ExecutionFinished(event) => &event.exchange,
        _ => &[],
    }
}

/// Replaces the ids of tool calls in the event by their new ids.
pub(super) fn replace_call_ids_in_event(event: &mut Event, names: &NewCallIds) {
    if let Some(within) = event.attempt_scope_mut() {
        within
            .outer_calls
            .iter_mut()
            .for_each(|id| replace_shared_call_id(id, names));
    }
    match event {
        Event::PermissionDecided(event) => replace_shared_call_id(&mut event.call, names),
        Event::ToolCallStarted(event) => replace_shared_call_id(&mut event.call, names),
        Event::ToolCallEnded(event) => replace_call_id(&mut event.call.id, names),
        _ => {}
    }
    let calls = list_iterations_mut(event)
        .iter_mut()
        .flat_map(|iteration| &mut iteration.tool_calls);
    calls.for_each(|call| replace_call_id(&mut call.id, names));
}

/// Returns the iterations that the event contains, for changes.
pub(super) fn list_iterations_mut(event: &mut Event) -> &mut [ThreadIteration] {
    match event {
        Event::ReplyReceived(event) => std::slice::from_mut(&mut event.iteration),
        Event::RequestStopped(event) => std::slice::from_mut(&mut event.iteration),
        Event::AttemptFailed(event) => &mut event.exchange,
        Event::PartEnded(event) => &mut event.exchange,
        Event::ExecutionFinished(event) => &mut event.exchange,
        _ => &mut [],
    }
}

/// Replaces the id of a call if the id is in `names`.
fn replace_call_id(id: &mut String, names: &NewCallIds) {
    if let Some(name) = names.get(id) {
        id.clone_from(name);
    }
}

/// Replaces the shared id of a call if the id is in `names`.
fn replace_shared_call_id(id: &mut Arc<str>, names: &NewCallIds) {
    if let Some(name) = names.get(&**id) {
        *id = name.as_str().into();
    }
}
