//! The environment variables that are secrets of a run.
//!
//! Invariant: secrets are known before any process or request is started.

use std::path::Path;

use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::{
    AcpProgram, AgentKind, CommandLine, ConfiguredHeader, Ensemble, EnvOrHeaderValue, McpServer, ModelProfile,
    ToolKind, list_key_variables,
};
use ensemble_language::profiles::ModelProfiles;
use ensemble_process::is_minimal_variable;
use ensemble_project::ProjectError;
use ensemble_project::nested::load_nested_unchecked;

use crate::drive::client_servers::list_secret_argument_values;
use crate::drive::host::RunHost;
use crate::prepare::{PreparedEnsemble, collect_profiles, ensemble_folder};
use crate::project::Project;

/// Adds the secrets of the ensemble and its profiles: keys of providers, all environment values that files name, and keys in arguments of
/// servers. Withholds the keys, and the variables of profiles, from child processes.
pub(crate) fn register_ensemble_secrets(
    ensemble: &Ensemble,
    profiles: &ModelProfiles,
    host: &RunHost,
    secrets: &Secrets,
) {
    let of_profiles = profiles.source_profiles().flat_map(list_profile_variables);
    let of_providers: Vec<&str> = list_key_variables().collect();
    let mut values = Vec::new();
    let withheld = of_providers.into_iter().chain(of_profiles);
    for variable in withheld.filter(|variable| !is_minimal_variable(variable)) {
        secrets.withhold_from_children(variable);
        values.extend(host.read_variable(variable));
    }
    let listed = list_setting_variables(ensemble).chain(list_sandbox_variables(ensemble));
    for variable in listed.filter(|variable| !is_minimal_variable(variable)) {
        values.extend(host.read_variable(variable));
    }
    for (_, tool) in &ensemble.tools {
        if let ToolKind::Mcp(McpServer::Command { command, .. }) = &tool.kind {
            let words: Vec<&str> = match command {
                CommandLine::Text(text) => text.split_whitespace().collect(),
                CommandLine::Words(words) => words.iter().map(String::as_str).collect(),
            };
            values.extend(list_secret_argument_values(words).into_iter().map(str::to_owned));
        }
    }
    for agent in &ensemble.agents {
        if let AgentKind::Llm(llm) = &agent.kind
            && let Some(AcpProgram::Command { args, .. }) = llm.acp_agent().map(|acp| &acp.program)
        {
            let keys = list_secret_argument_values(args.iter().map(String::as_str));
            values.extend(keys.into_iter().map(str::to_owned));
        }
    }
    secrets.add_secrets(values.iter().map(String::as_str));
}

/// Collects the secrets of all runs of this ensemble: those of the ensemble, its nested ensembles and this program.
///
/// # Errors
///
/// A configuration cannot be read.
pub(crate) fn collect_run_secrets(
    prepared: &PreparedEnsemble,
    project: &Project,
    host: &RunHost,
) -> Result<Secrets, ProjectError> {
    let secrets = host.model_network().secrets().clone();
    host.register_secrets(&secrets);
    host.default_client_servers().register_secrets(&secrets);
    let add_ensemble = |ensemble: &Ensemble, folder: &Path| -> Result<(), ProjectError> {
        let profiles = collect_profiles(ensemble, folder, Vec::new(), project)?;
        register_ensemble_secrets(ensemble, &profiles, host, &secrets);
        Ok(())
    };
    let ensemble = prepared.plan.ensemble();
    add_ensemble(ensemble, &prepared.folder)?;
    for (path, nested) in load_nested_unchecked(ensemble, Path::new(prepared.source.name()), project) {
        add_ensemble(&nested, &ensemble_folder(&path, project))?;
    }
    Ok(secrets)
}

/// Lists the environment variables that a profile names: of its key and of its headers.
fn list_profile_variables(profile: &ModelProfile) -> impl Iterator<Item = &str> {
    let headers = profile.headers.iter().filter_map(|(_, text)| match text {
        ConfiguredHeader::Env(variable) => Some(variable.as_str()),
        ConfiguredHeader::Text(_) => None,
    });
    profile.api_key_env.as_deref().into_iter().chain(headers)
}

/// Lists the variables that agents and tools name with `{env: NAME}`, or in a list.
fn list_setting_variables(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    let agents = ensemble.agents.iter().filter_map(|agent| match &agent.kind {
        AgentKind::Script { env, .. } => Some(env.as_slice()),
        AgentKind::Llm(llm) => llm.acp_agent().map(|acp| acp.program.declared_variables()),
        _ => None,
    });
    let tools = ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Script { env, .. } => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Command { env, .. }) => Some(env.as_slice()),
        ToolKind::Mcp(McpServer::Url { headers, .. }) => Some(headers.as_slice()),
        _ => None,
    });
    agents
        .chain(tools)
        .flatten()
        .filter_map(|(name, setting)| match setting {
            EnvOrHeaderValue::FromEnvironment { variable, .. } => Some(variable.as_str()),
            EnvOrHeaderValue::Inherited => Some(name.as_str()),
            EnvOrHeaderValue::Text(_) => None,
        })
}

/// Lists the variables that sandboxes allow.
fn list_sandbox_variables(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    let agents = ensemble.agents.iter().filter_map(|agent| agent.sandbox.as_deref());
    let tools = ensemble.tools.iter().filter_map(|(_, tool)| match &tool.kind {
        ToolKind::Script { sandbox, .. } | ToolKind::Mcp(McpServer::Command { sandbox, .. }) => sandbox.as_deref(),
        _ => None,
    });
    agents.chain(tools).flat_map(|sandbox| &sandbox.env).map(String::as_str)
}
