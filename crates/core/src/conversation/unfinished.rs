//! What an open turn leaves unfinished when the run ends there.

use std::sync::Arc;

use serde::Serialize;

use super::{ConversationState, OpenExecution, Slot};

/// An execution that has started and not ended. `resume` goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// The agent.
    pub agent: Arc<str>,
    /// The turn.
    pub turn: u32,
    /// The number of the execution of the agent.
    pub execution: u32,
    /// Why the execution has not ended.
    pub reason: UnfinishedReason,
    /// The parts that have ended, of an agent with `for_each`; `None`: none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<UnfinishedParts>,
    /// LLM: the number of recorded replies, from which the execution goes on.
    #[serde(skip_serializing_if = "is_zero")]
    pub replies: usize,
}

/// The reason why an execution has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnfinishedReason {
    /// The run was interrupted.
    Interrupted,
    /// It waits for an answer.
    WaitingForInput,
}

/// The parts of an execution that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnfinishedParts {
    /// The number of parts that have ended. They are kept, and not repeated.
    pub ended: usize,
    /// How many of these failed.
    pub failed: usize,
    /// The number of all parts.
    pub count: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ConversationState {
    /// The executions of the open turn that have started and not ended, in declaration order.
    pub fn unfinished(&self) -> impl Iterator<Item = Unfinished> {
        let open = self.open_turn().into_iter();
        open.flat_map(|turn| turn.slots.iter().filter_map(|slot| slot.unfinished(turn.turn)))
    }
}

impl Slot {
    fn unfinished(&self, turn: u32) -> Option<Unfinished> {
        let reason = match self.progress {
            OpenExecution::Finished(_) => return None,
            OpenExecution::Waiting(_) => UnfinishedReason::WaitingForInput,
            OpenExecution::Pending if self.attempt == 0 => return None,
            OpenExecution::Pending => UnfinishedReason::Interrupted,
        };
        Some(Unfinished {
            agent: self.start.agent.clone(),
            turn,
            execution: self.start.execution,
            reason,
            parts: self.unfinished_parts(),
            replies: self.exchanges.own().len(),
        })
    }

    /// Returns whether anything of an execution that has not ended is kept.
    pub(crate) fn has_kept(&self) -> bool {
        !self.parts.ended.is_empty() || !self.exchanges.own().is_empty()
    }

    fn unfinished_parts(&self) -> Option<UnfinishedParts> {
        let ended = &self.parts.ended;
        Some(UnfinishedParts {
            count: ended.last()?.count as usize,
            ended: ended.len(),
            failed: ended.iter().filter(|part| part.failure().is_some()).count(),
        })
    }
}
