//! Tools that form a cycle with the agent that calls them, tools that no agent uses, and tools that never run side by
//! side.

use std::collections::HashMap;

use crate::diagnostic::Finding;
use crate::ensemble::{Agent, AgentKind, Ensemble, Llm, Tool, ToolKind, ToolUse};
use crate::fix::{Change, Mend};
use crate::loader::codes;
use crate::source::At;

/// Reports an error for each agent that is, directly or over other agents, its own tool; a hint for each unused tool;
/// and a warning for each `max_parallel_tools` that exclusive tools leave without effect.
pub(super) fn check(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = circles(ensemble);
    findings.extend(unused(ensemble));
    findings.extend(idle_parallel(ensemble));
    findings
}

/// One use of an agent as a tool: the agent that has the tool, the list item, and the agent that performs the tool.
#[derive(Clone, Copy)]
struct Use {
    user: usize,
    item: usize,
    performer: usize,
}

fn circles(ensemble: &Ensemble) -> Vec<Finding> {
    let uses: Vec<Vec<Use>> = (0..ensemble.agents.len()).map(|user| uses(ensemble, user)).collect();
    let mut findings = Vec::new();
    // 0: not visited; 1: in the current path; 2: done.
    let mut state = vec![0_u8; uses.len()];
    for start in 0..uses.len() {
        let mut way: Vec<Use> = Vec::new();
        let mut open = vec![(start, 0)];
        while let Some((here, next)) = open.last_mut() {
            let (agent, at) = (*here, *next);
            *next += 1;
            if at == 0 && state[agent] == 2 {
                open.pop();
                way.pop();
                continue;
            }
            state[agent] = 1;
            let Some(step) = uses[agent].get(at) else {
                state[agent] = 2;
                open.pop();
                way.pop();
                continue;
            };
            if state[step.performer] == 1 {
                let from = open.iter().position(|(open, _)| *open == step.performer).unwrap_or(0);
                let circle: Vec<Use> = way[from..].iter().copied().chain([*step]).collect();
                findings.push(report(ensemble, &circle));
            } else if state[step.performer] == 0 {
                way.push(*step);
                open.push((step.performer, 0));
            }
        }
    }
    findings
}

fn uses(ensemble: &Ensemble, user: usize) -> Vec<Use> {
    let AgentKind::Llm(llm) = &ensemble.agents[user].kind else {
        return Vec::new();
    };
    let performer = |(item, used): (usize, &ToolUse)| match &ensemble.tool(&used.tool)?.kind {
        ToolKind::Agent { agent, .. } => {
            let performer = ensemble.agents.iter().position(|one| one.name == *agent)?;
            Some(Use { user, item, performer })
        }
        _ => None,
    };
    llm.tools.iter().enumerate().filter_map(performer).collect()
}

fn report(ensemble: &Ensemble, circle: &[Use]) -> Finding {
    let name = |agent: usize| &*ensemble.agents[agent].name;
    let place = |one: &Use| -> At { Agent::route(one.user).key("tools").index(one.item).value() };
    let mut names: Vec<&str> = circle.iter().map(|one| name(one.user)).collect();
    names.push(name(circle[0].user));
    let message = format!(
        "these agents call each other as tools in a cycle: {}",
        names.join(" → ")
    );
    let mut finding = Finding::error(codes::TOOL_CIRCLE, place(&circle[0]), message);
    for one in &circle[1..] {
        let label = format!("`{}` calls `{}`", name(one.user), name(one.performer));
        finding = finding.also(place(one), label);
    }
    finding.help("remove the tool from one of these agents")
}

fn idle_parallel(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let AgentKind::Llm(llm) = &agent.kind else { continue };
        let most = llm.max_parallel_tools;
        let is_exclusive = |used: &ToolUse| ensemble.tool(&used.tool).is_some_and(|tool| tool.exclusive);
        let is_written = most != Llm::MAX_PARALLEL_TOOLS && most.get() > 1;
        if is_written && !llm.tools.is_empty() && llm.tools.iter().all(is_exclusive) {
            let message = format!(
                "`max_parallel_tools: {most}` has no effect, because all tools of `{}` are exclusive",
                agent.name
            );
            let route = Agent::route(at).key("max_parallel_tools");
            findings.push(
                Finding::warning(codes::IDLE_PARALLEL, route.clone().value(), message)
                    .mend(Mend::certain("remove `max_parallel_tools`", Change::Remove(route)))
                    .help("remove it, or `exclusive` at the tools whose calls may run side by side"),
            );
        }
    }
    findings
}

fn unused(ensemble: &Ensemble) -> Vec<Finding> {
    let mut used: HashMap<&str, bool> = ensemble.tools.iter().map(|(name, _)| (&**name, false)).collect();
    for agent in &ensemble.agents {
        if let AgentKind::Llm(llm) = &agent.kind {
            for one in &llm.tools {
                used.insert(&one.tool, true);
            }
        }
    }
    let idle = ensemble.tools.iter().filter(|(name, _)| !used[&**name]);
    idle.map(|(name, _)| {
        let message = format!("no agent uses the tool `{name}`");
        Finding::hint(codes::UNUSED_TOOL, Tool::route(name).as_key(), message)
            .mend(Mend::probable("remove the tool", Change::Remove(Tool::route(name))))
            .help("add the tool to the `tools` of an agent that calls a model")
    })
    .collect()
}
