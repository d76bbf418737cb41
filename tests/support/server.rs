//! A model server on loopback that answers as it is told, well or badly, and keeps what it was asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A request that came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Method, path and headers, as they came.
    pub head: String,
    /// The body, if it is JSON.
    pub body: Value,
    /// The body as it came.
    pub bytes: Vec<u8>,
}

/// A part of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes again and again, until nobody listens or that many have been sent.
    Endless(Vec<u8>, usize),
    /// These bytes every so often, until nobody listens.
    Drip(Vec<u8>, Duration),
}

/// An answer; the connection is closed after its last part.
pub(crate) type Answer = Vec<Part>;

/// The server; it goes on until the test program ends.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Gives the n-th request the n-th answer, and the last one to all that follow.
    pub(crate) fn with(answers: Vec<Answer>) -> Self {
        Self::new(move |nth, _| answers[nth.min(answers.len() - 1)].clone())
    }

    /// Asks `answer` for the answer to each request, the first being number 0.
    pub(crate) fn new(answer: impl Fn(usize, &Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { address, asked }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no test has panicked here").clone()
    }
}

/// An address at which nobody listens.
pub(crate) fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Asked>>, answer: &dyn Fn(usize, &Asked) -> Answer) -> Option<()> {
    let asked = read(&mut stream)?;
    let nth = {
        let mut kept = kept.lock().expect("no test has panicked here");
        kept.push(asked.clone());
        kept.len() - 1
    };
    for part in answer(nth, &asked) {
        match part {
            Part::Bytes(bytes) => stream.write_all(&bytes).ok()?,
            Part::Endless(bytes, most) => {
                for _ in 0..most / bytes.len() {
                    stream.write_all(&bytes).ok()?;
                }
            }
            Part::Drip(bytes, pause) => loop {
                stream.write_all(&bytes).ok()?;
                std::thread::sleep(pause);
            },
        }
    }
    stream.flush().ok()
}

fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let mut more = [0; 4096];
        let count = stream.read(&mut more).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = bytes.split_off(end + 4);
    while body.len() < length.unwrap_or(0) {
        let mut more = [0; 65536];
        let count = stream.read(&mut more).ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&more[..count]);
    }
    Some(Asked {
        head,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        bytes: body,
    })
}

impl Asked {
    /// The value of a header, if it came.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// Method and path.
    pub(crate) fn line(&self) -> &str {
        self.head
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches(" HTTP/1.1")
    }
}

/// An answer of one part.
pub(crate) fn answer(status: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut text = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    vec![Part::Bytes(format!("{text}\r\n{body}").into_bytes())]
}

/// The head of an answer that streams until the connection is closed.
pub(crate) fn head(content_type: &str) -> Part {
    Part::Bytes(format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {content_type}\r\n\r\n").into_bytes())
}

/// A stream of server-sent events.
pub(crate) fn events(data: &[&str]) -> Answer {
    let events: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    vec![head("text/event-stream"), Part::Bytes(events.into_bytes())]
}

/// What OpenAI's dialect says to say this.
pub(crate) fn says(text: &str) -> Answer {
    let delta = serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string();
    let usage = r#"{"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 200}}"#;
    events(&[
        &delta,
        r#"{"choices": [{"delta": {}, "finish_reason": "stop"}]}"#,
        usage,
        "[DONE]",
    ])
}

/// What Ollama says to say this.
pub(crate) fn ollama_says(text: &str) -> Answer {
    let said = serde_json::json!({"message": {"role": "assistant", "content": text}, "done": false});
    let done =
        r#"{"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 3}"#;
    vec![
        head("application/x-ndjson"),
        Part::Bytes(format!("{said}\n{done}\n").into_bytes()),
    ]
}
