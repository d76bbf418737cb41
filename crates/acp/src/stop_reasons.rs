//! The reasons why the models of a prompt stopped, and the stop reason of the prompt.
//!
//! Invariant: a reply that is cut off, and a limit that ended an agent, are never reported as the end of a turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, Event, ExecutionEnd, RunEnded};
use ensemble_core::store::{NestedRunName, RunId};
use ensemble_core::thread::{StopReason, ThreadIteration};

/// The run, the agent, and the part if the stop concerns a part of an execution.
type StopReasonKey = (RunId, Arc<str>, Option<Arc<str>>);

/// The latest stop reasons of the agents of a run and of its nested runs.
#[derive(Debug, Default)]
pub(crate) struct StopReasons(BTreeMap<StopReasonKey, AgentStop>);

/// The stop reason of the latest execution of an agent. `is_failure` is true if the execution failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgentStop {
    reason: StopReason,
    is_failure: bool,
}

impl StopReasons {
    /// Applies an event of the run or of a nested run.
    pub(crate) fn apply_event(&mut self, run: &RunId, event: &Event) {
        match event {
            Event::ExecutionStarted(started) if started.attempt == 1 => {
                let is_earlier = |(of, agent, _): &StopReasonKey| match of == run {
                    true => *agent == started.agent,
                    false => contains_run(run, &started.agent, of),
                };
                self.0.retain(|key, _| !is_earlier(key));
            }
            Event::PartEnded(part) if part.usage.is_some() => {
                let stop = find_model_stop(&part.end, &part.exchange);
                self.set_stop((run.clone(), part.agent.clone(), Some(part.key.clone())), stop);
            }
            // A call without a model uses no tokens. That it was refused is an error.
            Event::ExecutionFinished(finished) if finished.usage.is_some() => {
                let stop = find_model_stop(&finished.end, &finished.exchange);
                self.set_stop((run.clone(), finished.agent.clone(), None), stop);
            }
            Event::RunEnded(ended) if !ended.is_success() => {
                let reason = match ended.completion_reason {
                    CompletionReason::TokenBudget => Some(StopReason::MaxTokens),
                    CompletionReason::MaxAgentExecutions | CompletionReason::MaxTotalTurns => {
                        Some(StopReason::MaxTurnRequests)
                    }
                    _ => None,
                };
                let stop = reason.map(|reason| AgentStop {
                    reason,
                    is_failure: true,
                });
                self.set_stop((run.clone(), "".into(), None), stop);
            }
            _ => {}
        }
    }

    /// Stores or removes the stop of an agent.
    fn set_stop(&mut self, key: StopReasonKey, stop: Option<AgentStop>) {
        match stop {
            Some(stop) => drop(self.0.insert(key, stop)),
            None => drop(self.0.remove(&key)),
        }
    }

    /// Returns the stop reason of a prompt whose run has ended. Returns `None` if the end is an error.
    pub(crate) fn prompt_stop_reason(&self, run: &RunId, ended: &RunEnded) -> Option<&'static str> {
        match ended.completion_reason {
            CompletionReason::TokenBudget => Some("max_tokens"),
            _ if ended.is_success() && self.has_cut_off_reply() => Some("max_tokens"),
            _ if ended.is_success() => Some("end_turn"),
            CompletionReason::WaitingForInput => Some("end_turn"),
            CompletionReason::MaxAgentExecutions | CompletionReason::MaxTotalTurns => Some("max_turn_requests"),
            CompletionReason::Cancelled => Some("cancelled"),
            CompletionReason::AgentFailed => {
                let failed = ended.failed.as_ref().map(|failed| &failed.agent);
                self.find_failure_reason(run, failed).and_then(protocol_stop_reason)
            }
            CompletionReason::Unsuccessful if self.has_cut_off_reply() => Some("max_tokens"),
            CompletionReason::Unsuccessful => self
                .find_failure_reason(run, None)
                .filter(|reason| *reason != StopReason::Refusal)
                .and_then(protocol_stop_reason),
            CompletionReason::ConditionFailed | CompletionReason::Timeout | CompletionReason::Completed => None,
        }
    }

    /// Returns whether the latest reply of an agent is cut off, also if the failure of the agent was handled.
    fn has_cut_off_reply(&self) -> bool {
        self.0.values().any(|stop| stop.reason == StopReason::MaxTokens)
    }

    /// Finds the stop reason of a failed agent, one of its parts, or an agent of a nested run. `None` as `failed` means any agent.
    fn find_failure_reason(&self, run: &RunId, failed: Option<&Arc<str>>) -> Option<StopReason> {
        let failures = || self.0.iter().filter(|(_, stop)| stop.is_failure);
        let is_own = |(of, agent, _): &StopReasonKey| of == run && failed.is_none_or(|failed| failed == agent);
        let own = failures().find(|(key, _)| is_own(key));
        let is_nested = |of: &RunId| of != run && failed.is_none_or(|failed| contains_run(run, failed, of));
        let nested = failures().find(|((of, ..), _)| is_nested(of));
        own.or(nested).map(|(_, stop)| stop.reason)
    }
}

/// Returns whether an execution of this agent contains the run `inner`.
fn contains_run(run: &RunId, agent: &str, inner: &RunId) -> bool {
    let depth = run.nested_names().count();
    let is_below =
        run.outermost_run_id() == inner.outermost_run_id() && run.nested_names().eq(inner.nested_names().take(depth));
    let name = inner.nested_names().nth(depth).and_then(NestedRunName::parse);
    is_below && name.is_some_and(|name| name.agent == agent)
}

/// Returns the stop reason in the protocol. Returns `None` for a normal end and a cancellation.
fn protocol_stop_reason(reason: StopReason) -> Option<&'static str> {
    match reason {
        StopReason::MaxTokens => Some("max_tokens"),
        StopReason::MaxTurnRequests => Some("max_turn_requests"),
        StopReason::Refusal => Some("refusal"),
        StopReason::EndTurn | StopReason::Cancelled => None,
    }
}

/// Finds the stop reason of the model in an execution.
fn find_model_stop(end: &ExecutionEnd, exchange: &[ThreadIteration]) -> Option<AgentStop> {
    let last = exchange.last().and_then(ThreadIteration::stop_reason);
    let (reason, is_failure) = match end {
        ExecutionEnd::Succeeded(_) => (last, false),
        // A reply that was cut off does not match a schema.
        ExecutionEnd::Failed(failure) => (
            StopReason::from_failure_kind(failure.kind).or(last.filter(|reason| *reason == StopReason::MaxTokens)),
            true,
        ),
    };
    reason.map(|reason| AgentStop { reason, is_failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_contains_the_runs_of_its_executions() {
        for (run, agent, inner, expected) in [
            ("r", "a", "r/sub/a-1-1", true),
            ("r", "a", "r/sub/a@look.1-2.3-1/sub/b-1-1", true),
            ("r/sub/a-1-1", "b", "r/sub/a-1-1/sub/b-1-1", true),
            ("r/sub/a-2-1", "b", "r/sub/a-1-1/sub/b-1-1", false),
            ("r", "b", "r/sub/a-1-1/sub/b-1-1", false),
            ("r", "a", "r/sub/big-a-1-1", false),
            ("r", "a", "r", false),
        ] {
            let is_contained = contains_run(&RunId::new(run), agent, &RunId::new(inner));
            assert_eq!(is_contained, expected, "{run} {agent} {inner}");
        }
    }
}
