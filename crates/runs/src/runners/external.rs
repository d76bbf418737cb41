//! External agents: which program is started, where, and with what.
//!
//! Invariant: a program that is missing is told before the run.

use std::sync::Arc;

use ensemble_agents::agent::acp::{External, ProgramServer, ProgramServerKind, SIMULATED_CONFIG};
use ensemble_agents::agent::mcp::Address;
use ensemble_core::executor::Clock;
use ensemble_language::ensemble::{Acp, AcpProgram, Agent, CommandLine, Llm, ToolKind};
use ensemble_process::Environment;
use ensemble_process::program::{Resolved, resolve, resolve_external, resolve_words};
use serde_json::Value;

use crate::runners::shared_parts::{Parts, Unready};
use crate::runners::tools::address;

/// The program of the agent, ready to be started.
///
/// # Errors
/// It is not there, its folder is not, a variable of the environment is not set, or a server of tools is not there.
pub(crate) fn external(agent: &Agent, llm: &Llm, acp: &Arc<Acp>, parts: &Parts<'_>) -> Result<External, Unready> {
    let host = parts.shared.host.clone();
    let mut given = parts.values(acp.program.env())?;
    let invocation = if acp.is_simulated() {
        given.push((
            SIMULATED_CONFIG.to_owned(),
            Value::Object(agent.config.clone()).to_string(),
        ));
        let own = host.simulated_acp().cloned();
        own.ok_or_else(|| {
            Unready::new("the built-in external agent is part of the program `ensemble` only".to_owned())
        })?
    } else {
        let found = resolve_external(&acp.program, &parts.places);
        found.map_err(|why| Unready::new(why.message).with_help(why.help))?
    };
    let root = parts.prepared.root.clone();
    let root = root.canonicalize().unwrap_or(root);
    let folder = match &acp.program {
        AcpProgram::Command { cwd: Some(cwd), .. } => root.join(cwd),
        _ => root.clone(),
    };
    Ok(External {
        acp: acp.clone(),
        invocation,
        folder,
        root,
        environment: Environment::small(parts.shared.network.secrets().clone()).with(given),
        servers: servers(llm, parts)?,
        permissions: parts.shared.permissions.clone(),
        programs: parts.shared.programs.clone(),
        now: Arc::new(move || Clock::now(&host)),
    })
}

/// The servers of tools that the program is given.
fn servers(llm: &Llm, parts: &Parts<'_>) -> Result<Vec<ProgramServer>, Unready> {
    let ensemble = parts.prepared.plan.ensemble();
    let mut servers = Vec::new();
    for used in &llm.tools {
        // The loader has refused other tools.
        let Some(ToolKind::Mcp(server)) = ensemble.tool(&used.tool).map(|tool| &tool.kind) else {
            continue;
        };
        let failed = |error: Unready| error.of_tool(&used.tool);
        let kind = match address(&used.tool, server, parts).map_err(failed)? {
            Address::Http { url, headers } => ProgramServerKind::Http { url, headers },
            Address::Child {
                command, places, env, ..
            } => {
                let found = match &command {
                    CommandLine::Text(text) => resolve(text, &places),
                    CommandLine::Words(words) => resolve_words(words, &places),
                };
                let found = found.map_err(|why| failed(Unready::new(why.message).with_help(why.help)))?;
                let Resolved::Process(invocation) = found else {
                    let message = "a Rhai script cannot be a server".to_owned();
                    return Err(failed(Unready::new(message)));
                };
                ProgramServerKind::Command { invocation, env }
            }
        };
        servers.push(ProgramServer {
            name: used.tool.clone(),
            kind,
        });
    }
    Ok(servers)
}
