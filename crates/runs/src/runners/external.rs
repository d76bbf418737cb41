//! External agents: their programs, folders and arguments.
//!
//! Invariant: a missing program is reported before the run.

use std::path::Path;
use std::sync::Arc;

use ensemble_agents::agent::acp::{ExternalAgent, ProgramMcpServer, ProgramMcpTransport, SIMULATED_CONFIG};
use ensemble_agents::agent::mcp::McpAddress;
use ensemble_core::executor::WallClock;
use ensemble_language::ensemble::{AcpAgent, AcpProgram, Agent, CommandLine, LlmSpec, ToolKind};
use ensemble_process::ChildEnvironment;
use ensemble_process::program::{ResolvedScript, resolve_command_words, resolve_external_program, resolve_script};
use serde_json::Value;

use crate::runners::shared_parts::{AgentBuildContext, AgentBuildError};
use crate::runners::tools::resolve_server_address;

/// Builds the external agent: its program, folder, environment and MCP servers.
///
/// # Errors
///
/// The program, its folder or an MCP server is missing, or a variable of the environment is not set.
pub(crate) fn build_external_agent(
    agent: &Agent,
    llm: &LlmSpec,
    acp: &Arc<AcpAgent>,
    parts: &AgentBuildContext<'_>,
) -> Result<ExternalAgent, AgentBuildError> {
    let host = parts.shared.host.clone();
    let mut env_values = parts.resolve_env_settings(acp.program.declared_variables())?;
    let invocation = if acp.is_simulated() {
        env_values.push((
            SIMULATED_CONFIG.to_owned(),
            Value::Object(agent.config.clone()).to_string(),
        ));
        let simulated_program = host.simulated_acp_command().cloned();
        simulated_program.ok_or_else(|| {
            AgentBuildError::new("the built-in external agent is available only in the program `ensemble`".to_owned())
        })?
    } else {
        let resolved_program = resolve_external_program(&acp.program, &parts.places);
        resolved_program.map_err(|why| AgentBuildError::new(why.message).with_help(why.help))?
    };
    let root = parts.prepared.root.clone();
    let root = root.canonicalize().unwrap_or(root);
    let folder = match &acp.program {
        AcpProgram::Command { cwd: Some(cwd), .. } => root.join(cwd),
        _ => root.clone(),
    };
    Ok(ExternalAgent {
        acp: acp.clone(),
        invocation,
        folder,
        root,
        private_folders: parts
            .shared
            .project
            .user_config
            .iter()
            .filter_map(|file| file.parent())
            .map(Path::to_owned)
            .collect(),
        environment: ChildEnvironment::for_foreign_program(parts.shared.network.secrets().clone())
            .with_variables(env_values),
        servers: resolve_program_servers(llm, parts)?,
        permissions: parts.shared.permissions.clone(),
        owner: parts.shared.programs.new_owner(),
        programs: parts.shared.programs.clone(),
        now: Arc::new(move || WallClock::now(&host)),
    })
}

/// Resolves the MCP servers that the program receives.
fn resolve_program_servers(
    llm: &LlmSpec,
    parts: &AgentBuildContext<'_>,
) -> Result<Vec<ProgramMcpServer>, AgentBuildError> {
    let ensemble = parts.prepared.plan.ensemble();
    let mut servers = Vec::new();
    for used in &llm.tools {
        // The loader has refused other tools.
        let Some(ToolKind::Mcp(server)) = ensemble.find_tool(&used.tool).map(|tool| &tool.kind) else {
            continue;
        };
        let failed = |error: AgentBuildError| error.attribute_to_tool(&used.tool);
        let kind = match resolve_server_address(&used.tool, server, parts).map_err(failed)? {
            McpAddress::Http { url, headers } => ProgramMcpTransport::Http { url, headers },
            McpAddress::Child {
                command, places, env, ..
            } => {
                let resolved_command = match &command {
                    CommandLine::Text(text) => resolve_script(text, &places),
                    CommandLine::Words(words) => resolve_command_words(words, &places),
                };
                let resolved_command =
                    resolved_command.map_err(|why| failed(AgentBuildError::new(why.message).with_help(why.help)))?;
                let ResolvedScript::Process(invocation) = resolved_command else {
                    let message = "a Rhai script cannot be a server".to_owned();
                    return Err(failed(AgentBuildError::new(message)));
                };
                ProgramMcpTransport::Command { invocation, env }
            }
        };
        servers.push(ProgramMcpServer {
            name: used.tool.clone(),
            kind,
        });
    }
    Ok(servers)
}
