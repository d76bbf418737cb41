//! The positions of the messages of a run in the threads of the merged run.
//!
//! The executions of a run did not read the messages that the other run adds. Their iterations say so, as they do for messages
//! that a context window leaves out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::json;

use super::call_names::list_iterations_mut;
use crate::conversation::event::Event;
use crate::conversation::state::{AgentState, ConversationState};
use crate::thread::{LEFT_OUT, Thread};

/// The thread of an agent, or of one of its parts.
type ThreadKey = (Arc<str>, Option<Arc<str>>);

/// For each thread of a run: the position of each of its messages in the same thread of the merged run.
#[derive(Debug, Default)]
pub(super) struct MessagePositions(HashMap<ThreadKey, Vec<usize>>);

impl MessagePositions {
    /// Adds the messages by which the threads of the run have grown. They are the last ones of the merged threads.
    pub(super) fn add_new_messages(&mut self, own: &ConversationState, merged: &ConversationState) {
        let plan = own.plan();
        for id in plan.agent_ids() {
            let (agent, merged) = (own.agent_state(id), merged.agent_state(id));
            for (part, thread) in list_threads(agent) {
                let positions = self.0.entry((plan.agent_name(id).clone(), part.clone())).or_default();
                let count = find_thread(merged, part.as_ref()).map_or(0, Thread::message_count);
                let new = thread.message_count().saturating_sub(positions.len());
                positions.extend(count.saturating_sub(new)..count);
            }
        }
    }

    /// States in the iterations of the event which earlier messages of the merged thread their requests did not contain.
    pub(super) fn mark_unsent_messages(&self, event: &mut Event, merged: &ConversationState) {
        let is_inside = event.attempt_scope().is_some_and(|within| !within.outer_calls.is_empty());
        let part = match &*event {
            Event::PartEnded(part) => Some(part.key.clone()),
            other => other.attempt_scope().and_then(|within| within.part.clone()),
        };
        let plan = merged.plan();
        let agent = event.agent_name().and_then(|name| plan.find_agent_id(name));
        let Some(agent) = agent.filter(|_| !is_inside) else {
            return;
        };
        let count = find_thread(merged.agent_state(agent), part.as_ref()).map_or(0, Thread::message_count);
        let key = (plan.agent_name(agent).clone(), part);
        let positions = self.0.get(&key).map_or(&[][..], Vec::as_slice);
        if count <= positions.len() {
            return;
        }
        for iteration in list_iterations_mut(event) {
            let left_out = iteration.metadata.get(LEFT_OUT).cloned().unwrap_or_default();
            let left_out: Vec<(usize, usize)> = serde_json::from_value(left_out).unwrap_or_default();
            let is_sent = |at: &usize| !left_out.iter().any(|(start, end)| (*start..*end).contains(at));
            let sent = (0..positions.len()).filter(is_sent).map(|at| positions[at]);
            let ranges: Vec<(usize, usize)> = list_gaps(sent, count).map(|gap| (gap.start, gap.end)).collect();
            iteration.metadata.insert(LEFT_OUT.to_owned(), json!(ranges));
        }
    }
}

/// Returns the ranges of `0..count` without these positions, which are in order.
fn list_gaps(positions: impl Iterator<Item = usize>, count: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let gaps = positions.chain([count]).map(move |position| {
        let gap = start..position;
        start = position + 1;
        gap
    });
    gaps.filter(|gap| !gap.is_empty())
}

fn list_threads(agent: &AgentState) -> impl Iterator<Item = (Option<Arc<str>>, &Thread)> {
    let of_parts = agent.threads_by_key().iter();
    let of_parts = of_parts.map(|(part, thread)| (Some(part.clone()), &**thread));
    std::iter::once((None, &**agent.thread())).chain(of_parts)
}

fn find_thread<'a>(agent: &'a AgentState, part: Option<&Arc<str>>) -> Option<&'a Thread> {
    match part {
        None => Some(agent.thread()),
        Some(part) => agent.threads_by_key().get(part).map(|thread| &**thread),
    }
}
