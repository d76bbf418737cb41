//! Commands for other programs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

/// `ensemble mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The folder of the ensembles; default: the current folder
    #[arg(value_name = "FOLDER")]
    pub served: Option<PathBuf>,
    /// Serve HTTP at this address of this machine (default: 127.0.0.1:7421) instead of standard input and output
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7421")]
    pub http: Option<SocketAddr>,
    /// With --http: the variable of the environment that contains the token of the clients; default: a new token, which is printed
    #[arg(long, value_name = "NAME", requires = "http")]
    pub token_env: Option<String>,
    /// How long a call waits for the end of a run before it returns the id of the run
    #[arg(long, default_value = "45s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// Use another model for a profile ('*' for all): PROFILE=PROVIDER/MODEL, or PROFILE=simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Read the servers of tools with `mcp: client` from a JSON file such as `.mcp.json`: {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// `ensemble schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Print the schema of test files (*.test.yaml) instead
    #[arg(long)]
    pub tests: bool,
    /// Print a text that teaches a model to write ensembles (SKILL.md) instead
    #[arg(long, conflicts_with_all = ["tests", "config"])]
    pub skill: bool,
    /// Print the schema of .ensemble/config.yaml instead
    #[arg(long, conflicts_with = "tests")]
    pub config: bool,
}
