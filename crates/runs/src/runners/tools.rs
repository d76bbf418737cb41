//! The tools of LLM agents, each with its runner.
//!
//! Invariant: a tool with `permission: deny` is not offered to the model.

use std::sync::Arc;

use ensemble_agents::agent::kinds::nested_ensemble::NestedEnsembleRunner;
use ensemble_agents::agent::kinds::script::{self, ScriptTemplates};
use ensemble_agents::agent::kinds::tool_call::{ToolAgentOptions, ToolAgentRunner};
use ensemble_agents::agent::mcp::{McpAddress, McpServerHandle};
use ensemble_agents::agent::tools::{AgentToolset, DeclaredToolRunner, ResultSummarizer};
use ensemble_core::runner::Runner;
use ensemble_models::Model;
use serde_json::Value;

use ensemble_language::data::JsonMap;
use ensemble_language::ensemble::{
    Agent, AgentKind, CommandLine, LlmSpec, McpServer, ModelChoice, PermissionMode, ToolDefinition, ToolKind,
    ToolReference,
};

use crate::drive::client_servers::ClientServer;
use crate::runners::external_models::{describe_remote_model, describe_script_program};
use crate::runners::sandboxes::build_sandbox;
use crate::runners::shared_parts::{AgentBuildContext, AgentBuildError, NestedEnsembleOpener};

/// The tools that an agent's model can call. `is_simulated` reports a simulated model in one of the tools.
pub(crate) struct BuiltAgentTools {
    /// The tools; `None` where there are none.
    pub(crate) toolset: Option<AgentToolset>,
    /// True if a nested ensemble uses a simulated model.
    pub(crate) is_simulated: bool,
}

/// A function that builds the runner of an agent that is a tool, and returns whether a simulated model is used.
type AgentRunnerBuilder<'a> = dyn Fn(&Agent) -> Result<(Arc<dyn Runner>, bool), AgentBuildError> + 'a;

/// Builds all tools that the agent uses, except denied tools.
///
/// # Errors
///
/// The first tool that cannot be built.
pub(crate) fn build_toolset(
    agent: &Agent,
    llm: &LlmSpec,
    parts: &AgentBuildContext<'_>,
    open: &NestedEnsembleOpener<'_>,
    made: &AgentRunnerBuilder<'_>,
) -> Result<BuiltAgentTools, AgentBuildError> {
    let ensemble = parts.prepared.plan.ensemble();
    let mut toolset = AgentToolset::new(parts.shared.permissions.clone()).with_max_parallel(llm.max_parallel_tools);
    let mut simulated = false;
    for used in &llm.tools {
        let Some(tool) = ensemble.find_tool(&used.tool) else {
            continue;
        };
        if tool.permission == PermissionMode::Deny {
            continue;
        }
        let failed = |error: AgentBuildError| error.attribute_to_tool(&used.tool);
        match &tool.kind {
            ToolKind::Mcp(server) => {
                let server = connect_or_stub_server(agent, used, server, parts).map_err(failed)?;
                toolset.add_server_tools(used, tool, server);
            }
            _ => {
                let built_tool =
                    build_tool_runner((&agent.name, &used.tool), tool, parts, open, made).map_err(failed)?;
                simulated |= built_tool.is_simulated;
                toolset.add_declared_tool(
                    &used.tool,
                    tool,
                    tool_parameter_schema(tool, built_tool.input_schema),
                    built_tool.runner,
                );
            }
        }
    }
    Ok(BuiltAgentTools {
        toolset: (!toolset.is_empty()).then_some(toolset),
        is_simulated: simulated,
    })
}

