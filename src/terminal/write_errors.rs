//! Errors of standard output.
//!
//! A command continues if its output cannot be written, because the run is recorded in any case. The program then exits with an error.
//! A pipe that its reader has closed is no error, because the reader needs no more output.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// First error of standard output.
static FIRST: OnceLock<String> = OnceLock::new();

/// Writer to standard output that records its first error.
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

/// Flushes standard output and returns the first error of the process, if any. The error stays recorded.
pub(crate) fn flush_and_take_output_error() -> Option<&'static str> {
    let _is_noted = record_output_error(io::stdout().flush());
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
