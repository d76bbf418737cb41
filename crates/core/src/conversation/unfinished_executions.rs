//! What an open turn leaves unfinished when the run ends there.

use std::sync::Arc;

use serde::Serialize;

use super::{ConversationState, ExecutionProgress, ExecutionSlot};

/// An execution that has started and not ended. `resume` continues the execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfinishedExecution {
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

/// Counts of the parts of an unfinished execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnfinishedParts {
    /// The number of parts that have ended. They are kept, and not repeated.
    pub ended: usize,
    /// How many of these failed.
    pub failed: usize,
    /// The number of all parts.
    pub count: usize,
}

/// Returns whether the count is zero, for serialization.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands fields over so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ConversationState {
    /// Returns the executions of the open turn that have started and not ended, in declaration order.
    pub fn unfinished_executions(&self) -> impl Iterator<Item = UnfinishedExecution> {
        let open = self.open_turn().into_iter();
        open.flat_map(|turn| {
            turn.slots
                .iter()
                .filter_map(|slot| slot.unfinished_execution(turn.turn))
        })
    }
}

impl ExecutionSlot {
    /// Returns the slot as an unfinished execution. Returns `None` if the execution has ended or not started.
    fn unfinished_execution(&self, turn: u32) -> Option<UnfinishedExecution> {
        let reason = match self.progress {
            ExecutionProgress::Finished(_) => return None,
            ExecutionProgress::Waiting(_) => UnfinishedReason::WaitingForInput,
            ExecutionProgress::Pending if self.attempt == 0 => return None,
            ExecutionProgress::Pending => UnfinishedReason::Interrupted,
        };
        Some(UnfinishedExecution {
            agent: self.start.agent.clone(),
            turn,
            execution: self.start.execution,
            reason,
            parts: self.unfinished_parts(),
            replies: self.exchanges.own_iterations().len(),
        })
    }

    /// Returns whether an ended part or a reply of the unfinished execution is recorded.
    pub(crate) fn has_kept_work(&self) -> bool {
        !self.parts.ended_parts.is_empty() || !self.exchanges.own_iterations().is_empty()
    }

    /// Returns the counts of parts. Returns `None` if no part has ended.
    fn unfinished_parts(&self) -> Option<UnfinishedParts> {
        let ended_parts = &self.parts.ended_parts;
        Some(UnfinishedParts {
            count: ended_parts.last()?.count as usize,
            ended: ended_parts.len(),
            failed: ended_parts.iter().filter(|part| part.failure().is_some()).count(),
        })
    }
}
