//! Descriptions of the ways in which a file uses the user's keys and environment, a line for each. A line contains no characters that hide or
//! change the output of a terminal.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ensemble_core::operator::escape_hidden;
use ensemble_language::ensemble::{
    AcpProgram, AgentKind, CommandLine, ConfiguredHeader, Ensemble, EnvOrHeaderValue, HttpProvider, McpServer,
    ModelProfile, PermissionMode, ToolKind, ToolReference, is_own_service_url, list_key_variables,
};
use ensemble_language::profiles::ModelOverride;
use ensemble_process::is_minimal_variable;

/// Returns a line for each variable that the profile sends. The key of a provider that is sent to the provider's address needs no line.
pub(crate) fn describe_profile_uses(name: &str, profile: &ModelProfile) -> Vec<String> {
    let Some(provider) = HttpProvider::find_by_name(&profile.provider) else {
        return Vec::new();
    };
    let name = escape_hidden(name);
    let address = profile.base_url.as_deref().unwrap_or(provider.base_url);
    let display_address = escape_hidden(address);
    let mut lines = Vec::new();
    let key = profile.api_key_env.as_deref();
    if let Some(variable) = key.filter(|variable| !is_own_service_url(variable, address)) {
        lines.push(format!(
            "model profile `{name}` sends the key in {variable} to {display_address}"
        ));
    }
    for (header, text) in &profile.headers {
        if let ConfiguredHeader::Env(variable) = text {
            lines.push(format!(
                "model profile `{name}` sends the value of {variable} to {display_address}, in the header {}",
                escape_hidden(header)
            ));
        }
    }
    lines
}

/// Returns a line for each variable that the ensemble sends with these overrides of models, or passes to programs.
pub(crate) fn describe_ensemble_uses(ensemble: &Ensemble, overrides: &[ModelOverride], root: &Path) -> Vec<String> {
    let of_profile = |(name, profile): &(Arc<str>, ModelProfile)| {
        describe_profile_uses(name, &ModelOverride::apply_matching(overrides, name, profile.clone()))
    };
    let mut lines: Vec<String> = ensemble.model_profiles.iter().flat_map(of_profile).collect();
    let mut keys: BTreeSet<&str> = list_key_variables().collect();
    keys.extend(list_profile_variable_names(ensemble));
    for agent in &ensemble.agents {
        if let AgentKind::Script { script, env, .. } = &agent.kind {
            let label = format!("agent `{}`", escape_hidden(&agent.name));
            push_script_uses(&label, script, env, &keys, &mut lines);
        }
        if let AgentKind::Llm(llm) = &agent.kind
            && let Some(acp) = llm.acp_agent()
        {
            let name = escape_hidden(&agent.name);
            push_external_program_uses(&name, &acp.program, &mut lines);
            let client_servers = llm.tools.iter().filter(|used| is_client_mcp_server(ensemble, used));
            lines.extend(client_servers.map(|used| {
                let (program, server) = (escape_hidden(acp.program.display_name()), escape_hidden(&used.tool));
                format!("agent `{name}` passes the server `{server}` of your client, with its keys, to the program `{program}`")
            }));
        }
    }
    for (name, tool) in &ensemble.tools {
        match &tool.kind {
            ToolKind::Mcp(McpServer::Client) if tool.permission == PermissionMode::Allow => lines.push(format!(
                "tool `{}` calls tools of the server of this name in your client, without asking",
                escape_hidden(name)
            )),
            ToolKind::Mcp(server) => push_server_uses(&escape_hidden(name), server, root, &mut lines),
            ToolKind::Script { script, env, .. } => {
                push_script_uses(
                    &format!("tool `{}`", escape_hidden(name)),
                    script,
                    env,
                    &keys,
                    &mut lines,
                );
            }
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => {}
        }
    }
    lines
}

