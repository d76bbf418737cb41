//! The tools of LLM agents, each with what performs it.
//!
//! Invariant: a tool with `permission: deny` is not offered to the model.

use std::sync::Arc;

use ensemble_agents::agent::kinds::nested_ensemble::SubEnsembleRunner;
use ensemble_agents::agent::kinds::script;
use ensemble_agents::agent::kinds::tool_call::{CalledToolOptions, CalledToolRunner};
use ensemble_agents::agent::mcp::Address;
use ensemble_agents::agent::tools::{ToolRunner, Toolset};
use ensemble_core::runner::Runner;
use serde_json::Value;

use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{Agent, AgentKind, CommandLine, Llm, McpServer, Permission, Tool, ToolKind, ToolUse};

use crate::drive::client_servers::ClientServer;
use crate::runners::sandboxes::sandbox;
use crate::runners::shared_parts::{OpenInner, Parts, Unready};

/// The tools that an agent's model can call, and whether a simulated model takes part in them unseen.
pub(crate) struct AgentTools {
    /// The tools; `None` where there are none.
    pub(crate) toolset: Option<Arc<Toolset>>,
    /// Does an inner ensemble have a simulated model?
    pub(crate) simulated: bool,
}

/// Makes the runner of an agent that is a tool, and says whether it is simulated.
type MakeAgent<'a> = dyn Fn(&Agent) -> Result<(Arc<dyn Runner>, bool), Unready> + 'a;

/// Makes the tools that the agent uses ready.
///
/// # Errors
/// The first tool that cannot be made ready.
pub(crate) fn toolset_of(
    agent: &str,
    llm: &Llm,
    parts: &Parts<'_>,
    open: &OpenInner,
    made: &MakeAgent<'_>,
) -> Result<AgentTools, Unready> {
    let ensemble = parts.prepared.plan.ensemble();
    let mut toolset = Toolset::new(parts.shared.permissions.clone()).with_max_parallel(llm.max_parallel_tools);
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
                let address = address(&used.tool, server, parts).map_err(failed)?;
                toolset.add_server(used, tool, parts.shared.servers.at(address));
            }
            _ => {
                let made = tool_runner((agent, &used.tool), tool, parts, open, made).map_err(failed)?;
                simulated |= made.simulated;
                toolset.add(&used.tool, tool, parameters(tool, made.takes), made.runner);
            }
        }
    }
    Ok(AgentTools {
        toolset: (!toolset.is_empty()).then(|| Arc::new(toolset)),
        simulated,
    })
}

/// The runner of an agent that calls one tool of a server.
///
/// # Errors
/// The server cannot be made ready, or a text of the arguments is not a template.
pub(crate) fn called_tool(
    agent: &Agent,
    used: &ToolUse,
    arguments: &JsonMap,
    parts: &Parts<'_>,
) -> Result<Arc<dyn Runner>, Unready> {
    let declared = parts.prepared.plan.ensemble().tool(&used.tool);
    let Some((tool, ToolKind::Mcp(server))) = declared.map(|tool| (tool, &tool.kind)) else {
        return Err(Unready::new(format!("there is no MCP server `{}`", used.tool)));
    };
    let address = address(&used.tool, server, parts);
    let address = address.map_err(|error| error.of_tool(&used.tool).of_whole_agent())?;
    let options = CalledToolOptions {
        server: parts.shared.servers.at(address),
        permissions: parts.shared.permissions.clone(),
        live_output: parts.shared.live_output.clone(),
    };
    Ok(Arc::new(CalledToolRunner::new(agent, used, tool, arguments, options)?))
}

/// A tool's runner.
struct MadeTool {
    runner: ToolRunner,
    /// Is it simulated and not told elsewhere?
    simulated: bool,
    /// For an ensemble: the schema of the arguments that it takes, if it declares inputs.
    takes: Option<Value>,
}

fn parameters(tool: &Tool, takes: Option<Value>) -> Value {
    let given = match &tool.kind {
        ToolKind::Script { parameters, .. } => Some(parameters),
        ToolKind::Agent { parameters, .. } | ToolKind::Ensemble { parameters, .. } => parameters.as_ref(),
        ToolKind::Mcp(_) => None,
    };
    given.cloned().or(takes).unwrap_or_else(ToolKind::input_alone)
}

