//! Folders of runs, each opened relative to its parent folder.
//!
//! **Invariant:** no symbolic link is followed below `.ensemble`, and only regular files are opened there. Otherwise, an attacker who can
//! write there could redirect the user's writes to other files.

#![expect(clippy::disallowed_methods, reason = "this room keeps the folder of runs")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::effects::{RecordedDiskEffect, record_disk_effect};
use super::sink::{FileIdentity, RecordedFileWriter};

/// The name of the folder below which no link is followed.
const NO_LINK_BOUNDARY: &str = ".ensemble";

/// A path of a folder: links are followed up to `base`, and not below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkSafePath {
    /// Links are followed up to here.
    base: PathBuf,
    /// The folders below, without links.
    below: PathBuf,
}

/// An open folder, whose entries are opened without following links.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    file: File,
    path: PathBuf,
}

impl LinkSafePath {
    /// Creates the path `below` in the folder `base`. Links are followed up to `base`.
    pub(crate) fn new(base: &Path, below: impl Into<PathBuf>) -> Self {
        Self {
            base: base.to_owned(),
            below: below.into(),
        }
    }

    /// Splits the path: links are followed up to the folder that contains `.ensemble`.
    pub(crate) fn from_path(path: &Path) -> Self {
        let mut place = Self::new(Path::new(""), "");
        let mut is_below = false;
        for part in path.components() {
            is_below |= part.as_os_str() == NO_LINK_BOUNDARY;
            let to = if is_below { &mut place.below } else { &mut place.base };
            to.push(part);
        }
        place
    }

    /// Returns whether the last part of the path is a part in which links are not followed.
    pub(crate) fn has_unfollowed_part(&self) -> bool {
        !self.below.as_os_str().is_empty()
    }

    /// Returns the full path.
    pub(crate) fn path(&self) -> PathBuf {
        self.base.join(&self.below)
    }

    /// Appends a name to the path, in which links are not followed.
    pub(crate) fn join(&self, name: impl AsRef<Path>) -> Self {
        Self::new(&self.base, self.below.join(name))
    }

    /// Opens the folder for reading.
    ///
    /// # Errors
    ///
    /// The folder is missing, or a part below `base` is a link.
    pub(crate) fn open_folder(&self) -> io::Result<OpenFolder> {
        let base = if self.base.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.base
        };
        // A pipe would block while it is opened.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = OpenFolder {
            file: openat(CWD, base, flags, Mode::empty())?.into(),
            path: self.base.clone(),
        };
        for part in self.below.components() {
            folder = folder.open_child_folder(part.as_os_str())?;
        }
        Ok(folder)
    }

    /// Opens the folder. Creates missing parts, accessible to the user only.
    pub(crate) fn open_or_create_folder(&self) -> io::Result<OpenFolder> {
        fs::create_dir_all(&self.base)?;
        let mut folder = Self::new(&self.base, "").open_folder()?;
        for part in self.below.components() {
            let name = part.as_os_str();
            match folder.create_child_folder(name, Mode::RWXU) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => folder = folder.open_child_folder(name)?,
            }
        }
        Ok(folder)
    }

    /// Lists the missing folders of this path below `base`, the innermost first.
    pub(crate) fn list_missing_folders(&self) -> Vec<Self> {
        let mut places = Vec::new();
        let mut place = self.clone();
        while place.has_unfollowed_part() && FileIdentity::from_path(&place.path()).is_none() {
            places.push(place.clone());
            place.below.pop();
        }
        places
    }

    /// Removes the folder if it is empty.
    ///
    /// # Errors
    ///
    /// The folder is not empty, or cannot be removed.
    pub(crate) fn remove_if_empty(&self) -> io::Result<()> {
        let mut around = self.clone();
        around.below.pop();
        let name = self.below.file_name().unwrap_or_default();
        around.open_folder()?.remove_empty_folder(name)
    }

    /// Syncs the entries of this folder and of its parent folders up to `base`, so that the folder survives a power failure.
    pub(crate) fn sync_up_to_base(&self) -> io::Result<()> {
        let mut place = self.clone();
        loop {
            place.open_folder()?.sync_entries()?;
            if !place.below.pop() {
                return Ok(());
            }
        }
    }
}

