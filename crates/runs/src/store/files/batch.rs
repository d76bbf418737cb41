//! The folder of a batch, `.ensemble/batches/<name>/`: the runs of its rows, an index of ended runs, and the results.
//!
//! The journals of the runs are the record. The index `rows.jsonl` only avoids reading them: an ended run that the index does not contain
//! is found by its id.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ensemble_core::store::{RunId, StoreError, StoredRun};

use super::folder::{LinkSafePath, OpenFolder};
use super::follow::find_driver_process;
use super::lock::RunFileLock;
use super::sink::RecordedFileWriter;
use super::store::{FileRunStore, unavailable_store_error, write_gitignore};

/// The file name of the index of a batch.
const INDEX_FILE: &str = "rows.jsonl";
/// The file name of the table of results.
const RESULTS_FILE: &str = "results.jsonl";
/// The file name of the facts of the last call: its ensemble, its data, its rows.
const LAST_CALL_FILE: &str = "batch.json";

/// The files of a batch. Only the process with the lock changes them.
#[derive(Debug)]
pub struct BatchFiles {
    name: String,
    all: LinkSafePath,
    place: LinkSafePath,
    runs: FileRunStore,
    /// The names in the folder of runs, and those that may have been made there since. Nobody else makes any.
    begun_runs: Mutex<HashSet<OsString>>,
    /// `None`: the batch is only read.
    writer: Option<BatchWriteAccess>,
}

/// The lock of a batch, with its open index.
#[derive(Debug)]
struct BatchWriteAccess {
    index: RecordedFileWriter,
    _lock: RunFileLock,
}

impl BatchFiles {
    /// Creates or opens the folder of the batch with this name, and takes its lock.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or another process works on the batch ([`StoreError::Leased`]).
    pub fn open_locked(project_root: &Path, name: &str) -> Result<Self, StoreError> {
        let all = batches_folder(project_root);
        let place = all.join(name);
        let path = place.path();
        let folder_result = all.open_or_create_folder().and_then(|folder| {
            write_gitignore(&folder);
            place.open_or_create_folder()
        });
        let folder = folder_result.map_err(|source| unavailable_store_error("create the folder", &path, source))?;
        let lock = RunFileLock::acquire_run_lock(&RunId::new(name), &place)?;
        let index = open_repaired_index(&folder)
            .map_err(|source| unavailable_store_error("open", &path.join(INDEX_FILE), source))?;
        let writer = BatchWriteAccess { index, _lock: lock };
        Self::load_folder(name, all, Some(writer))
    }

