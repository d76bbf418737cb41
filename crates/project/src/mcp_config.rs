//! Files of MCP servers such as `.mcp.json`: `{"mcpServers": {NAME: {"command", "args", "env"} or {"url", "headers"}}}`.
//!
//! Invariant: every `${NAME}` of a file is in the list that a user sees before trust.

use ensemble_language::data::strip_byte_order_mark;
use std::collections::{BTreeMap, BTreeSet};

use ensemble_core::operator::escape_hidden;
use serde::Deserialize;

/// Servers of a file of MCP servers, unexpanded.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct McpConfig {
    /// Servers by their names.
    #[serde(rename = "mcpServers")]
    pub servers: BTreeMap<String, McpConfigServer>,
}

/// Server of a file of MCP servers. Strings may contain `${NAME}` and `${NAME:-DEFAULT}`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct McpConfigServer {
    /// Kind of the server.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Program of the server.
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables of the program's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// URL of the server.
    pub url: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl McpConfig {
    /// Parses the text of a file of MCP servers.
    ///
    /// # Errors
    /// The text is not JSON of this form.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(strip_byte_order_mark(text))
    }

    /// Returns a line for each use of an environment variable by a server.
    pub(crate) fn describe_variable_uses(&self) -> Vec<String> {
        let servers = self.servers.iter();
        servers.flat_map(|(name, server)| server.list_variables(name)).collect()
    }
}

impl McpConfigServer {
    /// Returns a line for each use of an environment variable by the server. `name` is the name of the server.
    fn list_variables(&self, name: &str) -> Vec<String> {
        let name = escape_hidden(name).to_string();
        let command: Vec<&str> = self.command.iter().chain(&self.args).map(String::as_str).collect();
        let command = escape_hidden(&command.join(" ")).to_string();
        let url = escape_hidden(self.url.as_deref().unwrap_or_default()).to_string();
        let mut lines = Vec::new();
        let mut add_lines = |text: &str, receiver: &str| {
            for variable in find_variables(text) {
                lines.push(format!(
                    "server `{name}` gives the value of {} to {receiver}",
                    escape_hidden(&variable)
                ));
            }
        };
        if let Some(text) = &self.command {
            add_lines(text, &format!("the program `{command}`, in its name"));
        }
        for text in &self.args {
            add_lines(text, &format!("the program `{command}`, in an argument"));
        }
        for (own, text) in &self.env {
            add_lines(text, &format!("the program `{command}`, as {}", escape_hidden(own)));
        }
        if let Some(text) = &self.url {
            add_lines(text, &format!("{url}, in the address"));
        }
        for (header, text) in &self.headers {
            add_lines(text, &format!("{url}, in the header {}", escape_hidden(header)));
        }
        lines
    }
}

/// Collects the variables that the text names as `${NAME}`.
fn find_variables(text: &str) -> BTreeSet<String> {
    let mut variables = BTreeSet::new();
    // The values are not needed, so none is missing.
    let _never_fails = expand_variables(text, &mut |name| {
        variables.insert(name.to_owned());
        Some(String::new())
    });
    variables
}

/// Replaces `${NAME}` and `${NAME:-DEFAULT}` by the values that `variable` returns.
///
/// # Errors
/// The name of the first variable that is not set and has no default.
pub fn expand_variables(text: &str, variable: &mut dyn FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut rest = text;
    let mut expanded = String::new();
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        expanded.push_str(&rest[..start]);
        let inside = &rest[start + 2..start + length];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match (variable(name), default) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(name.to_owned()),
        }
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_environment_is_a_line() {
        let config = McpConfig::parse(
            r#"{"mcpServers": {
                "a": {"command": "run-${A}", "args": ["x", "${B:-${C}"], "env": {"D": "${D}", "E": "plain"}},
                "b": {"url": "https://${F}.example/${G:-x}", "headers": {"H": "Bearer ${H} ${H}"}},
                "c": {"url": "https://plain.example"}
            }}"#,
        );
        let lines = config.expect("a file").describe_variable_uses();
        let expected = [
            "server `a` gives the value of A to the program `run-${A} x ${B:-${C}`, in its name",
            "server `a` gives the value of B to the program `run-${A} x ${B:-${C}`, in an argument",
            "server `a` gives the value of D to the program `run-${A} x ${B:-${C}`, as D",
            "server `b` gives the value of F to https://${F}.example/${G:-x}, in the address",
            "server `b` gives the value of G to https://${F}.example/${G:-x}, in the address",
            "server `b` gives the value of H to https://${F}.example/${G:-x}, in the header H",
        ];
        assert_eq!(lines, expected);
    }
}
