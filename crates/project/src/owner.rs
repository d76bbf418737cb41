//! Owners of files. Files of the user and of the system are used.
//!
//! Invariant: a file of another user is not used.

#![expect(clippy::disallowed_methods, reason = "owners of files are looked up here")]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File or folder that belongs neither to the user nor to the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignFile {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Name of the owner if the system has a name, with the user id.
    pub owner: String,
}

/// Returns the effective user id of this process.
fn current_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether the file belongs to the user or to the system.
fn is_trusted_owner(metadata: &Metadata) -> bool {
    metadata.uid() == current_user_id() || metadata.uid() == 0
}

/// Returns the owner of the file or folder if it belongs to another user. Returns `None` if the file does not exist.
pub(crate) fn find_foreign_owner(path: &Path) -> Option<ForeignFile> {
    let metadata = std::fs::metadata(path)
        .ok()
        .filter(|metadata| !is_trusted_owner(metadata))?;
    Some(ForeignFile {
        path: path.to_owned(),
        owner: describe_user(metadata.uid()),
    })
}

/// Returns whether only the user or the system can write to the file, and to its folder.
pub(crate) fn is_private_file(path: &Path) -> bool {
    let is_private = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|metadata| is_trusted_owner(&metadata) && metadata.mode() & 0o002 == 0)
    };
    is_private(path) && path.parent().is_none_or(is_private)
}

/// Returns the folder and its ancestors that a search may read: up to the repository root, `home`, the border of the file system,
/// or a folder of another user.
pub(crate) fn list_search_folders(folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut current_folder = folder;
    while let Some(parent) = current_folder.parent() {
        if current_folder.join(".git").symlink_metadata().is_ok() || Some(current_folder) == home {
            break;
        }
        let (Ok(below), Ok(above)) = (std::fs::metadata(current_folder), std::fs::metadata(parent)) else {
            break;
        };
        if below.dev() != above.dev() || !is_trusted_owner(&above) {
            break;
        }
        folders.push(parent.to_owned());
        current_folder = parent;
    }
    folders
}

/// Describes the user with this id, with the name from `/etc/passwd` if the name is listed.
fn describe_user(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid.to_string()).then(|| name.to_owned())
    });
    match name {
        Some(name) => format!("the user {name} ({uid})"),
        None => format!("the user {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_at_the_repository_and_at_home() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path().canonicalize().expect("it is there");
        let inner = root.join("home/repository/part/deep");
        std::fs::create_dir_all(&inner).expect("folders can be made");
        let home = root.join("home");
        let last = |home: Option<&Path>| list_search_folders(&inner, home).pop().expect("the folder itself");
        assert_eq!(last(Some(&home)), home);
        assert_ne!(last(None), home);
        std::fs::create_dir(root.join("home/repository/.git")).expect("a folder");
        assert_eq!(last(Some(&home)), root.join("home/repository"));
        // A worktree and a submodule have a file in its place.
        std::fs::write(root.join("home/repository/part/.git"), "gitdir: x").expect("a file");
        assert_eq!(last(Some(&home)), root.join("home/repository/part"));
        assert_eq!(list_search_folders(&inner, None)[0], inner);
    }

    #[test]
    fn a_file_that_others_can_write_is_not_private() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("config.yaml");
        std::fs::write(&file, "").expect("a file");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("modes can be set");
        };
        for (of_folder, of_file, expected) in [(0o755, 0o644, true), (0o755, 0o646, false), (0o777, 0o644, false)] {
            mode(root.path(), of_folder);
            mode(&file, of_file);
            assert_eq!(is_private_file(&file), expected, "{of_folder:o} {of_file:o}");
        }
    }
}