    /// Opens the folder of the batch for reading, without the lock. The folder can be missing.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn open_read_only(project_root: &Path, name: &str) -> Result<Self, StoreError> {
        Self::load_folder(name, batches_folder(project_root), None)
    }

    /// Lists the runs of the batch. Sets the access for writing, if any.
    fn load_folder(name: &str, all: LinkSafePath, writer: Option<BatchWriteAccess>) -> Result<Self, StoreError> {
        let place = all.join(name);
        let runs_place = place.join("runs");
        let begun_runs = match runs_place.open_folder().and_then(|runs| runs.list_entry_names()) {
            Ok(names) => names.into_iter().collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            Err(source) => return Err(unavailable_store_error("read", &runs_place.path(), source)),
        };
        Ok(Self {
            name: name.to_owned(),
            runs: FileRunStore::from_folder(runs_place),
            begun_runs: Mutex::new(begun_runs),
            all,
            place,
            writer,
        })
    }

    /// Lists the names of the batches of the project, sorted.
    ///
    /// # Errors
    ///
    /// The folder of the batches cannot be read.
    pub fn list_batch_names(project_root: &Path) -> Result<Vec<String>, StoreError> {
        let all = batches_folder(project_root);
        let entries = match all.open_folder().and_then(|folder| folder.list_entry_names()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(unavailable_store_error("read", &all.path(), source)),
        };
        let names = entries.into_iter().filter_map(|name| name.into_string().ok());
        let is_batch = |name: &String| {
            let folder = all.join(name).open_folder();
            folder.is_ok_and(|folder| folder.has_regular_file(INDEX_FILE) || folder.has_regular_file(LAST_CALL_FILE))
        };
        let mut names: Vec<String> = names.filter(is_batch).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the folder of the batch.
    pub fn folder(&self) -> PathBuf {
        self.place.path()
    }

    /// Returns the process id of the process that works on the batch, if there is one.
    pub fn working_process_id(&self) -> Option<u32> {
        find_driver_process(&self.place)
    }

    /// Returns the store of the runs of the rows.
    pub fn run_store(&self) -> &FileRunStore {
        &self.runs
    }

    /// Lists the names in the folder of runs.
    pub fn list_run_names(&self) -> Vec<String> {
        let names = lock_names(&self.begun_runs);
        names
            .iter()
            .filter_map(|name| name.to_str().map(str::to_owned))
            .collect()
    }

    /// Returns the path of the table of results.
    pub fn results_file_path(&self) -> PathBuf {
        self.place.path().join(RESULTS_FILE)
    }

    /// Returns the run with this id. Returns `None` if the run has no journal.
    pub fn find_run(&self, id: &str) -> Option<Arc<dyn StoredRun>> {
        if !lock_names(&self.begun_runs).contains(OsStr::new(id)) {
            return None;
        }
        FileRunStore::find_run_in_folder(&self.runs.runs_folder().join(id))
    }

    /// Deletes the folder of a run that was killed before its first record. Marks the id as a started run.
    ///
    /// # Errors
    ///
    /// The folder cannot be removed.
    pub fn discard_unstarted_run(&self, id: &RunId) -> Result<(), StoreError> {
        // What was never there needs not be looked for.
        if lock_names(&self.begun_runs).insert(id.as_str().into()) {
            return Ok(());
        }
        self.runs.discard_run_folder(id)
    }

    /// Reads the text of the index. Returns an empty text if the index is missing.
    ///
    /// # Errors
    ///
    /// The index cannot be read.
    pub fn read_index(&self) -> Result<String, StoreError> {
        self.read_text(INDEX_FILE)
    }

    /// Reads the facts of the last call that worked on the batch. Returns an empty text if they are missing.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read_last_call(&self) -> Result<String, StoreError> {
        self.read_text(LAST_CALL_FILE)
    }

    /// Reads a file of the folder. Returns an empty text if the file is missing. Replaces invalid UTF-8.
    fn read_text(&self, name: &str) -> Result<String, StoreError> {
        let read = || -> io::Result<String> {
            let mut bytes = Vec::new();
            self.place
                .open_folder()?
                .open_file_for_reading(name)?
                .read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            result => result.map_err(|source| unavailable_store_error("read", &self.place.path().join(name), source)),
        }
    }

    /// Appends a line to the index. Does nothing if the batch is open for reading only.
    ///
    /// # Errors
    ///
    /// The index cannot be written.
    pub fn append_index_line(&self, line: &str) -> Result<(), StoreError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let write_result = writer.index.write_all(format!("{line}\n").as_bytes());
        write_result.map_err(|source| unavailable_store_error("write", writer.index.path(), source))
    }

    /// Replaces the table of results atomically.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the earlier table is kept.
    pub fn replace_results(&self, text: &str) -> Result<(), StoreError> {
        self.replace_file_atomically(RESULTS_FILE, text)
    }

    /// Replaces the facts of the last call atomically.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the earlier facts are kept.
    pub fn replace_last_call(&self, text: &str) -> Result<(), StoreError> {
        self.replace_file_atomically(LAST_CALL_FILE, text)
    }

    /// Writes the text to a new file, syncs the file, and renames it to `name`.
    fn replace_file_atomically(&self, name: &str, text: &str) -> Result<(), StoreError> {
        let new = format!("{name}.new");
        let replaced = self.place.open_folder().and_then(|folder| {
            let file = folder.replace_file(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_content()?;
            folder.rename_entry(&new, name)
        });
        replaced.map_err(|source| unavailable_store_error("write", &self.place.path().join(name), source))
    }

    /// Deletes the batch with all its runs.
    ///
    /// # Errors
    ///
    /// The folder cannot be deleted.
    pub fn remove_batch(self) -> Result<(), StoreError> {
        let removed = self
            .all
            .open_folder()
            .and_then(|folder| folder.remove_recursively(self.name.as_ref()));
        removed.map_err(|source| unavailable_store_error("delete", &self.place.path(), source))
    }
}

/// Returns the folder of all batches of the project.
fn batches_folder(project_root: &Path) -> LinkSafePath {
    LinkSafePath::new(project_root, Path::new(".ensemble").join("batches"))
}

/// Locks the names, also after a panic of another thread.
fn lock_names(names: &Mutex<HashSet<OsString>>) -> MutexGuard<'_, HashSet<OsString>> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the index for appending. Truncates an incomplete last line, which a crash can leave.
fn open_repaired_index(folder: &OpenFolder) -> io::Result<RecordedFileWriter> {
    let mut file = folder.open_or_create_file(INDEX_FILE)?;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let complete_length = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let index = folder.open_file_for_append(INDEX_FILE)?;
    index.truncate(complete_length as u64)?;
    Ok(index)
}
