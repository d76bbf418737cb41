//! Tools that form a cycle with the agent that calls them, tools that no agent uses, denied tools that an agent calls, tools
//! that an external agent cannot be given, and tools that never run side by side.

use super::check_subject::CheckSubject;
use std::collections::{HashMap, HashSet};

use crate::diagnostic::Finding;
use crate::ensemble::{
    Agent, AgentKind, Ensemble, LlmSpec, McpServer, PermissionMode, ToolDefinition, ToolKind, ToolReference,
};
use crate::loader::codes;
use crate::plan::graph_walks::{find_components, find_shortest_cycle};
use crate::source::RouteLocation;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The highest number of cycles that are reported for one group of agents that call each other.
const MAX_CYCLES_PER_GROUP: usize = 5;
/// The highest number of agents of a cycle that are named.
const MAX_SHOWN_AGENTS: usize = 12;

/// Reports errors for agents that are, directly or over other agents, their own tools, that call a denied tool, or whose program cannot be given a tool; a hint for each unused tool; and a
/// warning for each `max_parallel_tools` that exclusive tools leave without effect, and for summaries that no model receives.
pub(super) fn check_tools(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let mut findings = check_tool_cycles(ensemble);
    findings.extend(check_unused_tools(ensemble));
    findings.extend(check_parallel_tools(ensemble));
    findings.extend(check_unused_summaries(ensemble));
    findings.extend(check_denied_tools(ensemble));
    findings.extend(check_program_tools(ensemble));
    findings
}

/// The use of an agent as a tool: the agent that has the tool, the list item, and the agent that performs the tool.
#[derive(Clone, Copy)]
struct AgentToolUse {
    user: usize,
    item: usize,
    performer: usize,
}

/// The agents by name, and the tools by name, so that each use is found in constant time.
struct AgentAndToolIndex<'e> {
    agents: HashMap<&'e str, usize>,
    tools: HashMap<&'e str, &'e ToolDefinition>,
}

impl<'e> AgentAndToolIndex<'e> {
    /// Indexes agents and tools by name. Of several with one name, the first counts.
    fn build(ensemble: &'e Ensemble) -> Self {
        let (mut agents, mut tools) = (HashMap::new(), HashMap::new());
        for (at, agent) in ensemble.agents.iter().enumerate() {
            agents.entry(&*agent.name).or_insert(at);
        }
        for (name, tool) in &ensemble.tools {
            tools.entry(&**name).or_insert(tool);
        }
        Self { agents, tools }
    }
}

/// Reports shortest cycles of agents that call each other as tools, up to a limit for each group. Not every cycle of a
/// group is reported: n agents that all call each other have more than 2ⁿ cycles.
fn check_tool_cycles(ensemble: &Ensemble) -> Vec<Finding> {
    let names = AgentAndToolIndex::build(ensemble);
    let uses: Vec<Vec<AgentToolUse>> = (0..ensemble.agents.len())
        .map(|user| list_agent_tool_uses(ensemble, &names, user))
        .collect();
    let groups = find_components(uses.len(), |user| uses[user].iter().map(|step| step.performer));
    let mut circles: Vec<Vec<AgentToolUse>> = groups
        .iter()
        .flat_map(|group| find_cycles_in_group(&uses, group))
        .collect();
    circles.sort_by_key(|circle| circle[0].user);
    circles
        .iter()
        .map(|circle| tool_cycle_finding(ensemble, circle))
        .collect()
}

/// Returns shortest cycles in a group of agents that all reach each other, up to a limit.
fn find_cycles_in_group(uses: &[Vec<AgentToolUse>], group: &[usize]) -> Vec<Vec<AgentToolUse>> {
    let (mut circles, mut named) = (Vec::new(), HashSet::new());
    for agent in group {
        if circles.len() == MAX_CYCLES_PER_GROUP {
            break;
        }
        if named.contains(agent) {
            continue;
        }
        let inside = |user: usize| {
            let uses = uses[user].iter().map(|step| (step.performer, *step));
            uses.filter(|(performer, _)| group.binary_search(performer).is_ok())
        };
        if let Some(steps) = find_shortest_cycle(*agent, inside) {
            let circle: Vec<AgentToolUse> = steps.into_iter().map(|(_, step)| step).collect();
            named.extend(circle.iter().map(|step| step.user));
            circles.push(circle);
        }
    }
    circles
}

