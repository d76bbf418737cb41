//! Open folder, and access to the files in the folder.
//!
//! Invariant: the folder stays the same folder even if its path changes, and no name in the folder is followed as a link.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path};

use ensemble_scripts::regular_files::require_regular_file;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};

/// Opens a folder as a position, which needs no right to list the folder where the system knows such an access.
#[cfg(target_os = "linux")]
const POSITION: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const POSITION: OFlags = OFlags::RDONLY;

/// Open folder whose files are accessed without following links.
#[derive(Debug)]
pub(crate) struct LinkFreeFolder(File);

impl LinkFreeFolder {
    /// Opens the folder at an absolute path without links.
    ///
    /// # Errors
    /// A part of the path is a link or no folder, because the path changed after it was resolved.
    pub(crate) fn open_without_links(path: &Path) -> io::Result<Self> {
        let mut folder: Option<Self> = None;
        for part in path.components() {
            folder = Some(match (part, folder) {
                (Component::RootDir, None) => {
                    let flags = POSITION | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    Self(openat(CWD, "/", flags, Mode::empty())?.into())
                }
                (Component::Normal(name), Some(folder)) => folder.open_child(name)?,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            });
        }
        folder.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Opens a subfolder that is no link.
    fn open_child(&self, name: &OsStr) -> io::Result<Self> {
        let flags = POSITION | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?.into()))
    }

    /// Opens the subfolder, and creates the folder if necessary.
    pub(crate) fn open_or_create_child(&self, name: &OsStr) -> io::Result<Self> {
        match mkdirat(&self.0, name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            Err(error) if error != rustix::io::Errno::EXIST => Err(error.into()),
            _ => self.open_child(name),
        }
    }

    /// Creates a file that must not exist yet, and opens the file for writing.
    pub(crate) fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Ok(openat(&self.0, name, flags, mode)?.into())
    }

    /// Opens a regular file for reading. Refuses links, pipes and devices.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        // A pipe would block while it is opened.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty())?);
        require_regular_file(&file)?;
        Ok(file)
    }

    /// Reads a regular file as a whole.
    pub(crate) fn read_file(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Renames a file within the folder.
    pub(crate) fn rename_entry(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file or a link from the folder.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test prepares files")]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_path_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a folder");
        std::fs::create_dir_all(root.join("a/b")).expect("a folder");
        std::os::unix::fs::symlink("a", root.join("link")).expect("a link");
        std::os::unix::fs::symlink("b", root.join("a/link")).expect("a link");
        LinkFreeFolder::open_without_links(&root.join("a/b")).expect("it has no link");
        for path in ["link", "link/b", "a/link", "a/../a", "missing"] {
            LinkFreeFolder::open_without_links(&root.join(path)).expect_err(path);
        }
        LinkFreeFolder::open_without_links(Path::new("relative")).expect_err("it is not absolute");
        let open = LinkFreeFolder::open_without_links(&root).expect("it has no link");
        open.open_file(OsStr::new("link")).expect_err("a link");
        open.open_file(OsStr::new("a")).expect_err("a folder");
        open.create_file(OsStr::new("link")).expect_err("it is there");
        open.open_or_create_child(OsStr::new("link")).expect_err("a link");
    }
}
