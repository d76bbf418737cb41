//! Time limits and attempts of agents that lie beyond a time limit of the conversation.
//!
//! Questions to people stop all clocks, so the time limits of questions are not compared.

use super::check_subject::CheckSubject;
use std::time::Duration;

use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble};
use crate::loader::codes;
use crate::source::Route;

/// The number of attempts whose pauses are added.
const MOST: u32 = 1000;

/// The first time limit that ends every execution.
struct RunTimeLimit {
    after: Duration,
    key: &'static str,
    is_written: bool,
}

/// Warns of each agent whose own time limit, or whose last attempt, cannot be reached.
pub(super) fn check_time_limits(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let end = first_time_limit(ensemble);
    let agents = ensemble.agents.iter().enumerate();
    agents
        .flat_map(|(at, agent)| check_agent_time(agent, &Agent::route_at(at), &end))
        .collect()
}

/// Returns the time limit that ends every execution: the turn timeout, or the timeout of the run.
fn first_time_limit(ensemble: &Ensemble) -> RunTimeLimit {
    let limits = &ensemble.limits;
    let run = RunTimeLimit {
        after: limits.timeout,
        key: "timeout_seconds",
        is_written: limits.timeout != crate::ensemble::ConversationLimits::default().timeout,
    };
    match limits.turn_timeout.filter(|turn| *turn <= run.after) {
        Some(after) => RunTimeLimit {
            after,
            key: "turn_timeout_seconds",
            is_written: true,
        },
        None => run,
    }
}

/// Returns a warning if the agent's own time limit, or its last attempt, is beyond the limit of the run.
fn check_agent_time(agent: &Agent, route: &Route, end: &RunTimeLimit) -> Option<Finding> {
    let build_finding = |place: Route, what: String, help: String| {
        let limit = Route::root()
            .with_key("conversation_limits")
            .with_key(end.key)
            .into_value_location();
        let finding = Finding::new_warning(codes::BEYOND_LIMIT, place.into_value_location(), what);
        let finding = if end.is_written {
            finding.with_related(limit, "this limit is reached first")
        } else {
            finding
        };
        Some(finding.with_help(help))
    };
    let after = format_seconds(end.after);
    if let Some(agent_timeout) = agent.timeout.filter(|own| *own > end.after) {
        let message = format!(
            "`timeout_seconds: {}` of `{}` is never reached: `conversation_limits.{}` is {after}",
            format_seconds(agent_timeout),
            agent.name,
            end.key
        );
        let help = format!("raise `conversation_limits.{}`, or lower this limit", end.key);
        return build_finding(route.with_key("timeout_seconds"), message, help);
    }
    let attempts = agent.retry.max_attempts.get();
    let mut waited = Duration::ZERO;
    for attempt in 1..attempts.min(MOST) {
        waited = waited.saturating_add(agent.retry.pause_after(attempt));
        if waited >= end.after {
            let message = format!(
                "attempt {} of `{}` is never reached: the pauses before it take {} seconds, and `conversation_limits.{}` is {after}",
                attempt + 1,
                agent.name,
                format_seconds(waited),
                end.key
            );
            let help = "lower `max_attempts` or the delay, or raise the limit".to_owned();
            return build_finding(route.with_key("retry"), message, help);
        }
    }
    None
}

/// Formats a time as a number of seconds.
fn format_seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}
