//! The parts of an ensemble that workers do not execute.

use ensemble_language::ensemble::{AcpProgram, AgentKind, Ensemble, McpServer, SIMULATED_ACP_NAME, ToolKind};

/// Checks that workers execute all agents and tools of an ensemble.
///
/// # Errors
/// The text lists everything that workers do not execute.
pub fn check_support(ensemble: &Ensemble) -> Result<(), String> {
    let unsupported = list_unsupported(ensemble);
    match unsupported.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "`{}` contains what workers do not execute: {}",
            ensemble.name,
            unsupported.join(", ")
        )),
    }
}

/// Returns what workers do not execute, in the order of the file.
fn list_unsupported(ensemble: &Ensemble) -> Vec<String> {
    let mut unsupported = Vec::new();
    for agent in &ensemble.agents {
        if agent.sandbox.is_some() {
            unsupported.push(format!("`sandbox` of agent `{}`", agent.name));
        }
        if let AgentKind::Llm(llm) = &agent.kind
            && let Some(acp) = llm.acp_agent()
            && let AcpProgram::Known(program) = acp.program
            && program.name == SIMULATED_ACP_NAME
        {
            unsupported.push(format!("`acp: {SIMULATED_ACP_NAME}` of agent `{}`", agent.name));
        }
    }
    for (name, tool) in &ensemble.tools {
        match &tool.kind {
            ToolKind::Mcp(McpServer::Client) => unsupported.push(format!("`mcp: client` of tool `{name}`")),
            ToolKind::Mcp(McpServer::Command { sandbox: Some(_), .. }) | ToolKind::Script { sandbox: Some(_), .. } => {
                unsupported.push(format!("`sandbox` of tool `{name}`"));
            }
            _ => {}
        }
    }
    unsupported
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_language::loader::load_ensemble;
    use ensemble_language::source::SourceText;

    #[test]
    fn everything_that_workers_do_not_execute_is_listed_at_once() {
        let text = "name: all\nagents:\n  - {name: a, script: a.sh, sandbox: {}}\n  - {name: b, acp: simulated, prompt: x}\n  \
                    - {name: c, script: c.sh}\n  - {name: d, model: ollama/x, prompt: x, tools: [s, t]}\ntools:\n  s: {mcp: client}\n  \
                    t: {script: t.sh, parameters: {type: object}, sandbox: {}}\n";
        let loaded = load_ensemble(&SourceText::new("all.yaml", text));
        let ensemble = loaded.ensemble.expect("it is sound");
        assert_eq!(
            check_support(&ensemble).expect_err("four parts"),
            "`all` contains what workers do not execute: `sandbox` of agent `a`, `acp: simulated` of agent `b`, \
             `mcp: client` of tool `s`, `sandbox` of tool `t`"
        );
    }
}