/// Returns the tools of one agent that call other agents.
fn list_agent_tool_uses(ensemble: &Ensemble, names: &AgentAndToolIndex, user: usize) -> Vec<AgentToolUse> {
    let AgentKind::Llm(llm) = &ensemble.agents[user].kind else {
        return Vec::new();
    };
    let performer = |(item, used): (usize, &ToolReference)| match &names.tools.get(&*used.tool)?.kind {
        ToolKind::Agent { agent, .. } => {
            let performer = *names.agents.get(&**agent)?;
            Some(AgentToolUse { user, item, performer })
        }
        _ => None,
    };
    llm.tools.iter().enumerate().filter_map(performer).collect()
}

/// Builds the error about a cycle of agents that call each other as tools.
fn tool_cycle_finding(ensemble: &Ensemble, circle: &[AgentToolUse]) -> Finding {
    let name = |agent: usize| &*ensemble.agents[agent].name;
    let place = |one: &AgentToolUse| -> RouteLocation {
        Agent::route_at(one.user)
            .with_key("tools")
            .with_index(one.item)
            .into_value_location()
    };
    let mut names: Vec<&str> = circle.iter().take(MAX_SHOWN_AGENTS).map(|one| name(one.user)).collect();
    if circle.len() > MAX_SHOWN_AGENTS {
        names.push("…");
    }
    names.push(name(circle[0].user));
    let message = format!(
        "these agents call each other as tools in a cycle: {}",
        names.join(" → ")
    );
    let mut finding = Finding::new_error(codes::TOOL_CIRCLE, place(&circle[0]), message);
    for agent_use in circle.iter().take(MAX_SHOWN_AGENTS).skip(1) {
        let label = format!("`{}` calls `{}`", name(agent_use.user), name(agent_use.performer));
        finding = finding.with_related(place(agent_use), label);
    }
    finding.with_help("remove the tool from one of these agents")
}

/// Warns of `summarize_above` and `summarize_with` that have no effect.
fn check_unused_summaries(ensemble: &Ensemble) -> Vec<Finding> {
    let uses = |agent: &Agent, name: &str| agent.kind.callable_tools().iter().any(|used| *used.tool == *name);
    let is_model = |agent: &Agent| matches!(&agent.kind, AgentKind::Llm(llm) if llm.acp_agent().is_none());
    let mut findings = Vec::new();
    for (name, tool) in &ensemble.tools {
        let mut users = ensemble.agents.iter().filter(|agent| uses(agent, name)).peekable();
        let has_receiver = users.peek().is_none() || users.any(is_model);
        let (key, message, help) = match (tool.summarize_above, &tool.summarize_with) {
            (Some(_), _) if !has_receiver => (
                "summarize_above",
                "`summarize_above` has no effect: no model of the program calls the tool",
                "remove the key: an agent with `tool` and an external agent receive whole results",
            ),
            (None, Some(_)) => (
                "summarize_with",
                "`summarize_with` has no effect: the tool has no `summarize_above`",
                "add `summarize_above: BYTES`, or remove `summarize_with`",
            ),
            _ => continue,
        };
        let place = ToolDefinition::route_for(name).with_key(key);
        findings.push(Finding::new_warning(codes::IDLE_SUMMARY, place.into_key_location(), message).with_help(help));
    }
    findings
}

/// Warns of `max_parallel_tools` of agents whose tools are all exclusive.
fn check_parallel_tools(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    let names = AgentAndToolIndex::build(ensemble);
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let AgentKind::Llm(llm) = &agent.kind else { continue };
        let limit = llm.max_parallel_tools;
        let is_exclusive = |used: &ToolReference| names.tools.get(&*used.tool).is_some_and(|tool| tool.exclusive);
        let is_written = limit != LlmSpec::MAX_PARALLEL_TOOLS && limit.get() > 1;
        if is_written && !llm.tools.is_empty() && llm.tools.iter().all(is_exclusive) {
            let message = format!(
                "`max_parallel_tools: {limit}` has no effect, because all tools of `{}` are exclusive",
                agent.name
            );
            let route = Agent::route_at(at).with_key("max_parallel_tools");
            findings.push(
                Finding::new_warning(codes::IDLE_PARALLEL, route.clone().into_value_location(), message)
                    .with_fix(RouteFix::new_safe(
                        "remove `max_parallel_tools`",
                        RouteEdit::Remove(route),
                    ))
                    .with_help("remove it, or remove `exclusive` from the tools whose calls can run in parallel"),
            );
        }
    }
    findings
}

