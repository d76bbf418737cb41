//! The MCP servers that a client provides for a run, for tools with `mcp: client`.
//!
//! Invariant: no record and no debug text contains the values of these servers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ensemble_core::secrets::{Secrets, is_secret_name};
use ensemble_language::ensemble::is_safe_for_keys;
use ensemble_project::mcp_config::{McpConfig, McpConfigServer, expand_variables};
use thiserror::Error;

/// The MCP servers that a client provides for a run, by name. Records do not contain the servers, so a resumed run needs them again.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientServers(BTreeMap<Arc<str>, ClientServer>);

/// An MCP server that a client provides.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientServer {
    /// A child process, over its standard streams.
    Command {
        /// The program: a name on PATH, or a path.
        command: String,
        /// The arguments of the command.
        args: Vec<String>,
        /// The environment variables, in addition to those that every program receives.
        env: Vec<(String, String)>,
    },
    /// A server, over HTTP.
    Http {
        /// The URL of the server.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

/// An error in a configuration of client servers.
#[derive(Debug, Error)]
pub enum ClientServersError {
    /// A server is of a kind that is not supported.
    #[error("the server `{name}` is neither a program with `command` nor an address with `url`")]
    Kind {
        /// The name of the server.
        name: String,
    },
    /// A server over server-sent events alone.
    #[error(
        "the server `{name}` has the type `sse`, which is not supported; use streamable HTTP, with the type `http`"
    )]
    Sse {
        /// The name of the server.
        name: String,
    },
    /// Headers or values of the environment would be sent over plain HTTP to another machine.
    #[error(
        "the server `{name}` has headers or values of the environment, and its address begins with `http://`; use `https://`"
    )]
    PlainHttp {
        /// The name of the server.
        name: String,
    },
    /// A variable that a value names is not set.
    #[error("the server `{name}` needs the environment variable `{variable}`, which is not set")]
    Variable {
        /// The name of the server.
        name: String,
        /// The variable.
        variable: String,
    },
}

impl ClientServers {
    /// Adds a server. Replaces an earlier server of the same name.
    pub fn insert_server(&mut self, name: impl Into<Arc<str>>, server: ClientServer) {
        self.0.insert(name.into(), server);
    }

    /// Returns the server of this name.
    pub fn get(&self, name: &str) -> Option<&ClientServer> {
        self.0.get(name)
    }

    /// Returns whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of all servers, sorted.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// Creates the servers of a file such as `.mcp.json`. Expands `${NAME}` and `${NAME:-DEFAULT}` with `variable`.
    ///
    /// # Errors
    ///
    /// A server is of another kind, a variable without a default is not set, or a value would be sent over `http://` to another machine.
    pub fn from_config(
        config: McpConfig,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ClientServersError> {
        let mut servers = Self::default();
        for (name, written) in config.servers {
            let server = resolve_server(&name, &written, variable)?;
            servers.insert_server(name, server);
        }
        Ok(servers)
    }

    /// Adds all headers, and the variables and arguments with names of secrets, to the secrets of the run.
    pub(crate) fn register_secrets(&self, secrets: &Secrets) {
        for server in self.0.values() {
            match server {
                ClientServer::Command { env, args, .. } => {
                    let private = env.iter().filter(|(name, _)| is_secret_name(name));
                    private.for_each(|(_, value)| secrets.add_secret(value));
                    secrets.add_secrets(list_secret_argument_values(args.iter().map(String::as_str)));
                }
                ClientServer::Http { headers, .. } => headers.iter().for_each(|(_, value)| secrets.add_secret(value)),
            }
        }
    }
}

/// The values of environments and headers are not shown.
impl fmt::Debug for ClientServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the values of options and assignments with names of secrets: `--token VALUE`, `--api-key=VALUE`, `PASSWORD=VALUE`.
pub(crate) fn list_secret_argument_values<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut keys = Vec::new();
    let mut is_awaited = false;
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, value)) if is_secret_name(name) => keys.push(value),
            _ if is_awaited && !argument.starts_with('-') => keys.push(argument),
            _ => {}
        }
        is_awaited = argument.starts_with('-') && !argument.contains('=') && is_secret_name(argument);
    }
    keys
}

