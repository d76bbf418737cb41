//! Errors of standard output.
//!
//! A command goes on if its output cannot be written: a run is recorded whether somebody sees it or not. The program then ends
//! with an error. A pipe that its reader has closed is no error: the reader needs no more, and later text is dropped.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// First error of standard output.
static FIRST: OnceLock<String> = OnceLock::new();

/// Whether the reader of standard output has closed the pipe.
static IS_OUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the reader of standard error has closed the pipe.
static IS_ERR_CLOSED: AtomicBool = AtomicBool::new(false);

/// Stream that drops its text after the reader has closed the pipe. A failed write leaves text in buffers below, so another write
/// would send that text again.
pub(crate) struct ClosablePipe<W> {
    stream: W,
    is_closed: &'static AtomicBool,
}

impl<W: Write> ClosablePipe<W> {
    /// Wraps a writer to standard output.
    pub(crate) fn for_stdout(stream: W) -> Self {
        let is_closed = &IS_OUT_CLOSED;
        Self { stream, is_closed }
    }

    /// Wraps a writer to standard error.
    pub(crate) fn for_stderr(stream: W) -> Self {
        let is_closed = &IS_ERR_CLOSED;
        Self { stream, is_closed }
    }

    fn note_closed<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
        {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl<W: Write> Write for ClosablePipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(bytes.len());
        }
        let written = self.stream.write(bytes);
        self.note_closed(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let flushed = self.stream.flush();
        self.note_closed(flushed)
    }
}

/// Standard output that notes its first error.
pub(crate) struct OutputErrorRecorder<W>(pub(crate) W);

impl<W: Write> Write for OutputErrorRecorder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        record_output_error(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        record_output_error(self.0.flush())
    }
}

/// Records the first error of standard output, and returns the result unchanged. Ignores closed pipes and interruptions.
pub(crate) fn record_output_error<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &result
        && !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted)
    {
        FIRST.get_or_init(|| error.to_string());
    }
    result
}

/// Writes what is still held back; the first error of standard output, if there was one.
pub(crate) fn flush_and_take_output_error() -> Option<&'static str> {
    let _is_noted = record_output_error(ClosablePipe::for_stdout(io::stdout()).flush());
    FIRST.get().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Counts the writes, of which all fail, because the reader has closed the pipe.
    struct ClosedPipe<'c>(&'c std::cell::Cell<usize>);

    impl Write for ClosedPipe<'_> {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            self.0.set(self.0.get() + 1);
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.write(&[]).map(drop)
        }
    }

    #[test]
    fn nothing_is_written_to_a_closed_pipe_a_second_time() {
        static IS_CLOSED: AtomicBool = AtomicBool::new(false);
        let count = std::cell::Cell::new(0);
        let pipe = || ClosablePipe {
            stream: ClosedPipe(&count),
            is_closed: &IS_CLOSED,
        };
        let (mut first, mut second) = (pipe(), pipe());
        assert!(first.write_all(b"failed").is_err());
        assert!(first.flush().is_ok() && second.write_all(b"failed again").is_ok() && second.flush().is_ok());
        assert_eq!(count.get(), 1);
    }

    #[test]
    fn a_closed_pipe_is_no_error_and_the_first_other_error_is_kept() {
        for kind in [ErrorKind::BrokenPipe, ErrorKind::Interrupted] {
            assert!(OutputErrorRecorder(Fails(kind)).write(b"x").is_err());
            assert_eq!(FIRST.get(), None, "{kind}");
        }
        for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied] {
            assert!(OutputErrorRecorder(Fails(kind)).write(b"x").is_err());
        }
        assert_eq!(FIRST.get(), Some(&io::Error::from(ErrorKind::StorageFull).to_string()));
    }
}
