//! `env` of scripts that have no environment.

use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Setting, Tool, ToolKind};
use crate::loader::codes;
use crate::source::Route;
use crate::yaml::edit::{RouteEdit, RouteFix};

type Variables = Vec<(String, Setting)>;

/// Warns of an `env` of a Rhai script, which reads no environment. One that a program has too is probably in `defaults`.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let agents = ensemble.agents.iter().enumerate();
    let of_agents = agents.filter_map(|(at, agent)| match &agent.kind {
        AgentKind::Script { script, env } => Some((Agent::route(at), script, env)),
        _ => None,
    });
    let of_tools = ensemble.tools.iter().filter_map(|(name, tool)| match &tool.kind {
        ToolKind::Script { script, env, .. } => Some((Tool::route(name), script, env)),
        _ => None,
    });
    let all: Vec<(Route, &String, &Variables)> = of_agents.chain(of_tools).collect();
    let is_shared = |env: &Variables| all.iter().any(|(_, script, other)| !is_rhai(script) && *other == env);
    let idle = all
        .iter()
        .filter(|(_, script, env)| is_rhai(script) && !env.is_empty() && !is_shared(env));
    idle.map(|(route, ..)| {
        let message = "`env` has no effect: a Rhai script reads no environment";
        Finding::warning(codes::IDLE_ENV, route.key("env").as_key(), message)
            .with_fix(RouteFix::not_safe("remove `env`", RouteEdit::Remove(route.key("env"))))
            .help("remove `env`; values for the script can be written in `config`, or given as inputs of the run")
    })
    .collect()
}

fn is_rhai(script: &str) -> bool {
    script.trim().ends_with(".rhai")
}
