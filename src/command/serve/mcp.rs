//! `ensemble mcp`: serves the ensembles of a folder as tools of the Model Context Protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use super::lsp;
use crate::command::run::run_options;
use crate::command::runs::estimate;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::{CliEnvironment, change_process_folder};
use clap::{ArgAction, Args};
use ensemble_mcp::catalog::EnsembleToolCatalog;
use ensemble_mcp::session::McpServices;
use ensemble_mcp::{http, stdio};
use ensemble_reports::report::format_count;
use ensemble_runs::service::run_service::RunService;
use ensemble_wire::token::AccessToken;
use std::path::PathBuf;
use std::time::Duration;

/// `ensemble mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The folder of the ensembles; default: the current folder
    #[arg(value_name = "FOLDER")]
    pub served: Option<PathBuf>,
    /// Serve HTTP at this local address instead of standard input and output. Without a value, the address is
    /// 127.0.0.1:7421
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:7421")]
    pub http: Option<SocketAddr>,
    /// Read the token of the clients from this environment variable; needs --http. Without this option, the server
    /// creates a token and prints it
    #[arg(long, value_name = "NAME", requires = "http")]
    pub token_env: Option<String>,
    /// Limit how long a call waits for the end of a run. After this time, the call returns the id of the run
    #[arg(long, default_value = "45s", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub wait: Duration,
    /// Use another model for a profile ('*' for all): PROVIDER/MODEL, or simulated
    #[arg(long = "model", value_name = "PROFILE=MODEL", action = ArgAction::Append)]
    pub model: Vec<String>,
    /// Read the servers of tools with `mcp: client` from a file such as `.mcp.json`. The file has the form
    /// {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// Executes `ensemble mcp`: serves clients over standard input and output, or over HTTP. Returns the exit code.
pub(crate) fn serve_mcp(args: &McpArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let mut surroundings = surroundings.clone();
    if let Some(folder) = &args.served {
        change_process_folder(folder)?;
        surroundings.project.folder = std::env::current_dir()
            .map_err(|error| CliError::usage_error(format!("cannot use the folder {}: {error}", folder.display())))?;
    }
    if let Some(address) = args.http.filter(|address| !address.ip().is_loopback()) {
        return Err(CliError::usage_error_with_help(
            format!("--http {address}: other machines can reach this address"),
            "use an address that only this machine can reach, such as 127.0.0.1:7421",
        ));
    }
    let token = args.http.map(|_| load_or_generate_token(args)).transpose()?;
    print_served(&surroundings);
    let services = Arc::new(build_services(args, token.as_ref(), &surroundings)?);
    block_on(async {
        match args.http.zip(token) {
            Some((address, token)) => {
                let is_new = args.token_env.is_none();
                bind_and_serve_http(address, token, is_new, services, &surroundings).await
            }
            None => {
                if surroundings.streams.in_is_terminal {
                    surroundings.print_err("waiting for an MCP client on standard input; Ctrl-C ends the server\n");
                }
                let served = stdio::serve_stdio(
                    Box::new(tokio::io::stdin()),
                    Box::new(surroundings.streams.protocol_out_async()),
                    services,
                )
                .await;
                served.map_err(|why| {
                    CliError::Internal(format!(
                        "standard input is not valid in the Model Context Protocol: {why}"
                    ))
                })
            }
        }
    })?;
    Ok(exit::SUCCESS)
}

/// Builds the services of the server. The runs redact `token`.
fn build_services(
    args: &McpArgs,
    token: Option<&AccessToken>,
    surroundings: &CliEnvironment,
) -> Result<McpServices, CliError> {
    let mut estimate_surroundings = surroundings.clone();
    estimate_surroundings.project = estimate_surroundings.project.with_boundary();
    let servers = run_options::load_mcp_servers(args.mcp_config.as_deref(), surroundings)?;
    let runs = surroundings.runs_for_clients(servers);
    let runs = match token {
        Some(token) => runs.with_server_token(token.as_str(), args.token_env.as_deref()),
        None => runs,
    };
    Ok(McpServices {
        runs: RunService::new(runs),
        draw: lsp::render_graph_in_format,
        estimate: Box::new(move |ensemble, from| {
            let estimate_surroundings = estimate_surroundings.clone();
            Box::pin(async move {
                let estimated = estimate::build_estimate_json(&ensemble, Some(&from), &estimate_surroundings).await;
                estimated.map_err(|error| error.to_string())
            })
        }),
        wait: args.wait,
        models: args.model.clone(),
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Prints the number of served ensembles, and warnings about ensembles that are not served or were renamed.
fn print_served(surroundings: &CliEnvironment) {
    let catalog = EnsembleToolCatalog::load_catalog(&surroundings.project);
    let ensembles = format_count(catalog.entries.len() as u64, "ensemble");
    let folder = surroundings.project.folder.display();
    let mut text = format!("serving {ensembles} of {folder}\n");
    for wrong in &catalog.invalid_ensembles {
        text.push_str(&format!(
            "warning: {} is not served: {}; `ensemble validate` shows the findings\n",
            wrong.file.display(),
            format_count(wrong.errors as u64, "error")
        ));
    }
    for entry in catalog.entries.iter().filter(|entry| entry.is_qualified) {
        text.push_str(&format!(
            "warning: the tool of {} is `{}`, because another tool would have the same name\n",
            entry.file.display(),
            entry.tool
        ));
    }
    surroundings.print_err(&text);
}

/// Binds the address, prints the address and a new token, and serves clients. `is_new` marks a token that the server generated.
async fn bind_and_serve_http(
    address: SocketAddr,
    token: AccessToken,
    is_new: bool,
    services: Arc<McpServices>,
    surroundings: &CliEnvironment,
) -> Result<(), CliError> {
    let unusable = |error: std::io::Error| CliError::usage_error(format!("--http {address}: {error}"));
    let listener = tokio::net::TcpListener::bind(address).await.map_err(unusable)?;
    let local_address = listener.local_addr().map_err(unusable)?;
    surroundings.print_err(&format!("at http://{local_address}{}\n", http::MCP_PATH));
    if is_new {
        surroundings.print_err(&format!(
            "clients send the header Authorization: Bearer {}\n",
            token.as_str()
        ));
    }
    http::serve_http(listener, token, services).await.map_err(unusable)
}

/// Returns the token in the variable of `--token-env`, or generates a token.
///
/// # Errors
/// The token in the variable is too short or contains invisible characters.
fn load_or_generate_token(args: &McpArgs) -> Result<AccessToken, CliError> {
    let Some(name) = &args.token_env else {
        return AccessToken::generate().map_err(|error| CliError::Internal(format!("cannot create a token: {error}")));
    };
    let value = std::env::var(name).unwrap_or_default();
    AccessToken::parse_for_header(&value).map_err(|_| {
        CliError::usage_error(format!(
            "--token-env {name}: the token in this variable needs at least 16 visible ASCII characters"
        ))
    })
}
