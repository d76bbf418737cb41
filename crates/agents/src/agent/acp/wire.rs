//! Messages as lines: what comes is bounded, what goes is written by a task, so that a program that does not read stops nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ensemble_wire::lines::LimitedLineBuffer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// The maximum size of a message of a program, in bytes: 16 MiB.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// The maximum size of the messages that a program has not read, in bytes.
const MAX_UNREAD_BYTES: usize = 64 << 20;

/// Maximum number of consecutive lines that are not messages.
const MAX_STRAY_LINES: u32 = 1000;

/// Message from the program: a reply, a request or a notification.
#[derive(Debug, PartialEq)]
pub(super) enum AcpMessage {
    /// The answer to our request of this number.
    Answer(u64, Result<Value, Value>),
    /// A request, with its id.
    Request(Value, String, Value),
    /// A notification.
    Notification(String, Value),
}

/// Reader of the messages of a program. Dropping a read future loses no data.
pub(super) struct AcpReader<R> {
    stream: BufReader<R>,
    lines: LimitedLineBuffer,
    stray: u32,
    /// The number of lines, and their bytes, since they were counted.
    received: (u64, u64),
}

impl<R: AsyncRead + Unpin> AcpReader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
            lines: LimitedLineBuffer::new(MAX_MESSAGE_BYTES),
            stray: 0,
            received: (0, 0),
        }
    }

    /// Returns the number of lines and bytes that were read since the last call, and resets both.
    pub(super) fn take_received_counts(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.received)
    }

    /// Reads the next message, and skips lines that are not messages. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// A line is too long, or there are only lines that are no messages.
    pub(super) async fn next(&mut self) -> Result<Option<AcpMessage>, String> {
        loop {
            let Some(line) = self.read_line().await? else {
                return Ok(None);
            };
            self.received.0 += 1;
            self.received.1 += line.len() as u64;
            if let Some(frame) = parse_message(&line) {
                self.stray = 0;
                return Ok(Some(frame));
            }
            if !line.trim_ascii().is_empty() {
                self.stray += 1;
            }
            if self.stray > MAX_STRAY_LINES {
                return Err("it writes lines that are not messages of the protocol".to_owned());
            }
        }
    }

    /// Reads one line. Returns `None` at the end of the stream and after a read error.
    async fn read_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.lines.next_line(&mut self.stream).await {
            Ok(Some(Ok(line))) => Ok(Some(line)),
            Ok(Some(Err(error))) => Err(format!("it sent {error}")),
            Ok(None) | Err(_) => Ok(None),
        }
    }
}

/// Parses the message in the line. Returns `None` if the line is not a message.
fn parse_message(line: &[u8]) -> Option<AcpMessage> {
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
        return None;
    };
    let id = message.remove("id").filter(|id| !id.is_null());
    let method = match message.remove("method") {
        Some(Value::String(method)) => Some(method),
        _ => None,
    };
    let params = message.remove("params").unwrap_or_default();
    match (method, id) {
        (Some(method), Some(id)) => Some(AcpMessage::Request(id, method, params)),
        (Some(method), None) => Some(AcpMessage::Notification(method, params)),
        (None, Some(id)) => {
            let number = id.as_u64()?;
            match (message.remove("result"), message.remove("error")) {
                (_, Some(error)) if !error.is_null() => Some(AcpMessage::Answer(number, Err(error))),
                (Some(result), _) => Some(AcpMessage::Answer(number, Ok(result))),
                _ => None,
            }
        }
        (None, None) => None,
    }
}

/// Writer of messages to the program. When the last writer is dropped, stdin is closed after the queued messages.
#[derive(Clone)]
pub(super) struct AcpWriter {
    lines: mpsc::UnboundedSender<Vec<u8>>,
    unread: Arc<AtomicUsize>,
}

impl AcpWriter {
    /// Creates a writer, and spawns a task that writes the queued messages.
    pub(super) fn new(mut stream: impl AsyncWrite + Unpin + Send + 'static) -> Self {
        let (lines, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        let unread = Arc::new(AtomicUsize::new(0));
        let unread_bytes = unread.clone();
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                if stream.write_all(&line).await.is_err() || stream.flush().await.is_err() {
                    // The program has closed its stdin: its stdout says what has become of it.
                    return;
                }
                unread_bytes.fetch_sub(line.len(), Ordering::Relaxed);
            }
        });
        Self { lines, unread }
    }

    /// Queues a request with this number.
    pub(super) fn send_request(&self, number: u64, method: &str, params: &Value) -> Result<(), String> {
        self.queue_message(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    }

    /// Queues a notification.
    pub(super) fn send_notification(&self, method: &str, params: &Value) -> Result<(), String> {
        self.queue_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Queues a result as reply to a request of the program.
    pub(super) fn send_answer(&self, id: &Value, result: &Value) -> Result<(), String> {
        self.queue_message(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Queues an error as reply to a request of the program.
    pub(super) fn send_error(&self, id: &Value, code: i64, message: &str) -> Result<(), String> {
        self.queue_message(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
    }

    /// Queues the message. Fails if the program leaves too many bytes unread.
    fn queue_message(&self, message: &Value) -> Result<(), String> {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let unread = self.unread.fetch_add(line.len(), Ordering::Relaxed) + line.len();
        if unread > MAX_UNREAD_BYTES {
            return Err("it does not read its messages".to_owned());
        }
        // It has ended; its stdout says so.
        let _ended = self.lines.send(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(text: &[u8]) -> Vec<Result<AcpMessage, String>> {
        let mut reader = AcpReader::new(text);
        let mut all = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(frame)) => all.push(Ok(frame)),
                Ok(None) => return all,
                Err(error) => {
                    all.push(Err(error));
                    return all;
                }
            }
        }
    }

    #[tokio::test]
    async fn lines_that_are_no_messages_are_passed_over() {
        let text = concat!(
            "running 1 test\n\n[1]\n{\"id\":null,\"result\":1}\n{\"id\":\"x\",\"result\":1}\n{\"id\":3}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
            "{\"id\":8,\"error\":{\"code\":1}}\n{\"method\":\"a\",\"id\":\"q\"}\n{\"method\":\"b\"}\n{\"cut",
        );
        let expected = [
            AcpMessage::Answer(7, Ok(json!({}))),
            AcpMessage::Answer(8, Err(json!({"code": 1}))),
            AcpMessage::Request(json!("q"), "a".to_owned(), Value::Null),
            AcpMessage::Notification("b".to_owned(), Value::Null),
        ];
        assert_eq!(frames(text.as_bytes()).await, expected.map(Ok));
    }

    #[tokio::test]
    async fn what_is_too_much_is_an_error() {
        let giant = vec![b'x'; MAX_MESSAGE_BYTES + 1];
        assert_eq!(
            frames(&giant).await,
            [Err("it sent a message of more than 16 MiB".to_owned())]
        );
        let noise = "noise\n".repeat(1001);
        assert_eq!(
            frames(noise.as_bytes()).await,
            [Err("it writes lines that are not messages of the protocol".to_owned())]
        );
    }
}
