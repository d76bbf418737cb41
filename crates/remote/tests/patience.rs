//! An engine that does not answer is waited for if it has answered before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ensemble_remote::{EngineClient, EngineClientError};

/// What is answered to a request: a status and a body, or nothing.
type Reply = Option<(u16, &'static str)>;

/// What a node says that knows no workers.
const NO_WORKERS: &str = "{\"message\": \"service 'EnsembleRun' not found\"}";

/// A server that gives these answers, one to each request; the last one again and again. How many requests it had.
fn server(replies: &'static [Reply]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            let mut piece = [0; 1024];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut piece) {
                    Ok(0) | Err(_) => break,
                    Ok(more) => request.extend_from_slice(&piece[..more]),
                }
            }
            let at = counted.fetch_add(1, Ordering::SeqCst);
            if let Some((status, body)) = replies[at.min(replies.len() - 1)] {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    (address, requests)
}

fn remote(address: SocketAddr) -> EngineClient {
    EngineClient::from_url(&format!("http://{address}")).expect("an address")
}

#[tokio::test]
async fn an_engine_that_has_answered_is_waited_for() {
    let (address, requests) = server(&[
        Some((200, "null")),
        None,
        Some((503, "{}")),
        Some((404, NO_WORKERS)),
        Some((200, "null")),
    ]);
    let remote = remote(address);
    assert!(!remote.has_run_ended("a").await.expect("the first answer"));
    assert!(
        !remote
            .has_run_ended("a")
            .await
            .expect("the answer after three that are none")
    );
    assert_eq!(requests.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn a_worker_waits_from_the_first_request_on() {
    let (address, requests) = server(&[None, Some((200, "null"))]);
    assert!(
        !remote(address)
            .with_patience()
            .has_run_ended("a")
            .await
            .expect("the second answer")
    );
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_address_at_which_nobody_ever_answered_is_told_at_once() {
    let (address, requests) = server(&[None, Some((200, "null"))]);
    let error = remote(address).has_run_ended("a").await.expect_err("nobody answers");
    assert!(matches!(error, EngineClientError::Unreachable { .. }), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_engine_without_workers_is_told_at_once() {
    let (address, requests) = server(&[Some((404, NO_WORKERS))]);
    let error = remote(address)
        .has_run_ended("a")
        .await
        .expect_err("there are no workers");
    assert!(matches!(error, EngineClientError::NoWorkers(_)), "{error}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_the_engine_refuses_is_not_sent_again() {
    let (address, requests) = server(&[Some((500, "{\"message\": \"no\"}"))]);
    let error = remote(address)
        .with_patience()
        .has_run_ended("a")
        .await
        .expect_err("it refuses");
    assert!(
        matches!(error, EngineClientError::RequestRefused { status: 500, .. }),
        "{error}"
    );
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}
