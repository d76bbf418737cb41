//! The tools of LLM agents: here each meets who performs it.

use std::sync::Arc;

use super::sub_ensemble::{Inner, inner};
use super::wiring::{Unready, Wires};
use ensemble_agents::agent::script;
use ensemble_agents::agent::sub_ensemble::SubEnsembleRunner;
use ensemble_agents::agent::tool::mcp::Address;
use ensemble_agents::agent::tool::{Kit, Performer};
use ensemble_language::ensemble::{Llm, McpServer, Permission, Setting, Tool, ToolKind};

/// What an agent's model may call, and whether a simulated model takes part in it unseen.
pub(super) struct Equipment {
    /// The tools; `None` where there are none.
    pub kit: Option<Arc<Kit>>,
    /// Does an inner ensemble have a simulated model?
    pub simulated: bool,
}

/// Readies the tools that the agent uses.
///
/// # Errors
/// The first tool that cannot be made ready.
pub(super) fn equip(llm: &Llm, wires: &Wires<'_>) -> Result<Equipment, Unready> {
    let ensemble = wires.prepared.plan.ensemble();
    let mut kit = Kit::new(wires.shared.permits.clone());
    let mut simulated = false;
    for used in &llm.tools {
        let Some(tool) = ensemble.tool(&used.tool) else {
            continue;
        };
        if tool.permission == Permission::Deny {
            continue;
        }
        let failed = |error: Unready| error.of_tool(&used.tool);
        match &tool.kind {
            ToolKind::Mcp(server) => {
                let address = address(server, wires).map_err(failed)?;
                kit.add_server(used, tool, wires.shared.servers.at(address));
            }
            _ => {
                let (performer, is_simulated) = performer(tool, wires).map_err(failed)?;
                simulated |= is_simulated;
                kit.add(&used.tool, tool, parameters(tool), performer);
            }
        }
    }
    Ok(Equipment {
        kit: (!kit.is_empty()).then(|| Arc::new(kit)),
        simulated,
    })
}

fn parameters(tool: &Tool) -> serde_json::Value {
    let given = match &tool.kind {
        ToolKind::Script { parameters, .. } => Some(parameters),
        ToolKind::Agent { parameters, .. } | ToolKind::Ensemble { parameters, .. } => parameters.as_ref(),
        ToolKind::Mcp(_) => None,
    };
    given.cloned().unwrap_or_else(ToolKind::input_alone)
}

/// Who performs a tool that is no server's, and whether that is simulated and not told elsewhere.
fn performer(tool: &Tool, wires: &Wires<'_>) -> Result<(Performer, bool), Unready> {
    Ok(match &tool.kind {
        ToolKind::Script { script, .. } => {
            let runner = script::runner(script, &wires.places, wires.bounds());
            (Performer::Script(runner), false)
        }
        ToolKind::Agent { agent, .. } => {
            let ensemble = wires.prepared.plan.ensemble();
            let Some(performing) = ensemble.agent(agent) else {
                return Err(Unready::new(format!("there is no agent `{agent}`")));
            };
            let (runner, _) = wires.made(performing)?;
            let performer = Performer::Agent {
                name: performing.name.clone(),
                config: Arc::new(performing.config.clone()),
                timeout: performing.timeout,
                runner,
            };
            (performer, false)
        }
        ToolKind::Ensemble { ensemble, .. } => {
            let Inner {
                conversations,
                simulated,
            } = inner(ensemble, wires.prepared, wires.shared)?;
            (
                Performer::Ensemble(Arc::new(SubEnsembleRunner(conversations))),
                simulated,
            )
        }
        ToolKind::Mcp(_) => return Err(Unready::new("a server is no performer".to_owned())),
    })
}

/// The server's address, with what the environment adds.
fn address(server: &McpServer, wires: &Wires<'_>) -> Result<Address, Unready> {
    let settings = |settings: &[(String, Setting)]| -> Result<Vec<(String, String)>, Unready> {
        settings
            .iter()
            .map(|(name, setting)| Ok((name.clone(), value(setting)?)))
            .collect()
    };
    Ok(match server {
        McpServer::Command { command, env, cwd } => Address::Child {
            command: command.clone(),
            places: wires.places.clone(),
            folder: match cwd {
                Some(cwd) => wires.prepared.root.join(cwd),
                None => wires.prepared.root.clone(),
            },
            env: settings(env)?,
        },
        McpServer::Url { url, headers } => Address::Http {
            url: url.clone(),
            headers: settings(headers)?,
        },
    })
}

fn value(setting: &Setting) -> Result<String, Unready> {
    match setting {
        Setting::Text(text) => Ok(text.clone()),
        Setting::FromEnvironment { variable, prefix } => match std::env::var(variable) {
            Ok(value) => Ok(format!("{prefix}{value}")),
            Err(_) => Err(Unready::new(format!(
                "the environment variable `{variable}` is not set, or is no text"
            ))
            .with_help(format!("set it for this run: {variable}=… ensemble run …"))),
        },
    }
}
