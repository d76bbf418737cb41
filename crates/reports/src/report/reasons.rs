//! The reasons why agents did not run in a turn: grouped by reason, and each reason printed once.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_core::conversation::{TurnStarted, Waiting};

use super::format::{DIM, Shortened};
use super::values::shortened;

/// The number of groups that are shown by default.
const GROUPS: usize = 6;

/// The reasons that were printed for earlier turns.
#[derive(Debug, Default)]
pub(super) struct Reasons(HashMap<Arc<str>, String>);

impl Reasons {
    /// The lines for a turn that starts.
    pub(super) fn of_turn(&mut self, turn: &TurnStarted, whole: bool) -> Shortened {
        let starts: Vec<Arc<str>> = turn.starts.iter().map(|start| start.agent.clone()).collect();
        self.lines(&turn.waiting, &starts, whole)
    }

    /// One line for each reason, with its agents. A reason that was printed in an earlier turn is not repeated, unless
    /// the full text is requested.
    pub(super) fn lines(&mut self, waiting: &[Waiting], started: &[Arc<str>], whole: bool) -> Shortened {
        let is_known = |waiting: &&Waiting| self.0.get(&waiting.agent) == Some(&waiting.reason.to_string());
        let (known, new): (Vec<&Waiting>, Vec<&Waiting>) =
            waiting.iter().partition(|waiting| !whole && is_known(waiting));
        let groups = grouped(&new);
        let shown = if whole { groups.len() } else { GROUPS };
        let mut lines = Shortened::default();
        for (agents, reason) in groups.iter().take(shown) {
            let words: Vec<&str> = reason.split_whitespace().collect();
            let line = words.join(" ");
            let reason = if whole { line.clone() } else { shortened(&line) };
            lines.has_cut |= reason != line;
            lines
                .text
                .push_str(&format!("  {DIM}– {}: {reason}{DIM:#}\n", agents.join(", ")));
        }
        if groups.len() > shown {
            let more = groups.len() - shown;
            lines.has_cut = true;
            lines.text.push_str(&format!("  {DIM}– … {more} more reasons{DIM:#}\n"));
        }
        if !known.is_empty() {
            let names: Vec<&str> = known.iter().map(|waiting| &*waiting.agent).collect();
            lines
                .text
                .push_str(&format!("  {DIM}– {}: as before{DIM:#}\n", names.join(", ")));
        }
        for agent in started {
            self.0.remove(agent);
        }
        let now = waiting.iter().map(|one| (one.agent.clone(), one.reason.to_string()));
        self.0.extend(now);
        lines
    }
}

/// Agents with the same reason; reasons in the order of their first agent.
pub(super) fn grouped(waiting: &[&Waiting]) -> Vec<(Vec<Arc<str>>, String)> {
    let mut groups: Vec<(Vec<Arc<str>>, String)> = Vec::new();
    for one in waiting {
        let reason = one.reason.to_string();
        match groups.iter_mut().find(|(_, known)| *known == reason) {
            Some((agents, _)) => agents.push(one.agent.clone()),
            None => groups.push((vec![one.agent.clone()], reason)),
        }
    }
    groups
}
