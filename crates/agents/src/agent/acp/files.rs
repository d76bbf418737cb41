//! Files inside the project root: each folder on the way is opened by itself, and no link is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use ensemble_language::data::{sha256_of_bytes, sha256_of_text};
use ensemble_language::hidden_characters::is_hidden_character;
use ensemble_scripts::regular_files::require_regular_file;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, mkdirat, openat, statat};

/// The largest file that is read or replaced, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Folder with the records and settings of `ensemble`, which no agent can change.
const ENSEMBLE_FOLDER: &str = ".ensemble";

/// Returns the path relative to the root.
///
/// # Errors
/// It is outside.
pub(super) fn path_below_root(path: &Path, root: &Path) -> Result<PathBuf, String> {
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

/// Reads the text of the file, or `limit` lines from line number `line`, which starts at 1.
pub(super) fn read_lines(root: &Path, path: &Path, line: Option<u32>, limit: Option<u32>) -> Result<String, String> {
    let failed = |error: io::Error| format!("cannot read `{}`: {}", path.display(), describe_io_error(&error));
    let text = read_text_below_root(root, path).map_err(failed)?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let first = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let max_lines = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(text.split_inclusive('\n').skip(first).take(max_lines).collect())
}

/// Reads the text that a write would replace: empty without a file, a description if the file is not text.
///
/// # Errors
/// The file cannot be written.
pub(super) fn read_replaced_text(root: &Path, path: &Path) -> Result<String, String> {
    check_not_ensemble_folder(path)?;
    match read_bytes_below_root(root, path) {
        Ok(bytes) => Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
            let bytes = error.as_bytes();
            format!(
                "[{} bytes that are not text, SHA-256 {}]\n",
                bytes.len(),
                sha256_of_bytes(bytes)
            )
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(write_error(path, &error)),
    }
}

/// Writes the file and creates missing parent folders. `before` is the digest of the text when the change was shown.
///
/// # Errors
/// The file has changed meanwhile, or cannot be written.
pub(super) fn write_if_unchanged_since_shown(
    root: &Path,
    path: &Path,
    content: &str,
    before: &str,
) -> Result<(), String> {
    if sha256_of_text(&read_replaced_text(root, path)?) != before {
        return Err(format!(
            "cannot write `{}`: it has changed since the change was shown",
            path.display()
        ));
    }
    let failed = |error: io::Error| write_error(path, &error);
    let (folder, name) = open_parent_folder(root, path, true).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(&folder, name, flags, Mode::from_raw_mode(0o666)).map_err(|error| failed(error.into()))?;
    let mut file = open_regular_file(opened).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)
}

/// Creates the error message of a failed write.
fn write_error(path: &Path, error: &io::Error) -> String {
    format!("cannot write `{}`: {}", path.display(), describe_io_error(error))
}

/// Refuses a path that contains a folder `.ensemble`, also in another spelling that a file system treats as equal.
fn check_not_ensemble_folder(path: &Path) -> Result<(), String> {
    match path.iter().any(is_ensemble_folder_name) {
        true => Err(ensemble_folder_error(path)),
        false => Ok(()),
    }
}

/// Refuses a path inside one of these folders, such as the folder of the user settings.
pub(super) fn check_not_in_private_folders(root: &Path, path: &Path, folders: &[PathBuf]) -> Result<(), String> {
    let file = fold_path(&root.join(path));
    let is_inside = |folder: &PathBuf| file.starts_with(fold_path(&canonicalize_existing(folder)));
    match folders.iter().any(is_inside) {
        true => Err(format!(
            "cannot write `{}`: agents cannot write to the settings of the user",
            path.display()
        )),
        false => Ok(()),
    }
}

