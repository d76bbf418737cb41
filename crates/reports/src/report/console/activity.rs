//! The activity of a run in one row: the running agents, their retry pauses, and the ended agents.

#![expect(
    clippy::disallowed_methods,
    reason = "a row that is shown now tells how long a pause still lasts"
)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The current activity of a run. Clones share the activity.
#[derive(Clone, Default)]
pub(super) struct RunActivity(Arc<Mutex<ActiveAgents>>);

/// The running, retrying and ended agents of a turn.
#[derive(Default)]
struct ActiveAgents {
    turn: u32,
    /// The agents at work, each with what is shown for it: its name, and how many of its parts have ended.
    running: Vec<(Arc<str>, String)>,
    /// Agents that try again at this time.
    waiting: Vec<(Arc<str>, Instant)>,
    /// Agents that have ended, and whose outputs are not printed yet.
    ended: Vec<Arc<str>>,
}

impl RunActivity {
    /// Sets the running agents. `is_queued` means that the outputs of ended agents are printed later.
    pub(super) fn set_running_agents(&self, turn: u32, running: Vec<(Arc<str>, String)>, is_queued: bool) {
        let mut agents = self.lock_agents();
        let before = std::mem::replace(&mut agents.running, running);
        if is_queued && agents.turn == turn {
            let ended_agents = before.into_iter().map(|(agent, _)| agent);
            let ended_agents: Vec<Arc<str>> = ended_agents.filter(|agent| !agents.is_running(agent)).collect();
            agents.ended.extend(ended_agents);
        }
        agents.turn = turn;
    }

    /// Removes all running and ended agents.
    pub(super) fn clear_activity(&self) {
        *self.lock_agents() = ActiveAgents::default();
    }

    /// Removes the ended agents, because their outputs are printed.
    pub(super) fn clear_ended_agents(&self) {
        self.lock_agents().ended.clear();
    }

    /// Marks the agent as waiting for a retry after this pause.
    pub(super) fn set_retry_pause(&self, agent: &Arc<str>, pause: Duration) {
        let mut agents = self.lock_agents();
        agents.waiting.retain(|(waits, _)| waits != agent);
        if let Some(until) = Instant::now().checked_add(pause) {
            agents.waiting.push((agent.clone(), until));
        }
    }

    /// Removes the retry pause of the agent. Returns whether the agent was waiting for a retry.
    pub(super) fn clear_retry_pause(&self, agent: &str) -> bool {
        let mut agents = self.lock_agents();
        let before = agents.waiting.len();
        agents.waiting.retain(|(waits, _)| **waits != *agent);
        agents.waiting.len() < before
    }

    /// Renders all activity: `turn 1 · a, b (again in 4 s)`. Returns an empty text without activity.
    pub(super) fn render_activity_row(&self) -> String {
        self.lock_agents().render_agents_row(None)
    }

    /// Renders the activity except for the agent whose reply is shown.
    pub(super) fn render_activity_without(&self, agent: &str) -> String {
        self.lock_agents().render_agents_row(Some(agent))
    }

    /// Locks the agents, also after a panic in another thread.
    fn lock_agents(&self) -> MutexGuard<'_, ActiveAgents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveAgents {
    /// Returns whether the agent is running.
    fn is_running(&self, agent: &str) -> bool {
        self.running.iter().any(|(running, _)| **running == *agent)
    }

    /// Renders the turn and its agents. Leaves out the agent `without`, unless its parts are counted.
    fn render_agents_row(&self, without: Option<&str>) -> String {
        let now = Instant::now();
        let pause = |agent: &Arc<str>, shown: &str| {
            let until = self.waiting.iter().find(|(waits, _)| waits == agent);
            let seconds_left = until.map(|(_, until)| until.saturating_duration_since(now).as_secs_f64().ceil());
            seconds_left
                .filter(|seconds| *seconds > 0.0)
                .map(|seconds| format!("{shown} (again in {seconds:.0} s)"))
        };
        let inside = self.waiting.iter().map(|(agent, _)| agent);
        let inside = inside.filter(|agent| !self.is_running(agent));
        let inside = inside.filter_map(|agent| pause(agent, agent));
        let working = self.running.iter();
        let working = working.filter(|(agent, shown)| without != Some(agent) || **shown != **agent);
        let working = working.map(|(agent, shown)| pause(agent, shown).unwrap_or_else(|| shown.clone()));
        let working: Vec<String> = working.chain(inside).collect();
        let mut parts = Vec::new();
        if !working.is_empty() {
            parts.push(working.join(", "));
        }
        if !self.ended.is_empty() {
            parts.push(format!("ended: {}", self.ended.join(", ")));
        }
        if parts.is_empty() {
            return String::new();
        }
        format!("turn {} · {}", self.turn, parts.join(" · "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<(Arc<str>, String)> {
        names.iter().map(|name| ((*name).into(), (*name).into())).collect()
    }

    #[test]
    fn an_agent_with_parts_is_shown_beside_the_reply_of_a_part() {
        let activity = RunActivity::default();
        activity.set_running_agents(1, vec![("a".into(), "a 3/12".into()), ("b".into(), "b".into())], false);
        assert_eq!(activity.render_activity_without("a"), "turn 1 · a 3/12, b");
        activity.set_retry_pause(&"a".into(), Duration::from_secs(100));
        assert_eq!(
            activity.render_activity_without("b"),
            "turn 1 · a 3/12 (again in 100 s)"
        );
    }

    #[test]
    fn the_row_names_who_works_waits_and_has_ended() {
        let activity = RunActivity::default();
        assert_eq!(activity.render_activity_row(), "");
        activity.set_running_agents(2, names(&["a", "b", "c"]), false);
        assert_eq!(activity.render_activity_row(), "turn 2 · a, b, c");
        assert_eq!(activity.render_activity_without("a"), "turn 2 · b, c");
        let (b, inner) = ("b".into(), "inner".into());
        activity.set_retry_pause(&b, Duration::from_secs(100));
        activity.set_retry_pause(&b, Duration::from_secs(200));
        activity.set_retry_pause(&inner, Duration::from_secs(300));
        assert_eq!(
            activity.render_activity_row(),
            "turn 2 · a, b (again in 200 s), c, inner (again in 300 s)"
        );
        activity.set_retry_pause(&b, Duration::ZERO);
        assert_eq!(
            activity.render_activity_without("a"),
            "turn 2 · b, c, inner (again in 300 s)"
        );
        assert!(activity.clear_retry_pause("inner") && !activity.clear_retry_pause("inner"));
        activity.set_running_agents(2, names(&["a", "b"]), true);
        activity.set_running_agents(2, names(&["a"]), true);
        assert_eq!(activity.render_activity_without("a"), "turn 2 · ended: c, b");
        activity.clear_ended_agents();
        assert_eq!(activity.render_activity_without("a"), "");
        activity.set_running_agents(2, names(&[]), false);
        assert_eq!(activity.render_activity_row(), "");
    }
}
