//! Large fields, each stored once beside the journal, in a file that is named by what it holds.
//!
//! **Invariant:** a file in `blobs/` is whole, and was on the disk before the record that names it was written.

#![expect(clippy::disallowed_methods, reason = "this room keeps what belongs to the journal")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ensemble_core::records::LargeFields;
use sha2::Digest;

/// The files beside one journal.
#[derive(Debug, Clone)]
pub(super) struct Blobs {
    folder: PathBuf,
    /// Is every file to be on the disk before it is named?
    synced: bool,
}

impl Blobs {
    /// Those beside the journal at `journal`.
    pub(super) fn beside(journal: &Path) -> Self {
        Self {
            folder: journal.with_file_name("blobs"),
            synced: true,
        }
    }

    /// Leaves it to the system when they reach the disk.
    #[must_use]
    pub(super) fn unsynced(self) -> Self {
        Self { synced: false, ..self }
    }
}

impl LargeFields for Blobs {
    /// Stores the bytes, unless they are there, and gives their name.
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let name = name_of(bytes);
        let path = self.folder.join(&name);
        if path.is_file() {
            return Ok(name);
        }
        if !self.folder.is_dir() {
            create_private_folder(&self.folder)?;
            self.sync_folder(self.folder.parent())?;
        }
        // Under its own name it is whole, whatever becomes of us meanwhile.
        let unfinished = self.folder.join(format!("{name}.part"));
        let written = self
            .write(&unfinished, bytes)
            .and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        self.sync_folder(Some(&self.folder))?;
        Ok(name)
    }

    /// The text of that name, checked.
    fn get(&self, name: &str) -> Result<String, String> {
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name {
            return Err(format!("`{name}` is no SHA-256"));
        }
        let path = self.folder.join(name);
        let bytes = fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if name_of(&bytes) != name {
            return Err(format!(
                "{} is damaged: its content does not match its name",
                path.display()
            ));
        }
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }
}

impl Blobs {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        private(&mut options);
        let mut file = options.open(path)?;
        file.write_all(bytes)?;
        if self.synced { file.sync_data() } else { Ok(()) }
    }

    fn sync_folder(&self, folder: Option<&Path>) -> io::Result<()> {
        match folder {
            Some(folder) if self.synced => sync_folder(folder),
            _ => Ok(()),
        }
    }
}

fn name_of(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut name = String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        write!(name, "{byte:02x}").expect("memory can be written");
    }
    name
}

/// Makes sure that a folder's entries are on the disk.
#[cfg(unix)]
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be synced.
#[cfg(not(unix))]
pub(super) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Only the user may read what agents said.
#[cfg(unix)]
pub(super) fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(super) fn private(_options: &mut OpenOptions) {}

/// Makes a folder that only the user may look into.
#[cfg(unix)]
pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes a folder, and those around it that are missing, for the user alone.
pub(super) fn create_private_folders(path: &Path) -> io::Result<()> {
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders.create(path)
}

#[cfg(not(unix))]
pub(super) fn create_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}
