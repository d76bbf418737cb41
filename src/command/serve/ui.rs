//! `ensemble ui` and `ensemble run --ui`: serve a page in the browser for the runs of the project.

use std::net::Ipv4Addr;

use ensemble_core::store::RunId;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{ReadyRun, Runs};
use ensemble_ui::{AccessToken, UiServer, UiServerSettings};

use crate::command::check::picture::ensemble_picture;
use crate::command::run::driver::RunEndReporter;
use crate::command::run::run_options;
use crate::command::serve::lsp::LspFileChecks;
use crate::command::setup::init;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals;
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// `ensemble ui`.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Where the page is.
    #[command(flatten)]
    pub place: PageArgs,
    /// Read the servers of tools with `mcp: client` from a file such as `.mcp.json`. The file has the form
    /// {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// The address of the page.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Use this port for the page (0: any free port). Default: 7357, or any free port if another program uses 7357
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Serve the page at this address: 127.0.0.1 or ::1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
}

/// Environment variable with a token that outlives the server, so that pages and chat programs can reconnect.
const TOKEN_VARIABLE: &str = "ENSEMBLE_UI_TOKEN";
/// Author of the cancellation when the server ends, for the record.
const CANCELLED_BY: &str = "the end of ensemble ui";

/// Executes `ensemble ui`: serves the page until Ctrl-C, then cancels the runs of this process. Returns the exit code.
pub(crate) fn serve_ui(args: &UiArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    block_on(async {
        let mut signals = signals::listen_for_signals();
        let servers = run_options::load_mcp_servers(args.mcp_config.as_deref(), surroundings)?;
        let (runs, token) = with_redacted_token(surroundings.runs_for_clients(servers))?;
        let runs = RunService::new(runs);
        let server = bind_server(&args.place, &runs, token)?;
        let link = server.link_with_token();
        spawn_server_thread(server)?;
        surroundings.print_out(&format!("{link}\n"));
        surroundings.print_err("open this address in a browser; Ctrl-C ends the server\n");
        signals.wait_for_signal().await;
        cancel_driven_runs(&runs).await;
        Ok(exit::SUCCESS)
    })
}

/// Drives the run to its end next to a page, and serves the page until a signal (`ensemble run --ui`). Returns the exit code.
pub(crate) async fn run_with_page(
    ready: ReadyRun,
    (runs, token): (Runs, AccessToken),
    port: Option<u16>,
    ending: RunEndReporter<'_>,
) -> Result<u8, CliError> {
    let mut signals = signals::listen_for_signals();
    let surroundings = ending.surroundings;
    let runs = RunService::new(runs);
    let place = PageArgs {
        port,
        address: Ipv4Addr::LOCALHOST.into(),
    };
    let server = bind_server(&place, &runs, token)?;
    let link = server.link_with_token();
    spawn_server_thread(server)?;
    let id = runs.start_prepared_run(ready).await?;
    signals.set_run_to_kill(&id);
    surroundings.print_err(&format!("watch the run: {link}&run={id}\n"));
    let mut is_stopped = false;
    loop {
        tokio::select! {
            () = runs.wait_until_closed(&id) => break,
            _ = signals.wait_for_signal() => {
                is_stopped = true;
                let _it_has_ended = runs.cancel_run(&id, "a signal").await;
            }
        }
    }
    let mut code = print_run_result(&runs, &id, &ending).await?;
    if !is_stopped {
        surroundings.print_err("the run has ended; the page stays until Ctrl-C\n");
        signals.mark_signals_handled();
        signals.wait_for_signal().await;
        cancel_driven_runs(&runs).await;
        code = current_run_exit_code(&runs, &id, &ending).await?;
    }
    Ok(code)
}

/// Prints the result of the recorded run, and returns the exit code.
async fn print_run_result(runs: &RunService, id: &RunId, ending: &RunEndReporter<'_>) -> Result<u8, CliError> {
    let recorded = runs.load_recorded_run(id).await?;
    Ok(ending.print_result(&recorded.state, &recorded.prepared, &[]))
}

/// Returns the exit code of the run, which might have been continued on the page.
async fn current_run_exit_code(runs: &RunService, id: &RunId, ending: &RunEndReporter<'_>) -> Result<u8, CliError> {
    let state = runs.load_recorded_run(id).await?.state;
    let code = state
        .run_end()
        .map(|ended| exit::exit_code_for_end(ended, state.interruption(), ending.fail_on_limit));
    Ok(code.unwrap_or(exit::SUCCESS))
}

/// Binds the server of the page to its address and port.
fn bind_server(place: &PageArgs, runs: &RunService, token: AccessToken) -> Result<UiServer, CliError> {
    let settings = UiServerSettings {
        address: place.address,
        port: place.port,
        token,
        runs: runs.clone(),
        driving: tokio::runtime::Handle::current(),
        version: env!("CARGO_PKG_VERSION"),
        picture: ensemble_picture,
        starter: init::smallest_ensemble_files,
        checks: std::sync::Arc::new(LspFileChecks),
    };
    UiServer::bind_address(settings).map_err(|error| {
        let port = place.port.map_or_else(String::new, |port| format!(" port {port}"));
        CliError::usage_error(format!("cannot serve a page at {}{port}: {error}", place.address))
    })
}

/// Starts the server on a separate thread.
fn spawn_server_thread(server: UiServer) -> Result<(), CliError> {
    let started = server.serve_on_thread();
    started.map_err(|error| CliError::Internal(format!("cannot start the server: {error}")))
}

/// Makes the runs redact the token of the page. Returns the runs and the token.
pub(crate) fn with_redacted_token(runs: Runs) -> Result<(Runs, AccessToken), CliError> {
    let token = read_or_generate_token()?;
    Ok((runs.with_server_token(token.as_str(), Some(TOKEN_VARIABLE)), token))
}

/// Returns the token in the environment variable, or generates a token.
fn read_or_generate_token() -> Result<AccessToken, CliError> {
    match std::env::var(TOKEN_VARIABLE).ok() {
        Some(token) => AccessToken::parse_for_cookie(&token)
            .map_err(|why| CliError::usage_error(format!("{TOKEN_VARIABLE}: {why}"))),
        None => AccessToken::generate().map_err(|error| CliError::Internal(format!("cannot create a token: {error}"))),
    }
}

/// Cancels the runs that this process drives, and waits until they are closed. The runs can be resumed.
async fn cancel_driven_runs(runs: &RunService) {
    let summaries = runs.load_latest_summaries(usize::MAX).await.unwrap_or_default();
    let driven = summaries
        .into_iter()
        .flatten()
        .filter(|summary| runs.is_driven_here(&summary.id));
    let driven: Vec<RunId> = driven.map(|summary| summary.id).collect();
    for id in &driven {
        let _it_has_ended = runs.cancel_run(id, CANCELLED_BY).await;
    }
    for id in &driven {
        runs.wait_until_closed(id).await;
    }
}
