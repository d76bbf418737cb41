//! `tools` of an ensemble, and `tools` of an agent.

use super::sandbox::SandboxChoice;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::Value;

use super::remote::{check_private, environment_variable};
use super::sandbox;
use super::{Names, reference};
use crate::diagnostic::{Finding, did_you_mean, nearest};
use crate::ensemble::{CLIENT_SERVER, CommandLine, McpServer, Permission, Setting, Tool, ToolKind, ToolUse};
use crate::loader::codes;
use crate::loader::document::{Content, Document};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{
    Cursor, filled_list_of, filled_text, flag, list_of, map_of, out_of_range, seconds, text, whole, word,
};
use crate::loader::words::quoted;
use crate::names::is_tool_name;
use crate::vocabulary::Section;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The keys that define how a tool is performed.
const PERFORMERS: [&str; 4] = ["script", "agent", "ensemble", "mcp"];

/// Reads `tools` of the ensemble.
pub(super) fn all(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Vec<(Arc<str>, Tool)>> {
    map_of(at, "a map from names to tools", findings, |name, entry, findings| {
        let is_valid = valid_name(name, entry, findings);
        read(entry, names, findings).filter(|_| is_valid)
    })
}

fn valid_name(name: &str, at: &Cursor<'_>, findings: &mut Findings) -> bool {
    let valid = is_tool_name(name);
    if !valid {
        let message = format!("{} is not a valid name of a tool", quoted(name));
        let finding = Finding::error(codes::BAD_NAME, at.key(), message);
        findings.push(finding.help("a tool's name can have letters, digits, `_` and `-`, and at most 64 characters"));
    }
    valid
}

fn read(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Tool> {
    let fields = Fields::open(at, Section::Tool, findings)?;
    let kind = kind(&fields, names, findings);
    let permissions = [
        ("allow", Permission::Allow),
        ("ask", Permission::Ask),
        ("deny", Permission::Deny),
    ];
    let description = fields.read("description", findings, text);
    let permission = fields.read("permission", findings, |at, findings| word(at, &permissions, findings));
    let timeout = fields.read("timeout_seconds", findings, seconds);
    let max_result_bytes = fields.read("max_result_bytes", findings, |at, findings| {
        let bytes = usize::try_from(whole(at, findings)?).ok().and_then(NonZeroUsize::new);
        if bytes.is_none() {
            out_of_range(at, "a number of bytes that fits into memory", findings);
        }
        bytes
    });
    let output_schema = fields.read("output_schema", findings, json::schema);
    let exclusive = fields.read("exclusive", findings, flag);
    let repeatable = fields.read("repeatable", findings, flag);
    let kind = kind?;
    Some(Tool {
        description,
        permission: permission.unwrap_or(kind.default_permission()),
        timeout: timeout.unwrap_or(Tool::TIMEOUT),
        max_result_bytes: max_result_bytes.unwrap_or(Tool::MAX_RESULT_BYTES),
        output_schema,
        exclusive: exclusive.unwrap_or_default(),
        repeatable,
        kind,
    })
}

fn kind(fields: &Fields<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<ToolKind> {
    let help = "a tool must have exactly one implementation: add one";
    let codes = [codes::TOOL_KIND, codes::TOOL_KIND];
    let (key, at) = fields.exactly_one(&PERFORMERS, codes, help, findings)?;
    let owner = format!("a tool with `{key}`");
    fields.refuse_other_kinds(key, &owner, findings, |other| {
        help_for_other_kind(key, other.name).to_owned()
    });
    if key == "mcp" {
        return mcp(&at, findings).map(ToolKind::Mcp);
    }
    let sandbox = fields.read("sandbox", findings, sandbox::read);
    let parameters = fields.read("parameters", findings, parameters);
    let named = reference(&at, findings);
    match key {
        "script" => {
            if fields.get("parameters").is_none() {
                let schema = serde_json::json!({"type": "object", "properties": {}});
                let change = RouteEdit::AddKey(fields.at.route(), "parameters".to_owned(), schema);
                let finding = Finding::error(codes::MISSING, fields.at.value(), "`parameters` is missing")
                    .with_fix(RouteFix::not_safe("add a schema without arguments", change));
                findings.push(finding.help(
                    "write a JSON Schema of the arguments, for example `parameters: {type: object, properties: {}}`",
                ));
            }
            Some(ToolKind::Script {
                script: named?.to_string(),
                parameters: parameters?,
                env: fields.read("env", findings, env).unwrap_or_default(),
                sandbox: SandboxChoice::chosen_by(sandbox),
            })
        }
        "agent" => {
            let agent = named?;
            let known = names.expect(&agent, || at.value(), findings);
            known.then_some(ToolKind::Agent { agent, parameters })
        }
        _ => Some(ToolKind::Ensemble {
            ensemble: named?.to_string(),
            parameters,
        }),
    }
}

/// Returns what to write instead of a key that a tool with `performer` does not have.
fn help_for_other_kind(performer: &str, key: &str) -> &'static str {
    match (performer, key) {
        ("mcp", "parameters") => "the server defines the arguments of its tools",
        ("mcp", "output_schema") => "the server defines the results of its tools",
        ("mcp", "env") => "write it under `mcp`",
        ("mcp", "sandbox") => "write it in `mcp`, next to `command`",
        (_, "env") => "this key is only allowed for tools with a `script`",
        _ => "remove the key, or write it at the agents with a `script`",
    }
}

/// A JSON Schema that matches only objects.
fn parameters(at: &Cursor<'_>, findings: &mut Findings) -> Option<Value> {
    let schema = json::schema(at, findings)?;
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        return Some(schema);
    }
    let message = "the schema of a tool's arguments must have `type: object`";
    findings.push(Finding::error(codes::WRONG_TYPE, at.value(), message).help("write `type: object`"));
    None
}

fn mcp(at: &Cursor<'_>, findings: &mut Findings) -> Option<McpServer> {
    if let Some(text) = at.node.text() {
        if **text == *CLIENT_SERVER {
            return Some(McpServer::Client);
        }
        let message = format!("expected `{CLIENT_SERVER}` or a map, found {}", quoted(text));
        let help = format!(
            "write `mcp: {{command: …}}` or `mcp: {{url: …}}`; `mcp: {CLIENT_SERVER}` is the server of this name that the client names"
        );
        let finding = Finding::error(codes::NOT_A_CHOICE, at.value(), message);
        findings.push(match nearest(text, std::iter::once(CLIENT_SERVER)) {
            Some(near) => finding.meant(&near),
            None => finding.help(help),
        });
        return None;
    }
    let fields = Fields::open(at, Section::Mcp, findings)?;
    let help = "add the command that starts the server, or its address";
    let codes = [codes::TOOL_KIND, codes::TOOL_KIND];
    let (key, given) = fields.exactly_one(&["command", "url"], codes, help, findings)?;
    let owner = format!("a server with `{key}`");
    fields.refuse_other_kinds(key, &owner, findings, |_| "remove the key".to_owned());
    if key == "url" {
        let headers = fields.read("headers", findings, settings).unwrap_or_default();
        let url = url(&given, findings)?;
        let is_value = |(_, setting): &(String, Setting)| matches!(setting, Setting::FromEnvironment { .. });
        if headers.iter().any(is_value) {
            check_private(&given, &url, findings);
        }
        return Some(McpServer::Url { url, headers });
    }
    let env = fields.read("env", findings, env);
    let cwd = fields.read("cwd", findings, filled_text);
    let sandbox = fields.read("sandbox", findings, sandbox::read);
    Some(McpServer::Command {
        command: command(&given, findings)?,
        env: env.unwrap_or_default(),
        cwd: cwd.map(|cwd| cwd.to_string()),
        sandbox: SandboxChoice::chosen_by(sandbox),
    })
}

fn url(at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    let url = filled_text(at, findings)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !url.contains(char::is_whitespace)) {
        return Some(url.to_string());
    }
    let message = format!("{} is not the address of a server", quoted(&url));
    findings.push(Finding::error(codes::NOT_A_CHOICE, at.value(), message).help("write `https://…` or `http://…`"));
    None
}

