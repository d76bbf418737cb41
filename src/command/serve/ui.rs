//! `ensemble ui` and `ensemble run --ui`: a page in the browser over the runs of the project.

use std::net::Ipv4Addr;

use ensemble_core::store::RunId;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{Ready, Runs};
use ensemble_ui::{Server, Settings, Token};

use crate::command::check::picture::of_ensemble;
use crate::command::run::driver::Ending;
use crate::command::run::run_options;
use crate::command::serve::lsp::OfValidate;
use crate::command::setup::init;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
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
    /// Read the servers of tools with `mcp: client` from a JSON file such as `.mcp.json`: {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// The address of the page.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The port of the page (0: any that is free); default: 7357, or any if another program has it
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The address of the page: 127.0.0.1 or ::1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
}

/// The variable with a token that outlives the server, so that pages and chat programs find it again.
const TOKEN: &str = "ENSEMBLE_UI_TOKEN";
/// Who cancels runs when the server ends, as the record tells it.
const SERVER: &str = "the end of ensemble ui";

/// `ensemble ui`.
pub(crate) fn ui(args: &UiArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    block_on(async {
        let mut signals = signals::listen();
        let servers = run_options::servers(args.mcp_config.as_deref(), surroundings)?;
        let runs = RunService::new(surroundings.runs_for_clients(servers));
        let server = bind(&args.place, &runs)?;
        let link = server.link();
        serve(server)?;
        surroundings.print(&format!("{link}\n"));
        surroundings.print_err("open this address in a browser; Ctrl-C ends the server\n");
        signals.next().await;
        cancel_all(&runs).await;
        Ok(exit::SUCCESS)
    })
}

/// `ensemble run --ui`: runs it to its end, and keeps the page until a signal.
pub(crate) async fn run_beside_page(
    ready: Ready,
    runs: Runs,
    port: Option<u16>,
    ending: Ending<'_>,
) -> Result<u8, CliError> {
    let mut signals = signals::listen();
    let surroundings = ending.surroundings;
    let runs = RunService::new(runs);
    let place = PageArgs {
        port,
        address: Ipv4Addr::LOCALHOST.into(),
    };
    let server = bind(&place, &runs)?;
    let link = server.link();
    serve(server)?;
    let id = runs.begin(ready).await?;
    signals.of_run(&id);
    surroundings.print_err(&format!("watch it: {link}&run={id}\n"));
    let mut is_stopped = false;
    loop {
        tokio::select! {
            () = runs.ended(&id) => break,
            _ = signals.next() => {
                is_stopped = true;
                let _it_has_ended = runs.cancel(&id, "a signal").await;
            }
        }
    }
    let mut code = show(&runs, &id, &ending).await?;
    if !is_stopped {
        surroundings.print_err("the run has ended; the page stays until Ctrl-C\n");
        signals.are_dealt_with();
        signals.next().await;
        cancel_all(&runs).await;
        code = code_of(&runs, &id, &ending).await?;
    }
    Ok(code)
}

/// Prints the result, and returns the exit code.
async fn show(runs: &RunService, id: &RunId, ending: &Ending<'_>) -> Result<u8, CliError> {
    let recorded = runs.recorded(id).await?;
    Ok(ending.show(&recorded.state, &recorded.prepared))
}

/// The exit code of the run, which may have gone on since.
async fn code_of(runs: &RunService, id: &RunId, ending: &Ending<'_>) -> Result<u8, CliError> {
    let state = runs.recorded(id).await?.state;
    let code = state
        .ended()
        .map(|ended| exit::of_run(ended.completion_reason, state.interrupted(), ending.fail_on_limit));
    Ok(code.unwrap_or(exit::SUCCESS))
}

fn bind(place: &PageArgs, runs: &RunService) -> Result<Server, CliError> {
    let settings = Settings {
        address: place.address,
        port: place.port,
        token: token(runs)?,
        runs: runs.clone(),
        driving: tokio::runtime::Handle::current(),
        version: env!("CARGO_PKG_VERSION"),
        picture: of_ensemble,
        starter: init::smallest,
        checks: std::sync::Arc::new(OfValidate),
    };
    Server::bind(settings).map_err(|error| {
        let port = place.port.map_or_else(String::new, |port| format!(" port {port}"));
        CliError::usage(format!("cannot serve a page at {}{port}: {error}", place.address))
    })
}

fn serve(server: Server) -> Result<(), CliError> {
    let started = server.serve();
    started.map_err(|error| CliError::Internal(format!("cannot start the server: {error}")))
}

/// The token of the environment, or a new one.
fn token(runs: &RunService) -> Result<Token, CliError> {
    match runs.runs().host().variable(TOKEN) {
        Some(given) => Token::given(&given).map_err(|why| CliError::usage(format!("{TOKEN}: {why}"))),
        None => Token::random().map_err(|error| CliError::Internal(format!("cannot make a token: {error}"))),
    }
}

/// Cancels the runs that go on here, and waits until they are closed. They can be resumed.
async fn cancel_all(runs: &RunService) {
    let listed = runs.list(usize::MAX).await.unwrap_or_default();
    let driven = listed
        .into_iter()
        .flatten()
        .filter(|summary| runs.is_driven_here(&summary.id));
    let driven: Vec<RunId> = driven.map(|summary| summary.id).collect();
    for id in &driven {
        let _it_has_ended = runs.cancel(id, SERVER).await;
    }
    for id in &driven {
        runs.ended(id).await;
    }
}