/// Converts the configuration of a server, with its environment variables expanded.
///
/// # Errors
///
/// The kind is not supported, a variable is not set, or a secret would be sent without encryption.
fn resolve_server(
    name: &str,
    written: &McpConfigServer,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ClientServer, ClientServersError> {
    let expand = |text: &str| {
        expand_variables(text, &mut |name| variable(name)).map_err(|variable| ClientServersError::Variable {
            name: name.to_owned(),
            variable,
        })
    };
    let expand_map = |given: &BTreeMap<String, String>| -> Result<Vec<(String, String)>, ClientServersError> {
        given
            .iter()
            .map(|(key, text)| Ok((key.clone(), expand(text)?)))
            .collect()
    };
    if written.kind.as_deref() == Some("sse") {
        return Err(ClientServersError::Sse { name: name.to_owned() });
    }
    match (written.command.as_deref(), written.url.as_deref()) {
        (Some(command), None) => Ok(ClientServer::Command {
            command: expand(command)?,
            args: written.args.iter().map(|text| expand(text)).collect::<Result<_, _>>()?,
            env: expand_map(&written.env)?,
        }),
        (None, Some(written_url)) => {
            let (url, headers) = (expand(written_url)?, expand_map(&written.headers)?);
            let has_values = url != written_url || !headers.is_empty();
            if has_values && !is_safe_for_keys(&url) {
                return Err(ClientServersError::PlainHttp { name: name.to_owned() });
            }
            Ok(ClientServer::Http { url, headers })
        }
        _ => Err(ClientServersError::Kind { name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientServers, String> {
        let variable = |name: &str| (name == "TOKEN").then(|| "t-12345678".to_owned());
        let config = McpConfig::parse(text).map_err(|error| error.to_string())?;
        ClientServers::from_config(config, &variable).map_err(|error| error.to_string())
    }

    #[test]
    fn programs_and_addresses_are_read_with_values_of_the_environment() {
        let servers = read(
            r#"{"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "${WHICH:-files}"], "env": {"A_TOKEN": "${TOKEN}", "B": "${b"}},
                "wiki": {"type": "http", "url": "https://wiki.example", "headers": {"Authorization": "Bearer ${TOKEN}"}}
            }}"#,
        );
        let servers = servers.expect("two servers");
        let text = |text: &str| text.to_owned();
        assert!(
            servers.get("files")
                == Some(&ClientServer::Command {
                    command: text("npx"),
                    args: vec![text("-y"), text("files")],
                    env: vec![(text("A_TOKEN"), text("t-12345678")), (text("B"), text("${b"))],
                })
        );
        assert!(
            servers.get("wiki")
                == Some(&ClientServer::Http {
                    url: text("https://wiki.example"),
                    headers: vec![(text("Authorization"), text("Bearer t-12345678"))],
                })
        );
        assert_eq!(format!("{servers:?}"), r#"{"files", "wiki"}"#, "no values");
    }

    #[test]
    fn what_is_wrong_names_the_server() {
        for (text, expected) in [
            ("{", "EOF while parsing"),
            (r#"{"servers": {}}"#, "missing field `mcpServers`"),
            (r#"{"mcpServers": {"a": {}}}"#, "the server `a` is neither"),
            (
                r#"{"mcpServers": {"a": {"command": "x", "url": "y"}}}"#,
                "the server `a` is neither",
            ),
            (
                r#"{"mcpServers": {"a": {"type": "sse", "url": "y"}}}"#,
                "the server `a` has the type `sse`",
            ),
            (
                r#"{"mcpServers": {"a": {"command": "${NOPE}"}}}"#,
                "the server `a` needs the environment variable `NOPE`",
            ),
            (
                r#"{"mcpServers": {"a": {"url": "http://elsewhere/${TOKEN}"}}}"#,
                "the server `a` has headers or values",
            ),
            (
                r#"{"mcpServers": {"a": {"url": "http://elsewhere", "headers": {"X": "${TOKEN}"}}}}"#,
                "the server `a` has headers or values",
            ),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }

    #[test]
    fn headers_and_private_variables_are_secrets() {
        let servers = read(
            r#"{"mcpServers": {
                "a": {"command": "x", "env": {"API_KEY": "k-abcdefgh", "FOLDER": "/home/you/notes"}},
                "b": {"url": "https://x", "headers": {"X": "h-abcdefgh"}}
            }}"#,
        );
        let secrets = Secrets::default();
        servers.expect("servers").register_secrets(&secrets);
        let said = secrets.redact("h-abcdefgh k-abcdefgh /home/you/notes");
        assert_eq!(said, "[secret] [secret] /home/you/notes");
    }

    #[test]
    fn keys_in_arguments_are_found_by_their_options() {
        let arguments = [
            "run",
            "--token",
            "t-1",
            "--api-key=k-2",
            "--token",
            "--quiet",
            "PASSWORD=p-3",
            "--level",
            "x",
        ];
        assert_eq!(list_secret_argument_values(arguments), ["t-1", "k-2", "p-3"]);
    }
}
