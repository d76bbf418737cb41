//! What a file would do with the user's keys and environment, a line for each. A line has no characters that hide or
//! change what a terminal shows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use ensemble_core::operator::visible;
use ensemble_language::ensemble::{
    AcpProgram, AgentKind, CommandLine, Ensemble, HeaderText, McpServer, Permission, Profile, Provider, Setting,
    ToolKind, ToolUse, is_own_address, key_variables,
};
use ensemble_language::profiles::Override;
use ensemble_process::is_small;

/// Returns the variables that a profile sends. The provider's own key at the provider's own address is not among them.
pub(crate) fn of_profile(name: &str, profile: &Profile) -> Vec<String> {
    let Some(provider) = Provider::named(&profile.provider) else {
        return Vec::new();
    };
    let name = visible(name);
    let address = profile.base_url.as_deref().unwrap_or(provider.base_url);
    let shown = visible(address);
    let mut lines = Vec::new();
    let key = profile.api_key_env.as_deref();
    if let Some(variable) = key.filter(|variable| !is_own_address(variable, address)) {
        lines.push(format!("model profile `{name}` sends the key in {variable} to {shown}"));
    }
    for (header, text) in &profile.headers {
        if let HeaderText::Env(variable) = text {
            lines.push(format!(
                "model profile `{name}` sends the value of {variable} to {shown}, in the header {}",
                visible(header)
            ));
        }
    }
    lines
}

/// Returns the variables that an ensemble sends with these overrides of models, and those that its programs receive.
pub(crate) fn of_ensemble(ensemble: &Ensemble, overrides: &[Override], root: &Path) -> Vec<String> {
    let of_profile = |(name, profile): &(Arc<str>, Profile)| {
        of_profile(name, &Override::all_applied(overrides, name, profile.clone()))
    };
    let mut lines: Vec<String> = ensemble.model_profiles.iter().flat_map(of_profile).collect();
    let mut keys: BTreeSet<&str> = key_variables().collect();
    keys.extend(named(ensemble));
    for agent in &ensemble.agents {
        if let AgentKind::Script { script, env } = &agent.kind {
            let who = format!("agent `{}`", visible(&agent.name));
            of_script(&who, script, env, &keys, &mut lines);
        }
        if let AgentKind::Llm(llm) = &agent.kind
            && let Some(acp) = llm.acp()
        {
            let name = visible(&agent.name);
            of_external(&name, &acp.program, &mut lines);
            let given = llm.tools.iter().filter(|used| is_client_server(ensemble, used));
            lines.extend(given.map(|used| {
                let (program, server) = (visible(acp.program.shown()), visible(&used.tool));
                format!("agent `{name}` gives the server `{server}` that your client names, with its keys, to the program `{program}`")
            }));
        }
    }
    for (name, tool) in &ensemble.tools {
        match &tool.kind {
            ToolKind::Mcp(McpServer::Client) if tool.permission == Permission::Allow => lines.push(format!(
                "tool `{}` calls tools of the server of this name that your client names, without asking",
                visible(name)
            )),
            ToolKind::Mcp(server) => of_server(&visible(name), server, root, &mut lines),
            ToolKind::Script { script, env, .. } => {
                of_script(&format!("tool `{}`", visible(name)), script, env, &keys, &mut lines);
            }
            ToolKind::Agent { .. } | ToolKind::Ensemble { .. } => {}
        }
    }
    lines
}

fn is_client_server(ensemble: &Ensemble, used: &ToolUse) -> bool {
    let tool = ensemble.tool(&used.tool);
    tool.is_some_and(|tool| tool.kind == ToolKind::Mcp(McpServer::Client))
}

/// The variables that the ensemble's profiles name.
fn named(ensemble: &Ensemble) -> impl Iterator<Item = &str> {
    ensemble.model_profiles.iter().flat_map(|(_, profile)| {
        let headers = profile.headers.iter().filter_map(|(_, text)| match text {
            HeaderText::Env(variable) => Some(variable.as_str()),
            HeaderText::Text(_) => None,
        });
        profile.api_key_env.as_deref().into_iter().chain(headers)
    })
}

/// A script inherits the user's environment without keys, so only keys and `{env: NAME}` are told.
fn of_script(who: &str, script: &str, env: &[(String, Setting)], keys: &BTreeSet<&str>, lines: &mut Vec<String>) {
    for (own, variable) in variables(env) {
        let is_passed = own == variable;
        if is_passed && !keys.contains(variable) && env.iter().any(|(name, it)| name == own && *it == Setting::Passed) {
            continue;
        }
        let (script, own) = (visible(script), visible(own));
        lines.push(format!(
            "{who} gives the value of {variable} to the script `{script}`, as {own}"
        ));
    }
}

/// A program with a small environment: every other variable that it is given is told.
fn of_external(agent: &str, program: &AcpProgram, lines: &mut Vec<String>) {
    for (own, variable) in variables(program.env()).filter(|(own, variable)| own != variable || !is_small(variable)) {
        let (program, own) = (visible(program.shown()), visible(own));
        lines.push(format!(
            "agent `{agent}` gives the value of {variable} to the program `{program}`, as {own}"
        ));
    }
}

fn of_server(name: &str, server: &McpServer, root: &Path, lines: &mut Vec<String>) {
    match server {
        McpServer::Url { url, headers } => {
            let url = visible(url);
            for (header, variable) in variables(headers) {
                let header = visible(header);
                lines.push(format!(
                    "tool `{name}` sends the value of {variable} to {url}, in the header {header}"
                ));
            }
        }
        McpServer::Command { command, env, cwd, .. } => {
            let folder = cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
            let folder = visible(&folder.display().to_string());
            let passed = |(own, variable): &(&str, &str)| own != variable || !is_small(variable);
            for (own, variable) in variables(env).filter(passed) {
                let (command, own) = (words(command), visible(own));
                lines.push(format!(
                    "tool `{name}` gives the value of {variable} to the program `{command}` in {folder}, as {own}"
                ));
            }
        }
        McpServer::Client => {}
    }
}

fn variables(settings: &[(String, Setting)]) -> impl Iterator<Item = (&str, &str)> {
    settings.iter().filter_map(|(name, setting)| match setting {
        Setting::FromEnvironment { variable, .. } => Some((name.as_str(), variable.as_str())),
        Setting::Passed => Some((name.as_str(), name.as_str())),
        Setting::Text(_) => None,
    })
}

fn words(command: &CommandLine) -> String {
    visible(&match command {
        CommandLine::Text(text) => text.clone(),
        CommandLine::Words(words) => words.join(" "),
    })
}
