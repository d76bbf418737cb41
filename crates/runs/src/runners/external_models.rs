//! What an agent needs from outside of the program: processes, models, servers of tools.
//!
//! Invariant: what it does not name starts no process and asks no model.

use ensemble_agents::agent::kinds::script;
use ensemble_language::ensemble::{
    Agent, AgentKind, InputSpec, Llm, ModelChoice, Permission, Responses, Strategy, ToolKind,
};
use ensemble_process::program::{Resolved, resolve};

use crate::runners::shared_parts::Parts;

/// Describes what the agent needs from outside. Returns `None` if it needs nothing. Agents and ensembles that are its
/// tools are not examined.
pub(crate) fn needed(agent: &Agent, parts: &Parts<'_>) -> Option<String> {
    match &agent.kind {
        AgentKind::Script { script, .. } => program(script, parts),
        AgentKind::Llm(llm) if let Some(acp) = llm.acp() => Some(match acp.is_simulated() {
            true => "the built-in external agent".to_owned(),
            false => format!("the external agent `{}`", acp.program.shown()),
        }),
        AgentKind::Llm(llm) => model_of(llm, parts).or_else(|| tools(llm, parts)),
        AgentKind::Input(InputSpec {
            responses: Some(Responses::Profile(profile)),
            ..
        }) => model(&ModelChoice::Profile(profile.clone()), parts),
        AgentKind::Tool { used, .. } => Some(format!("the MCP server `{}`", used.tool)),
        AgentKind::Input(_) | AgentKind::Ensemble { .. } => None,
    }
}

/// The program that `script` starts. A Rhai script needs none, whether it is there or not.
fn program(script: &str, parts: &Parts<'_>) -> Option<String> {
    let is_rhai = match resolve(script, &parts.places) {
        Ok(resolved) => matches!(resolved, Resolved::Rhai(_)),
        Err(_) => script.trim().ends_with(".rhai"),
    };
    (!is_rhai).then(|| format!("the program `{script}`"))
}

fn model_of(llm: &Llm, parts: &Parts<'_>) -> Option<String> {
    let summarizer = llm.context_window.as_ref().and_then(|window| match &window.strategy {
        Strategy::Summarize(Some(profile)) => model(&ModelChoice::Profile(profile.clone()), parts),
        _ => None,
    });
    model(&llm.model, parts).or(summarizer)
}

/// The first model of the choice that is not simulated.
fn model(choice: &ModelChoice, parts: &Parts<'_>) -> Option<String> {
    let named = match choice {
        ModelChoice::Profile(name) => name.to_string(),
        ModelChoice::Model { provider, model } => format!("{provider}/{model}"),
        ModelChoice::Acp(acp) => acp.program.shown().to_owned(),
    };
    match parts.profiles.resolve(choice) {
        Ok(resolved) => resolved.first_remote().map(|model| format!("the model `{model}`")),
        Err(_) => Some(format!("the model profile `{named}`")),
    }
}

fn tools(llm: &Llm, parts: &Parts<'_>) -> Option<String> {
    let ensemble = parts.prepared.plan.ensemble();
    llm.tools.iter().find_map(|used| {
        let tool = ensemble.tool(&used.tool)?;
        if tool.permission == Permission::Deny {
            return None;
        }
        match &tool.kind {
            ToolKind::Mcp(_) => Some(format!("the MCP server `{}`", used.tool)),
            ToolKind::Script { script, .. } => {
                program(script, parts).map(|program| format!("{program} of the tool `{}`", used.tool))
            }
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => None,
        }
    })
}