/// Returns the runner of a tool that belongs to no server.
fn tool_runner(
    (agent, name): (&str, &str),
    tool: &Tool,
    parts: &Parts<'_>,
    open: &OpenInner,
    made: &MakeAgent<'_>,
) -> Result<MadeTool, Unready> {
    let plain = |runner| MadeTool {
        runner,
        simulated: false,
        takes: None,
    };
    Ok(match &tool.kind {
        ToolKind::Script {
            script,
            env,
            sandbox: given,
            ..
        } => {
            let bounds = parts.bounds(env, sandbox(given.as_deref(), parts)?)?;
            let runner = script::runner(script, &parts.places, bounds);
            plain(ToolRunner::Script(runner))
        }
        ToolKind::Agent { agent, .. } => {
            let ensemble = parts.prepared.plan.ensemble();
            let Some(performing) = ensemble.agent(agent) else {
                return Err(Unready::new(format!("there is no agent `{agent}`")));
            };
            let (runner, _) = made(performing)?;
            let tool_runner = ToolRunner::Agent {
                name: performing.name.clone(),
                config: Arc::new(performing.config.clone()),
                timeout: performing.timeout,
                goes_on: matches!(
                    performing.kind,
                    AgentKind::Llm(_) | AgentKind::Ensemble { .. } | AgentKind::Tool { .. }
                ),
                runner,
            };
            plain(tool_runner)
        }
        ToolKind::Ensemble { ensemble, .. } => {
            let inner = open(ensemble, parts.prepared, &parts.shared.within_tool(agent, name))?;
            let runner = SubEnsembleRunner::tool(inner.conversations);
            MadeTool {
                runner: ToolRunner::Ensemble(Arc::new(runner)),
                simulated: inner.simulated,
                takes: inner.takes,
            }
        }
        ToolKind::Mcp(_) => return Err(Unready::new("an MCP server needs no tool runner".to_owned())),
    })
}

/// The address of the server of that tool, with what the environment adds.
pub(crate) fn address(tool: &str, server: &McpServer, parts: &Parts<'_>) -> Result<Address, Unready> {
    Ok(match server {
        McpServer::Command {
            command,
            env,
            cwd,
            sandbox: given,
        } => Address::Child {
            sandbox: sandbox(given.as_deref(), parts)?,
            command: command.clone(),
            places: parts.places.clone(),
            folder: match cwd {
                Some(cwd) => parts.prepared.root.join(cwd),
                None => parts.prepared.root.clone(),
            },
            env: parts.values(env)?,
        },
        McpServer::Url { url, headers } => Address::Http {
            url: url.clone(),
            headers: parts.values(headers)?,
        },
        McpServer::Client => match client_server(tool, parts)? {
            ClientServer::Command { command, args, env } => Address::Child {
                sandbox: None,
                command: CommandLine::Words(std::iter::once(command).chain(args).cloned().collect()),
                places: parts.places.clone(),
                folder: parts.prepared.root.clone(),
                env: env.clone(),
            },
            ClientServer::Http { url, headers } => Address::Http {
                url: url.clone(),
                headers: headers.clone(),
            },
        },
    })
}

/// The server of that name that was given with the run.
fn client_server<'p>(name: &str, parts: &Parts<'p>) -> Result<&'p ClientServer, Unready> {
    let servers = &parts.shared.client_servers;
    servers.get(name).ok_or_else(|| {
        let named: Vec<String> = servers.names().map(|name| format!("`{name}`")).collect();
        let message = match named.as_slice() {
            [] => "its server is named by the client of `ensemble acp`, and no servers are given".to_owned(),
            named => format!(
                "its server is named by the client of `ensemble acp`, and the servers that are given are {}",
                named.join(", ")
            ),
        };
        Unready::new(message).with_help(format!(
            "name a server `{name}` in the settings of the client, or give a file of servers: `--mcp-config .mcp.json`"
        ))
    })
}
