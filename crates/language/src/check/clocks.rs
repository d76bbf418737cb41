//! Time limits and attempts of agents that lie beyond a time limit of the conversation.
//!
//! Questions to people stop all clocks, so the time limits of questions are not compared.

use super::subject::Subject;
use std::time::Duration;

use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble};
use crate::loader::codes;
use crate::source::Route;

/// The number of attempts whose pauses are added.
const MOST: u32 = 1000;

/// The first time limit that ends every execution.
struct End {
    after: Duration,
    key: &'static str,
    is_written: bool,
}

/// Warns of each agent whose own time limit, or whose last attempt, cannot be reached.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let end = end(ensemble);
    let agents = ensemble.agents.iter().enumerate();
    agents
        .flat_map(|(at, agent)| of_agent(agent, &Agent::route(at), &end))
        .collect()
}

fn end(ensemble: &Ensemble) -> End {
    let limits = &ensemble.limits;
    let run = End {
        after: limits.timeout,
        key: "timeout_seconds",
        is_written: limits.timeout != crate::ensemble::Limits::default().timeout,
    };
    match limits.turn_timeout.filter(|turn| *turn <= run.after) {
        Some(after) => End {
            after,
            key: "turn_timeout_seconds",
            is_written: true,
        },
        None => run,
    }
}

fn of_agent(agent: &Agent, route: &Route, end: &End) -> Option<Finding> {
    let told = |place: Route, what: String, help: String| {
        let limit = Route::root().key("conversation_limits").key(end.key).value();
        let finding = Finding::warning(codes::BEYOND_LIMIT, place.value(), what);
        let finding = if end.is_written {
            finding.also(limit, "this limit is reached first")
        } else {
            finding
        };
        Some(finding.help(help))
    };
    let after = seconds(end.after);
    if let Some(own) = agent.timeout.filter(|own| *own > end.after) {
        let what = format!(
            "`timeout_seconds: {}` of `{}` is never reached: `conversation_limits.{}` is {after}",
            seconds(own),
            agent.name,
            end.key
        );
        let help = format!("raise `conversation_limits.{}`, or lower this limit", end.key);
        return told(route.key("timeout_seconds"), what, help);
    }
    let attempts = agent.retry.max_attempts.get();
    let mut waited = Duration::ZERO;
    for attempt in 1..attempts.min(MOST) {
        waited = waited.saturating_add(agent.retry.pause_after(attempt));
        if waited >= end.after {
            let what = format!(
                "attempt {} of `{}` is never reached: the pauses before it take {} seconds, and `conversation_limits.{}` is {after}",
                attempt + 1,
                agent.name,
                seconds(waited),
                end.key
            );
            let help = "lower `max_attempts` or the delay, or raise the limit".to_owned();
            return told(route.key("retry"), what, help);
        }
    }
    None
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}
