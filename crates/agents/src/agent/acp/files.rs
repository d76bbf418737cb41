//! Files inside the project root: each folder on the way is opened by itself, and no link is followed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

/// The largest file that is read or replaced, in bytes.
const LARGEST: u64 = 16 << 20;

/// The folder of the program's own records and settings, which no agent changes.
const OWN_FOLDER: &str = ".ensemble";

/// Returns the path below the root.
///
/// # Errors
/// It is outside.
pub(super) fn resolve_relative_path(path: &Path, root: &Path) -> Result<PathBuf, String> {
    let outside = || format!("`{}` is outside of the project root", path.display());
    let canonical = root.canonicalize().map_err(|_| outside())?;
    let relative_path = match path.is_absolute() {
        true => path.strip_prefix(root).or_else(|_| path.strip_prefix(&canonical)),
        false => Ok(path),
    };
    let relative_path = relative_path.map_err(|_| outside())?;
    let mut plain = PathBuf::new();
    for part in relative_path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    match plain.as_os_str().is_empty() {
        true => Err(outside()),
        false => Ok(plain),
    }
}

/// Returns the text of the file, or some of its lines.
pub(super) fn read_lines(root: &Path, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read `{}`: {}", path.display(), describe_io_error(&error));
    let text = read_text(root, path).map_err(failed)?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let first = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let max_lines = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(text.split_inclusive('\n').skip(first).take(max_lines).collect())
}

/// Writes the file, with the folders on its way, and gives its text before.
pub(super) fn write_file(root: &Path, path: &Path, content: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot write `{}`: {}", path.display(), describe_io_error(&error));
    if path.starts_with(OWN_FOLDER) {
        return Err(format!(
            "cannot write `{}`: agents cannot write to `{OWN_FOLDER}`",
            path.display()
        ));
    }
    let before = match read_text(root, path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        // Another content is replaced, a link or a folder is not.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let (folder, name) = open_parent_folder(root, path, true).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(&folder, name, flags, Mode::from_raw_mode(0o666)).map_err(|error| failed(error.into()))?;
    let mut file = require_regular_file(opened).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    Ok(before)
}

fn read_text(root: &Path, path: &Path) -> io::Result<String> {
    let (folder, name) = open_parent_folder(root, path, false)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = require_regular_file(openat(&folder, name, flags, Mode::empty())?)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Returns the open folder of the file, and the name of the file.
fn open_parent_folder<'p>(root: &Path, path: &'p Path, creates: bool) -> io::Result<(OwnedFd, &'p Path)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, root, flags, Mode::empty())?;
    let parts: Vec<&Path> = path.iter().map(Path::new).collect();
    let Some((name, parents)) = parts.split_last() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    for parent in parents {
        let inner = flags | OFlags::NOFOLLOW;
        let mut opened = openat(&folder, *parent, inner, Mode::empty());
        if creates && matches!(opened, Err(rustix::io::Errno::NOENT)) {
            mkdirat(&folder, *parent, Mode::from_raw_mode(0o777))?;
            opened = openat(&folder, *parent, inner, Mode::empty());
        }
        folder = opened?;
    }
    Ok((folder, name))
}

fn require_regular_file(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn describe_io_error(error: &io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            "a part of the path is a link or a file".to_owned()
        }
        Some(rustix::io::Errno::NOENT) => "there is no such file".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test prepares files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_outside_is_not_reached() {
        let outer_folder = tempfile::tempdir().expect("a folder");
        let root = outer_folder.path().join("root");
        fs::create_dir_all(root.join("sub")).expect("made");
        fs::write(outer_folder.path().join("secret"), "secret").expect("written");
        fs::write(root.join("file"), "one\ntwo\nthree\n").expect("written");
        symlink("../secret", root.join("link")).expect("linked");
        symlink("..", root.join("up")).expect("linked");
        for (path, is_below) in [
            ("file", true),
            ("sub/../../secret", false),
            ("..", false),
            ("", false),
            ("/etc/passwd", false),
            ("./sub/x", true),
        ] {
            assert_eq!(
                resolve_relative_path(Path::new(path), &root).is_ok(),
                is_below,
                "{path}"
            );
        }
        assert_eq!(
            resolve_relative_path(&root.join("sub/x"), &root),
            Ok(PathBuf::from("sub/x"))
        );
        assert_eq!(
            read_lines(&root, Path::new("file"), Some(2), Some(1)).as_deref(),
            Ok("two\n")
        );
        for path in ["link", "up/secret", "sub", "missing", "file/x"] {
            assert!(read_lines(&root, Path::new(path), None, None).is_err(), "{path}");
        }
        for path in ["link", "up/secret", "up/new", "sub", "file/x", ".ensemble/config.yaml"] {
            assert!(write_file(&root, Path::new(path), "x").is_err(), "{path}");
        }
        assert_eq!(
            fs::read_to_string(outer_folder.path().join("secret")).expect("text"),
            "secret"
        );
        assert!(!outer_folder.path().join("new").exists());
        assert_eq!(
            write_file(&root, Path::new("file"), "short\n").as_deref(),
            Ok("one\ntwo\nthree\n")
        );
        assert_eq!(fs::read_to_string(root.join("file")).expect("text"), "short\n");
        assert_eq!(write_file(&root, Path::new("new/deep/file"), "x").as_deref(), Ok(""));
        assert_eq!(fs::read_to_string(root.join("new/deep/file")).expect("text"), "x");
    }
}
