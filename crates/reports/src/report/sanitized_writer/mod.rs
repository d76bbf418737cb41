//! The door: the only way to a standard stream. Whatever a report contains, the terminal obeys only styles of our own.
//!
//! **Invariant:** of what passes, no character but line breaks and tabs steers a terminal, except in the styles of [`TrustedStyle`].

mod filter;
mod joiners;
mod trusted_style;

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

pub use filter::EscapeStyle;
use filter::SanitizingFilter;
pub(crate) use filter::{StreamTextEscaper, escape_text};
pub use trusted_style::TrustedStyle;
use trusted_style::mark_trusted_styles;

/// A stream that shows texts of others without obeying them.
pub struct SanitizedWriter {
    out: Box<dyn Write + Send>,
    stream: SanitizedStream,
    spelling: EscapeStyle,
    /// The beginning of a character whose other bytes have not arrived.
    partial: Vec<u8>,
}

/// A stream of the process; clones are the same stream, also if each is written through a door of its own.
#[derive(Debug, Clone, Default)]
pub struct SanitizedStream {
    passed: Arc<Mutex<SanitizingFilter>>,
    is_ci: bool,
}

impl SanitizedStream {
    /// Returns a stream. `is_ci`: it may be the log of a CI, which takes some lines for commands.
    pub fn new(is_ci: bool) -> Self {
        Self {
            is_ci,
            ..Self::default()
        }
    }
}

impl SanitizedWriter {
    /// Returns a door to this stream; `out` writes to it.
    pub fn new(out: impl Write + Send + 'static, stream: &SanitizedStream, spelling: EscapeStyle) -> Self {
        Self {
            out: Box::new(out),
            stream: stream.clone(),
            spelling,
            partial: Vec::new(),
        }
    }

    /// Returns a door to a stream of its own, for texts for people.
    pub fn standalone(out: impl Write + Send + 'static) -> Self {
        Self::new(out, &SanitizedStream::default(), EscapeStyle::Text)
    }
}

/// Returns the text that a door of its own would pass, for a file that is printed later.
pub fn sanitize_text(text: &str, spelling: EscapeStyle) -> String {
    let mut passed = String::with_capacity(text.len());
    SanitizingFilter::default().push_sanitized(text, spelling, false, &mut passed);
    passed
}

/// Returns the text with its styles as our own. Only for texts in which no other text contains a style.
pub fn trust_styles(text: &str) -> String {
    mark_trusted_styles(text)
}

impl Write for SanitizedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut passed = String::with_capacity(bytes.len() + 64);
        let joined;
        let mut rest = bytes;
        if !self.partial.is_empty() {
            joined = [std::mem::take(&mut self.partial), bytes.to_vec()].concat();
            rest = &joined;
        }
        let mut filter = self.stream.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pass = |text: &str| filter.push_sanitized(text, self.spelling, self.stream.is_ci, &mut passed);
        while !rest.is_empty() {
            let Err(error) = std::str::from_utf8(rest).map(&mut pass) else {
                break;
            };
            let (valid, after) = rest.split_at(error.valid_up_to());
            pass(&String::from_utf8_lossy(valid));
            match error.error_len() {
                Some(length) => {
                    pass("\u{fffd}");
                    rest = &after[length..];
                }
                None => {
                    self.partial = after.to_vec();
                    break;
                }
            }
        }
        drop(filter);
        self.out.write_all(passed.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
