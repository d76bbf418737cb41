//! Splits the bytes of a stream into events. The size of the buffer is limited.

use ensemble_language::data::strip_byte_order_mark;

use crate::transport::reply_error::ReplyError;

/// The maximum size of one event, and of the text of a reply, in bytes: 10 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 10 << 20;

/// The maximum number of characters of the name of an event.
const MAX_EVENT_NAME_CHARS: usize = 100;

/// Separation of events in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFraming {
    /// `data:` lines that end with an empty line: server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
    /// One JSON value in all.
    Whole,
}

/// Event of a stream: its name and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamEvent<'a> {
    /// The name of a server-sent event; empty without one.
    pub(crate) name: &'a str,
    /// The text, which is neither blank nor a comment.
    pub(crate) data: &'a str,
}

/// Callback for each event.
type EventCallback<'t> = dyn FnMut(StreamEvent<'_>) -> Result<(), ReplyError> + 't;

/// Splitter of bytes into events. Skips comments, events without data, and the byte order mark.
#[derive(Debug)]
pub(crate) struct EventSplitter {
    framing: EventFraming,
    /// The incomplete line.
    line: Vec<u8>,
    /// The incomplete event.
    data: Option<String>,
    /// The name of the incomplete event.
    name: String,
    /// The last line has ended with a carriage return; a line feed that follows belongs to it.
    ended_with_return: bool,
}

impl EventSplitter {
    pub(crate) fn new(framing: EventFraming) -> Self {
        Self {
            framing,
            line: Vec::new(),
            data: None,
            name: String::new(),
            ended_with_return: false,
        }
    }