/// Returns whether the tool is a server of the MCP client.
fn is_client_mcp_server(ensemble: &Ensemble, used: &ToolReference) -> bool {
    let tool = ensemble.find_tool(&used.tool);
    tool.is_some_and(|tool| tool.kind == ToolKind::Mcp(McpServer::Client))
}

/// Iterates over the variables that the profiles of the ensemble name.
fn list_profile_variable_names(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    ensemble.model_profiles.iter().flat_map(|(_, profile)| {
        let headers = profile.headers.iter().filter_map(|(_, text)| match text {
            ConfiguredHeader::Env(variable) => Some(variable.as_str()),
            ConfiguredHeader::Text(_) => None,
        });
        profile.api_key_env.as_deref().into_iter().chain(headers)
    })
}

/// Appends a line for each key or `{env: NAME}` that the script gets. A script inherits the environment without keys. `who` names the
/// agent or tool.
fn push_script_uses(
    who: &str,
    script: &str,
    env: &[(String, EnvOrHeaderValue)],
    keys: &BTreeSet<&str>,
    lines: &mut Vec<String>,
) {
    for (own, variable) in pairs_with_source_variables(env) {
        let is_passed = own == variable;
        if is_passed
            && !keys.contains(variable)
            && env
                .iter()
                .any(|(name, it)| name == own && *it == EnvOrHeaderValue::Inherited)
        {
            continue;
        }
        let (script, own) = (escape_hidden(script), escape_hidden(own));
        lines.push(format!(
            "{who} gives the value of {variable} to the script `{script}`, as {own}"
        ));
    }
}

/// Appends a line for each variable outside of the minimal environment that the program gets.
fn push_external_program_uses(agent: &str, program: &AcpProgram, lines: &mut Vec<String>) {
    for (own, variable) in pairs_with_source_variables(program.declared_variables())
        .filter(|(own, variable)| own != variable || !is_minimal_variable(variable))
    {
        let (program, own) = (escape_hidden(program.display_name()), escape_hidden(own));
        lines.push(format!(
            "agent `{agent}` gives the value of {variable} to the program `{program}`, as {own}"
        ));
    }
}

/// Appends a line for each variable that the MCP server gets.
fn push_server_uses(name: &str, server: &McpServer, root: &Path, lines: &mut Vec<String>) {
    match server {
        McpServer::Url { url, headers } => {
            let url = escape_hidden(url);
            for (header, variable) in pairs_with_source_variables(headers) {
                let header = escape_hidden(header);
                lines.push(format!(
                    "tool `{name}` sends the value of {variable} to {url}, in the header {header}"
                ));
            }
        }
        McpServer::Command { command, env, cwd, .. } => {
            let folder = cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
            let folder = escape_hidden(&folder.display().to_string());
            let passed = |(own, variable): &(&str, &str)| own != variable || !is_minimal_variable(variable);
            for (own, variable) in pairs_with_source_variables(env).filter(passed) {
                let (command, own) = (escape_command_line(command), escape_hidden(own));
                lines.push(format!(
                    "tool `{name}` gives the value of {variable} to the program `{command}` in {folder}, as {own}"
                ));
            }
        }
        McpServer::Client => {}
    }
}

/// Iterates over the settings from the environment, as the name of the setting and the name of its variable.
fn pairs_with_source_variables(settings: &[(String, EnvOrHeaderValue)]) -> impl Iterator<Item = (&str, &str)> {
    settings.iter().filter_map(|(name, setting)| match setting {
        EnvOrHeaderValue::FromEnvironment { variable, .. } => Some((name.as_str(), variable.as_str())),
        EnvOrHeaderValue::Inherited => Some((name.as_str(), name.as_str())),
        EnvOrHeaderValue::Text(_) => None,
    })
}

/// Returns the command line as text, with its control characters escaped.
fn escape_command_line(command: &CommandLine) -> String {
    escape_hidden(&match command {
        CommandLine::Text(text) => text.clone(),
        CommandLine::Words(words) => words.join(" "),
    })
}
