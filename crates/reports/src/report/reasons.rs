//! The reasons why agents did not run in a turn: grouped by reason, and each reason printed once.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_core::conversation::{SkippedAgent, TurnStarted};

use super::format::{DIM, ShortenedText};
use super::values::shorten_text;

/// The number of groups that are shown by default.
const MAX_REASON_GROUPS: usize = 6;

/// The reasons for skipped agents that were printed for earlier turns.
#[derive(Debug, Default)]
pub(super) struct ShownReasons(HashMap<Arc<str>, String>);

impl ShownReasons {
    /// Renders the reasons for the agents that do not run in a starting turn.
    pub(super) fn render_for_turn(&mut self, turn: &TurnStarted, whole: bool) -> ShortenedText {
        let starts: Vec<Arc<str>> = turn.starts.iter().map(|start| start.agent.clone()).collect();
        self.render_new_reasons(&turn.waiting, &starts, whole)
    }

    /// Renders one line for each reason with its agents. Skips reasons of earlier turns, unless `whole` is set.
    pub(super) fn render_new_reasons(
        &mut self,
        waiting: &[SkippedAgent],
        started: &[Arc<str>],
        whole: bool,
    ) -> ShortenedText {
        let is_known = |waiting: &&SkippedAgent| self.0.get(&waiting.agent) == Some(&waiting.reason.to_string());
        let (known, new): (Vec<&SkippedAgent>, Vec<&SkippedAgent>) =
            waiting.iter().partition(|waiting| !whole && is_known(waiting));
        let groups = group_by_reason(&new);
        let shown_count = if whole { groups.len() } else { MAX_REASON_GROUPS };
        let mut lines = ShortenedText::default();
        for (agents, reason) in groups.iter().take(shown_count) {
            let words: Vec<&str> = reason.split_whitespace().collect();
            let line = words.join(" ");
            let reason = if whole { line.clone() } else { shorten_text(&line) };
            lines.has_cut |= reason != line;
            lines
                .text
                .push_str(&format!("  {DIM}– {}: {reason}{DIM:#}\n", agents.join(", ")));
        }
        if groups.len() > shown_count {
            let more = groups.len() - shown_count;
            lines.has_cut = true;
            lines.text.push_str(&format!("  {DIM}– … {more} more reasons{DIM:#}\n"));
        }
        if !known.is_empty() {
            let names: Vec<&str> = known.iter().map(|waiting| &*waiting.agent).collect();
            lines.text.push_str(&format!(
                "  {DIM}– {}: same reason as before{DIM:#}\n",
                names.join(", ")
            ));
        }
        for agent in started {
            self.0.remove(agent);
        }
        let now = waiting.iter().map(|one| (one.agent.clone(), one.reason.to_string()));
        self.0.extend(now);
        lines
    }
}

/// Groups the agents by reason, in the order of the first agent of each reason.
pub(super) fn group_by_reason(waiting: &[&SkippedAgent]) -> Vec<(Vec<Arc<str>>, String)> {
    let mut groups: Vec<(Vec<Arc<str>>, String)> = Vec::new();
    for skipped_agent in waiting {
        let reason = skipped_agent.reason.to_string();
        match groups.iter_mut().find(|(_, known)| *known == reason) {
            Some((agents, _)) => agents.push(skipped_agent.agent.clone()),
            None => groups.push((vec![skipped_agent.agent.clone()], reason)),
        }
    }
    groups
}
