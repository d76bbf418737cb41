//! The transport of JSON-RPC messages, one message per line.
//!
//! Invariant: the queue to the client is bounded, and standard output contains messages only.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};

use ensemble_wire::json_rpc::{INVALID_REQUEST, PARSE_ERROR, find_id_in_incomplete_message};
use ensemble_wire::lines::LimitedLineBuffer;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// The maximum number of messages in the queue to the client. Senders wait while the queue is full.
const MAX_QUEUED_MESSAGES: usize = 256;
/// The maximum size of a message of the client, in bytes: 64 MiB.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// An error reply to a request.
#[derive(Debug)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    /// Creates an error with this code of the protocol and this message.
    pub(crate) fn new(code: i64, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
            data: None,
        }
    }

    /// Creates the error of invalid parameters.
    pub(crate) fn invalid_params(message: impl ToString) -> Self {
        Self::new(-32602, message)
    }

    /// Creates the error of failed work.
    pub(crate) fn internal_error(message: impl ToString) -> Self {
        Self::new(-32603, message)
    }
}

/// A sender of messages to the client, which matches responses to its requests.
pub(crate) struct ClientWire {
    out: mpsc::Sender<Value>,
    pending_requests: RefCell<HashMap<i64, oneshot::Sender<Value>>>,
    next: Cell<i64>,
}

impl ClientWire {
    /// Sends a notification.
    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send_message(json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    /// Sends the result or the error of a request.
    pub(crate) async fn send_response(&self, id: Value, result: Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(refusal) => {
                let mut error = json!({"code": refusal.code, "message": refusal.message});
                if let Some(data) = refusal.data {
                    error["data"] = data;
                }
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        self.send_message(message).await;
    }

    /// Sends a request and waits for its result. Returns `None` after an error or a disconnection.
    pub(crate) async fn send_request(&self, method: &str, params: Value) -> Option<Value> {
        let id = self.next.get();
        self.next.set(id + 1);
        let (sender, answer) = oneshot::channel();
        self.pending_requests.borrow_mut().insert(id, sender);
        self.send_message(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        answer.await.ok()?.get_mut("result").map(Value::take)
    }

    /// Passes a response of the client to the waiting request.
    pub(crate) fn deliver_response(&self, message: Value) {
        let sender = message["id"]
            .as_i64()
            .and_then(|id| self.pending_requests.borrow_mut().remove(&id));
        if let Some(sender) = sender {
            let _nobody_waits = sender.send(message);
        }
    }

    /// Queues a message. Ignores a closed connection.
    async fn send_message(&self, message: Value) {
        // Without a client there is nobody to tell.
        let _gone = self.out.send(message).await;
    }
}

/// A line that is not a message, with the error reply.
#[derive(Debug, PartialEq)]
pub(crate) struct UnreadableLine {
    /// The id of the message; null if it is not known.
    pub(crate) id: Value,
    /// The code of the error.
    pub(crate) code: i64,
    /// The error.
    pub(crate) message: String,
}

/// Spawns a thread that reads messages. A line that is too long or not JSON is an error.
pub(crate) fn spawn_reader(input: Box<dyn Read + Send>) -> mpsc::Receiver<Result<Value, UnreadableLine>> {
    let (sender, received) = mpsc::channel(64);
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        let mut lines = LimitedLineBuffer::new(MAX_MESSAGE_BYTES);
        while let Ok(Some(line)) = lines.read_line_blocking(&mut input) {
            let message = match line {
                Ok(line) if line.trim_ascii().is_empty() => continue,
                Ok(line) => serde_json::from_slice(&line).map_err(|error| UnreadableLine {
                    id: Value::Null,
                    code: PARSE_ERROR,
                    message: error.to_string(),
                }),
                Err(error) => Err(UnreadableLine {
                    id: find_id_in_incomplete_message(&error.beginning).unwrap_or_default(),
                    code: INVALID_REQUEST,
                    message: error.to_string(),
                }),
            };
            if sender.blocking_send(message).is_err() {
                return;
            }
        }
    });
    received
}

/// Spawns a thread that writes messages. The receiver is notified when all messages are written.
pub(crate) fn spawn_writer(mut output: Box<dyn Write + Send>) -> (ClientWire, oneshot::Receiver<()>) {
    let (out, mut messages) = mpsc::channel::<Value>(MAX_QUEUED_MESSAGES);
    let (done, is_done) = oneshot::channel();
    std::thread::spawn(move || {
        while let Some(message) = messages.blocking_recv() {
            let write_result = output.write_all(format!("{message}\n").as_bytes());
            if write_result.and_then(|()| output.flush()).is_err() {
                return;
            }
        }
        let _nobody_waits = done.send(());
    });
    let wire = ClientWire {
        out,
        pending_requests: RefCell::default(),
        next: Cell::new(1),
    };
    (wire, is_done)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_message_above_the_limit_is_one_error_and_the_next_is_read() {
        let mut input = br#"{"jsonrpc": "2.0", "id": 5, "method": ""#.to_vec();
        input.resize(MAX_MESSAGE_BYTES + 1, b'x');
        input.extend_from_slice(b"\"}\n\n{\"id\": 1}\nno JSON\n");
        let mut received = spawn_reader(Box::new(Cursor::new(input)));
        let mut messages = Vec::new();
        while let Some(message) = received.blocking_recv() {
            messages.push(message);
        }
        assert_eq!(messages.len(), 3, "{messages:?}");
        let too_long = UnreadableLine {
            id: json!(5),
            code: -32600,
            message: "a message of more than 64 MiB".to_owned(),
        };
        assert_eq!(messages[0], Err(too_long));
        assert_eq!(messages[1], Ok(json!({"id": 1})));
        assert!(messages[2].is_err());
    }
}
