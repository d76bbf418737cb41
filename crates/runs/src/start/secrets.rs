//! Which variables of the environment are secrets of a run.
//!
//! Invariant: they are known before anything starts.

use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::{
    AgentKind, Ensemble, HeaderText, McpServer, Profile, Setting, ToolKind, key_variables,
};
use ensemble_language::profiles::Profiles;
use ensemble_process::is_small;

use crate::drive::host::Host;

/// Adds what the ensemble and its profiles make a secret: keys of providers, and all values of the environment that a file
/// names. Child processes do not inherit the keys, nor what profiles name.
pub(crate) fn learn(ensemble: &Ensemble, profiles: &Profiles, host: &Host, secrets: &Secrets) {
    let of_profiles = profiles.written().flat_map(of_profile);
    let of_providers: Vec<&str> = key_variables().collect();
    let withheld = of_providers.into_iter().chain(of_profiles);
    for variable in withheld.filter(|variable| !is_small(variable)) {
        secrets.withhold(variable);
        secrets.learn(&host.variable(variable).unwrap_or_default());
    }
    for variable in of_settings(ensemble).filter(|variable| !is_small(variable)) {
        secrets.learn(&host.variable(variable).unwrap_or_default());
    }
}

fn of_profile(profile: &Profile) -> impl Iterator<Item = &str> {
    let headers = profile.headers.iter().filter_map(|(_, text)| match text {
        HeaderText::Env(variable) => Some(variable.as_str()),
        HeaderText::Text(_) => None,
    });
    profile.api_key_env.as_deref().into_iter().chain(headers)
}

/// The variables that agents and tools name by `{env: NAME}`.
fn of_settings(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    let agents = ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Script { env, .. } => Some(env.as_slice()),
        AgentKind::Llm(llm) => llm.acp().map(|acp| acp.program.env()),
        _ => None,
    });
    let tools = ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Script { env, .. } => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Command { env, .. }) => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Url { headers, .. }) => Some(headers.as_slice()),
        _ => None,
    });
    agents.chain(tools).flatten().filter_map(|(_, setting)| match setting {
        Setting::FromEnvironment { variable, .. } => Some(variable.as_str()),
        Setting::Text(_) | Setting::Passed => None,
    })
}
