//! A small HTTP server, in the place of an engine.

use std::io::{Read, Write};
use std::net::TcpListener;

use ensemble_remote::EngineClient;

/// The status and the body of a response.
pub(crate) type Response = (u16, String);

/// Starts a server that answers each request by its path, and returns a client of the server. `None` closes the connection
/// without a response.
pub(crate) fn start_engine(mut respond: impl FnMut(&str) -> Option<Response> + Send + 'static) -> EngineClient {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
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
            let text = String::from_utf8_lossy(&request);
            let path = text.split(' ').nth(1).unwrap_or_default();
            if let Some((status, body)) = respond(path) {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    EngineClient::from_url(&format!("http://{address}")).expect("an address")
}
