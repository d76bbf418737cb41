//! The folder of a batch: `.ensemble/batches/<name>/`, with the runs of its rows, an index of those that have ended, and the results.
//!
//! The journals of the runs are the record. The index `rows.jsonl` only saves reading them: a run that has ended and does not
//! stand in the index is found by its id.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::store::{RunId, StoreError, StoredRun};

use super::folder::{Folder, Place};
use super::lock::Lock;
use super::sink::Sink;
use super::store::{FileStore, failed, ignore_in_git};

/// The name of the index.
const INDEX: &str = "rows.jsonl";
/// The name of the table of results.
const RESULTS: &str = "results.jsonl";

/// The folder of a batch, which this process alone works on.
#[derive(Debug)]
pub struct BatchFiles {
    place: Place,
    runs: FileStore,
    index: Sink,
    /// The names in the folder of runs, and those that may have been made there since. Nobody else makes any. `None`: they could not be read.
    begun: Option<Mutex<HashSet<OsString>>>,
    _lock: Lock,
}

impl BatchFiles {
    /// Opens the folder of the batch of that name in the project, and makes it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be written, or another process works on the batch ([`StoreError::Leased`]).
    pub fn open(project_root: &Path, name: &str) -> Result<Self, StoreError> {
        let all = Place::below(project_root, Path::new(".ensemble").join("batches"));
        let place = all.join(name);
        let path = place.path();
        let made = all.make().and_then(|folder| {
            ignore_in_git(&folder);
            place.make()
        });
        let folder = made.map_err(|source| failed("create the folder", &path, source))?;
        let lock = Lock::take(&RunId::new(name), &place)?;
        let index = index(&folder).map_err(|source| failed("open", &path.join(INDEX), source))?;
        let begun = match place.join("runs").open().and_then(|runs| runs.entries()) {
            Ok(names) => Some(Mutex::new(names.into_iter().collect())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Mutex::default()),
            Err(_) => None,
        };
        let runs = FileStore::at(place.join("runs"));
        Ok(Self {
            place,
            runs,
            index,
            begun,
            _lock: lock,
        })
    }

    /// Returns the store of the runs of the rows.
    pub fn runs(&self) -> &FileStore {
        &self.runs
    }

    /// The path of the table of results.
    pub fn results(&self) -> PathBuf {
        self.place.path().join(RESULTS)
    }

    /// The run with this id; `None` if it has no journal.
    pub fn run(&self, id: &RunId) -> Option<Arc<dyn StoredRun>> {
        let name = OsStr::new(id.as_str());
        if self.begun.as_ref().is_some_and(|begun| !lock(begun).contains(name)) {
            return None;
        }
        FileStore::run_in(&self.runs.folder().join(id.as_str()))
    }

    /// Removes what is left of a run that was killed before its first record, and takes a run with this id for one that has begun.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn discard(&self, id: &RunId) -> Result<(), StoreError> {
        // What was never there needs not be looked for.
        if self
            .begun
            .as_ref()
            .is_some_and(|begun| lock(begun).insert(id.as_str().into()))
        {
            return Ok(());
        }
        self.runs.discard(id)
    }

    /// The text of the index.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn indexed(&self) -> Result<String, StoreError> {
        let read = || -> io::Result<String> {
            let mut bytes = Vec::new();
            self.place.open()?.read(INDEX)?.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|source| failed("read", &self.place.path().join(INDEX), source))
    }

    /// Adds a line to the index.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, line: &str) -> Result<(), StoreError> {
        let written = self.index.write_all(format!("{line}\n").as_bytes());
        written.map_err(|source| failed("write", self.index.path(), source))
    }

    /// Replaces the table of results.
    ///
    /// # Errors
    /// It cannot be written; an earlier table is still there.
    pub fn replace_results(&self, text: &str) -> Result<(), StoreError> {
        const NEW: &str = "results.jsonl.new";
        let replaced = self.place.open().and_then(|folder| {
            let file = folder.create_anew(NEW)?;
            file.write_all(text.as_bytes())?;
            file.sync()?;
            folder.rename(NEW, RESULTS)
        });
        replaced.map_err(|source| failed("write", &self.results(), source))
    }
}

fn lock(names: &Mutex<HashSet<OsString>>) -> MutexGuard<'_, HashSet<OsString>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The index, to be added to. A line that a crash has torn is cut off.
fn index(folder: &Folder) -> io::Result<Sink> {
    let mut file = folder.open_or_create(INDEX)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let index = folder.extend(INDEX)?;
    index.cut(whole as u64)?;
    Ok(index)
}
