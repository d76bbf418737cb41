//! The exit code with which the program reports a run.

use super::{CompletionReason, RunCanceller, RunInterruption};

/// Returns the exit code of a run with this outcome. `is_success` is the recorded success; `cause` distinguishes Ctrl-C from SIGTERM.
pub fn run_exit_code(reason: CompletionReason, is_success: bool, cause: Option<&RunInterruption>) -> u8 {
    let by_signal = RunInterruption::Cancelled {
        by: RunCanceller::Signal,
    };
    match reason {
        CompletionReason::ConditionFailed | CompletionReason::AgentFailed | CompletionReason::Unsuccessful => 1,
        CompletionReason::Cancelled if cause == Some(&by_signal) => 143,
        CompletionReason::Cancelled => 130,
        CompletionReason::Timeout => 4,
        CompletionReason::WaitingForInput => 3,
        // A completed run is no success if `--fail-on-limit` refused its exhausted agents.
        _ if !is_success => 4,
        _ => 0,
    }
}

/// Returns the exit code with `--fail-on-limit`: 4 instead of 0 if agents are exhausted. Callers apply this rule last.
pub fn apply_fail_on_limit(code: u8, is_exhausted: bool) -> u8 {
    match code {
        0 if is_exhausted => 4,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_on_limit_turns_only_a_success_with_exhausted_agents_into_a_limit() {
        let codes = [0, 1, 3, 4, 5].map(|code| (apply_fail_on_limit(code, false), apply_fail_on_limit(code, true)));
        assert_eq!(codes, [(0, 4), (1, 1), (3, 3), (4, 4), (5, 5)]);
    }

    #[test]
    fn every_outcome_has_the_exit_code_of_the_table() {
        use CompletionReason::*;
        let codes: Vec<(u8, u8)> = CompletionReason::ALL
            .iter()
            .map(|reason| (run_exit_code(*reason, false, None), run_exit_code(*reason, true, None)))
            .collect();
        let expected = vec![
            (1, 1),
            (130, 130),
            (4, 4),
            (3, 3),
            (1, 1),
            (1, 1),
            (4, 0),
            (4, 0),
            (4, 0),
            (4, 0),
        ];
        assert_eq!(codes, expected);
        for (by, code) in [(RunCanceller::Signal, 143), (RunCanceller::Keyboard, 130)] {
            assert_eq!(
                run_exit_code(Cancelled, false, Some(&RunInterruption::Cancelled { by })),
                code
            );
        }
    }
}
