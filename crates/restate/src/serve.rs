//! Server of the workflow and the services for the engine, over HTTP/2.
//!
//! Invariant: a worker stores nothing that its end loses.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use ensemble_remote::protocol::WorkerVersion;
use ensemble_wire::connections::{ACCEPT_PAUSE, ConnectionHandle, ConnectionLimits, ConnectionTable};
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use restate_sdk::endpoint::Endpoint;
use restate_sdk::hyper::HyperEndpoint;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::execution::ExecutionService;
use crate::fault_injection;
use crate::index::RunIndex;
use crate::peers::{self, PeerStepReply, StepRequest};
use crate::request_check::BrowserRequestCheck;
use crate::run::RunWorkflow;
use crate::worker::RestateWorker;

/// Path at which a worker reports its version and whether it accepts calls.
const VERSION_PATH: &str = "/ensemble/worker";

/// Flow-control window of a connection and of a stream, in bytes. With the usual window of 64 KiB a connection with thousands of
/// parallel calls fails.
const HTTP2_WINDOW_BYTES: u32 = 64 << 20;
/// Maximum number of parallel calls on a connection.
const MAX_PARALLEL_STREAMS: u32 = 100_000;

/// Limits on connections. A connection is admitted when one of its requests succeeds: with an identity key, that is a request
/// of the engine.
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    admitted: 1024,
    waiting: 256,
    head_timeout: Duration::from_secs(30),
};
/// Time after which a silent HTTP/2 connection is probed, and the time limit for the response.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Serves the engine and other workers until `stop` ends. Closes the connections that are open then.
///
/// # Errors
/// A key is not valid.
pub async fn serve_engine_until(
    listener: TcpListener,
    worker: RestateWorker,
    check: BrowserRequestCheck,
    identity_keys: &[String],
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let mut endpoint = Endpoint::builder()
        .bind(RunWorkflow(worker.clone()))
        .bind(ExecutionService(worker.clone()))
        .bind(RunIndex);
    for key in identity_keys {
        endpoint = endpoint
            .identity_key(key)
            .map_err(|error| format!("`{key}` is not a valid key: {error}"))?;
    }
    let endpoint = HyperEndpoint::new(endpoint.build());
    let table = ConnectionTable::new(CONNECTION_LIMITS);
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            // What a connection ended with, the engine knows: it tries again.
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => {
                // A connection that is lost before it is accepted is tried again.
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                let (worker, endpoint, check) = (worker.clone(), endpoint.clone(), check.clone());
                let (place, closed) = table.add_and_displace_oldest();
                let service = service_fn(move |request: Request<Incoming>| {
                    let refusal = check.find_refusal(&request);
                    let (worker, endpoint, place) = (worker.clone(), endpoint.clone(), place.clone());
                    async move {
                        match refusal {
                            Some(refusal) => Ok(text_response(StatusCode::FORBIDDEN, refusal)),
                            None => respond_to_request(worker, endpoint, place, request).await,
                        }
                    }
                });
                connections.spawn(async move {
                    let mut server = auto::Builder::new(TokioExecutor::new());
                    // The engine speaks HTTP/2, and other workers HTTP/1.
                    server.http1().timer(TokioTimer::new()).header_read_timeout(CONNECTION_LIMITS.head_timeout);
                    server
                        .http2()
                        .timer(TokioTimer::new())
                        .initial_connection_window_size(HTTP2_WINDOW_BYTES)
                        .initial_stream_window_size(HTTP2_WINDOW_BYTES / 16)
                        .max_concurrent_streams(MAX_PARALLEL_STREAMS)
                        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
                        .keep_alive_timeout(KEEP_ALIVE_INTERVAL);
                    tokio::select! {
                        _ = server.serve_connection(TokioIo::new(stream), service) => {}
                        Ok(()) = closed => {}
                    }
                });
            }
        }
    }
}

/// Body of a response of the worker.
type EndpointBody = UnsyncBoxBody<Bytes, BoxError>;
/// Error of the body of a response.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Builds a response with a text.
fn text_response(status: StatusCode, text: impl Into<Bytes>) -> Response<EndpointBody> {
    let body = Full::from(text.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The beginning of the path of a call of the engine.
const CALL_PATH: &str = "/invoke/";

/// Returns the version of the worker, and the status that tells a balancer whether the worker accepts calls.
fn version_response(worker: &RestateWorker) -> Response<EndpointBody> {
    let is_draining = worker.is_draining();
    let WorkerVersion {
        version,
        protocol,
        oldest,
    } = fault_injection::own_version();
    let document = serde_json::json!({
        "version": version,
        "protocol": protocol,
        "oldest_protocol": oldest,
        "running": worker.count_running(),
        "calls": worker.call_count(),
        "draining": is_draining,
    });
    let status = match is_draining {
        true => StatusCode::SERVICE_UNAVAILABLE,
        false => StatusCode::OK,
    };
    text_response(status, format!("{document}\n"))
}

/// Answers another worker, or passes the request to the endpoint of the engine. Refuses new calls while the worker is draining.
async fn respond_to_request(
    worker: RestateWorker,
    endpoint: HyperEndpoint,
    place: ConnectionHandle,
    request: Request<Incoming>,
) -> Result<Response<EndpointBody>, Infallible> {
    let path = request.uri().path().to_owned();
    if path == VERSION_PATH && request.method() == Method::GET {
        return Ok(version_response(&worker));
    }
    let call = path.strip_prefix(peers::PEER_CALLS_PATH);
    let call = call.filter(|_| request.method() == Method::GET);
    let call = call.and_then(|call| {
        let (of, call) = call.split_once('/')?;
        let (call, step) = call.split_once('/')?;
        Some((of, call, StepRequest::parse_path_end(step)?))
    });
    let Some((of, call, step)) = call else {
        if worker.is_draining() {
            return Ok(text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "this worker is stopping",
            ));
        }
        if path.starts_with(CALL_PATH) {
            worker.count_call();
        }
        let response = endpoint.call(request).await?;
        if response.status().is_success() {
            // Where too many connections are admitted, this one can be closed.
            let _ = place.admit();
        }
        return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
    };
    let (status, body) = match worker.reply_to_peer(of, call, step).await {
        PeerStepReply::Step(step) => (StatusCode::OK, serde_json::to_vec(&step).unwrap_or_default()),
        PeerStepReply::GoesOn => (StatusCode::ACCEPTED, Vec::new()),
        PeerStepReply::Unknown => (StatusCode::NOT_FOUND, Vec::new()),
        PeerStepReply::OtherWorker => (StatusCode::GONE, Vec::new()),
    };
    Ok(text_response(status, body))
}
