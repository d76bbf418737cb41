//! The messages of the merged threads that the requests of a run did not contain.
//!
//! The executions of a run did not read the messages that the other run adds. Their iterations say so, as they do for messages
//! that a context window leaves out.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use super::call_names::list_iterations_mut;
use crate::conversation::event::Event;
use crate::conversation::state::{AgentState, ConversationState};
use crate::thread::{LEFT_OUT_KEY, Thread};

/// Marks in the iterations of the event the messages of the merged thread that the requests did not contain.
/// `own` is the state of the run in which the event was recorded.
pub(super) fn mark_unsent_messages(event: &mut Event, own: &ConversationState, merged: &ConversationState) {
    let is_inside = event
        .attempt_scope()
        .is_some_and(|within| !within.outer_calls.is_empty());
    let part = match &*event {
        Event::PartEnded(part) => Some(part.key.clone()),
        other => other.attempt_scope().and_then(|within| within.part.clone()),
    };
    let agent = event.agent_name().and_then(|name| own.plan().find_agent_id(name));
    let Some(agent) = agent.filter(|_| !is_inside) else {
        return;
    };
    let merged = find_thread(merged.agent_state(agent), part.as_ref());
    let (Some(own), Some(merged)) = (find_thread(own.agent_state(agent), part.as_ref()), merged) else {
        return;
    };
    let count = merged.message_count();
    let iterations = list_iterations_mut(event);
    if iterations.is_empty() || count <= own.message_count() {
        return;
    }
    let positions = match_message_positions(own, merged);
    for iteration in iterations {
        let left_out = iteration.metadata.get(LEFT_OUT_KEY).cloned().unwrap_or_default();
        let left_out: Vec<(usize, usize)> = serde_json::from_value(left_out).unwrap_or_default();
        let is_sent = |at: usize| !left_out.iter().any(|(start, end)| (*start..*end).contains(&at));
        let sent = positions.iter().filter(|(at, _)| is_sent(*at));
        let sent: BTreeSet<usize> = sent.map(|(_, position)| *position).collect();
        let ranges: Vec<(usize, usize)> = list_gaps(sent, count).map(|gap| (gap.start, gap.end)).collect();
        iteration.metadata.insert(LEFT_OUT_KEY.to_owned(), json!(ranges));
    }
}

/// Returns pairs of positions of equal messages: in the own thread, and in the merged thread. Prefers the latest equal message.
fn match_message_positions(own: &Thread, merged: &Thread) -> Vec<(usize, usize)> {
    let (own, merged) = (own.to_messages(), merged.to_messages());
    let mut before = merged.len();
    let mut positions = Vec::with_capacity(own.len());
    for (at, message) in own.iter().enumerate().rev() {
        let is_same = |other: &crate::thread::Message| (other.role, &other.content) == (message.role, &message.content);
        if let Some(position) = merged[..before].iter().rposition(is_same) {
            positions.push((at, position));
            before = position;
        }
    }
    positions
}

/// Returns the ranges of `0..count` between these positions.
fn list_gaps(positions: BTreeSet<usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let gaps = positions.into_iter().chain([count]).map(move |position| {
        let gap = start..position;
        start = position + 1;
        gap
    });
    gaps.filter(|gap| !gap.is_empty())
}

/// Returns the thread of the agent, or the thread of the part with this key.
fn find_thread<'a>(agent: &'a AgentState, part: Option<&Arc<str>>) -> Option<&'a Thread> {
    match part {
        None => Some(agent.thread()),
        Some(part) => agent.threads_by_key().get(part).map(|thread| &**thread),
    }
}