impl BuiltAgentTools {
    /// Sets the models that summarize large results of tools. If a stub replaces the agent's model, the stub replaces remote summarizing
    /// models as well.
    ///
    /// # Errors
    ///
    /// A model cannot be connected.
    pub(crate) fn with_summarizers(
        self,
        agent: &Agent,
        llm: &LlmSpec,
        parts: &AgentBuildContext<'_>,
        own_model: &dyn Fn() -> Result<Model, AgentBuildError>,
    ) -> Result<Self, AgentBuildError> {
        let Self {
            toolset: Some(mut toolset),
            mut is_simulated,
        } = self
        else {
            return Ok(Self { toolset: None, ..self });
        };
        let replacements = parts.shared.replacements.as_deref();
        let has_stub = replacements.is_some_and(|replacements| replacements.find_reply_stub(agent).is_some());
        for used in &llm.tools {
            let tool = parts.prepared.plan.ensemble().find_tool(&used.tool);
            let Some((tool, above)) = tool.and_then(|tool| Some((tool, tool.summarize_above?))) else {
                continue;
            };
            let choice = tool.summary_profile().cloned().map(ModelChoice::Profile);
            let choice = choice.filter(|choice| !has_stub || describe_remote_model(choice, parts).is_none());
            let model = match &choice {
                Some(choice) => parts.connect_model(choice).map_err(AgentBuildError::from),
                None => own_model(),
            };
            let summarizer = ResultSummarizer::new(model.map_err(|error| error.attribute_to_tool(&used.tool))?, above);
            let summarizer = match (choice, has_stub) {
                (None, true) => summarizer.counting_as_replies(),
                _ => summarizer,
            };
            is_simulated |= summarizer.is_simulated();
            toolset.set_summarizer(&used.tool, summarizer);
        }
        Ok(Self {
            toolset: Some(toolset),
            is_simulated,
        })
    }
}

/// Builds the runner of an agent that calls one tool of an MCP server.
///
/// # Errors
///
/// The server cannot be prepared, or an argument is not a valid template.
pub(crate) fn build_tool_agent_runner(
    agent: &Agent,
    used: &ToolReference,
    arguments: &JsonMap,
    parts: &AgentBuildContext<'_>,
) -> Result<Arc<dyn Runner>, AgentBuildError> {
    let declared = parts.prepared.plan.ensemble().find_tool(&used.tool);
    let Some((tool, ToolKind::Mcp(server))) = declared.map(|tool| (tool, &tool.kind)) else {
        return Err(AgentBuildError::new(format!("there is no MCP server `{}`", used.tool)));
    };
    let server = connect_or_stub_server(agent, used, server, parts);
    let options = ToolAgentOptions {
        server: server.map_err(|error| error.attribute_to_tool(&used.tool).attribute_to_agent())?,
        permissions: parts.shared.permissions.clone(),
        live_output: parts.shared.live_output.clone(),
    };
    Ok(Arc::new(ToolAgentRunner::new(agent, used, tool, arguments, options)?))
}

/// Returns the handle of an MCP server, or its stub. A stub that lists its tools replaces the server completely.
fn connect_or_stub_server(
    agent: &Agent,
    used: &ToolReference,
    server: &McpServer,
    parts: &AgentBuildContext<'_>,
) -> Result<Arc<McpServerHandle>, AgentBuildError> {
    let replacements = parts.shared.replacements.as_deref();
    let stub = replacements.and_then(|replacements| replacements.find_server_stub(agent, used));
    let connected = || {
        Ok(parts
            .shared
            .servers
            .get_or_add_server(resolve_server_address(&used.tool, server, parts)?))
    };
    match stub {
        Some(stub) => {
            let server = match stub.stubbed_tool_names() {
                Some(_) => None,
                None => Some(connected()?),
            };
            Ok(Arc::new(McpServerHandle::from_stub(stub, server)))
        }
        None => connected(),
    }
}

/// The runner of a tool, with the schema of its inputs.
struct BuiltToolRunner {
    runner: DeclaredToolRunner,
    /// True if the tool uses a simulated model that is not reported elsewhere.
    is_simulated: bool,
    /// The schema of the inputs of a nested ensemble, if the ensemble declares inputs.
    input_schema: Option<Value>,
}

/// Returns the schema of the tool's parameters: the declared schema, or `takes`, or the default schema with a task.
fn tool_parameter_schema(tool: &ToolDefinition, takes: Option<Value>) -> Value {
    let declared_parameters = match &tool.kind {
        ToolKind::Script { parameters, .. } => Some(parameters),
        ToolKind::Agent { parameters, .. } | ToolKind::Ensemble { parameters, .. } => parameters.as_ref(),
        ToolKind::Mcp(_) => None,
    };
    declared_parameters
        .cloned()
        .or(takes)
        .unwrap_or_else(ToolKind::default_task_schema)
}

