//! The parts and tool calls that failed since the latest prompt, for the last message of the prompt.
//!
//! Invariant: the sentences follow from the records since the latest message of the user.

use std::sync::Arc;

use ensemble_core::conversation::{AgentWorkCounts, Event, FailureCounts, list_nested_failures};
use ensemble_history::{AgentTotals, RunTotals};

/// Failed parts and tool calls since the latest prompt, also of nested runs.
#[derive(Debug, Default)]
pub(crate) struct PromptFailures {
    totals_before: RunTotals,
    nested_failures: Vec<String>,
}

impl PromptFailures {
    /// Starts a new prompt after a run with these totals.
    pub(crate) fn start_prompt(&mut self, totals: RunTotals) {
        self.totals_before = totals;
        self.nested_failures.clear();
    }

    /// Applies the next event of the outermost run.
    pub(crate) fn apply_event(&mut self, event: &Event) {
        self.nested_failures.extend(list_nested_failures(event));
    }

    /// Returns a sentence for each agent with failed parts or tool calls, and for each failure of a nested run.
    pub(crate) fn list_sentences<'a>(&self, totals: &RunTotals, agents: impl Iterator<Item = &'a str>) -> Vec<String> {
        let own_work = agents.filter_map(|agent| {
            let (name, now) = totals.agents.get_key_value(agent)?;
            let before = self.totals_before.agents.get(agent).copied().unwrap_or_default();
            Some(subtract_earlier_work(name, before, *now))
        });
        let mut sentences: Vec<String> = own_work
            .flat_map(|work| work.list_failure_sentences().collect::<Vec<_>>())
            .collect();
        let mut nested = self.nested_failures.clone();
        nested.sort_unstable();
        sentences.append(&mut nested);
        sentences
    }
}

/// Returns the parts and tool calls of an agent since it had the earlier totals.
fn subtract_earlier_work(agent: &Arc<str>, before: AgentTotals, now: AgentTotals) -> AgentWorkCounts {
    AgentWorkCounts {
        agent: agent.clone(),
        parts: FailureCounts {
            failed: now.parts.failed_parts.saturating_sub(before.parts.failed_parts),
            count: now.parts.listed_parts.saturating_sub(before.parts.listed_parts),
        },
        tool_calls: FailureCounts {
            failed: now.tool_calls.failed.saturating_sub(before.tool_calls.failed),
            count: now.tool_calls.count.saturating_sub(before.tool_calls.count),
        },
    }
}
