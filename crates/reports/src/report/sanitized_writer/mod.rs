//! The writer for all standard streams. Whatever a report contains, the terminal obeys only styles of the program.
//!
//! **Invariant:** no written character except line breaks and tabs controls a terminal, except in the styles of [`TrustedStyle`].

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

/// A writer that escapes control characters and CI commands in untrusted text.
pub struct SanitizedWriter {
    out: Box<dyn Write + Send>,
    stream: SanitizedStream,
    spelling: EscapeStyle,
    /// The beginning of a character whose other bytes have not arrived.
    partial: Vec<u8>,
}

/// The shared state of an output stream of the process. Clones share the state, also if they escape in different styles.
#[derive(Debug, Clone, Default)]
pub struct SanitizedStream {
    passed: Arc<Mutex<SanitizingFilter>>,
    is_ci: bool,
}

impl SanitizedStream {
    /// Creates a stream. `is_ci` means that it can be the log of a CI, which interprets some lines as commands.
    pub fn new(is_ci: bool) -> Self {
        Self {
            is_ci,
            ..Self::default()
        }
    }
}

impl SanitizedWriter {
    /// Creates a writer to this stream. `out` receives the sanitized bytes.
    pub fn new(out: impl Write + Send + 'static, stream: &SanitizedStream, spelling: EscapeStyle) -> Self {
        Self {
            out: Box::new(out),
            stream: stream.clone(),
            spelling,
            partial: Vec::new(),
        }
    }

    /// Creates a writer to a separate stream that is not the log of a CI, for text for users.
    pub fn with_separate_stream(out: impl Write + Send + 'static) -> Self {
        Self::new(out, &SanitizedStream::default(), EscapeStyle::Text)
    }
}

/// Returns the sanitized text, for a file that is printed later.
pub fn sanitize_text(text: &str, spelling: EscapeStyle) -> String {
    let mut passed = String::with_capacity(text.len());
    SanitizingFilter::default().push_sanitized(text, spelling, false, &mut passed);
    passed
}

/// Marks all styles in the text as trusted. The caller ensures that no part of the text comes from another source.
pub fn mark_styles_as_trusted(text: &str) -> String {
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
