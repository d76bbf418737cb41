//! The parts and the tool calls of executions, and how many of them failed.

use std::ops::Add;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::part::PartsProgress;
use crate::thread::{ThreadIteration, ToolCallEnd};

/// The number of parts or of tool calls, and the number of failed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailureCounts {
    /// The number of those that failed.
    pub failed: usize,
    /// The number of all.
    pub count: usize,
}

impl FailureCounts {
    /// Counts the parts of an execution: the failed parts, and all items of the list.
    pub fn from_parts(parts: &PartsProgress) -> Self {
        let ended = &parts.ended_parts;
        Self {
            failed: ended.iter().filter(|part| part.failure().is_some()).count(),
            count: ended.last().map_or(0, |part| part.count as usize),
        }
    }

    /// Counts the tool calls of a model in these iterations. Does not count the call of an agent with `tool`, which has no messages.
    pub fn from_tool_calls(iterations: &[ThreadIteration]) -> Self {
        let of_model = iterations.iter().filter(|iteration| !iteration.messages.is_empty());
        let ends = of_model.flat_map(|iteration| &iteration.tool_calls);
        ends.filter_map(|call| call.end.as_ref())
            .fold(Self::default(), |sum, end| sum + Self::from_tool_end(end))
    }

    /// Returns the counts of one tool call.
    pub fn from_tool_end(end: &ToolCallEnd) -> Self {
        Self {
            failed: usize::from(matches!(end, ToolCallEnd::Error(_))),
            count: 1,
        }
    }
}

impl Add for FailureCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            failed: self.failed + other.failed,
            count: self.count + other.count,
        }
    }
}

/// The parts and the tool calls of an agent in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWorkCounts {
    /// The agent.
    pub agent: Arc<str>,
    /// The parts of its executions.
    pub parts: FailureCounts,
    /// The tool calls of its model.
    pub tool_calls: FailureCounts,
}

impl AgentWorkCounts {
    /// Returns whether a part or a tool call failed.
    pub fn has_failures(&self) -> bool {
        self.parts.failed + self.tool_calls.failed > 0
    }

    /// Returns a sentence for each kind of work with failures: `4 of 5 parts of `fetch` failed`.
    pub fn list_failure_sentences(&self) -> impl Iterator<Item = String> {
        let all = [(self.parts, "part"), (self.tool_calls, "tool call")];
        let failed = all.into_iter().filter(|(counts, _)| counts.failed > 0);
        failed.map(|(FailureCounts { failed, count }, noun)| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{failed} of {count} {noun}{plural} of `{}` failed", self.agent)
        })
    }
}

/// Returns the warnings of an execution or a part about failed work of its nested runs, each with the address of the agent.
pub fn list_nested_failures(event: &Event) -> Vec<String> {
    let (address, warnings) = match event {
        Event::ExecutionFinished(event) => (event.agent.to_string(), &event.warnings),
        Event::AttemptFailed(event) => (event.agent.to_string(), &event.warnings),
        Event::PartEnded(event) => (format!("{}[{}]", event.agent, event.key), &event.warnings),
        _ => return Vec::new(),
    };
    let warnings = warnings.iter().map(|warning| format!("{address}: {warning}"));
    warnings.filter(|warning| is_nested_failure_warning(warning)).collect()
}

/// Returns whether a warning of a run describes failed work of a nested run: an agent address, `: `, and a sentence such as `4 of 5 parts
/// of `fetch` failed`.
pub(super) fn is_nested_failure_warning(warning: &str) -> bool {
    let Some((_, sentence)) = warning.rsplit_once(": ") else {
        return false;
    };
    let parse = || {
        let (failed, rest) = sentence.strip_suffix("` failed")?.split_once(" of ")?;
        let (count, rest) = rest.split_once(' ')?;
        let (noun, agent) = rest.split_once(" of `")?;
        let is_noun = ["part", "parts", "tool call", "tool calls"].contains(&noun);
        let is_number = |text: &str| text.parse::<usize>().is_ok();
        Some(is_noun && is_number(failed) && is_number(count) && !agent.contains(['`', ' ']))
    };
    parse().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_about_failed_work_of_a_nested_run_is_recognized() {
        let sentence = AgentWorkCounts {
            agent: "fetch".into(),
            parts: FailureCounts { failed: 1, count: 3 },
            tool_calls: FailureCounts { failed: 1, count: 1 },
        };
        for sentence in sentence.list_failure_sentences() {
            assert!(!is_nested_failure_warning(&sentence), "{sentence}");
            for outer in ["n", "e[0]", "e[a: b]", "n: m"] {
                let warning = format!("{outer}: {sentence}");
                assert!(is_nested_failure_warning(&warning), "{warning}");
            }
        }
        for other in [
            "n: it failed",
            "n: `w` reached `max_turns: 2`",
            "n: 1 of 2 eggs of `a` failed",
            "",
        ] {
            assert!(!is_nested_failure_warning(other), "{other}");
        }
    }

    #[test]
    fn a_summary_names_the_agent_and_both_numbers() {
        let work = |parts: (usize, usize), calls: (usize, usize)| {
            let counts = |(failed, count)| FailureCounts { failed, count };
            let work = AgentWorkCounts {
                agent: "fetch".into(),
                parts: counts(parts),
                tool_calls: counts(calls),
            };
            work.list_failure_sentences().collect::<Vec<_>>().join(", ")
        };
        assert_eq!(work((4, 5), (0, 3)), "4 of 5 parts of `fetch` failed");
        assert_eq!(work((0, 5), (1, 1)), "1 of 1 tool call of `fetch` failed");
        assert_eq!(
            work((1, 2), (2, 3)),
            "1 of 2 parts of `fetch` failed, 2 of 3 tool calls of `fetch` failed"
        );
        assert_eq!(work((0, 0), (0, 0)), "");
    }
}
