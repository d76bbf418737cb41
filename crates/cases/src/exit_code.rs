//! The exit code with which `ensemble run` reports a conversation.
//!
//! Invariant: it is the code of the program, which a test of the program compares.

use ensemble_core::conversation::{CompletionReason, RunCanceller, RunInterruption};

/// Returns the exit code of a run with this outcome. `is_success`: whether the run reached its goal.
pub(crate) fn exit_code_for(reason: CompletionReason, is_success: bool, cause: Option<&RunInterruption>) -> u8 {
    let by_signal = RunInterruption::Cancelled {
        by: RunCanceller::Signal,
    };
    match reason {
        CompletionReason::ConditionFailed | CompletionReason::AgentFailed | CompletionReason::Unsuccessful => 1,
        CompletionReason::Cancelled if cause == Some(&by_signal) => 143,
        CompletionReason::Cancelled => 130,
        CompletionReason::Timeout => 4,
        CompletionReason::WaitingForInput => 3,
        reason if reason.is_limit() && !is_success => 4,
        _ => 0,
    }
}
