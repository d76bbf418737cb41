//! `env` of scripts that have no environment.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, EnvOrHeaderValue, ToolDefinition, ToolKind};
use crate::loader::codes;
use crate::names::is_rhai_script;
use crate::source::Route;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The variables of an `env` section, in order.
type EnvironmentSettings = Vec<(String, EnvOrHeaderValue)>;

/// Warns of an `env` of a Rhai script, which reads no environment. Variables that a program shares from `defaults` are skipped.
pub(super) fn check_script_environment(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let agents = ensemble.agents.iter().enumerate();
    let of_agents = agents.filter_map(|(at, agent)| match &agent.kind {
        AgentKind::Script { script, env, .. } => Some((Agent::route_at(at), script, env)),
        _ => None,
    });
    let of_tools = ensemble.tools.iter().filter_map(|(name, tool)| match &tool.kind {
        ToolKind::Script { script, env, .. } => Some((ToolDefinition::route_for(name), script, env)),
        _ => None,
    });
    let all: Vec<(Route, &String, &EnvironmentSettings)> = of_agents.chain(of_tools).collect();
    let is_shared = |env: &EnvironmentSettings| {
        all.iter()
            .any(|(_, script, other)| !is_rhai_script(script) && *other == env)
    };
    let idle = all
        .iter()
        .filter(|(_, script, env)| is_rhai_script(script) && !env.is_empty() && !is_shared(env));
    idle.map(|(route, ..)| {
        let message = "`env` has no effect: a Rhai script reads no environment";
        Finding::new_warning(codes::IDLE_ENV, route.with_key("env").into_key_location(), message)
            .with_fix(RouteFix::new_unsafe(
                "remove `env`",
                RouteEdit::Remove(route.with_key("env")),
            ))
            .with_help("remove `env`; pass values to the script in `config`, or as inputs of the run")
    })
    .collect()
}
