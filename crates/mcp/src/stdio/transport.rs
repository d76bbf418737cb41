//! A transport of messages for the SDK, one message per line.
//!
//! The SDK's own transport ignores lines that it cannot read, so that the client would wait for an answer forever.

use std::io;
use std::sync::Arc;

use ensemble_language::data::strip_byte_order_mark_bytes;
use ensemble_wire::json_rpc::{INVALID_REQUEST, PARSE_ERROR, find_id_in_incomplete_message, is_message_id};
use ensemble_wire::lines::{LimitedLineBuffer, LineTooLongError};
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// The maximum size of a message of the client, in bytes: 64 MiB.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The buffered input stream of the client.
type ClientInput = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
/// The shared output stream to the client. `None` means closed.
type ClientOutput = Arc<Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>>;

/// A transport of the protocol over the two streams of a client.
pub(super) struct StdioTransport {
    input: ClientInput,
    lines: LimitedLineBuffer,
    output: ClientOutput,
    /// The error that is being written. Reading waits for it, so that a client that does not read is not answered without
    /// end.
    refusal: Option<JoinHandle<()>>,
}

/// A parsed line of a client: a message, an ignored line, or an error reply.
enum ParsedClientLine {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// An empty line, or a line that expects no answer.
    Ignored,
    /// A line that is answered with this error.
    Refused(Value),
}

impl StdioTransport {
    /// Creates a transport over these streams.
    pub(super) fn new(input: Box<dyn AsyncRead + Send + Unpin>, output: Box<dyn AsyncWrite + Send + Unpin>) -> Self {
        Self {
            input: BufReader::new(input),
            lines: LimitedLineBuffer::new(MAX_MESSAGE_BYTES),
            output: Arc::new(Mutex::new(Some(output))),
            refusal: None,
        }
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = self.output.clone();
        async move { write_line(&output, serde_json::to_vec(&message)?).await }
    }

    /// Returns the next message. Dropping the future loses no bytes.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                // A client that reads no more sends no more either, or ends the program.
                let _ = refusal.await;
                self.refusal = None;
            }
            let line = self.lines.next_line(&mut self.input).await.ok()??;
            let parsed = match &line {
                Ok(line) => parse_client_line(line),
                Err(error) => ParsedClientLine::Refused(too_long_line_error(error)),
            };
            match parsed {
                ParsedClientLine::Message(message) => return Some(*message),
                ParsedClientLine::Ignored => {}
                ParsedClientLine::Refused(error) => {
                    let output = self.output.clone();
                    self.refusal = Some(tokio::spawn(async move {
                        // The client may be gone.
                        let _ = write_line(&output, error.to_string().into_bytes()).await;
                    }));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.lock().await.take();
        Ok(())
    }
}

/// Writes the line and flushes the stream.
async fn write_line(output: &ClientOutput, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.write_all(&line).await?;
    output.flush().await
}

/// Parses a line. Ignores blank lines and invalid responses, and answers other invalid lines with an error.
fn parse_client_line(line: &[u8]) -> ParsedClientLine {
    let line = strip_byte_order_mark_bytes(line).trim_ascii();
    if line.is_empty() {
        return ParsedClientLine::Ignored;
    }
    let error = match serde_json::from_slice(line) {
        Ok(message) => return ParsedClientLine::Message(Box::new(message)),
        Err(error) => error,
    };
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return ParsedClientLine::Refused(rpc_error_json(
            Value::Null,
            PARSE_ERROR,
            &format!("this is not JSON: {error}"),
        ));
    };
    let id = value.get("id").filter(|id| is_message_id(id)).cloned();
    let is_response = value.get("method").is_none() && (value.get("result").is_some() || value.get("error").is_some());
    let is_notification = value.get("method").is_some() && value.get("id").is_none();
    match is_response || is_notification {
        // An answer to an error could be answered without end.
        true => ParsedClientLine::Ignored,
        false => {
            let message = format!("this is not a message of the protocol: {error}");
            ParsedClientLine::Refused(rpc_error_json(id.unwrap_or_default(), INVALID_REQUEST, &message))
        }
    }
}

/// Creates the error reply to a line that is too long.
fn too_long_line_error(error: &LineTooLongError) -> Value {
    let id = find_id_in_incomplete_message(&error.beginning).unwrap_or_default();
    rpc_error_json(id, INVALID_REQUEST, &error.to_string())
}

/// Creates an error reply.
fn rpc_error_json(id: Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers to these lines, and the number of messages among them.
    async fn answers(lines: Vec<u8>) -> (Vec<Value>, usize) {
        let (client, server) = tokio::io::duplex(64 << 10);
        let mut transport = StdioTransport::new(Box::new(io::Cursor::new(lines)), Box::new(server));
        let received = tokio::spawn(async move {
            let mut count = 0;
            while transport.receive().await.is_some() {
                count += 1;
            }
            count
        });
        let mut output = BufReader::new(client);
        let (mut buffer, mut answers) = (LimitedLineBuffer::new(1 << 20), Vec::new());
        while let Some(line) = buffer.next_line(&mut output).await.expect("it is read") {
            let line = line.expect("it is short");
            answers.push(serde_json::from_slice(&line).expect("JSON"));
        }
        (answers, received.await.expect("it ends"))
    }

    #[tokio::test]
    async fn each_line_that_is_no_message_is_answered_and_the_next_is_read() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for (line, id, code) in [
            ("no JSON", json!(null), PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":2,"method":3}"#, json!(2), INVALID_REQUEST),
            ("[]", json!(null), INVALID_REQUEST),
            ("7", json!(null), INVALID_REQUEST),
        ] {
            let (answers, messages) = answers(format!("{line}\n\n{ping}\n").into_bytes()).await;
            assert_eq!(answers.len(), 1, "{line}: {answers:?}");
            assert_eq!(
                (&answers[0]["id"], &answers[0]["error"]["code"]),
                (&id, &json!(code)),
                "{line}"
            );
            assert_eq!(messages, 1, "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/strange"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#,
        ] {
            assert_eq!(
                answers(format!("{line}\n").into_bytes()).await.0,
                Vec::<Value>::new(),
                "{line}"
            );
        }
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_is_answered_with_its_id() {
        let mut lines = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"text":""#.to_vec();
        lines.resize(MAX_MESSAGE_BYTES + 1, b'x');
        lines.extend_from_slice(b"\"}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
        let (answers, messages) = answers(lines).await;
        assert_eq!((answers.len(), messages), (1, 1), "{answers:?}");
        assert_eq!(answers[0]["id"], 9);
        assert_eq!(answers[0]["error"]["message"], "a message of more than 64 MiB");
    }
}
