//! The web front end of the examples, driven over HTTP as a browser would.

#[path = "../examples/web_front_end.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod web_front_end;

use futures_util::TryStreamExt;
use serde_json::{Value, json};

/// A client of a front end that listens on an address of its own.
struct WebClient {
    http: reqwest::Client,
    address: String,
}

impl WebClient {
    async fn start_server() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("an address");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async { axum::serve(listener, web_front_end::create_router()).await });
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { http, address }
    }

    async fn get_json(&self, path: &str) -> Value {
        let response = self.http.get(format!("{}{path}", self.address)).send().await;
        let response = response.expect("an answer").error_for_status().expect("a success");
        response.json().await.expect("JSON")
    }

    async fn post_json(&self, path: &str, body: &Value) -> reqwest::Response {
        let request = self.http.post(format!("{}{path}", self.address)).json(body);
        request.send().await.expect("an answer")
    }

    async fn start_run(&self) -> String {
        let started = self.post_json("/runs", &json!({"input": "the sea"})).await;
        let started: Value = started.json().await.expect("JSON");
        started["id"].as_str().expect("an id").to_owned()
    }

    /// Reads the events of a run until the text of the stream contains `end`, and returns the text.
    async fn read_events_until(&self, run: &str, end: &str) -> String {
        let path = format!("{}/runs/{run}/events", self.address);
        let mut body = self.http.get(path).send().await.expect("an answer").bytes_stream();
        let mut text = String::new();
        while !text.contains(end) {
            let bytes = body.try_next().await.expect("a stream").expect("more events");
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
        text
    }
}

#[tokio::test]
async fn a_client_starts_follows_and_answers_a_run() {
    let client = WebClient::start_server().await;
    let run = client.start_run().await;

    let text = client
        .read_events_until(&run, "event: question\ndata: editor\n\n")
        .await;
    assert!(text.contains("event: record\ndata: run_started\n\n"), "{text}");
    assert!(text.contains("event: record\ndata: execution_finished\n\n"), "{text}");

    let shown = client.get_json(&format!("/runs/{run}/requests")).await[0].clone();
    assert_eq!(shown["prompt"], "Print it?");
    let answers = format!("/runs/{run}/answers");
    let stale = json!({"address": shown["address"], "digest": "another", "answer": "yes"});
    assert_eq!(client.post_json(&answers, &stale).await.status(), 409);
    let answer = json!({"address": shown["address"], "digest": shown["digest"], "answer": "yes"});
    assert_eq!(client.post_json(&answers, &answer).await.status(), 204);

    let text = client.read_events_until(&run, "event: ended\n").await;
    assert!(text.contains("event: ended\ndata: completed\n\n"), "{text}");
    assert_eq!(client.get_json(&format!("/runs/{run}")).await["state"], "completed");
    assert_eq!(client.post_json(&answers, &answer).await.status(), 409, "it is decided");
}

#[tokio::test]
async fn a_client_cancels_a_run_and_lists_it() {
    let client = WebClient::start_server().await;
    let run = client.start_run().await;
    client.read_events_until(&run, "event: question\n").await;

    let path = format!("{}/runs/{run}", client.address);
    let cancelled = client.http.delete(path).send().await.expect("an answer");
    assert_eq!(cancelled.status(), 204);
    client
        .read_events_until(&run, "event: ended\ndata: cancelled\n\n")
        .await;
    let runs = client.get_json("/runs").await;
    assert_eq!(
        (runs[0]["id"].as_str(), runs[0]["completion_reason"].as_str()),
        (Some(&*run), Some("cancelled"))
    );
}

#[tokio::test]
async fn a_path_is_not_a_run() {
    let client = WebClient::start_server().await;
    for id in ["%2Fetc%2Fpasswd", "..%2F..%2Fother", "nothing"] {
        let response = client.http.get(format!("{}/runs/{id}", client.address)).send().await;
        assert_eq!(response.expect("an answer").status(), 404, "{id}");
    }
}