/// Builds the runner of a tool that is not a tool of an MCP server.
fn build_tool_runner(
    (agent, name): (&str, &str),
    tool: &ToolDefinition,
    parts: &AgentBuildContext<'_>,
    open: &NestedEnsembleOpener<'_>,
    made: &AgentRunnerBuilder<'_>,
) -> Result<BuiltToolRunner, AgentBuildError> {
    let plain = |runner| BuiltToolRunner {
        runner,
        is_simulated: false,
        input_schema: None,
    };
    Ok(match &tool.kind {
        ToolKind::Script {
            script,
            env,
            sandbox: given,
            ..
        } => {
            let bounds = parts.child_process_limits(env, build_sandbox(given.as_deref(), parts)?)?;
            let runner = script::build_checked_runner(script, ScriptTemplates::default(), &parts.places, bounds)?;
            let runner = match &parts.shared.replacements {
                Some(stand_ins) => {
                    stand_ins.wrap_script_tool(agent, name, runner, describe_script_program(script, parts))
                }
                None => runner,
            };
            plain(DeclaredToolRunner::Script(runner))
        }
        ToolKind::Agent { agent, .. } => {
            let ensemble = parts.prepared.plan.ensemble();
            let Some(performing) = ensemble.find_agent(agent) else {
                return Err(AgentBuildError::new(format!("there is no agent `{agent}`")));
            };
            let (runner, _) = made(performing)?;
            let tool_runner = DeclaredToolRunner::Agent {
                name: performing.name.clone(),
                config: Arc::new(performing.config.clone()),
                timeout: performing.timeout,
                goes_on: match performing.kind {
                    AgentKind::Llm(_) | AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => true,
                    // A question has no effect before its answer, so it can be asked again.
                    AgentKind::Input(_) => true,
                    AgentKind::Script { .. } => false,
                },
                runner,
            };
            plain(tool_runner)
        }
        ToolKind::Ensemble { ensemble, .. } => {
            let inner = open(ensemble, parts.prepared, &parts.shared.for_nested_tool(agent, name))?;
            let runner = NestedEnsembleRunner::for_tool(inner.conversations);
            BuiltToolRunner {
                runner: DeclaredToolRunner::Ensemble(Arc::new(runner)),
                is_simulated: inner.is_simulated,
                input_schema: inner.input_schema,
            }
        }
        ToolKind::Mcp(_) => return Err(AgentBuildError::new("an MCP server needs no tool runner".to_owned())),
    })
}

/// Resolves the address of an MCP server, with its environment and sandbox.
///
/// # Errors
///
/// A variable is not set, or a client does not provide the server.
pub(crate) fn resolve_server_address(
    tool: &str,
    server: &McpServer,
    parts: &AgentBuildContext<'_>,
) -> Result<McpAddress, AgentBuildError> {
    Ok(match server {
        McpServer::Command {
            command,
            env,
            cwd,
            sandbox: given,
        } => McpAddress::Child {
            sandbox: build_sandbox(given.as_deref(), parts)?,
            command: command.clone(),
            places: parts.places.clone(),
            folder: match cwd {
                Some(cwd) => parts.prepared.root.join(cwd),
                None => parts.prepared.root.clone(),
            },
            env: parts.resolve_env_settings(env)?,
        },
        McpServer::Url { url, headers } => McpAddress::Http {
            url: url.clone(),
            headers: parts.resolve_env_settings(headers)?,
        },
        McpServer::Client => match resolve_client_server(tool, parts)? {
            ClientServer::Command { command, args, env } => McpAddress::Child {
                sandbox: None,
                command: CommandLine::Words(std::iter::once(command).chain(args).cloned().collect()),
                places: parts.places.clone(),
                folder: parts.prepared.root.clone(),
                env: env.clone(),
            },
            ClientServer::Http { url, headers } => McpAddress::Http {
                url: url.clone(),
                headers: headers.clone(),
            },
        },
    })
}

/// Returns the MCP server of this name that the client provides.
///
/// # Errors
///
/// The client does not provide the server.
fn resolve_client_server<'p>(name: &str, parts: &AgentBuildContext<'p>) -> Result<&'p ClientServer, AgentBuildError> {
    let servers = &parts.shared.client_servers;
    servers.get(name).ok_or_else(|| {
        let server_names: Vec<String> = servers.names().map(|name| format!("`{name}`")).collect();
        let message = match server_names.as_slice() {
            [] => "the client of `ensemble acp` must provide its server, but provides no servers".to_owned(),
            named => format!(
                "the client of `ensemble acp` must provide its server, but provides only {}",
                named.join(", ")
            ),
        };
        AgentBuildError::new(message).with_help(format!(
            "add a server `{name}` to the settings of the client, or pass a file of servers: `--mcp-config .mcp.json`"
        ))
    })
}
