//! Large fields, each stored once beside the journal, in a file that is named by what it holds.
//!
//! **Invariant:** a file in `blobs/` is whole, and was on the disk before the record that names it was written.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use super::folder::{Folder, Place};
use ensemble_core::records::LargeFields;
use rustix::fs::Mode;
use sha2::Digest;

/// The folder beside the journal.
const FOLDER: &str = "blobs";

/// The files beside one journal.
#[derive(Debug)]
pub(crate) struct Blobs {
    /// The folder of the journal.
    place: Place,
    /// Is every file to be on the disk before it is named?
    synced: bool,
    /// Those that this process has stored.
    stored: Mutex<HashSet<String>>,
}

impl Blobs {
    /// Returns the large fields beside the journal in this folder.
    pub(crate) fn in_folder(place: Place) -> Self {
        Self {
            place,
            synced: true,
            stored: Mutex::default(),
        }
    }

    /// Leaves it to the system when they reach the disk.
    #[must_use]
    pub(crate) fn unsynced(self) -> Self {
        Self { synced: false, ..self }
    }
}

impl LargeFields for Blobs {
    /// Stores the bytes, unless this process has stored them, and gives their name. A file that was there before may be what a
    /// power failure has left of it.
    fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let name = name_of(bytes);
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.contains(&name) {
            return Ok(name);
        }
        let folder = self.folder()?;
        // Under its own name it is whole, whatever becomes of us meanwhile.
        let unfinished = format!("{name}.part");
        let written = self
            .write(&folder, &unfinished, bytes)
            .and_then(|()| folder.rename(&unfinished, &name));
        if let Err(error) = written {
            let _ = folder.remove_file(&unfinished);
            return Err(error);
        }
        self.sync(&folder)?;
        stored.insert(name.clone());
        Ok(name)
    }

    /// The text of that name, checked.
    fn get(&self, name: &str) -> Result<String, String> {
        let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_name {
            return Err(format!("`{name}` is no SHA-256"));
        }
        let place = self.place.join(FOLDER);
        let path = place.path().join(name);
        let mut bytes = Vec::new();
        let read = place
            .open()
            .and_then(|folder| folder.read(name)?.read_to_end(&mut bytes));
        read.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
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
    /// The folder, which is made if it is missing.
    fn folder(&self) -> io::Result<Folder> {
        let outer = self.place.open()?;
        let name = OsStr::new(FOLDER);
        match outer.make(name, Mode::RWXU) {
            Ok(()) => self.sync(&outer)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        outer.inside(name)
    }

    fn write(&self, folder: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = folder.create_anew(name)?;
        file.write_all(bytes)?;
        if self.synced { file.sync() } else { Ok(()) }
    }

    fn sync(&self, folder: &Folder) -> io::Result<()> {
        if self.synced { folder.sync() } else { Ok(()) }
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
