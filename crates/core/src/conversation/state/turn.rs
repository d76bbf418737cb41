//! A turn that has started and not finished.

use chrono::{DateTime, Utc};

use super::ConversationState;
use crate::conversation::event::{AgentStart, ExecutionFinished, Record};
use crate::conversation::exchange::RecordedExchanges;
use crate::conversation::failed_work::FailureCounts;
use crate::conversation::given_answer::{GivenAnswer, list_inner_answers};
use crate::conversation::part::PartsProgress;
use crate::request::PendingRequest;
use ensemble_language::data::{ExecutionFailure, ModelUsage};
use ensemble_language::plan::AgentId;

/// A turn that has started and not finished.
#[derive(Debug, Clone)]
pub struct OpenTurn {
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The executions of the turn, in declaration order.
    pub slots: Vec<ExecutionSlot>,
}

/// An execution of an open turn.
#[derive(Debug, Clone)]
pub struct ExecutionSlot {
    /// The agent.
    pub agent: AgentId,
    /// The decision that started the agent.
    pub start: AgentStart,
    /// The number of the last attempt that started; 0 if there was none.
    pub attempt: u32,
    /// The number of failed attempts, without those that a crash interrupted.
    pub failed_attempts: u32,
    /// LLM: the number of requests in the failed attempts.
    pub ended_requests: u32,
    /// The number of the last attempt that was not interrupted; 0 if there was none.
    pub last_ended: u32,
    /// The failure of the last failed attempt.
    pub last_failure: Option<ExecutionFailure>,
    /// The usage of the attempts that have ended.
    pub usage: Option<ModelUsage>,
    /// What was recorded of the messages between the agent and its model in the attempt that is not over.
    pub exchanges: RecordedExchanges,
    /// The parts that have ended, of an agent with `for_each`.
    pub parts: PartsProgress,
    /// The tool calls of the attempts of its model that failed, and of its parts.
    pub tool_calls: FailureCounts,
    /// The answers inside the execution.
    pub answers: Vec<GivenAnswer>,
    /// The progress of the execution.
    pub progress: ExecutionProgress,
}

impl ExecutionSlot {
    /// Returns the usage of the execution so far, including an attempt that has not ended.
    pub fn usage_so_far(&self) -> Option<ModelUsage> {
        ModelUsage::sum_optional(self.usage, self.exchanges.uncounted_usage())
    }

    /// Counts the tool calls of the execution so far, including those of an attempt that has not ended.
    pub fn count_tool_calls_so_far(&self) -> FailureCounts {
        let own = self.exchanges.iter().filter(|(_, calls, _)| calls.is_empty());
        own.fold(self.tool_calls, |sum, (_, _, exchange)| {
            sum + FailureCounts::from_tool_calls(&exchange.iterations)
        })
    }
}

/// The progress of an execution of an open turn.
#[derive(Debug, Clone)]
pub enum ExecutionProgress {
    /// The execution has not ended.
    Pending,
    /// The execution waits for the answers to these requests, which are in the order of the file.
    Waiting(Vec<PendingRequest>),
    /// The execution has ended. Its result is merged when the turn finishes.
    Finished(Box<(ExecutionFinished, DateTime<Utc>)>),
}

impl ConversationState {
    /// Adds the answers inside an execution that the record contains.
    pub(super) fn add_inner_answers(&mut self, record: &Record) {
        let answers = list_inner_answers(record);
        if let (Some(agent), false) = (record.event.agent_name(), answers.is_empty())
            && let Some(slot) = self.slot_mut(agent)
        {
            slot.answers.extend(answers);
        }
    }
}