    /// Adds bytes, and calls `take` with every event that they complete.
    pub(crate) fn feed_bytes(&mut self, bytes: &[u8], take: &mut EventCallback<'_>) -> Result<(), ReplyError> {
        if self.framing == EventFraming::Whole {
            return self.buffer_bytes(bytes);
        }
        let mut rest = bytes;
        loop {
            if self.ended_with_return && !rest.is_empty() {
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                self.ended_with_return = false;
            }
            let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                break;
            };
            let (line, after) = rest.split_at(end);
            self.ended_with_return = after[0] == b'\r';
            rest = &after[1..];
            if self.line.is_empty() {
                self.finish_line(line, take)?;
            } else {
                self.buffer_bytes(line)?;
                let line = std::mem::take(&mut self.line);
                self.finish_line(&line, take)?;
            }
        }
        self.buffer_bytes(rest)
    }

    /// Calls `take` with the last event at the end of the stream.
    pub(crate) fn finish_stream(mut self, take: &mut EventCallback<'_>) -> Result<(), ReplyError> {
        let line = std::mem::take(&mut self.line);
        if self.framing == EventFraming::Whole {
            let data = strip_byte_order_mark(decode_text(&line)?);
            return take(StreamEvent { name: "", data });
        }
        if !line.is_empty() {
            self.finish_line(&line, take)?;
        }
        self.finish_event(take)
    }

    /// Calls `take` with the event whose lines are complete.
    fn finish_event(&mut self, take: &mut EventCallback<'_>) -> Result<(), ReplyError> {
        let name = std::mem::take(&mut self.name);
        match self.data.take() {
            Some(data) if !is_blank_or_comment(&data) => take(StreamEvent {
                name: &name,
                data: &data,
            }),
            _ => Ok(()),
        }
    }

    /// Appends bytes to the current line. Fails above the maximum size of an event.
    fn buffer_bytes(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        let buffered_length = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if buffered_length + bytes.len() > MAX_EVENT_BYTES {
            return Err(ReplyError::TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Processes a complete line: a field of an event, the end of an event, or a whole event.
    fn finish_line(&mut self, line: &[u8], take: &mut EventCallback<'_>) -> Result<(), ReplyError> {
        let line = strip_byte_order_mark(decode_text(line)?);
        if self.framing == EventFraming::Lines {
            return match line.trim() {
                data if is_blank_or_comment(data) => Ok(()),
                data => take(StreamEvent { name: "", data }),
            };
        }
        if line.is_empty() {
            return self.finish_event(take);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => {
                self.name = value.chars().take(MAX_EVENT_NAME_CHARS).collect();
                return Ok(());
            }
            "data" => {}
            // Ids, retry times and comments are not needed.
            _ => return Ok(()),
        }
        match &mut self.data {
            Some(data) if data.len() + value.len() > MAX_EVENT_BYTES => return Err(ReplyError::TooLarge),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }
}

/// Returns whether the data of an event has no content. Some servers send comments as data.
fn is_blank_or_comment(data: &str) -> bool {
    let data = data.trim();
    data.is_empty() || data.starts_with(':')
}

/// Decodes the bytes as UTF-8.
fn decode_text(bytes: &[u8]) -> Result<&str, ReplyError> {
    std::str::from_utf8(bytes).map_err(|_| ReplyError::Malformed("it is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the events of a text that comes in pieces of that size.
    fn events(framing: EventFraming, bytes: &[u8], piece: usize) -> Result<Vec<String>, ReplyError> {
        let mut frames = EventSplitter::new(framing);
        let mut all = Vec::new();
        let mut take = |event: StreamEvent<'_>| {
            all.push(match event.name {
                "" => event.data.to_owned(),
                name => format!("{name}={}", event.data),
            });
            Ok(())
        };
        for piece in bytes.chunks(piece) {
            frames.feed_bytes(piece, &mut take)?;
        }
        frames.finish_stream(&mut take)?;
        Ok(all)
    }

    #[test]
    fn events_and_lines_are_found_however_they_are_cut() {
        let rows: [(EventFraming, &str, &[&str]); 11] = [
            (EventFraming::Events, "data: a\n\ndata: b\n\n", &["a", "b"]),
            (
                EventFraming::Events,
                "\u{feff}data:a\r\n\r\ndata: b\r\n\r\n",
                &["a", "b"],
            ),
            (
                EventFraming::Events,
                ": hello\nevent: x\nid: 1\ndata: a\ndata:  ü\n\n",
                &["x=a\n ü"],
            ),
            (
                EventFraming::Events,
                "data: a\r\rdata: b\r\n\rdata\r\rdata: c\n\r\nevent: y\r\r",
                &["a", "b", "c"],
            ),
            (
                EventFraming::Events,
                "data:\n\ndata: \n\ndata: : hello\n\nevent: ping\ndata:\n\ndata: a\n\n",
                &["a"],
            ),
            (EventFraming::Lines, "\u{feff}{}\r: hello\r[1]", &["{}", "[1]"]),
            (EventFraming::Whole, "\u{feff}{}", &["{}"]),
            (EventFraming::Events, "\n\n\ndata: last", &["last"]),
            (EventFraming::Events, "nothing: here\n\n", &[]),
            (EventFraming::Lines, "{}\r\n\n [1] \n2", &["{}", "[1]", "2"]),
            (EventFraming::Whole, "{\n\n}", &["{\n\n}"]),
        ];
        for (framing, text, expected) in rows {
            for piece in 1..=text.len() {
                let found = events(framing, text.as_bytes(), piece);
                assert_eq!(
                    found.as_deref().ok(),
                    Some(&*expected.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()),
                    "{text:?} by {piece}"
                );
            }
        }
    }

    #[test]
    fn what_never_ends_is_refused_when_it_is_too_large() {
        let line = vec![b'x'; 1 << 20];
        for framing in [EventFraming::Events, EventFraming::Lines, EventFraming::Whole] {
            let mut frames = EventSplitter::new(framing);
            let fed = (0..11)
                .map(|_| frames.feed_bytes(&line, &mut |_| Ok(())))
                .find(Result::is_err);
            assert!(matches!(fed, Some(Err(ReplyError::TooLarge))), "{framing:?}");
        }
        let mut frames = EventSplitter::new(EventFraming::Events);
        let data = [b"data: ".to_vec(), line, b"\n".to_vec()].concat();
        let fed = (0..11)
            .map(|_| frames.feed_bytes(&data, &mut |_| Ok(())))
            .find(Result::is_err);
        assert!(
            matches!(fed, Some(Err(ReplyError::TooLarge))),
            "lines of one event add up"
        );
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1_usize..20) {
            for framing in [EventFraming::Events, EventFraming::Lines, EventFraming::Whole] {
                let whole = events(framing, &bytes, bytes.len().max(1));
                let cut = events(framing, &bytes, piece);
                prop_assert_eq!(whole.ok(), cut.ok());
            }
        }
    }
}
