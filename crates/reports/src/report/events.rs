//! A run as the lines of its journal, printed as they are committed.

use std::io::Write;

use super::Reporter;
use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::records::encode;

/// Prints every event as one line of JSON.
pub struct Events {
    out: Box<dyn Write + Send>,
    line: Vec<u8>,
}

impl Events {
    /// Creates a reporter that prints to this stream.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, line: Vec::new() }
    }
}

impl Reporter for Events {
    fn report(&mut self, record: &Record, _state: &ConversationState) {
        self.line.clear();
        encode(record, &mut self.line);
        // A closed pipe must not stop the run; the journal contains everything.
        let _ = self.out.write_all(&self.line);
        let _ = self.out.flush();
    }
}