/// Reports agents that only call a tool with `permission: deny`.
fn check_denied_tools(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let AgentKind::Tool { used, .. } = &agent.kind else {
            continue;
        };
        let tool = ensemble.find_tool(&used.tool);
        if tool.is_some_and(|tool| tool.permission == PermissionMode::Deny) {
            let message = format!(
                "`{}` can never run, because `{}` has `permission: deny`",
                agent.name, used.tool
            );
            let place = ToolDefinition::route_for(&used.tool)
                .with_key("permission")
                .into_value_location();
            findings.push(
                Finding::new_error(
                    codes::DENIED_TOOL,
                    Agent::route_at(at).with_key("tool").into_value_location(),
                    message,
                )
                .with_related(place, "denied here")
                .with_help("write `permission: ask` or `permission: allow` for the server, or remove the agent"),
            );
        }
    }
    findings
}

/// Reports tools that the program of an external agent cannot use, because the program starts the servers itself.
fn check_program_tools(ensemble: &Ensemble) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, agent) in ensemble.agents.iter().enumerate() {
        let AgentKind::Llm(llm) = &agent.kind else { continue };
        if llm.acp_agent().is_none() {
            continue;
        }
        for (item, used) in llm.tools.iter().enumerate() {
            let Some(tool) = ensemble.find_tool(&used.tool) else {
                continue;
            };
            let Some((why, help)) = explain_program_refusal(used, tool) else {
                continue;
            };
            let place = Agent::route_at(at)
                .with_key("tools")
                .with_index(item)
                .into_value_location();
            findings.push(Finding::new_error(codes::NOT_FOR_PROGRAM, place, why).with_help(help));
        }
    }
    findings
}

/// Returns the reason why the program of an external agent cannot have the tool, and the help. Returns `None` if it can.
fn explain_program_refusal(used: &ToolReference, tool: &ToolDefinition) -> Option<(String, String)> {
    let name = &used.tool;
    let ToolKind::Mcp(server) = &tool.kind else {
        let reason = format!("an external agent can only use MCP servers, and `{name}` is not an MCP server");
        return Some((reason, "remove the tool, or offer it through an MCP server".to_owned()));
    };
    if let Some(member) = &used.member {
        let reason = format!("an external agent can only use whole servers, and `{name}.{member}` is one tool");
        return Some((reason, format!("write `{name}`")));
    }
    if tool.permission == PermissionMode::Deny {
        let reason = format!("`{name}` has `permission: deny`");
        return Some((
            reason,
            "remove the tool here, or remove `permission` from the server".to_owned(),
        ));
    }
    let McpServer::Command { cwd, sandbox, .. } = server else {
        return None;
    };
    let key = match (sandbox, cwd) {
        (Some(_), _) => "sandbox",
        (None, Some(_)) => "cwd",
        (None, None) => return None,
    };
    let reason = format!("an external agent starts its servers itself, so `{name}` cannot have the key `{key}`");
    Some((reason, format!("define another server without `{key}`")))
}

/// Gives a hint, with a fix, for each tool that no agent uses.
fn check_unused_tools(ensemble: &Ensemble) -> Vec<Finding> {
    let mut used: HashMap<&str, bool> = ensemble.tools.iter().map(|(name, _)| (&**name, false)).collect();
    for agent in &ensemble.agents {
        for tool_use in agent.kind.callable_tools() {
            used.insert(&tool_use.tool, true);
        }
    }
    let idle = ensemble.tools.iter().filter(|(name, _)| !used[&**name]);
    idle.map(|(name, _)| {
        let message = format!("no agent uses the tool `{name}`");
        Finding::new_hint(codes::UNUSED_TOOL, ToolDefinition::route_for(name).into_key_location(), message)
            .with_fix(RouteFix::new_unsafe("remove the tool", RouteEdit::Remove(ToolDefinition::route_for(name))))
            .with_help("add the tool to the `tools` of an agent that calls a model; a tool of an MCP server can be the `tool` of an agent")
    })
    .collect()
}
