//! Which variables of the environment are secrets of a run.
//!
//! Invariant: they are known before anything starts.

use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::{
    AgentKind, Ensemble, HeaderText, McpServer, ModelProfile, SettingValue, ToolKind, list_key_variables,
};
use ensemble_language::profiles::ModelProfiles;
use ensemble_process::is_minimal_variable;

use crate::drive::host::Host;

/// Adds what the ensemble and its profiles make a secret: keys of providers, and all values of the environment that a file
/// names. Child processes do not inherit the keys, nor what profiles name.
pub(crate) fn add_secrets(ensemble: &Ensemble, profiles: &ModelProfiles, host: &Host, secrets: &Secrets) {
    let of_profiles = profiles.written_profiles().flat_map(profile_variables);
    let of_providers: Vec<&str> = list_key_variables().collect();
    let withheld = of_providers.into_iter().chain(of_profiles);
    for variable in withheld.filter(|variable| !is_minimal_variable(variable)) {
        secrets.withhold_variable(variable);
        secrets.add_value(&host.read_variable(variable).unwrap_or_default());
    }
    for variable in setting_variables(ensemble).filter(|variable| !is_minimal_variable(variable)) {
        secrets.add_value(&host.read_variable(variable).unwrap_or_default());
    }
}

fn profile_variables(profile: &ModelProfile) -> impl Iterator<Item = &str> {
    let headers = profile.headers.iter().filter_map(|(_, text)| match text {
        HeaderText::Env(variable) => Some(variable.as_str()),
        HeaderText::Text(_) => None,
    });
    profile.api_key_env.as_deref().into_iter().chain(headers)
}

/// Returns the variables that agents and tools name by `{env: NAME}`.
fn setting_variables(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    let agents = ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Script { env, .. } => Some(env.as_slice()),
        AgentKind::Llm(llm) => llm.acp_agent().map(|acp| acp.program.env_variables()),
        _ => None,
    });
    let tools = ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Script { env, .. } => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Command { env, .. }) => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Url { headers, .. }) => Some(headers.as_slice()),
        _ => None,
    });
    agents.chain(tools).flatten().filter_map(|(_, setting)| match setting {
        SettingValue::FromEnvironment { variable, .. } => Some(variable.as_str()),
        SettingValue::Text(_) | SettingValue::Inherited => None,
    })
}
