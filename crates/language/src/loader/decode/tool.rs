//! `tools` of an ensemble, and `tools` of an agent.

use super::sandbox::SandboxChoice;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde_json::Value;

use super::provider_access::{check_private_url, decode_environment_variable, report_rights_variable};
use super::sandbox;
use super::{AgentNameIndex, decode_reference};
use crate::diagnostic::{Finding, find_nearest_word, find_similar_word};
use crate::ensemble::{
    CLIENT_SERVER_WORD, CommandLine, EnvOrHeaderValue, McpServer, PermissionMode, ToolDefinition, ToolKind,
    ToolReference,
};
use crate::loader::codes;
use crate::loader::document::{YamlContent, YamlDocument};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::key_messages::quote_excerpt;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_list, decode_map, decode_nonblank_text, decode_nonempty_list,
    decode_positive_integer, decode_seconds, decode_text, decode_word_value, report_out_of_range,
};
use crate::names::is_tool_name;
use crate::vocabulary::FileSection;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// The keys that define how a tool is performed.
const TOOL_KIND_KEYS: [&str; 4] = ["script", "agent", "ensemble", "mcp"];

/// Decodes `tools` of the ensemble.
pub(super) fn decode_tools(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(Arc<str>, ToolDefinition)>> {
    decode_map(at, "a map from names to tools", findings, |name, entry, findings| {
        let is_valid = check_tool_name(name, entry, findings);
        decode_tool(entry, names, findings).filter(|_| is_valid)
    })
}

/// Returns whether the name of the tool is valid, and reports an invalid name.
fn check_tool_name(name: &str, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> bool {
    let valid = is_tool_name(name);
    if !valid {
        let message = format!("{} is not a valid name of a tool", quote_excerpt(name));
        let finding = Finding::new_error(codes::BAD_NAME, at.key_location(), message);
        findings.push(finding.with_help("use letters, digits, `_` and `-`, and at most 64 characters"));
    }
    valid
}

/// Decodes one tool.
fn decode_tool(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ToolDefinition> {
    let fields = SectionFields::from_map(at, FileSection::Tool, findings)?;
    let kind = decode_tool_kind(&fields, names, findings);
    let permissions = [
        ("allow", PermissionMode::Allow),
        ("ask", PermissionMode::Ask),
        ("deny", PermissionMode::Deny),
    ];
    let description = fields.decode_optional("description", findings, decode_text);
    let permission = fields.decode_optional("permission", findings, |at, findings| {
        decode_word_value(at, &permissions, findings)
    });
    let timeout = fields.decode_optional("timeout_seconds", findings, decode_seconds);
    let max_result_bytes = fields.decode_optional("max_result_bytes", findings, decode_byte_count);
    let summarize_above = fields.decode_optional("summarize_above", findings, decode_byte_count);
    let summarize_with = fields.decode_optional("summarize_with", findings, decode_reference);
    let output_schema = fields.decode_optional("output_schema", findings, json::decode_json_schema);
    let exclusive = fields.decode_optional("exclusive", findings, decode_bool);
    let repeatable = fields.decode_optional("repeatable", findings, decode_bool);
    let kind = kind?;
    Some(ToolDefinition {
        description,
        permission: permission.unwrap_or(kind.default_permission()),
        timeout: timeout.unwrap_or(ToolDefinition::TIMEOUT),
        max_result_bytes: max_result_bytes.unwrap_or(ToolDefinition::MAX_RESULT_BYTES),
        summarize_above,
        summarize_with,
        output_schema,
        exclusive: exclusive.unwrap_or_default(),
        repeatable,
        kind,
    })
}

/// Decodes a number of bytes of at least 1.
fn decode_byte_count(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<NonZeroUsize> {
    let bytes = usize::try_from(decode_positive_integer(at, findings)?)
        .ok()
        .and_then(NonZeroUsize::new);
    if bytes.is_none() {
        report_out_of_range(at, "a number of bytes that fits into memory", findings);
    }
    bytes
}

/// Decodes the implementation of a tool with the keys that only this kind has.
fn decode_tool_kind(
    fields: &SectionFields<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ToolKind> {
    let help = "a tool must have exactly one implementation: add one";
    let codes = [codes::TOOL_KIND, codes::TOOL_KIND];
    let (key, at) = fields.require_exactly_one(&TOOL_KIND_KEYS, codes, help, findings)?;
    let owner = format!("a tool with `{key}`");
    fields.report_other_kind_keys(key, &owner, findings, |other| {
        other_kind_help(key, other.name).to_owned()
    });
    if key == "mcp" {
        return decode_mcp_server(&at, findings).map(ToolKind::Mcp);
    }
    let sandbox = fields.decode_optional("sandbox", findings, sandbox::decode_sandbox);
    let parameters = fields.decode_optional("parameters", findings, decode_parameters);
    let reference = decode_reference(&at, findings);
    match key {
        "script" => {
            if fields.get("parameters").is_none() {
                let schema = serde_json::json!({"type": "object", "properties": {}});
                let change = RouteEdit::AddKey(fields.at.route(), "parameters".to_owned(), schema);
                let finding = Finding::new_error(codes::MISSING, fields.at.value_location(), "`parameters` is missing")
                    .with_fix(RouteFix::new_unsafe("add a schema without arguments", change));
                findings.push(finding.with_help(
                    "write a JSON Schema of the arguments, for example `parameters: {type: object, properties: {}}`",
                ));
            }
            Some(ToolKind::Script {
                script: reference?.to_string(),
                parameters: parameters?,
                env: fields.decode_optional("env", findings, decode_env).unwrap_or_default(),
                sandbox: SandboxChoice::into_sandbox(sandbox),
            })
        }
        "agent" => {
            let agent = reference?;
            let is_known = names.check_exists(&agent, || at.value_location(), findings);
            is_known.then_some(ToolKind::Agent { agent, parameters })
        }
        _ => Some(ToolKind::Ensemble {
            ensemble: reference?.to_string(),
            parameters,
        }),
    }
}

/// Returns the advice for a key that a tool with `performer` does not have.
fn other_kind_help(performer: &str, key: &str) -> &'static str {
    match (performer, key) {
        ("mcp", "parameters") => "remove the key; the server defines the arguments of its tools",
        ("mcp", "output_schema") => "remove the key; the server defines the results of its tools",
        ("mcp", "env") => "write it under `mcp`",
        ("mcp", "sandbox") => "write it in `mcp`, next to `command`",
        (_, "env") => "this key is only allowed for tools with a `script`",
        _ => "remove the key, or move it to the agents with a `script`",
    }
}

/// Decodes a JSON Schema with `type: object`.
fn decode_parameters(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Value> {
    let schema = json::decode_json_schema(at, findings)?;
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        return Some(schema);
    }
    let message = "the schema of a tool's arguments must have `type: object`";
    findings
        .push(Finding::new_error(codes::WRONG_TYPE, at.value_location(), message).with_help("write `type: object`"));
    None
}

/// Decodes `mcp`: `client`, or a map with `command` or `url`.
fn decode_mcp_server(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<McpServer> {
    if let Some(text) = at.node.string_text() {
        if **text == *CLIENT_SERVER_WORD {
            return Some(McpServer::Client);
        }
        let message = format!(
            "expected `{CLIENT_SERVER_WORD}` or a map, found {}",
            quote_excerpt(text)
        );
        let help = format!(
            "write `mcp: {{command: …}}` or `mcp: {{url: …}}`; `mcp: {CLIENT_SERVER_WORD}` is the server with the tool's name that the client provides"
        );
        let finding = Finding::new_error(codes::NOT_A_CHOICE, at.value_location(), message);
        findings.push(match find_nearest_word(text, std::iter::once(CLIENT_SERVER_WORD)) {
            Some(nearest_word) => finding.with_near_word_fix(&nearest_word),
            None => finding.with_help(help),
        });
        return None;
    }
    let fields = SectionFields::from_map(at, FileSection::Mcp, findings)?;
    let help = "add the command that starts the server, or its address";
    let codes = [codes::TOOL_KIND, codes::TOOL_KIND];
    let (key, given) = fields.require_exactly_one(&["command", "url"], codes, help, findings)?;
    let owner = format!("a server with `{key}`");
    fields.report_other_kind_keys(key, &owner, findings, |_| "remove the key".to_owned());
    if key == "url" {
        let headers = fields
            .decode_optional("headers", findings, decode_env_or_header_values)
            .unwrap_or_default();
        let url = decode_server_url(&given, findings)?;
        let is_value =
            |(_, setting): &(String, EnvOrHeaderValue)| matches!(setting, EnvOrHeaderValue::FromEnvironment { .. });
        if headers.iter().any(is_value) {
            check_private_url(&given, &url, findings);
        }
        return Some(McpServer::Url { url, headers });
    }
    let env = fields.decode_optional("env", findings, decode_env);
    let cwd = fields.decode_optional("cwd", findings, decode_nonblank_text);
    let sandbox = fields.decode_optional("sandbox", findings, sandbox::decode_sandbox);
    Some(McpServer::Command {
        command: decode_command_line(&given, findings)?,
        env: env.unwrap_or_default(),
        cwd: cwd.map(|cwd| cwd.to_string()),
        sandbox: SandboxChoice::into_sandbox(sandbox),
    })
}

/// Decodes the address of a server with `http` or `https`.
fn decode_server_url(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<String> {
    let url = decode_nonblank_text(at, findings)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !url.contains(char::is_whitespace)) {
        return Some(url.to_string());
    }
    let message = format!("{} is not the address of a server", quote_excerpt(&url));
    findings.push(
        Finding::new_error(codes::NOT_A_CHOICE, at.value_location(), message)
            .with_help("write `https://…` or `http://…`"),
    );
    None
}

/// Decodes a command: one text, or a list of arguments.
fn decode_command_line(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<CommandLine> {
    if let YamlContent::Sequence(_) = at.node.content {
        let words = decode_nonempty_list(at, "a list of strings", "this command is empty", findings, decode_text);
        return words.map(CommandLine::Words);
    }
    decode_reference(at, findings).map(|command| CommandLine::Text(command.to_string()))
}

/// Decodes an `env` section: a list of inherited variables, or a map from names to strings or their sources.
pub(super) fn decode_env(
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(String, EnvOrHeaderValue)>> {
    if let YamlContent::Sequence(_) = at.node.content {
        return decode_list(at, "a list of names", findings, |item, findings| {
            Some((
                decode_environment_variable("env", item, findings)?,
                EnvOrHeaderValue::Inherited,
            ))
        });
    }
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    for (name, entry) in at.require_entries("a list of names, or a map from names to strings", findings)? {
        if !is_name(name) {
            let message = format!("{} is not the name of an environment variable", quote_excerpt(name));
            findings.push(
                Finding::new_error(codes::BAD_NAME, entry.key_location(), message)
                    .with_help("for example, write `LOG_LEVEL`"),
            );
        }
        report_rights_variable(entry.key_location(), name, findings);
    }
    decode_env_or_header_values(at, findings)
}

/// Decodes a map from names to strings, or to the sources of strings.
fn decode_env_or_header_values(
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(String, EnvOrHeaderValue)>> {
    let settings = decode_map(at, "a map from names to strings", findings, |_, entry, findings| {
        decode_env_or_header_value(entry, findings)
    })?;
    Some(
        settings
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
    )
}

/// Decodes a string, or `{env: NAME, prefix: TEXT}`.
fn decode_env_or_header_value(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<EnvOrHeaderValue> {
    if !matches!(at.node.content, YamlContent::Mapping(_)) {
        return decode_text(at, findings).map(EnvOrHeaderValue::Text);
    }
    let fields = SectionFields::from_map(at, FileSection::Setting, findings)?;
    let help = "write the name of an environment variable";
    let variable = fields.decode_required("env", help, findings, |at, findings| {
        decode_environment_variable("env", at, findings)
    });
    let prefix = fields.decode_optional("prefix", findings, decode_text);
    Some(EnvOrHeaderValue::FromEnvironment {
        variable: variable?,
        prefix: prefix.unwrap_or_default(),
    })
}

/// The names of the tools of the ensemble, and whether each is an MCP server. They are collected before the agents are decoded.
pub(super) struct DeclaredTools<'a>(HashMap<&'a str, bool>);

impl<'a> DeclaredTools<'a> {
    /// Collects the names from the tree.
    pub(super) fn collect(document: &'a YamlDocument) -> Self {
        let entries = match document.root().get("tools").map(|tools| &tools.content) {
            Some(YamlContent::Mapping(entries)) => entries.as_slice(),
            _ => &[],
        };
        let is_server = |entry: &'a crate::loader::document::YamlEntry| (&*entry.key, entry.value.get("mcp").is_some());
        Self(entries.iter().map(is_server).collect())
    }

    /// Decodes `tools` of an agent: names of tools, or of one tool of a server. Removes repeated items.
    pub(super) fn decode_tool_uses(
        &self,
        at: &NodeCursor<'_>,
        findings: &mut LimitedFindingList,
    ) -> Option<Vec<ToolReference>> {
        let mut uses = decode_list(at, "a list of tool names", findings, |item, findings| {
            self.decode_tool_use(item, findings)
        })?;
        let mut seen_uses: Vec<ToolReference> = Vec::new();
        uses.retain(|one| {
            let is_new = !seen_uses.contains(one);
            seen_uses.push(one.clone());
            is_new
        });
        Some(uses)
    }

    /// Decodes `tool` of an agent: one tool of an MCP server, as `SERVER.TOOL`.
    pub(super) fn decode_server_tool(
        &self,
        at: &NodeCursor<'_>,
        findings: &mut LimitedFindingList,
    ) -> Option<ToolReference> {
        let name = decode_nonblank_text(at, findings)?;
        let (server, member) = match name.split_once('.') {
            Some((server, member)) => (server, Some(member)),
            None => (&*name, None),
        };
        let member = member.filter(|member| !member.is_empty() && !server.is_empty());
        let is_server = self.0.get(server);
        if is_server.is_none() && member.is_some() {
            findings.push(self.unknown_tool_or_server_finding(at, server, true));
            return None;
        }
        if is_server == Some(&false) {
            let message = format!("`{server}` is not an MCP server");
            let finding = Finding::new_error(codes::NOT_A_SERVER, at.value_location(), message);
            findings.push(finding.with_help(match self.server_names().next() {
                Some(_) => format!("an agent can only call a tool with `mcp`: {}", self.format_server_names()),
                None => "an agent can only call a tool with `mcp`; write a script as `script`, an agent as a dependency and an ensemble as `ensemble`".to_owned(),
            }));
            return None;
        }
        let Some(member) = member else {
            let message = format!("{} does not name a tool of a server", quote_excerpt(&name));
            let finding = Finding::new_error(codes::NO_TOOL_NAME, at.value_location(), message);
            findings.push(finding.with_help(format!(
                "write `tool: {}.NAME`, with the name that the server gives the tool",
                if is_server.is_some() { server } else { "SERVER" }
            )));
            return None;
        };
        Some(ToolReference {
            tool: server.into(),
            member: Some(member.into()),
        })
    }

    /// Returns the names of the MCP servers, in no order.
    fn server_names(&self) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(|(_, is_server)| **is_server)
            .map(|(name, _)| *name)
    }

    /// Formats the names of the MCP servers, sorted.
    fn format_server_names(&self) -> String {
        let mut names: Vec<String> = self.server_names().map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// Builds the error about an unknown tool, or an unknown server with `of_server`.
    fn unknown_tool_or_server_finding(&self, at: &NodeCursor<'_>, tool: &str, of_server: bool) -> Finding {
        let message = match of_server {
            true => format!("there is no MCP server {}", quote_excerpt(tool)),
            false => format!("there is no tool {}", quote_excerpt(tool)),
        };
        let finding = Finding::new_error(codes::UNKNOWN_TOOL, at.value_location(), message);
        let known_tools = self.0.iter().filter(|(_, is_server)| **is_server || !of_server);
        match find_similar_word(tool, known_tools.map(|(name, _)| *name)) {
            Some(guess) => finding.with_near_name_fix(tool, guess),
            None if of_server => finding.with_help("define the server under the top-level key `tools`, with `mcp`"),
            None => finding.with_help("define the tool under the top-level key `tools`"),
        }
    }

    /// Decodes one item of `tools`: `TOOL` or `SERVER.TOOL`. Reports an unknown tool.
    fn decode_tool_use(&self, at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ToolReference> {
        let name = decode_nonblank_text(at, findings)?;
        let (tool, member) = match name.split_once('.') {
            Some((tool, member)) => (tool, Some(member)),
            None => (&*name, None),
        };
        let Some(is_server) = self.0.get(tool) else {
            findings.push(self.unknown_tool_or_server_finding(at, tool, false));
            return None;
        };
        if member.is_some() && !is_server {
            let message = format!("`{tool}` is a single tool and contains no other tools");
            let finding = Finding::new_error(codes::UNKNOWN_TOOL, at.value_location(), message);
            findings.push(finding.with_help(format!(
                "write `{tool}`; only the name of a tool with `mcp` can have a dot and a second name"
            )));
            return None;
        }
        Some(ToolReference {
            tool: tool.into(),
            member: member.map(Arc::from),
        })
    }
}
