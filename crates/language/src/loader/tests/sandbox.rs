//! `sandbox`: what it becomes, its errors, and what takes it from `defaults`.

use super::errors::check;
use super::loaded;
use crate::ensemble::{McpServer, NetworkAccess, SandboxSpec, ToolKind};

/// Returns the sandboxes of the agents, then of the tools.
fn sandboxes(text: &str) -> Vec<Option<SandboxSpec>> {
    let loaded = loaded(text);
    let ensemble = loaded.ensemble.as_ref();
    let ensemble = ensemble.unwrap_or_else(|| panic!("{text}: {:#?}", loaded.diagnostics()));
    let agents = ensemble.agents.iter().map(|agent| agent.sandbox.as_deref().cloned());
    let tools = ensemble.tools.iter().map(|(_, tool)| match &tool.kind {
        ToolKind::Script { sandbox, .. } | ToolKind::Mcp(McpServer::Command { sandbox, .. }) => {
            sandbox.as_deref().cloned()
        }
        _ => None,
    });
    agents.chain(tools).collect()
}

fn of_agent(sandbox: &str) -> Option<SandboxSpec> {
    let text = format!("name: e\nagents: [{{name: a, script: x, sandbox: {sandbox}}}]");
    sandboxes(&text).pop().expect("an agent")
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(of_agent("false"), None);
    assert_eq!(of_agent("true"), Some(SandboxSpec::default()));
    assert_eq!(of_agent("{}"), Some(SandboxSpec::default()));
    let whole = "{read: [a], write: [b, c], network: [80, 443], env: [T], memory: 2GiB, cpu_seconds: 9, processes: 3, best_effort: true}";
    let expected = SandboxSpec {
        read: vec!["a".to_owned()],
        write: vec!["b".to_owned(), "c".to_owned()],
        network: NetworkAccess::Ports(vec![80, 443]),
        env: vec!["T".to_owned()],
        memory: Some(2 << 30),
        cpu_seconds: Some(9),
        processes: 3,
        best_effort: true,
    };
    assert_eq!(of_agent(whole), Some(expected));
    let memory = |text: &str| of_agent(&format!("{{memory: {text}}}")).and_then(|it| it.memory);
    let sizes = [
        ("1048576", 1 << 20),
        ("1024KiB", 1 << 20),
        ("2MiB", 2 << 20),
        ("2000kB", 2_000_000),
        ("3MB", 3_000_000),
        ("1GB", 1_000_000_000),
    ];
    for (text, bytes) in sizes {
        assert_eq!(memory(text), Some(bytes), "{text}");
    }
    let network = |text: &str| of_agent(&format!("{{network: {text}}}")).map(|it| it.network);
    assert_eq!(network("true"), Some(NetworkAccess::All));
    assert_eq!(network("[]"), Some(NetworkAccess::None));
}

#[test]
fn what_is_wrong_is_told_at_its_place() {
    let rows = [
        ("{memory: 1 GiB}", "E066 2:49 expected an amount of memory"),
        ("{memory: -1MiB}", "E066 2:49 expected an amount of memory"),
        ("{memory: 99999999999GiB}", "E066 2:49 expected an amount of memory"),
        ("{memory: 4096}", "E066 2:49 `memory` is 4096 bytes"),
        ("{reads: [a]}", "E010 2:41 unknown key 'reads' in `sandbox`"),
        ("{write: out}", "E014 2:48 expected a list of paths"),
        ("{write: ['']}", "E018 2:49 this string is empty"),
        ("{network: [70000]}", "E015 2:51 expected a port"),
        (
            "{network: no such}",
            "E014 2:50 expected true, false or a list of TCP ports",
        ),
        ("{processes: 0}", "E015 2:52 expected an integer"),
        ("{env: [a-b]}", "E017 2:47 `env` is not the name"),
        (
            "{env: [ENSEMBLE_TRUST]}",
            "E017 2:47 the variable `ENSEMBLE_TRUST` carries rights of the user",
        ),
        (
            "{env: [T, ensemble_ui_token]}",
            "E017 2:50 the variable `ensemble_ui_token` carries rights of the user",
        ),
        ("strict", "E014 2:40 expected true, false or a map"),
    ];
    for (sandbox, expected) in rows {
        let text = format!("name: e\nagents: [{{name: a, script: x, sandbox: {sandbox}}}]");
        check(&text, &[expected]);
    }
    let of_others = [
        (
            "agents: [{name: a, input: q, sandbox: true}]",
            "E025 2:30 `sandbox` is not allowed for an agent of type input",
        ),
        (
            "agents: [{name: a, script: x}]\ntools: {t: {agent: a, sandbox: true}}",
            "E025 3:23 `sandbox` is not allowed for a tool with `agent`",
        ),
        (
            "agents: [{name: a, script: x}]\ntools: {t: {mcp: {command: x}, sandbox: true}}",
            "E025 3:32 `sandbox` is not allowed for a tool with `mcp`",
        ),
        (
            "agents: [{name: a, script: x}]\ntools: {t: {mcp: {url: 'http://x', sandbox: true}}}",
            "E025 3:36 `sandbox` is not allowed for a server with `url`",
        ),
    ];
    for (text, expected) in of_others {
        check(&format!("name: e\n{text}"), &[expected]);
    }
}

#[test]
fn defaults_reach_scripts_tools_and_servers_and_nothing_else() {
    let text = "name: e
defaults: {sandbox: {write: [out], processes: 7}}
agents:
  - {name: a, script: x}
  - {name: b, script: x, sandbox: {processes: 9}}
  - {name: c, script: x, sandbox: false}
  - {name: d, input: q}
tools:
  script: {script: x, parameters: {type: object}}
  agent: {agent: a}
  server: {mcp: {command: x}}
  open: {mcp: {command: x, sandbox: false}}
  far: {mcp: {url: 'http://x'}}
";
    let shown = |sandbox: &Option<SandboxSpec>| sandbox.as_ref().map(|it| (it.write.len(), it.processes));
    let found: Vec<_> = sandboxes(text).iter().map(shown).collect();
    let (default, own) = (Some((1, 7)), Some((1, 9)));
    assert_eq!(found, [default, own, None, None, default, None, default, None, None]);
}