impl OpenFolder {
    /// Returns the file handle of the folder.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Opens the folder with this name in this folder, without following links.
    pub(crate) fn open_child_folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.file, name, flags, Mode::empty());
        Ok(Self {
            file: opened.map_err(|error| self.describe_open_error(name, error))?.into(),
            path: self.path.join(name),
        })
    }

    /// Creates a folder with this mode in this folder.
    pub(crate) fn create_child_folder(&self, name: &OsStr, mode: Mode) -> io::Result<()> {
        mkdirat(&self.file, name, mode)?;
        record_disk_effect(&self.path.join(name), RecordedDiskEffect::Folder);
        Ok(())
    }

    /// Opens a regular file for reading, without following links.
    pub(crate) fn open_file_for_reading(&self, name: &str) -> io::Result<File> {
        self.open_regular_file(name, OFlags::RDONLY)
    }

    /// Opens an existing regular file for appending.
    pub(crate) fn open_file_for_append(&self, name: &str) -> io::Result<RecordedFileWriter> {
        Ok(RecordedFileWriter::new(
            self.open_regular_file(name, OFlags::WRONLY)?,
            self.path.join(name),
        ))
    }

    /// Creates a file that only its owner can access.
    ///
    /// # Errors
    ///
    /// The name exists already.
    pub(crate) fn create_new_file(&self, name: &str) -> io::Result<RecordedFileWriter> {
        let file = self.open_regular_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        let path = self.path.join(name);
        record_disk_effect(&path, RecordedDiskEffect::File);
        Ok(RecordedFileWriter::new(file, path))
    }

    /// Removes a file of this name, and creates a new one.
    pub(crate) fn replace_file(&self, name: &str) -> io::Result<RecordedFileWriter> {
        match self.remove_non_folder(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.create_new_file(name),
        }
    }

    /// Opens a file for reading and writing, or creates the file. Writes are not part of the recorded disk effects.
    pub(crate) fn open_or_create_file(&self, name: &str) -> io::Result<File> {
        self.open_regular_file(name, OFlags::RDWR | OFlags::CREATE)
    }

    /// Opens a regular file without following links.
    ///
    /// # Errors
    ///
    /// The entry is not a regular file.
    fn open_regular_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // A pipe would block while it is opened.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.map_err(|error| self.describe_open_error(name.as_ref(), error))?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(self.irregular_entry_error(name.as_ref())),
        }
    }

    /// Renames a file within the folder.
    pub(crate) fn rename_entry(&self, from: &str, to: &str) -> io::Result<()> {
        renameat(&self.file, from, &self.file, to)?;
        record_disk_effect(&self.path.join(from), RecordedDiskEffect::Rename(to));
        Ok(())
    }

    /// Removes an entry that is not a folder. For a link, removes the link itself.
    pub(crate) fn remove_non_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        unlinkat(&self.file, name.as_ref(), AtFlags::empty())?;
        record_disk_effect(&self.path.join(name.as_ref()), RecordedDiskEffect::Remove);
        Ok(())
    }

    /// Removes an entry, including the whole content of a folder.
    pub(crate) fn remove_recursively(&self, name: &OsStr) -> io::Result<()> {
        if self.entry_type(name) != Some(FileType::Directory) {
            return self.remove_non_folder(name);
        }
        let folder = self.open_child_folder(name)?;
        for name in folder.list_entry_names()? {
            folder.remove_recursively(&name)?;
        }
        self.remove_empty_folder(name)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_empty_folder(&self, name: &OsStr) -> io::Result<()> {
        unlinkat(&self.file, name, AtFlags::REMOVEDIR)?;
        record_disk_effect(&self.path.join(name), RecordedDiskEffect::Remove);
        Ok(())
    }

    /// Syncs the entries of the folder to the disk.
    pub(crate) fn sync_entries(&self) -> io::Result<()> {
        self.file.sync_all()?;
        record_disk_effect(&self.path, RecordedDiskEffect::Sync);
        Ok(())
    }

    /// Lists the names in the folder, in no order.
    pub(crate) fn list_entry_names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStrExt;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.file)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns whether the folder contains a regular file with this name.
    pub(crate) fn has_regular_file(&self, name: &str) -> bool {
        self.entry_type(name.as_ref()) == Some(FileType::RegularFile)
    }

    /// Returns the type of the entry, without following links. Returns `None` if there is no entry.
    pub(crate) fn entry_type(&self, name: &OsStr) -> Option<FileType> {
        let about = statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(about.st_mode))
    }

    /// Converts the error. If the entry has the wrong type, describes the type.
    fn describe_open_error(&self, name: &OsStr, error: Errno) -> io::Error {
        let is_told_by_kind = matches!(
            error,
            Errno::LOOP | Errno::NOTDIR | Errno::MLINK | Errno::NXIO | Errno::ISDIR
        );
        match is_told_by_kind {
            true => self.irregular_entry_error(name),
            false => error.into(),
        }
    }

    /// Returns the error that the entry is a symbolic link, or neither a file nor a folder.
    fn irregular_entry_error(&self, name: &OsStr) -> io::Error {
        let entry_path = self.path.join(name);
        let entry_path = entry_path.display();
        io::Error::other(match self.entry_type(name) {
            Some(FileType::Symlink) => format!("{entry_path} is a symbolic link, and links are not followed here"),
            _ => format!("{entry_path} is neither a regular file nor a folder where one is expected"),
        })
    }
}
