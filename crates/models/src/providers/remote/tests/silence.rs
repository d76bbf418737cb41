//! Servers that send nothing any more, with a clock that stands still until everybody waits.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// Returns a server that sends this and then nothing, without closing the connection.
fn silent(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(says.as_bytes());
            held.push(stream);
        }
    });
    url
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_not_waited_for_without_end() {
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\": [{\"delta\": {\"content\": \"Once\"}}]}\n\n";
    for (says, timeout, expected) in [("", None, 600), (begun, None, 600), (begun, Some(3600), 3600)] {
        let mut request = request("openai");
        request.profile = Arc::new(ModelProfile {
            base_url: Some(silent(says)),
            timeout: timeout.map(Duration::from_secs),
            ..profile("openai")
        });
        let remote = RemoteProvider::new(
            ensemble::HttpProvider::find_by_name("openai").expect("is known"),
            ModelNetwork::default(),
        );
        let error = remote
            .complete_request(request, &|_| {})
            .await
            .expect_err("nothing comes");
        let told = format!("sent nothing for {expected} s");
        assert!(error.message.contains(&told) && error.retryable, "{}", error.message);
    }
}
