//! The external resources of agents: processes, models and MCP servers.
//!
//! Invariant: an agent without an external resource starts no process and calls no model.

use ensemble_language::ensemble::{
    Agent, AgentKind, LlmSpec, ModelChoice, PermissionMode, PreparedResponses, QuestionSpec, ToolDefinition, ToolKind,
    ToolReference, WindowStrategy,
};
use ensemble_process::program::{ResolvedScript, resolve_script};

use crate::runners::shared_parts::AgentBuildContext;

/// Describes the external resource that the agent needs, such as a program or a model. Returns `None` if it needs none. Agents and
/// ensembles that are its tools are not checked.
pub(crate) fn describe_external_need(agent: &Agent, parts: &AgentBuildContext<'_>) -> Option<String> {
    match &agent.kind {
        AgentKind::Script { script, .. } => describe_script_program(script, parts),
        AgentKind::Llm(llm) if let Some(acp) = llm.acp_agent() => Some(match acp.is_simulated() {
            true => "the built-in external agent".to_owned(),
            false => format!("the external agent `{}`", acp.program.display_name()),
        }),
        AgentKind::Llm(llm) => describe_agent_model(llm, parts).or_else(|| describe_tool_need(agent, llm, parts)),
        AgentKind::Input(QuestionSpec {
            responses: Some(PreparedResponses::Profile(profile)),
            ..
        }) => describe_remote_model(&ModelChoice::Profile(profile.clone()), parts),
        AgentKind::Tool { used, .. } if is_stubbed_server(agent, used, parts) => None,
        AgentKind::Tool { used, .. } => Some(format!("the MCP server `{}`", used.tool)),
        AgentKind::Input(_) | AgentKind::Ensemble { .. } => None,
    }
}

/// Describes the program that `script` starts. Returns `None` for a Rhai script, even if its file is missing.
pub(crate) fn describe_script_program(script: &str, parts: &AgentBuildContext<'_>) -> Option<String> {
    let is_rhai = match resolve_script(script, &parts.places) {
        Ok(resolved) => matches!(resolved, ResolvedScript::Rhai(_)),
        Err(_) => script.trim().ends_with(".rhai"),
    };
    (!is_rhai).then(|| format!("the program `{script}`"))
}

/// Describes the first model of the agent that is not simulated, including the model of its summaries.
fn describe_agent_model(llm: &LlmSpec, parts: &AgentBuildContext<'_>) -> Option<String> {
    let summarizer = llm.context_window.as_ref().and_then(|window| match &window.strategy {
        WindowStrategy::Summarize(Some(profile)) => {
            describe_remote_model(&ModelChoice::Profile(profile.clone()), parts)
        }
        _ => None,
    });
    describe_remote_model(&llm.model, parts).or(summarizer)
}

/// Describes the first model of the choice that is not simulated.
pub(crate) fn describe_remote_model(choice: &ModelChoice, parts: &AgentBuildContext<'_>) -> Option<String> {
    let model_name = match choice {
        ModelChoice::Profile(name) => name.to_string(),
        ModelChoice::Model { provider, model } => format!("{provider}/{model}"),
        ModelChoice::Acp(acp) => acp.program.display_name().to_owned(),
    };
    match parts.profiles.resolve_chain(choice) {
        Ok(resolved) => resolved
            .first_remote_model()
            .map(|model| format!("the model `{model}`")),
        Err(_) => Some(format!("the model profile `{model_name}`")),
    }
}

/// Returns whether a stub replaces the whole server, so that the server is not started.
fn is_stubbed_server(agent: &Agent, used: &ToolReference, parts: &AgentBuildContext<'_>) -> bool {
    let replacements = parts.shared.replacements.as_deref();
    let stub = replacements.and_then(|replacements| replacements.find_server_stub(agent, used));
    stub.is_some_and(|stub| stub.stubbed_tool_names().is_some())
}

/// Describes the first MCP server of the agent's tools that no stub replaces.
pub(crate) fn describe_unstubbed_server(agent: &Agent, llm: &LlmSpec, parts: &AgentBuildContext<'_>) -> Option<String> {
    let ensemble = parts.prepared.plan.ensemble();
    let is_server =
        |tool: &ToolDefinition| tool.permission != PermissionMode::Deny && matches!(tool.kind, ToolKind::Mcp(_));
    let mut used_tools = llm.tools.iter();
    let used = used_tools
        .find(|used| ensemble.find_tool(&used.tool).is_some_and(is_server) && !is_stubbed_server(agent, used, parts))?;
    Some(format!("the MCP server `{}`", used.tool))
}

/// Describes the first external resource that the tools of the agent need: a model, a server or a program.
fn describe_tool_need(agent: &Agent, llm: &LlmSpec, parts: &AgentBuildContext<'_>) -> Option<String> {
    let ensemble = parts.prepared.plan.ensemble();
    llm.tools.iter().find_map(|used| {
        let tool = ensemble.find_tool(&used.tool)?;
        if tool.permission == PermissionMode::Deny {
            return None;
        }
        let summarizer = tool.summary_profile().cloned();
        if let Some(model) = summarizer.and_then(|profile| describe_remote_model(&ModelChoice::Profile(profile), parts))
        {
            return Some(model);
        }
        match &tool.kind {
            ToolKind::Mcp(_) if is_stubbed_server(agent, used, parts) => None,
            ToolKind::Mcp(_) => Some(format!("the MCP server `{}`", used.tool)),
            ToolKind::Script { .. } if is_stubbed_tool(&used.tool, tool, parts) => None,
            ToolKind::Script { script, .. } => {
                describe_script_program(script, parts).map(|program| format!("{program} of the tool `{}`", used.tool))
            }
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => None,
        }
    })
}

/// Returns whether a stub replaces the tool, so that the tool itself is not called.
fn is_stubbed_tool(name: &str, tool: &ToolDefinition, parts: &AgentBuildContext<'_>) -> bool {
    let replacements = parts.shared.replacements.as_deref();
    replacements.is_some_and(|replacements| replacements.never_starts_tool(name, tool))
}
