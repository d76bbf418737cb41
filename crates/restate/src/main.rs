//! `ensemble-restate`: a worker that runs ensembles for Restate.

mod stop_signals;
mod watchdog;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use ensemble_process::become_orphan_collector;
use ensemble_remote::protocol::WorkerVersion;
use ensemble_remote::{EngineClient, EngineClientError};
use ensemble_restate::peers::PeerWorkerClient;
use ensemble_restate::request_check::BrowserRequestCheck;
use ensemble_restate::serve::serve_engine_until;
use ensemble_restate::served_ensembles::ServedEnsembleCheck;
use ensemble_restate::worker::RestateWorker;
use ensemble_runs::{Project, RunHost, Runs};
use tokio::net::TcpListener;

use crate::stop_signals::{WorkerStopSignal, WorkerStopSignals};

/// Run ensembles on Restate, a durable execution engine.
#[derive(Debug, Parser)]
#[command(name = "ensemble-restate", version, propagate_version = true)]
struct RestateCli {
    #[command(subcommand)]
    command: RestateCommand,
}

#[derive(Debug, Subcommand)]
enum RestateCommand {
    /// Serve as a worker, until Ctrl-C or SIGTERM
    Serve(ServeArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// The folder with the ensembles, scripts and configuration
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The address at which the engine finds this worker. An address that other machines reach needs --identity-key
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,
    /// The address at which the other workers find this one; without it that of --listen
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// The engine's ingress
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    ingress: String,
    /// Wait so long for running executions after Ctrl-C or SIGTERM; a second signal ends the worker at once
    #[arg(long, value_name = "SECONDS", default_value_t = 25)]
    drain_seconds: u64,
    /// Accept only requests that the engine has signed with this key (publickeyv1_…); can be repeated
    #[arg(long = "identity-key", value_name = "KEY")]
    identity_keys: Vec<String>,
    /// Trust all files of the folder: they say where keys and values of the environment go
    #[arg(long)]
    trust: bool,
    /// Run every text that a request contains, not only the ensembles of the folder. Whoever reaches the engine then runs any
    /// command here, with the rights and the environment of this worker
    #[arg(long)]
    unsafe_any_ensemble: bool,
    /// Listen without --identity-key at an address that other machines reach. Whoever reaches it then runs the ensembles of the
    /// folder with any input
    #[arg(long)]
    unsafe_without_identity_key: bool,
}

/// Runs the worker, or the watchdog of a worker.
fn main() -> ExitCode {
    if watchdog::is_started_as_watchdog() {
        watchdog::run_as_watchdog();
        return ExitCode::SUCCESS;
    }
    let RestateCommand::Serve(args) = RestateCli::parse().command;
    match serve_until_stopped(&args) {
        Ok(signal) => ExitCode::from(signal.exit_code()),
        Err(error) => {
            print_stderr_line(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Prints the line to standard error. Ignores a failed write.
fn print_stderr_line(line: &str) {
    // Without a reader there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Checks that only the engine can reach the worker, unless the operator allows more.
///
/// # Errors
/// Other machines reach the address, and the arguments contain no identity key.
fn check_listen_exposure(args: &ServeArgs) -> Result<(), String> {
    let is_safe = args.listen.ip().is_loopback() || !args.identity_keys.is_empty();
    match is_safe || args.unsafe_without_identity_key {
        true => Ok(()),
        false => Err(format!(
            "other machines reach {}, and there is no --identity-key\n  help: pass the public key of the engine \
             (`--identity-key publickeyv1_…`), or listen at 127.0.0.1",
            args.listen
        )),
    }
}

/// Makes the served folder the current folder of the process, so that scripts run like those of `ensemble run`. Returns its path.
fn enter_served_folder(folder: &Path) -> Result<PathBuf, String> {
    let given = folder.display();
    let help = "help: pass the folder of the project, with its ensembles and scripts";
    let folder = folder
        .canonicalize()
        .map_err(|error| format!("cannot serve `{given}`: {error}\n  {help}"))?;
    if !folder.is_dir() {
        return Err(format!("cannot serve `{given}`: it is not a folder\n  {help}"));
    }
    std::env::set_current_dir(&folder).map_err(|error| format!("cannot serve `{given}`: {error}\n  {help}"))?;
    Ok(folder)
}

/// Returns the URL at which other workers find this worker. Returns `None` if the worker listens at all addresses of the machine and
/// none is advertised.
fn choose_advertised_url(args: &ServeArgs, address: SocketAddr) -> Result<Option<String>, String> {
    let Some(given) = &args.advertise else {
        return Ok((!address.ip().is_unspecified()).then(|| format!("http://{address}")));
    };
    let refused = |reason: &str| {
        let help = "help: pass the URL of this worker, such as http://worker-3.internal:9080";
        Err(format!(
            "no worker finds this one at --advertise `{given}`: {reason}\n  {help}"
        ))
    };
    let parsed = match reqwest::Url::parse(given) {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error.to_string()),
    };
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        _ if !matches!(parsed.scheme(), "http" | "https") => refused("it must begin with http:// or https://"),
        Ok(host) if host.is_unspecified() => refused("it names all addresses of a machine"),
        _ => Ok(Some(given.clone())),
    }
}

/// Creates the client of the engine, which waits for the engine from the start.
///
/// # Errors
/// The address is not valid, or is the address of this worker.
fn connect_patient_client(args: &ServeArgs) -> Result<EngineClient, String> {
    let given = &args.ingress;
    let help = "help: pass the address of the ingress, such as http://127.0.0.1:8080";
    let engine = EngineClient::from_url(given).map_err(|error| format!("--ingress: {error}\n  {help}"))?;
    let parsed = reqwest::Url::parse(given).map_err(|error| format!("--ingress `{given}`: {error}\n  {help}"))?;
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_own_host = host.parse() == Ok(args.listen.ip()) || (host == "localhost" && args.listen.ip().is_loopback());
    if is_own_host && parsed.port_or_known_default() == Some(args.listen.port()) {
        return Err(format!("--ingress `{given}` is the address of this worker\n  {help}"));
    }
    Ok(engine.with_waiting_from_start())
}

/// Checks that no other program answers at the ingress. Returns a note if no engine answers yet, because the engine can start later.
async fn check_ingress(engine: &EngineClient) -> Result<Option<String>, String> {
    match engine.check_ingress().await {
        Ok(()) => Ok(None),
        Err(error @ EngineClientError::NoIngress { .. }) => {
            let help = error.advice_text().unwrap_or_default();
            Err(format!("--ingress: {error}\n  help: {help}"))
        }
        Err(error) => Ok(Some(format!("note: {error}; the worker waits for the engine"))),
    }
}

/// Serves the engine as a worker until a signal, and drains the worker. Returns the signal.
fn serve_until_stopped(args: &ServeArgs) -> Result<WorkerStopSignal, String> {
    // Where the system refuses it, the watchdog finds what leaves its process group.
    let _refused = become_orphan_collector();
    let folder = enter_served_folder(&args.folder)?;
    let project = Project::from_process();
    let trust = project.trust.clone().or_trust_everything(args.trust);
    check_listen_exposure(args)?;
    let engine = connect_patient_client(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        let mut signals = WorkerStopSignals::listen().map_err(|error| format!("cannot receive signals: {error}"))?;
        let host = RunHost::from_system()
            .without_operator()
            .with_shared_watchdog(watchdog::watchdog_command())
            .with_shared_model_network();
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|error| {
            let help = "help: choose an address of this machine and a free port, such as --listen 127.0.0.1:9081";
            format!("cannot listen at {}: {error}\n  {help}", args.listen)
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let advertised = choose_advertised_url(args, address)?;
        let note = check_ingress(&engine).await?;
        // No two workers have the same id, also one after the other at the same address.
        let id = format!(
            "{:016x}{:016x}",
            host.random_number().to_bits(),
            host.random_number().to_bits()
        );
        let peers = PeerWorkerClient::new(&id, advertised.as_deref())?;
        let served_ensembles = match args.unsafe_any_ensemble {
            true => ServedEnsembleCheck::for_any_text(),
            false => ServedEnsembleCheck::for_folder_ensembles(),
        };
        let runs = Runs::for_project(project.with_trust(trust), host);
        let worker = RestateWorker::new(runs, served_ensembles, engine, peers);
        let check = BrowserRequestCheck::new(address, advertised.as_deref());
        let WorkerVersion { version, protocol, .. } = WorkerVersion::for_this_build();
        print_stderr_line(&format!("serving {} at http://{address}", folder.display()));
        print_stderr_line(&format!("worker {version}, protocol {protocol}"));
        note.iter().for_each(|note| print_stderr_line(note));
        let (mut received, limit) = (WorkerStopSignal::Terminate, Duration::from_secs(args.drain_seconds));
        let stop = async {
            received = signals.wait_for_signal().await;
            drain_worker(&worker, limit, &mut signals).await;
        };
        serve_engine_until(listener, worker.clone(), check, &args.identity_keys, stop).await?;
        Ok(received)
    })
}

/// Refuses new executions, and waits until the running executions have ended, the time limit is reached, or another signal arrives.
async fn drain_worker(worker: &RestateWorker, limit: Duration, signals: &mut WorkerStopSignals) {
    worker.start_draining();
    let running = worker.count_running();
    if running > 0 {
        let seconds = limit.as_secs();
        print_stderr_line(&format!(
            "stopping: {running} running executions have {seconds} s to end"
        ));
    }
    let is_idle = tokio::select! {
        idle = tokio::time::timeout(limit, worker.wait_until_results_stored()) => idle.is_ok(),
        _ = signals.wait_for_signal() => false,
    };
    if !is_idle {
        let running = worker.count_running();
        print_stderr_line(&format!(
            "stopped {running} running executions; the engine starts them again at another worker"
        ));
    }
}
