//! Large fields, each stored once next to the journal, in a file that is named by the digest of its content.
//!
//! **Invariant:** a file in `blobs/` is complete, and is on the disk before the record that names the file is written.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use super::folder::{LinkSafePath, OpenFolder};
use ensemble_core::records::LargeFieldStorage;
use rustix::fs::Mode;
use sha2::Digest;

/// The name of the folder next to the journal.
const BLOB_FOLDER: &str = "blobs";

/// The folder of large fields next to a journal.
#[derive(Debug)]
pub(crate) struct BlobFolder {
    /// The folder of the journal.
    place: LinkSafePath,
    /// True if every file is synced before a record names the file.
    is_synced: bool,
    /// The names of the files that this process has stored.
    stored_names: Mutex<HashSet<String>>,
}

impl BlobFolder {
    /// Returns the folder of large fields of the journal in this folder.
    pub(crate) fn for_journal(place: LinkSafePath) -> Self {
        Self {
            place,
            is_synced: true,
            stored_names: Mutex::default(),
        }
    }

    /// Stores large fields without syncing them to the disk.
    #[must_use]
    pub(crate) fn without_sync(self) -> Self {
        Self {
            is_synced: false,
            ..self
        }
    }
}

impl LargeFieldStorage for BlobFolder {
    /// Stores the bytes, unless this process has stored them, and gives their name. A file that was there before may be what a
    /// power failure has left of it.
    fn store_field(&self, bytes: &[u8]) -> io::Result<String> {
        let name = digest_file_name(bytes);
        let mut stored = self.stored_names.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.contains(&name) {
            return Ok(name);
        }
        let folder = self.open_or_create_blob_folder()?;
        // Under its own name it is whole, whatever becomes of us meanwhile.
        let unfinished = format!("{name}.part");
        let write_result = self
            .write_blob_file(&folder, &unfinished, bytes)
            .and_then(|()| folder.rename_entry(&unfinished, &name));
        if let Err(error) = write_result {
            let _ = folder.remove_non_folder(&unfinished);
            return Err(error);
        }
        self.sync_folder_if_enabled(&folder)?;
        stored.insert(name.clone());
        Ok(name)
    }

    /// Returns the text of that name, checked.
    fn load_field(&self, name: &str) -> Result<String, String> {
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name {
            return Err(format!("`{name}` is no SHA-256"));
        }
        let place = self.place.join(BLOB_FOLDER);
        let path = place.path().join(name);
        let mut bytes = Vec::new();
        let read = place
            .open_folder()
            .and_then(|folder| folder.open_file_for_reading(name)?.read_to_end(&mut bytes));
        read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if digest_file_name(&bytes) != name {
            return Err(format!(
                "{} is damaged: its content does not match its name",
                path.display()
            ));
        }
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }
}

impl BlobFolder {
    /// Opens the folder, or creates and syncs it if it is missing.
    fn open_or_create_blob_folder(&self) -> io::Result<OpenFolder> {
        let outer = self.place.open_folder()?;
        let name = OsStr::new(BLOB_FOLDER);
        match outer.create_child_folder(name, Mode::RWXU) {
            Ok(()) => self.sync_folder_if_enabled(&outer)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        outer.open_child_folder(name)
    }

    /// Writes the bytes to a new file, and syncs the file unless syncing is off.
    fn write_blob_file(&self, folder: &OpenFolder, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = folder.replace_file(name)?;
        file.write_all(bytes)?;
        if self.is_synced { file.sync_content() } else { Ok(()) }
    }

    /// Syncs the entries of the folder, unless syncing is off.
    fn sync_folder_if_enabled(&self, folder: &OpenFolder) -> io::Result<()> {
        if self.is_synced { folder.sync_entries() } else { Ok(()) }
    }
}

/// Returns the name of the file for these bytes: their SHA-256 in hex.
fn digest_file_name(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut name = String::with_capacity(64);
    for byte in sha2::Sha256::digest(bytes) {
        write!(name, "{byte:02x}").expect("memory can be written");
    }
    name
}
