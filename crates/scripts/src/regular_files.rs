//! Files that a text names, such as scripts: regular files, of which no more is read than is allowed.
//!
//! **Invariant:** the size that a file tells is not believed, because files of the system tell 0 and have no end.

#![expect(clippy::disallowed_methods, reason = "files that a text names are read here")]

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use ensemble_language::data::strip_byte_order_mark;

/// Largest script that is run: 16 MiB, as for ensembles.
pub const MAX_SCRIPT_BYTES: u64 = 16 << 20;

/// Opens a regular file. Does not wait for a pipe or a device.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(NONBLOCKING_OPEN_FLAG);
    }
    let file = options.open(path).map_err(|error| {
        // A socket cannot be opened.
        let file_type = std::fs::metadata(path).ok().map(|metadata| metadata.file_type());
        match file_type
            .and_then(describe_irregular_type)
            .filter(|name| *name == "a socket")
        {
            Some(name) => io::Error::other(format!("it is {name}, not a file")),
            None => error,
        }
    })?;
    require_regular_file(&file)?;
    Ok(file)
}

/// Checks that an open file is a regular file.
///
/// # Errors
/// The error names the type of the file: a folder, a pipe, a socket or a device.
pub fn require_regular_file(file: &File) -> io::Result<()> {
    match describe_irregular_type(file.metadata()?.file_type()) {
        Some(description) => Err(io::Error::other(format!("it is {description}, not a file"))),
        None => Ok(()),
    }
}

/// Returns the name of the file type with an article. Returns `None` for a regular file.
pub fn describe_irregular_type(file_type: FileType) -> Option<&'static str> {
    if file_type.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file_type.is_fifo() {
            return Some("a pipe");
        }
        if file_type.is_socket() {
            return Some("a socket");
        }
    }
    Some(if file_type.is_dir() { "a folder" } else { "a device" })
}

/// Flag that opens a pipe without waiting for a writer.
#[cfg(unix)]
const NONBLOCKING_OPEN_FLAG: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// The file cannot be opened, is not a regular file, or is larger.
pub fn read_bytes_with_limit(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular_file(path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it is larger than {}", format_size(most)))),
        false => Ok(bytes),
    }
}

/// Reads a regular text file of at most `most` bytes, without a byte order mark.
///
/// # Errors
/// The file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let text = String::from_utf8(read_bytes_with_limit(path, most)?).map_err(|_| {
        // In the words of `std::fs::read_to_string`.
        io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8")
    })?;
    Ok(match strip_byte_order_mark(&text) {
        bare if bare.len() < text.len() => bare.to_owned(),
        _ => text,
    })
}

/// Formats a size in KiB or MiB, rounded down.
fn format_size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for (length, is_read) in [(0, true), (1023, true), (1024, true), (1025, false)] {
            std::fs::write(&path, vec![b'x'; length]).expect("written");
            let read = read_bytes_with_limit(&path, 1024);
            assert_eq!(read.is_ok(), is_read, "{length}");
            if let Err(error) = read {
                assert_eq!(error.to_string(), "it is larger than 1 KiB");
            }
        }
        std::fs::write(&path, "\u{feff}let x = 1;").expect("written");
        assert_eq!(read_text(&path, 1024).expect("a text"), "let x = 1;");
        std::fs::write(&path, b"\xff").expect("written");
        assert_eq!(
            read_text(&path, 1024).map_err(|error| error.to_string()),
            std::fs::read_to_string(&path).map_err(|error| error.to_string())
        );
        assert!(open_regular_file(folder.path()).is_err(), "a folder");
        assert!(open_regular_file(&folder.path().join("missing")).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_tells_no_size_is_bounded() {
        read_bytes_with_limit(Path::new("/proc/self/pagemap"), 1 << 20).expect_err("it is huge");
        let error = read_bytes_with_limit(Path::new("/dev/zero"), 1 << 20).expect_err("a device");
        assert_eq!(error.to_string(), "it is a device, not a file");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo starts").success());
        for (path, name) in [
            (socket.as_path(), "a socket"),
            (&pipe, "a pipe"),
            (folder.path(), "a folder"),
        ] {
            let error = read_bytes_with_limit(path, 1).expect_err("it is no file");
            assert_eq!(error.to_string(), format!("it is {name}, not a file"));
        }
    }
}
