//! The end of the stderr of a script.
//!
//! Everything is read, so that the script never blocks on a full pipe. Only the end is kept, so that memory is limited.

use tokio::io::{AsyncRead, AsyncReadExt};

use ensemble_core::runner::AttemptLedger;

/// The maximum number of bytes that are kept.
pub use ensemble_core::runner::MAX_KEPT_STDERR as MAX_FOLDED_RUNS;

/// Number of new bytes after which a long stream is published again.
const PUBLISH_INTERVAL_BYTES: usize = 32 * 1024;

/// End of a stream, which is published to the ledger while it grows and when this is dropped.
pub(super) struct StreamTail<'a> {
    ledger: &'a AttemptLedger,
    bytes: Vec<u8>,
    is_truncated: bool,
    unpublished_bytes: usize,
}

impl<'a> StreamTail<'a> {
    pub(super) fn new(ledger: &'a AttemptLedger) -> Self {
        Self {
            ledger,
            bytes: Vec::new(),
            is_truncated: false,
            unpublished_bytes: 0,
        }
    }

    /// Reads the stream to its end, and publishes its tail to the ledger.
    pub(super) async fn read_to_end(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        loop {
            self.bytes.reserve(self.bytes.len().clamp(1024, MAX_FOLDED_RUNS));
            match stream.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.trim_and_publish(count),
            }
        }
    }

    /// Appends bytes, and publishes the tail if enough bytes are new.
    pub(super) fn append_and_publish(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.trim_and_publish(bytes.len());
    }

    /// Returns the kept end of the stream.
    pub(super) fn tail_text(&self) -> String {
        let skipped = self.bytes.len().saturating_sub(MAX_FOLDED_RUNS);
        let mut tail_bytes = &self.bytes[skipped..];
        if self.is_truncated || skipped > 0 {
            while let [0x80..=0xbf, rest @ ..] = tail_bytes {
                tail_bytes = rest;
            }
        }
        String::from_utf8_lossy(tail_bytes).into_owned()
    }

    /// Limits the kept bytes, and publishes the tail if enough bytes are new.
    fn trim_and_publish(&mut self, count: usize) {
        self.unpublished_bytes += count;
        if self.bytes.len() > 2 * MAX_FOLDED_RUNS {
            self.bytes.drain(..self.bytes.len() - MAX_FOLDED_RUNS);
            self.is_truncated = true;
        }
        if self.bytes.len() < PUBLISH_INTERVAL_BYTES || self.unpublished_bytes >= PUBLISH_INTERVAL_BYTES {
            self.publish_tail();
        }
    }

    /// Stores the tail in the ledger as stderr.
    fn publish_tail(&mut self) {
        self.unpublished_bytes = 0;
        self.ledger.set_stderr(self.tail_text());
    }
}

impl Drop for StreamTail<'_> {
    fn drop(&mut self) {
        if self.unpublished_bytes > 0 {
            self.publish_tail();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_end_of_a_flood_is_kept() {
        let ledger = AttemptLedger::default();
        let flood = format!("{}the end", "noise\n".repeat(200_000));
        let mut tail = StreamTail::new(&ledger);
        tail.read_to_end(&mut flood.as_bytes()).await;
        assert!(
            tail.bytes.capacity() <= 8 * MAX_FOLDED_RUNS,
            "{}",
            tail.bytes.capacity()
        );
        drop(tail);
        let kept = ledger.take_entries().stderr;
        assert_eq!(kept, flood[flood.len() - MAX_FOLDED_RUNS..]);
    }

    #[tokio::test]
    async fn a_short_text_is_published_at_once() {
        let ledger = AttemptLedger::default();
        let mut tail = StreamTail::new(&ledger);
        tail.append_and_publish(b"warn");
        assert_eq!(ledger.take_entries().stderr, "warn");
        tail.append_and_publish(b"ing");
        assert_eq!(ledger.take_entries().stderr, "warning");
    }

    #[test]
    fn a_character_that_was_cut_leaves_no_half() {
        let ledger = AttemptLedger::default();
        let mut tail = StreamTail::new(&ledger);
        tail.append_and_publish("é".repeat(MAX_FOLDED_RUNS).as_bytes());
        tail.append_and_publish(b"x");
        assert_eq!(tail.tail_text(), format!("{}x", "é".repeat(MAX_FOLDED_RUNS / 2 - 1)));
    }
}
