//! What a file would do with the user's keys and environment, a line for each. A line has no characters that hide or
//! change what a terminal shows.

use std::path::Path;
use std::sync::Arc;

use ensemble_agents::model::Override;
use ensemble_core::operator::visible;
use ensemble_language::ensemble::{
    CommandLine, Ensemble, HeaderText, McpServer, Profile, Provider, Setting, ToolKind, is_own_address,
};

/// What a profile sends. The provider's own key at the provider's own address is not among it.
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

/// What an ensemble whose project is there sends, with these overrides of models, and gives to the programs that it starts.
pub(crate) fn of_ensemble(ensemble: &Ensemble, overrides: &[Override], root: &Path) -> Vec<String> {
    let of_profile = |(name, profile): &(Arc<str>, Profile)| {
        of_profile(name, &Override::all_applied(overrides, name, profile.clone()))
    };
    let mut lines: Vec<String> = ensemble.model_profiles.iter().flat_map(of_profile).collect();
    for (name, tool) in &ensemble.tools {
        if let ToolKind::Mcp(server) = &tool.kind {
            of_server(&visible(name), server, root, &mut lines);
        }
    }
    lines
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
        McpServer::Command { command, env, cwd } => {
            let folder = cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
            let folder = visible(&folder.display().to_string());
            for (own, variable) in variables(env) {
                let (command, own) = (words(command), visible(own));
                lines.push(format!(
                    "tool `{name}` gives the value of {variable} to the program `{command}` in {folder}, as {own}"
                ));
            }
        }
    }
}

fn variables(settings: &[(String, Setting)]) -> impl Iterator<Item = (&str, &str)> {
    settings.iter().filter_map(|(name, setting)| match setting {
        Setting::FromEnvironment { variable, .. } => Some((name.as_str(), variable.as_str())),
        Setting::Text(_) => None,
    })
}

fn words(command: &CommandLine) -> String {
    visible(&match command {
        CommandLine::Text(text) => text.clone(),
        CommandLine::Words(words) => words.join(" "),
    })
}