/// Resolves the links of the existing beginning of the path, and appends the rest.
fn canonicalize_existing(path: &Path) -> PathBuf {
    let mut beginnings = path.ancestors();
    let resolved = beginnings.find_map(|beginning| {
        let rest = path.strip_prefix(beginning).ok()?;
        Some(beginning.canonicalize().ok()?.join(rest))
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

/// Folds every name of the path, so that paths that a file system can treat as equal are equal.
fn fold_path(path: &Path) -> PathBuf {
    path.iter().map(fold_name).collect()
}

/// Creates the error message about a write to `.ensemble`.
fn ensemble_folder_error(path: &Path) -> String {
    format!(
        "cannot write `{}`: agents cannot write to `{ENSEMBLE_FOLDER}`",
        path.display()
    )
}

/// Returns whether a file system that ignores case, invisible characters, or trailing dots and spaces takes the name for `.ensemble`.
fn is_ensemble_folder_name(name: &OsStr) -> bool {
    fold_name(name) == ENSEMBLE_FOLDER
}

/// Converts the name to lower case, without invisible characters, stream suffixes, and trailing dots and spaces.
fn fold_name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let visible = name.chars().filter(|char| !is_hidden_character(*char));
    let upper: String = visible.flat_map(char::to_uppercase).collect();
    let folded = upper.to_lowercase();
    let name = folded.split(':').next().unwrap_or_default();
    name.trim_end_matches(['.', ' ']).to_owned()
}

/// Reads a regular file below the root as UTF-8.
fn read_text_below_root(root: &Path, path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes_below_root(root, path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Reads a regular file below the root, up to 16 MiB. Follows no links.
fn read_bytes_below_root(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let (folder, name) = open_parent_folder(root, path, false)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open_regular_file(openat(&folder, name, flags, Mode::empty())?)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// Opens the parent folder of the file below the root, and returns it with the file name. Follows no links.
///
/// `creates` creates missing folders, and refuses a folder that is `.ensemble` in another spelling.
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
        let opened = opened?;
        if creates && is_same_folder(&opened, &folder, ENSEMBLE_FOLDER)? {
            return Err(io::Error::other(format!("agents cannot write to `{ENSEMBLE_FOLDER}`")));
        }
        folder = opened;
    }
    Ok((folder, name))
}

/// Returns whether the open folder is the child of `parent` with this name.
fn is_same_folder(opened: &OwnedFd, parent: &OwnedFd, name: &str) -> io::Result<bool> {
    let Ok(named) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(false);
    };
    let opened = fstat(opened)?;
    Ok((opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino))
}

/// Returns the open file if it is a regular file.
fn open_regular_file(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    require_regular_file(&file)?;
    Ok(file)
}

/// Describes an error of opening a file below the root.
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
            assert_eq!(path_below_root(Path::new(path), &root).is_ok(), is_below, "{path}");
        }
        assert_eq!(path_below_root(&root.join("sub/x"), &root), Ok(PathBuf::from("sub/x")));
        assert_eq!(
            read_lines(&root, Path::new("file"), Some(2), Some(1)).as_deref(),
            Ok("two\n")
        );
        for path in ["link", "up/secret", "sub", "missing", "file/x"] {
            assert!(read_lines(&root, Path::new(path), None, None).is_err(), "{path}");
        }
        let write = |path: &str| {
            let path = Path::new(path);
            write_if_unchanged_since_shown(&root, path, "x", &sha256_of_text(&read_replaced_text(&root, path)?))
        };
        for path in ["link", "up/secret", "up/new", "sub", "file/x"] {
            assert!(write(path).is_err(), "{path}");
        }
        assert_eq!(
            fs::read_to_string(outer_folder.path().join("secret")).expect("text"),
            "secret"
        );
        assert!(!outer_folder.path().join("new").exists());
        write("file").expect("written");
        assert_eq!(fs::read_to_string(root.join("file")).expect("text"), "x");
        write("new/deep/file").expect("written");
        assert_eq!(fs::read_to_string(root.join("new/deep/file")).expect("text"), "x");
        let changed = write_if_unchanged_since_shown(&root, Path::new("file"), "y", &sha256_of_text("one"));
        assert!(changed.is_err_and(|error| error.contains("has changed")));
        fs::write(root.join("binary"), b"\xff\xfe").expect("written");
        let shown = read_replaced_text(&root, Path::new("binary")).expect("it can be replaced");
        assert!(shown.starts_with("[2 bytes that are not text"), "{shown}");
        write("binary").expect("written");
    }

    #[test]
    fn the_own_folder_is_not_written_at_any_depth_and_by_no_other_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        fs::create_dir_all(root.join("sub/.ensemble")).expect("made");
        symlink(".ensemble", root.join("sub/link")).expect("linked");
        for path in [
            ".ensemble/config.yaml",
            "sub/.ensemble/config.yaml",
            "sub/.ensemble",
            "a/b/c/.ensemble/runs/x",
            "sub/.Ensemble/config.yaml",
            "sub/.ENSEMBLE/config.yaml",
            "sub/.en\u{17f}emble/config.yaml",
            "sub/.ens\u{200b}emble/config.yaml",
            "sub/.ensemble./config.yaml",
            "sub/.ensemble::$INDEX_ALLOCATION/config.yaml",
            "sub/link/config.yaml",
        ] {
            let path = Path::new(path);
            let written = write_if_unchanged_since_shown(root, path, "x", &sha256_of_text(""));
            assert!(written.is_err(), "{}", path.display());
        }
        for path in ["sub/ensemble/x", "sub/.ensembles/x", ".ensemble.yaml"] {
            write_if_unchanged_since_shown(root, Path::new(path), "x", &sha256_of_text("")).expect(path);
        }
        let entries = fs::read_dir(root.join("sub/.ensemble")).expect("a folder");
        assert_eq!(entries.count(), 0);
        let settings = root.join("home/.config/ensemble");
        let refuse = |path: &str| check_not_in_private_folders(root, Path::new(path), std::slice::from_ref(&settings));
        assert!(refuse("home/.config/ensemble/trust.json").is_err());
        assert!(refuse("home/.Config/Ensemble/trust.json").is_err());
        assert!(refuse("home/.config/ensembles.yaml").is_ok());
        // A name that only the file system takes for the same is found by what it opens.
        let parent = openat(CWD, root.join("sub"), OFlags::RDONLY, Mode::empty()).expect("opened");
        let opened = openat(&parent, ".ensemble", OFlags::RDONLY, Mode::empty()).expect("opened");
        assert!(is_same_folder(&opened, &parent, ENSEMBLE_FOLDER).expect("both are there"));
    }
}
