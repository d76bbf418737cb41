//! Reading the present content of a pipe.

use std::os::fd::AsFd;

/// Passes the present content of the pipe to `take`, piece by piece, without waiting for more.
///
/// After the end of a child, the pipe contains all its remaining output. Other processes may still have the other end
/// open and continue to write.
pub(super) fn drain_pipe(pipe: &impl AsFd, mut take: impl FnMut(&[u8])) {
    let mut remaining = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    let mut buffer = [0_u8; 8192];
    while remaining > 0 {
        let chunk_length = buffer.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        match rustix::io::read(pipe, &mut buffer[..chunk_length]) {
            Ok(0) => return,
            Ok(count) => {
                take(&buffer[..count]);
                remaining -= count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    #[test]
    fn what_comes_while_the_pipe_is_drained_is_left_in_it() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"first").expect("written");
        let mut read = Vec::new();
        drain_pipe(&reader, |bytes| {
            read.extend_from_slice(bytes);
            assert!(read.len() < 100, "it goes on for ever");
            writer.write_all(b"more").expect("written");
        });
        assert_eq!(read, b"first");
    }

    #[test]
    fn an_empty_pipe_is_not_waited_for() {
        let (reader, _writer) = io::pipe().expect("a pipe");
        drain_pipe(&reader, |bytes| panic!("{bytes:?}"));
    }
}
