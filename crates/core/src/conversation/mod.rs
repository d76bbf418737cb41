//! A conversation: its events, the state that is computed from the events, and its outcome.
//!
//! **Invariant:** [`ConversationState`] changes only in [`ConversationState::apply_record`]. So the journal and the text of
//! the ensemble always give the same state again.

mod attempt_scope;
mod compact_output;
mod counts;
mod end;
mod enforced_sandbox;
mod event;
mod exchange;
mod exhausted;
mod exit_code;
mod failed_work;
mod given_answer;
mod history;
mod interruption;
mod latest_outputs;
mod merged_records;
mod outcome;
mod part;
mod permission;
mod question;
mod reason;
mod result;
mod run_ended;
mod run_value;
mod state;
mod static_readiness;
mod unfinished_executions;

pub use attempt_scope::AttemptScope;
pub use end::ExecutionEnd;
pub use enforced_sandbox::EnforcedSandbox;
pub use event::{
    AgentStart, AttemptFailed, Event, ExecutionFinished, ExecutionStarted, ExpressionReadWarning, ForkedFrom,
    MessageAdded, Record, RequestsByTarget, RunResumed, RunStarted, TurnFinished, TurnStarted,
};
pub use exchange::{
    CallDecision, RecordedExchange, RecordedExchanges, ReplyReceived, RequestStopped, ToolCallEnded, ToolCallStarted,
};
pub use exhausted::{AgentLimitKey, ExhaustedAgent, describe_exhausted_agents};
pub use exit_code::{apply_fail_on_limit, run_exit_code};
pub use failed_work::{AgentWorkCounts, FailureCounts, list_nested_failures};
pub use given_answer::{GivenAnswer, describe_answer, list_copied_answers, list_given_answers, list_inner_answers};
pub use history::HistoryEntry;
pub use interruption::{RunCanceller, RunInterruption};
pub use merged_records::{MergedRecords, NewExecutionNumbers, RecordsMergeError, merge_records};
pub use outcome::CompletionReason;
pub use part::{FailedPartAttempts, PartAttemptEnded, PartsProgress, ThreadsByPartKey};
pub use permission::{DecisionSource, PermissionDecided, PermissionDecision};
pub use question::{InputRequested, NestedRequestAnswered};
pub use reason::{AgentSkipReason, AwaitedDependency, SkippedAgent};
pub use result::{ReportedRunResult, RunResult, list_usage_by_agent};
pub use run_ended::{AgentNotRun, ConditionFailure, FailedExecution, RunEnded};
pub use run_value::{DeclaredRunResult, SuccessCheck};
pub use state::AGENT_REQUESTS_KEY;
pub use state::{
    AddedUserMessage, AgentState, ConversationState, ExecutionProgress, ExecutionSlot, IllegalEvent, IllegalRecord,
    NumberedAgentOutput, OpenTurn,
};
pub use static_readiness::has_unseen_result;
pub(crate) use static_readiness::list_agents_with_new_outputs;
pub use static_readiness::{ReadinessFact, static_readiness};
pub(crate) use static_readiness::{
    StaticDependencyState, UnfulfilledReason, find_dependency_fact, find_dependency_fact_without_limit,
    has_reached_max_executions,
};
pub use unfinished_executions::{UnfinishedExecution, UnfinishedParts, UnfinishedReason};
