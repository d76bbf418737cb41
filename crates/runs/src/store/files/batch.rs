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

use super::folder::{FolderPath, OpenFolder};
use super::lock::FileLock;
use super::sink::FileSink;
use super::store::{FileStore, store_error, write_gitignore};

/// The folder of batches, in the root of the project.
const BATCHES: &str = ".ensemble/batches";
/// The name of the index.
const INDEX: &str = "rows.jsonl";
/// The name of the table of results.
const RESULTS: &str = "results.jsonl";

/// The folder of a batch, which this process alone works on.
#[derive(Debug)]
pub struct BatchFiles {
    place: FolderPath,
    runs: FileStore,
    index: FileSink,
    /// The names in the folder of runs, and those that may have been made there since. Nobody else makes any. `None`: they could not be read.
    begun_runs: Option<Mutex<HashSet<OsString>>>,
    _lock: FileLock,
}

impl BatchFiles {
    /// Opens the folder of the batch of that name in the project, and makes it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be written, or another process works on the batch ([`StoreError::Leased`]).
    pub fn open(project_root: &Path, name: &str) -> Result<Self, StoreError> {
        let all = FolderPath::new(project_root, Path::new(BATCHES).to_owned());
        let place = all.join(name);
        let path = place.path();
        let folder_result = all.open_or_create_folder().and_then(|folder| {
            write_gitignore(&folder);
            place.open_or_create_folder()
        });
        let folder = folder_result.map_err(|source| store_error("create the folder", &path, source))?;
        let lock = FileLock::acquire_lock(&RunId::new(name), &place)?;
        let index = open_index(&folder).map_err(|source| store_error("open", &path.join(INDEX), source))?;
        let begun_runs = match place.join("runs").open_folder().and_then(|runs| runs.list_entries()) {
            Ok(names) => Some(Mutex::new(names.into_iter().collect())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Mutex::default()),
            Err(_) => None,
        };
        let runs = FileStore::from_folder(place.join("runs"));
        Ok(Self {
            place,
            runs,
            index,
            begun_runs,
            _lock: lock,
        })
    }

    /// Returns the store of the runs of the rows.
    pub fn run_store(&self) -> &FileStore {
        &self.runs
    }

    /// Returns the path of the table of results.
    pub fn results_path(&self) -> PathBuf {
        self.place.path().join(RESULTS)
    }

    /// Returns the run with this id; `None` if it has no journal.
    pub fn find_run(&self, id: &RunId) -> Option<Arc<dyn StoredRun>> {
        let name = OsStr::new(id.as_str());
        if self
            .begun_runs
            .as_ref()
            .is_some_and(|begun| !lock_names(begun).contains(name))
        {
            return None;
        }
        FileStore::find_run_in(&self.runs.runs_folder().join(id.as_str()))
    }

    /// Removes what is left of a run that was killed before its first record, and takes a run with this id for one that has begun.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn discard_run(&self, id: &RunId) -> Result<(), StoreError> {
        // What was never there needs not be looked for.
        if self
            .begun_runs
            .as_ref()
            .is_some_and(|begun| lock_names(begun).insert(id.as_str().into()))
        {
            return Ok(());
        }
        self.runs.discard_run(id)
    }

    /// Returns the text of the index.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_index(&self) -> Result<String, StoreError> {
        let read = || -> io::Result<String> {
            let mut bytes = Vec::new();
            self.place
                .open_folder()?
                .open_for_reading(INDEX)?
                .read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|source| store_error("read", &self.place.path().join(INDEX), source))
    }

    /// Adds a line to the index.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add_line(&self, line: &str) -> Result<(), StoreError> {
        let write_result = self.index.write_all(format!("{line}\n").as_bytes());
        write_result.map_err(|source| store_error("write", self.index.path(), source))
    }

    /// Replaces the table of results.
    ///
    /// # Errors
    /// It cannot be written; an earlier table is still there.
    pub fn replace_results(&self, text: &str) -> Result<(), StoreError> {
        const NEW: &str = "results.jsonl.new";
        let replaced = self.place.open_folder().and_then(|folder| {
            let file = folder.replace_file(NEW)?;
            file.write_all(text.as_bytes())?;
            file.sync_content()?;
            folder.rename_entry(NEW, RESULTS)
        });
        replaced.map_err(|source| store_error("write", &self.results_path(), source))
    }
}

/// The folder of a batch that is only read: other processes can work on the batch.
#[derive(Debug, Clone)]
pub struct RecordedBatch {
    name: String,
    place: FolderPath,
}

impl RecordedBatch {
    /// Returns the batches of the project, by name; none if the folder of batches cannot be read.
    pub fn list_batches(project_root: &Path) -> Vec<Self> {
        let all = FolderPath::new(project_root, Path::new(BATCHES).to_owned());
        let names = all.open_folder().and_then(|folder| folder.list_entries());
        let names = names
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| name.into_string().ok());
        let batches = names.map(|name| Self {
            place: all.join(&name),
            name,
        });
        let mut batches: Vec<Self> = batches
            .filter(|batch| batch.place.join("runs").open_folder().is_ok())
            .collect();
        batches.sort_by(|one, other| one.name.cmp(&other.name));
        batches
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the store of the runs of the rows.
    pub fn run_store(&self) -> FileStore {
        FileStore::from_folder(self.place.join("runs"))
    }
}

fn lock_names(names: &Mutex<HashSet<OsString>>) -> MutexGuard<'_, HashSet<OsString>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the index, to be added to. A line that a crash has torn is cut off.
fn open_index(folder: &OpenFolder) -> io::Result<FileSink> {
    let mut file = folder.open_or_create_file(INDEX)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let complete_length = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let index = folder.open_for_append(INDEX)?;
    index.truncate(complete_length as u64)?;
    Ok(index)
}