fn command(at: &Cursor<'_>, findings: &mut Findings) -> Option<CommandLine> {
    if let Content::Sequence(_) = at.node.content {
        let words = filled_list_of(at, "a list of strings", "this command is empty", findings, text);
        return words.map(CommandLine::Words);
    }
    reference(at, findings).map(|command| CommandLine::Text(command.to_string()))
}

/// Variables of an environment: the names of the user's, or a map from names to strings or the sources of strings.
pub(super) fn env(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(String, Setting)>> {
    if let Content::Sequence(_) = at.node.content {
        return list_of(at, "a list of names", findings, |item, findings| {
            Some((environment_variable("env", item, findings)?, Setting::Passed))
        });
    }
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    for (name, entry) in at.entries("a list of names, or a map from names to strings", findings)? {
        if !is_name(name) {
            let message = format!("{} is not the name of an environment variable", quoted(name));
            findings.push(Finding::error(codes::BAD_NAME, entry.key(), message).help("for example, write `LOG_LEVEL`"));
        }
    }
    settings(at, findings)
}

/// A map from names to strings, or to the sources of strings.
fn settings(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(String, Setting)>> {
    let settings = map_of(at, "a map from names to strings", findings, |_, entry, findings| {
        setting(entry, findings)
    })?;
    Some(
        settings
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
    )
}

fn setting(at: &Cursor<'_>, findings: &mut Findings) -> Option<Setting> {
    if !matches!(at.node.content, Content::Mapping(_)) {
        return text(at, findings).map(Setting::Text);
    }
    let fields = Fields::open(at, Section::Setting, findings)?;
    let help = "write the name of an environment variable";
    let variable = fields.required("env", help, findings, |at, findings| {
        environment_variable("env", at, findings)
    });
    let prefix = fields.read("prefix", findings, text);
    Some(Setting::FromEnvironment {
        variable: variable?,
        prefix: prefix.unwrap_or_default(),
    })
}

/// The tools of the ensemble, read before the agents: which of them have tools of their own.
pub(super) struct Tools<'a>(HashMap<&'a str, bool>);

impl<'a> Tools<'a> {
    pub(super) fn of(document: &'a Document) -> Self {
        let entries = match document.root().get("tools").map(|tools| &tools.content) {
            Some(Content::Mapping(entries)) => entries.as_slice(),
            _ => &[],
        };
        let is_server = |entry: &'a crate::loader::document::Entry| (&*entry.key, entry.value.get("mcp").is_some());
        Self(entries.iter().map(is_server).collect())
    }

    /// Reads `tools` of an agent: names of tools, or of one tool of a server.
    pub(super) fn uses(&self, at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<ToolUse>> {
        let mut uses = list_of(at, "a list of tool names", findings, |item, findings| {
            self.one(item, findings)
        })?;
        let mut seen: Vec<ToolUse> = Vec::new();
        uses.retain(|one| {
            let is_new = !seen.contains(one);
            seen.push(one.clone());
            is_new
        });
        Some(uses)
    }

    /// Reads `tool` of an agent: one tool of an MCP server, as `SERVER.TOOL`.
    pub(super) fn called(&self, at: &Cursor<'_>, findings: &mut Findings) -> Option<ToolUse> {
        let name = filled_text(at, findings)?;
        let (server, member) = match name.split_once('.') {
            Some((server, member)) => (server, Some(member)),
            None => (&*name, None),
        };
        let member = member.filter(|member| !member.is_empty() && !server.is_empty());
        let is_server = self.0.get(server);
        if is_server.is_none() && member.is_some() {
            findings.push(self.unknown(at, server, true));
            return None;
        }
        if is_server == Some(&false) {
            let message = format!("`{server}` is not an MCP server");
            let finding = Finding::error(codes::NOT_A_SERVER, at.value(), message);
            findings.push(finding.help(match self.servers().next() {
                Some(_) => format!("only a tool with `mcp` can be called by an agent; these are: {}", self.servers_shown()),
                None => "only a tool with `mcp` can be called by an agent; write a script as `script`, an agent as a dependency and an ensemble as `ensemble`".to_owned(),
            }));
            return None;
        }
        let Some(member) = member else {
            let message = format!("{} does not say which tool of the server is called", quoted(&name));
            let finding = Finding::error(codes::NO_TOOL_NAME, at.value(), message);
            findings.push(finding.help(format!(
                "write `tool: {}.NAME`, with the name that the server gives the tool",
                if is_server.is_some() { server } else { "SERVER" }
            )));
            return None;
        };
        Some(ToolUse {
            tool: server.into(),
            member: Some(member.into()),
        })
    }

    fn servers(&self) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(|(_, is_server)| **is_server)
            .map(|(name, _)| *name)
    }

    fn servers_shown(&self) -> String {
        let mut names: Vec<String> = self.servers().map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        names.join(", ")
    }

    fn unknown(&self, at: &Cursor<'_>, tool: &str, of_server: bool) -> Finding {
        let message = match of_server {
            true => format!("there is no MCP server {}", quoted(tool)),
            false => format!("there is no tool {}", quoted(tool)),
        };
        let finding = Finding::error(codes::UNKNOWN_TOOL, at.value(), message);
        let known = self.0.iter().filter(|(_, is_server)| **is_server || !of_server);
        match did_you_mean(tool, known.map(|(name, _)| *name)) {
            Some(guess) => finding.meant_name(tool, guess),
            None if of_server => finding.help("define the server under the top-level key `tools`, with `mcp`"),
            None => finding.help("define the tool under the top-level key `tools`"),
        }
    }

    fn one(&self, at: &Cursor<'_>, findings: &mut Findings) -> Option<ToolUse> {
        let name = filled_text(at, findings)?;
        let (tool, member) = match name.split_once('.') {
            Some((tool, member)) => (tool, Some(member)),
            None => (&*name, None),
        };
        let Some(is_server) = self.0.get(tool) else {
            findings.push(self.unknown(at, tool, false));
            return None;
        };
        if member.is_some() && !is_server {
            let message = format!("`{tool}` is a single tool and contains no other tools");
            let finding = Finding::error(codes::UNKNOWN_TOOL, at.value(), message);
            findings.push(finding.help(format!(
                "write `{tool}`; only a tool with `mcp` can be followed by a dot and a name"
            )));
            return None;
        }
        Some(ToolUse {
            tool: tool.into(),
            member: member.map(Arc::from),
        })
    }
}
