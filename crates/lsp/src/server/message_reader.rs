//! Reads the frames of the client.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::Sender;

use lsp_server::Message;

use super::{LspServerEnd, LspServerEvent};

/// The largest message, in bytes: some times the largest ensemble.
const MAX_MESSAGE_BYTES: usize = 128 << 20;
/// The longest line of a header, in bytes.
const MAX_HEADER_LINE_BYTES: u64 = 4096;

/// Starts a thread that sends each message as an event, until the input ends or is malformed.
pub(super) fn spawn_reader(input: impl Read + Send + 'static, events: Sender<LspServerEvent>) {
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let (event, is_last) = match read_message(&mut input) {
                Ok(Some(message)) => {
                    let is_exit = matches!(&message, Message::Notification(it) if it.method == "exit");
                    (LspServerEvent::Message(message), is_exit)
                }
                Ok(None) => (LspServerEvent::End(LspServerEnd::ClientGone), true),
                Err(error) => (LspServerEvent::End(LspServerEnd::MalformedMessage(error)), true),
            };
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    });
}

/// Reads the next message. Returns `None` at the end of the input.
fn read_message(input: &mut impl BufRead) -> Result<Option<Message>, String> {
    let Some(length) = read_content_length(input)? else {
        return Ok(None);
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(format!(
            "a message of {length} bytes is larger than {} MiB",
            MAX_MESSAGE_BYTES >> 20
        ));
    }
    let mut bytes = Vec::new();
    let read = input.take(length as u64).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() < length {
        return Err(format!(
            "the input ends after {} of {length} bytes of a message",
            bytes.len()
        ));
    }
    let message = serde_json::from_slice(&bytes);
    message
        .map(Some)
        .map_err(|error| format!("a message is not valid: {error}"))
}

/// Reads the header of a message, and returns the length of its content. Returns `None` at the end of the input.
fn read_content_length(input: &mut impl BufRead) -> Result<Option<usize>, String> {
    let mut length = None;
    let mut is_first = true;
    loop {
        let mut line = Vec::new();
        let read = input.take(MAX_HEADER_LINE_BYTES).read_until(b'\n', &mut line);
        let read = read.map_err(|error| error.to_string())?;
        if read == 0 && is_first {
            return Ok(None);
        }
        is_first = false;
        let header_line = String::from_utf8_lossy(&line);
        let Some(field) = header_line.strip_suffix("\r\n") else {
            return Err(format!(
                "a header line does not end with CR and LF: {:?}",
                shorten_text(&header_line)
            ));
        };
        if field.is_empty() {
            return length
                .map(Some)
                .ok_or_else(|| "a header has no Content-Length".to_owned());
        }
        let Some((name, value)) = field.split_once(':') else {
            return Err(format!("a header line has no colon: {:?}", shorten_text(field)));
        };
        if name.trim().eq_ignore_ascii_case("content-length") {
            let parsed = value.trim().parse::<usize>();
            length = Some(parsed.map_err(|_| format!("Content-Length is not a number: {:?}", shorten_text(value)))?);
        }
    }
}

/// Returns at most 80 characters of the text.
fn shorten_text(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> Result<Option<Message>, String> {
        read_message(&mut bytes.as_bytes())
    }

    #[test]
    fn what_is_no_frame_is_an_error_that_says_why() {
        for (bytes, says) in [
            ("hello\r\n\r\n", "no colon"),
            ("Content-Length: 5\n\n", "CR and LF"),
            ("Content-Type: x\r\n\r\n", "no Content-Length"),
            ("Content-Length: many\r\n\r\n", "not a number"),
            ("Content-Length: 9000000000000\r\n\r\n", "larger than 128 MiB"),
            ("Content-Length: 5\r\n\r\n{}", "after 2 of 5 bytes"),
            ("Content-Length: 2\r\n\r\n{}", "not valid"),
            ("Content-Length: 2\r\n\r\n\u{e9}", "not valid"),
            ("Content-Length", "CR and LF"),
        ] {
            let error = read(bytes).expect_err(bytes);
            assert!(error.contains(says), "{bytes:?}: {error}");
        }
        assert!(matches!(read(""), Ok(None)));
        let good = "content-length:  33\r\nX: y\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}";
        assert!(matches!(read(good), Ok(Some(Message::Notification(_)))));
    }
}
