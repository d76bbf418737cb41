//! Splits the bytes of a stream into events. The size of the buffer is limited.

use crate::transport::reply_error::ReplyError;

/// The maximum size of one event, and of the text of a reply, in bytes: 10 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 10 << 20;

/// The separation of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFraming {
    /// `data:` lines that end with an empty line: server-sent events.
    Events,
    /// One JSON value a line.
    Lines,
    /// One JSON value in all.
    Whole,
}

/// Splits bytes into the texts of events.
#[derive(Debug)]
pub(crate) struct EventSplitter {
    framing: EventFraming,
    /// The incomplete line.
    line: Vec<u8>,
    /// The incomplete event.
    data: Option<String>,
}

impl EventSplitter {
    pub(crate) fn new(framing: EventFraming) -> Self {
        Self {
            framing,
            line: Vec::new(),
            data: None,
        }
    }

    /// Calls `take` with every event that these bytes complete.
    pub(crate) fn feed_bytes(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(&str) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        if self.framing == EventFraming::Whole {
            return self.buffer_bytes(bytes);
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
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
    pub(crate) fn finish_stream(
        mut self,
        take: &mut dyn FnMut(&str) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let line = std::mem::take(&mut self.line);
        if self.framing == EventFraming::Whole {
            return take(decode_text(&line)?);
        }
        if !line.is_empty() {
            self.finish_line(&line, take)?;
        }
        match self.data.take() {
            Some(data) => take(&data),
            None => Ok(()),
        }
    }

    fn buffer_bytes(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        let buffered_length = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if buffered_length + bytes.len() > MAX_EVENT_BYTES {
            return Err(ReplyError::TooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn finish_line(
        &mut self,
        line: &[u8],
        take: &mut dyn FnMut(&str) -> Result<(), ReplyError>,
    ) -> Result<(), ReplyError> {
        let line = decode_text(line.strip_suffix(b"\r").unwrap_or(line))?;
        if self.framing == EventFraming::Lines {
            return match line.trim() {
                "" => Ok(()),
                line => take(line),
            };
        }
        if line.is_empty() {
            return self.data.take().map_or(Ok(()), |data| take(&data));
        }
        // Names of events, ids and comments are not needed: what they say stands in the data too.
        let Some(value) = line.trim_start_matches('\u{feff}').strip_prefix("data:") else {
            return Ok(());
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
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
        let mut take = |event: &str| {
            all.push(event.to_owned());
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
        let rows: [(EventFraming, &str, &[&str]); 7] = [
            (EventFraming::Events, "data: a\n\ndata: b\n\n", &["a", "b"]),
            (
                EventFraming::Events,
                "\u{feff}data:a\r\n\r\ndata: b\r\n\r\n",
                &["a", "b"],
            ),
            (
                EventFraming::Events,
                ": hello\nevent: x\nid: 1\ndata: a\ndata:  ü\n\n",
                &["a\n ü"],
            ),
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
