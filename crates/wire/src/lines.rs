//! Lines of limited size, from streams of other programs.
//!
//! Invariant: a line above the limit is one error, and never two lines. The next line is read normally.

use std::fmt;
use std::io::{self, BufRead};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, ReadBuf};

/// Maximum number of bytes of a long line that the error contains.
const MAX_ERROR_BYTES: usize = 4 << 10;

/// Error of a line that is longer than the limit of its reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTooLongError {
    /// Limit in bytes.
    pub limit: usize,
    /// Beginning of the line.
    pub beginning: Vec<u8>,
}

impl LineTooLongError {
    /// Creates the error from the read part of the line and the rest of the read bytes.
    fn new(limit: usize, mut line: Vec<u8>, rest: &[u8]) -> Self {
        let missing = MAX_ERROR_BYTES.saturating_sub(line.len()).min(rest.len());
        line.extend_from_slice(&rest[..missing]);
        line.truncate(MAX_ERROR_BYTES);
        line.shrink_to_fit();
        Self { limit, beginning: line }
    }
}

impl fmt::Display for LineTooLongError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit >> 20 {
            0 => write!(f, "a message of more than {} bytes", self.limit),
            mebibytes => write!(f, "a message of more than {mebibytes} MiB"),
        }
    }
}

impl std::error::Error for LineTooLongError {}

/// Line without its newline, or the error that replaces the line.
pub type LineResult = Result<Vec<u8>, LineTooLongError>;

/// Buffer for the bytes of an incomplete line, with a size limit.
#[derive(Debug)]
pub struct LimitedLineBuffer {
    limit: usize,
    line: Vec<u8>,
    /// Set while the rest of a reported long line is skipped.
    is_skipping: bool,
}

impl LimitedLineBuffer {
    /// Creates a buffer for lines of at most `limit` bytes, without their newlines.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            is_skipping: false,
        }
    }

    /// Consumes bytes up to the end of the current line. Returns the number of consumed bytes, and the line without its newline if the
    /// line is complete. Returns the error of a long line immediately.
    pub fn push_until_line_end(&mut self, bytes: &[u8]) -> (usize, Option<LineResult>) {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let consumed_bytes = newline.map_or(bytes.len(), |at| at + 1);
        let text = &bytes[..newline.unwrap_or(bytes.len())];
        let was_skipping = self.is_skipping;
        if newline.is_some() {
            self.is_skipping = false;
        }
        if was_skipping {
            return (consumed_bytes, None);
        }
        if self.line.len() + text.len() > self.limit {
            self.is_skipping = newline.is_none();
            let error = LineTooLongError::new(self.limit, std::mem::take(&mut self.line), text);
            return (consumed_bytes, Some(Err(error)));
        }
        self.line.extend_from_slice(text);
        (consumed_bytes, newline.map(|_| Ok(std::mem::take(&mut self.line))))
    }

    /// Takes the last line of the stream if the line has no newline.
    pub fn take_last_line(&mut self) -> Option<LineResult> {
        (!self.line.is_empty()).then(|| Ok(std::mem::take(&mut self.line)))
    }

    /// Reads the next line of a stream. Blocks until the line is complete. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read_line_blocking(&mut self, input: &mut impl BufRead) -> io::Result<Option<LineResult>> {
        loop {
            let bytes = input.fill_buf()?;
            if bytes.is_empty() {
                return Ok(self.take_last_line());
            }
            let (taken, line) = self.push_until_line_end(bytes);
            input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }

    /// Reads the next line of a stream. Returns `None` at the end of the stream. Dropping the future loses no bytes.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub async fn next_line(&mut self, input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<LineResult>> {
        loop {
            let bytes = input.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(self.take_last_line());
            }
            let (taken, line) = self.push_until_line_end(bytes);
            input.consume(taken);
            if line.is_some() {
                return Ok(line);
            }
        }
    }
}

/// Stream that fails at the first line above the limit, for readers without a limit.
#[derive(Debug)]
pub struct LineLimitedStream<R> {
    stream: R,
    limit: usize,
    /// Number of bytes since the last newline.
    length: usize,
}

impl<R> LineLimitedStream<R> {
    /// Limits the lines of the stream to `limit` bytes, without their newlines.
    pub fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            limit,
            length: 0,
        }
    }

    /// Counts the bytes of the current line. Returns whether a line in these bytes is too long.
    fn count_and_check_limit(&mut self, bytes: &[u8]) -> bool {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.length += part.len();
            if self.length > self.limit {
                return true;
            }
            if parts.peek().is_some() {
                self.length = 0;
            }
        }
        false
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LineLimitedStream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.count_and_check_limit(&buffer.filled()[before..]) {
            let limit = self.limit;
            // A failed read leaves nothing in the buffer.
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::other(LineTooLongError::new(limit, Vec::new(), &[]))));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    const LIMIT: usize = 8;

    /// What each reader returns for a text, whatever the size of the pieces in which it arrives.
    fn lines_of(text: &str, piece: usize) -> Vec<Result<String, usize>> {
        let mut buffer = LimitedLineBuffer::new(LIMIT);
        let mut input = io::BufReader::with_capacity(piece, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = buffer.read_line_blocking(&mut input).expect("memory can be read") {
            lines.push(text_or_limit(line, text));
        }
        lines
    }

    /// The text of a line, or the limit that it exceeds.
    fn text_or_limit(line: LineResult, all: &str) -> Result<String, usize> {
        line.map(|line| String::from_utf8(line).expect("text"))
            .map_err(|error| {
                let beginning = String::from_utf8(error.beginning).expect("text");
                assert!(beginning.len() > error.limit && all.contains(&beginning), "{beginning}");
                error.limit
            })
    }

    #[test]
    fn a_line_above_the_limit_is_one_error_and_the_next_line_is_read() {
        let too_long = Err(LIMIT);
        let line = |text: &str| Ok(text.to_owned());
        for (text, expected) in [
            ("", vec![]),
            ("a\nb\n", vec![line("a"), line("b")]),
            ("a\nb", vec![line("a"), line("b")]),
            ("12345678\nb\n", vec![line("12345678"), line("b")]),
            ("123456789\nb\n", vec![too_long.clone(), line("b")]),
            ("123456789", vec![too_long.clone()]),
            (
                "12345678901234567890123456\n\nb\n",
                vec![too_long.clone(), line(""), line("b")],
            ),
            (
                "123456789\n123456789\nb\n",
                vec![too_long.clone(), too_long.clone(), line("b")],
            ),
        ] {
            for piece in [1, 2, 3, 7, 8, 9, 10, 64] {
                assert_eq!(lines_of(text, piece), expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[tokio::test]
    async fn both_readers_of_a_buffer_agree() {
        let text = "one\n123456789012345\ntwo\nthree";
        let mut buffer = LimitedLineBuffer::new(LIMIT);
        let mut input = tokio::io::BufReader::with_capacity(4, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = buffer.next_line(&mut input).await.expect("memory can be read") {
            lines.push(text_or_limit(line, text));
        }
        assert_eq!(lines, lines_of(text, 4));
    }

    #[tokio::test]
    async fn a_limited_stream_ends_at_the_line_that_is_too_long() {
        for (text, is_whole) in [
            ("12345678\n12345678\n", true),
            ("1\n123456789\n2\n", false),
            ("123456789", false),
        ] {
            let mut read = String::new();
            let ended = LineLimitedStream::new(text.as_bytes(), LIMIT)
                .read_to_string(&mut read)
                .await;
            assert_eq!(ended.is_ok(), is_whole, "{text:?}: {ended:?}");
        }
    }
}
