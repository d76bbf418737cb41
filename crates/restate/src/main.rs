//! `ensemble-restate`: a worker that runs ensembles for Restate.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ensemble_remote::EngineClient;
use ensemble_restate::peers::PeerWorkers;
use ensemble_restate::request_check::RequestCheck;
use ensemble_restate::serve::serve_connections;
use ensemble_restate::served_ensembles::ServedEnsembles;
use ensemble_restate::worker::RestateWorker;
use ensemble_runs::{Host, Project, Runs};
use tokio::net::TcpListener;

/// Run ensembles on Restate, a durable execution engine.
#[derive(Debug, Parser)]
#[command(name = "ensemble-restate", version, propagate_version = true)]
struct RestateCli {
    #[command(subcommand)]
    command: RestateCommand,
}

#[derive(Debug, Subcommand)]
enum RestateCommand {
    /// Serve as a worker, until Ctrl-C
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

fn main() -> ExitCode {
    let RestateCommand::Serve(args) = RestateCli::parse().command;
    match run_server(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

fn print_line(line: &str) {
    // Without a reader there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Checks that nobody but the engine reaches the worker, unless the operator has said otherwise.
fn check_exposure(args: &ServeArgs) -> Result<(), String> {
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

fn run_server(args: &ServeArgs) -> Result<(), String> {
    let folder = args.folder.canonicalize();
    let folder = folder.map_err(|error| format!("cannot serve {}: {error}", args.folder.display()))?;
    // Scripts run in the served folder, as they do where `ensemble run` is started there.
    std::env::set_current_dir(&folder).map_err(|error| format!("cannot change to {}: {error}", folder.display()))?;
    let project = Project::from_process();
    let trust = project.trust.clone().or_trust_everything(args.trust);
    check_exposure(args)?;
    let engine = EngineClient::from_url(&args.ingress)
        .map_err(|error| error.to_string())?
        .with_patience();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(async {
        let host = Host::from_system().without_operator().with_shared_models();
        let listener = TcpListener::bind(args.listen).await;
        let listener = listener.map_err(|error| format!("cannot listen at {}: {error}", args.listen))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let advertised = match &args.advertise {
            Some(advertised_url) => Some(advertised_url.clone()),
            // All addresses of this machine: none of them is known to be reached by others.
            None if address.ip().is_unspecified() => None,
            None => Some(format!("http://{address}")),
        };
        // No two workers have the same id, also one after the other at the same address.
        let id = format!(
            "{:016x}{:016x}",
            host.random_number().to_bits(),
            host.random_number().to_bits()
        );
        let peers = PeerWorkers::new(&id, advertised.as_deref())?;
        let served_ensembles = match args.unsafe_any_ensemble {
            true => ServedEnsembles::any_text(),
            false => ServedEnsembles::from_folder(),
        };
        let runs = Runs::open(project.with_trust(trust), host);
        let worker = RestateWorker::new(runs, served_ensembles, engine, peers);
        let check = RequestCheck::new(address, advertised.as_deref());
        print_line(&format!("serving {} at http://{address}", folder.display()));
        serve_connections(listener, worker, check, &args.identity_keys, wait_for_interrupt()).await
    })
}

/// Ends with Ctrl-C, or SIGTERM.
async fn wait_for_interrupt() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminated.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
