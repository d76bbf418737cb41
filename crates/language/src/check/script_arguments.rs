//! `args` and `stdin` of agents that start no process.

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind};
use crate::loader::codes;
use crate::names::is_rhai_script;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Reports `args` and `stdin` of Rhai scripts, which run inside the program.
pub(super) fn check_script_arguments(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let agents = subject.ensemble.agents.iter().enumerate();
    let findings = agents.flat_map(|(at, agent)| {
        let keys = match &agent.kind {
            AgentKind::Script {
                script, args, stdin, ..
            } if is_rhai_script(script) => [(!args.is_empty()).then_some("args"), stdin.as_ref().map(|_| "stdin")],
            _ => [None, None],
        };
        let route = Agent::route_at(at);
        keys.into_iter().flatten().map(move |key| {
            let message = format!("a Rhai script starts no process that could have `{key}`");
            let route = route.with_key(key);
            Finding::new_error(codes::NO_PROCESS, route.clone().into_key_location(), message)
                .with_fix(RouteFix::new_unsafe(
                    format!("remove `{key}`"),
                    RouteEdit::Remove(route),
                ))
                .with_help(format!(
                    "remove `{key}`: a Rhai script reads `dependencies`, `inputs`, and its `config` as `parameters`"
                ))
        })
    });
    findings.collect()
}
