//! The store of runs in a folder, and one stored run.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode};

use super::folder::{LinkSafePath, OpenFolder};
use super::follow::{JournalFollower, find_driver_process};
use super::lock::RunFileLock;
use super::read::open_run_journal;
use super::sink::WatchedFile;
use super::write::{JOURNAL_FILE, JournalWriter};
use ensemble_core::log::RunLog;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{
    Durability, LogEnd, LogReadError, RunId, RunLease, RunLogFollower, RunRecordReader, RunStore, StoreError,
    StoredRun, find_nested_run_in, is_valid_run_name, resolve_run_prefix,
};

/// The file name of the copy of the ensemble in the folder of a run.
const ENSEMBLE_COPY_FILE: &str = "ensemble.yaml";
/// The name of the folder of nested runs in the folder of a run.
const NESTED_RUNS_FOLDER: &str = "sub";
/// The prefix of the ids of runs of batches.
const BATCH_RUN_ID_PREFIX: &str = "row-";
/// The maximum size of a copy of an ensemble, in bytes: 64 MiB.
const MAX_ENSEMBLE_COPY_BYTES: u64 = 64 << 20;

/// A store of the runs of a project in the folder `.ensemble/runs` of its root.
#[derive(Debug, Clone)]
pub struct FileRunStore {
    place: LinkSafePath,
    folder: PathBuf,
}

/// A run that is stored in a folder.
#[derive(Debug, Clone)]
struct FileStoredRun {
    id: RunId,
    place: LinkSafePath,
    path: PathBuf,
    /// The lock that this process holds, which also covers nested runs.
    lock: Arc<Mutex<Option<WatchedFile>>>,
}

/// The future of creating a run.
type CreatedRunFuture<'a> = BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

impl FileRunStore {
    /// Creates the store for the project with this root.
    pub fn for_project(project_root: &Path) -> Self {
        let place = LinkSafePath::new(project_root, Path::new(".ensemble").join("runs"));
        Self {
            folder: place.path(),
            place,
        }
    }

    /// Finds the runs of rows whose ids start with this text, in all batches of the project. Returns one run if its id equals the text.
    fn find_batch_runs(&self, given: &str) -> Vec<Arc<dyn StoredRun>> {
        let Some(project) = self.folder.parent() else {
            return Vec::new();
        };
        let batches = LinkSafePath::from_path(&project.join("batches"));
        let list = |place: &LinkSafePath| place.open_folder().and_then(|folder| folder.list_entry_names());
        let mut names = list(&batches).unwrap_or_default();
        names.sort();
        let places: Vec<LinkSafePath> = names.iter().map(|name| batches.join(name).join("runs")).collect();
        if let Some(run) = places
            .iter()
            .find_map(|place| FileStoredRun::from_folder(place.join(given)))
        {
            return vec![Arc::new(run)];
        }
        let starts = |name: &std::ffi::OsString| name.to_str().is_some_and(|name| name.starts_with(given));
        let runs = places.iter().flat_map(|place| {
            let names = list(place).unwrap_or_default().into_iter().filter(starts);
            names.filter_map(|name| FileStoredRun::from_folder(place.join(name)))
        });
        runs.map(|run| Arc::new(run) as Arc<dyn StoredRun>).collect()
    }

    /// Creates the store for the runs in this folder.
    pub(crate) fn from_folder(place: LinkSafePath) -> Self {
        Self {
            folder: place.path(),
            place,
        }
    }

    /// Deletes the folder of a run that was killed before its first record. Does nothing if the folder is missing.
    pub(crate) fn discard_run_folder(&self, id: &RunId) -> Result<(), StoreError> {
        id.check_validity()?;
        let removed = self
            .place
            .open_folder()
            .and_then(|folder| folder.remove_recursively(id.as_str().as_ref()));
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(unavailable_store_error(
                "delete",
                &self.folder.join(id.as_str()),
                source,
            )),
            _ => Ok(()),
        }
    }

    /// Returns the folder of the runs.
    pub fn runs_folder(&self) -> &Path {
        &self.folder
    }

    /// Finds the run in this folder, independent of its project. Returns `None` if the folder contains no journal.
    pub fn find_run_in_folder(path: &Path) -> Option<Arc<dyn StoredRun>> {
        FileStoredRun::from_folder(LinkSafePath::from_path(path)).map(|run| Arc::new(run) as Arc<dyn StoredRun>)
    }

    /// Finds the run that contains the nested run in this folder.
    pub fn find_outer_run(path: &Path) -> Option<Arc<dyn StoredRun>> {
        let mut outer = path.ancestors().skip(1);
        let has_lock = |path: &&Path| {
            LinkSafePath::from_path(path)
                .open_folder()
                .is_ok_and(|folder| folder.has_regular_file("lock"))
        };
        Self::find_run_in_folder(outer.find(has_lock)?)
    }

    /// Removes the link with this name from the folder of runs, or the link to a run at this path. Keeps the target. Returns whether there
    /// was a link.
    ///
    /// # Errors
    ///
    /// The link cannot be removed.
    pub fn remove_link_to_run(&self, given: &Path) -> Result<bool, StoreError> {
        let name = given.file_name().unwrap_or_default();
        let is_name = given.components().count() == 1;
        let is_of_run = || {
            given
                .canonicalize()
                .is_ok_and(|run| FileStoredRun::from_folder(LinkSafePath::from_path(&run)).is_some())
        };
        for (place, is_meant) in [
            (self.place.clone(), is_name),
            (LinkSafePath::from_path(given.parent().unwrap_or(given)), !is_name),
        ] {
            let Some(folder) = place.open_folder().ok().filter(|_| is_meant) else {
                continue;
            };
            let is_link = folder.entry_type(name) == Some(FileType::Symlink);
            if is_link && (place == self.place || place.path() == self.folder || is_of_run()) {
                let removed = folder.remove_non_folder(name);
                removed.map_err(|source| unavailable_store_error("delete", &place.path().join(name), source))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates the folder of a run with a copy of the ensemble. Removes new empty parent folders after an error.
    fn create_run_folder(&self, id: &RunId, ensemble: &str) -> Result<FileStoredRun, StoreError> {
        id.check_validity()?;
        let missing = self.place.list_missing_folders();
        let create_result = self.create_run_files(id, ensemble);
        if create_result.is_err() {
            // Nothing is left of folders that were made for nothing; one that is not empty stays.
            missing.into_iter().for_each(|place| drop(place.remove_if_empty()));
        }
        create_result
    }

    /// Creates the folder of the run, its copy of the ensemble and a `.gitignore`.
    ///
    /// # Errors
    ///
    /// The id exists, or a file cannot be written.
    fn create_run_files(&self, id: &RunId, ensemble: &str) -> Result<FileStoredRun, StoreError> {
        let folder = self.place.open_or_create_folder();
        let folder = folder.map_err(|source| unavailable_store_error("create the folder", &self.folder, source))?;
        write_gitignore(&folder);
        let run = FileStoredRun::new(id.clone(), self.place.join(id.as_str()));
        match folder.create_child_folder(id.as_str().as_ref(), Mode::RWXU) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::Exists(id.clone())),
            Err(source) => return Err(unavailable_store_error("create the folder", &run.path, source)),
        }
        if let Err(error) = run.write_ensemble_copy(ensemble) {
            let _ = folder.remove_recursively(id.as_str().as_ref());
            return Err(error);
        }
        Ok(run)
    }

    /// Lists the runs in the folder, sorted by id.
    fn list_run_folders(&self) -> Result<Vec<Arc<dyn StoredRun>>, StoreError> {
        let entries = match self.place.open_folder().and_then(|folder| folder.list_entry_names()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(unavailable_store_error("read", &self.folder, source)),
        };
        let entries = entries.iter().map(|name| self.place.join(name));
        let mut runs: Vec<FileStoredRun> = entries.filter_map(FileStoredRun::from_folder).collect();
        runs.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(runs
            .into_iter()
            .map(|run| Arc::new(run) as Arc<dyn StoredRun>)
            .collect())
    }
}

impl RunStore for FileRunStore {
    fn describe_location(&self) -> String {
        self.folder.display().to_string()
    }

    fn create_run<'a>(&'a self, id: &'a RunId, ensemble: &'a str) -> CreatedRunFuture<'a> {
        Box::pin(async move {
            self.create_run_folder(id, ensemble)
                .map(|run| Arc::new(run) as Arc<dyn StoredRun>)
        })
    }

    fn list_runs(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move { self.list_run_folders() })
    }

    /// Also finds the run, of whatever project, whose folder or journal stands at the path `given` if that cannot be an id, and runs
    /// of batches.
    fn find_run_by_prefix<'a>(&'a self, given: &'a str) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            if let Ok(id) = RunId::parse(given) {
                return self.find_run_by_id(&id).await;
            }
            match FileStoredRun::from_folder_or_journal(Path::new(given)) {
                Some(run) => Ok(Arc::new(run) as Arc<dyn StoredRun>),
                None => resolve_run_prefix(given, self.list_run_folders()?, self.describe_location()),
            }
        })
    }

    /// Also finds runs of batches.
    fn find_run_by_id<'a>(&'a self, id: &'a RunId) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            id.check_validity()?;
            let outermost = id.outermost_run_id();
            let given = outermost.as_str();
            let rows = match given.starts_with(BATCH_RUN_ID_PREFIX) {
                true => self.find_batch_runs(given),
                false => Vec::new(),
            };
            let all = match rows.is_empty() {
                true => self.list_run_folders()?,
                false => rows,
            };
            let run = resolve_run_prefix(given, all, self.describe_location())?;
            find_nested_run_in(run, id, self.describe_location()).await
        })
    }
}

impl FileStoredRun {
    /// Creates the run with this id in this folder.
    fn new(id: RunId, place: LinkSafePath) -> Self {
        Self {
            id,
            path: place.path(),
            place,
            lock: Arc::default(),
        }
    }

    /// Returns the run in this folder. Returns `None` if the folder contains no journal.
    fn from_folder(place: LinkSafePath) -> Option<Self> {
        let path = place.path();
        let name = path.file_name()?.to_str()?;
        let inside = path.parent().filter(|folder| folder.ends_with(NESTED_RUNS_FOLDER));
        let outer = inside.and_then(Path::parent);
        let outer = outer.and_then(|outer| Self::from_folder(LinkSafePath::from_path(outer)));
        let id = outer.map_or_else(|| RunId::new(name), |outer| outer.id.nested_run_id(name));
        place
            .open_folder()
            .ok()?
            .has_regular_file(JOURNAL_FILE)
            .then(|| Self::new(id, place))
    }

    /// Returns the run whose folder or journal has this path. Returns `None` if the folder is not a complete run.
    fn from_folder_or_journal(path: &Path) -> Option<Self> {
        let mut path = std::path::absolute(path).ok()?;
        if !LinkSafePath::from_path(&path).has_unfollowed_part() {
            path = path.canonicalize().ok()?;
        }
        if path.file_name() == Some(OsStr::new(JOURNAL_FILE)) {
            path.pop();
        }
        let run = Self::from_folder(LinkSafePath::from_path(&path))?;
        run.open_folder()
            .ok()?
            .has_regular_file(ENSEMBLE_COPY_FILE)
            .then_some(run)
    }

    /// Opens the folder of the run.
    fn open_folder(&self) -> io::Result<OpenFolder> {
        self.place.open_folder()
    }

    /// Writes a copy of the ensemble's text into the folder of the run.
    fn write_ensemble_copy(&self, ensemble: &str) -> Result<(), StoreError> {
        let write_result = self.open_folder().and_then(|folder| {
            let file = folder.replace_file(ENSEMBLE_COPY_FILE)?;
            file.write_all(ensemble.as_bytes())
        });
        write_result.map_err(|source| unavailable_store_error("write", &self.path.join(ENSEMBLE_COPY_FILE), source))
    }

    /// Syncs the copy of the ensemble to the disk.
    fn sync_ensemble_copy(&self) -> io::Result<()> {
        self.open_folder()?
            .open_file_for_append(ENSEMBLE_COPY_FILE)?
            .sync_content()
    }

    /// Reads the copy of the ensemble.
    ///
    /// # Errors
    ///
    /// The copy is missing or too large.
    fn read_ensemble_copy(&self) -> io::Result<String> {
        let mut text = String::new();
        let file = self.open_folder()?.open_file_for_reading(ENSEMBLE_COPY_FILE)?;
        match file.take(MAX_ENSEMBLE_COPY_BYTES + 1).read_to_string(&mut text)? as u64 {
            0..=MAX_ENSEMBLE_COPY_BYTES => Ok(text),
            _ => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    /// Returns the nested run with this name, which can be missing. Shares the lock of the outer run.
    fn nested_run_with_name(&self, name: &str) -> Self {
        Self {
            lock: Arc::clone(&self.lock),
            ..Self::new(
                self.id.nested_run_id(name),
                self.place.join(NESTED_RUNS_FOLDER).join(name),
            )
        }
    }

    /// Opens the journal for appending, or creates the journal if `end` is the start. Syncs the copy of the ensemble first.
    fn open_journal_writer(&self, end: LogEnd, durability: Durability) -> io::Result<JournalWriter> {
        if durability != Durability::None {
            self.sync_ensemble_copy()?;
        }
        let mut writer = match end.position {
            0 => JournalWriter::create_in_folder(&self.place, JOURNAL_FILE, durability)?,
            _ => JournalWriter::resume_in_folder(&self.place, end, durability)?,
        };
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = &*lock {
            writer.watch_file(lock.clone());
        }
        Ok(writer)
    }

    /// Deletes the folder of the run with its content.
    fn remove_run_folder(&self) -> io::Result<()> {
        let around = LinkSafePath::from_path(self.path.parent().unwrap_or(Path::new(""))).open_folder()?;
        around.remove_recursively(self.path.file_name().unwrap_or_default())
    }
}

impl StoredRun for FileStoredRun {
    fn id(&self) -> &RunId {
        &self.id
    }

    fn run_folder(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn acquire_lease(&self) -> BoxFuture<'_, Result<Box<dyn RunLease>, StoreError>> {
        Box::pin(async move {
            let lock = RunFileLock::acquire_run_lock(&self.id, &self.place)?;
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock.watched_file().clone());
            Ok(Box::new(lock) as Box<dyn RunLease>)
        })
    }

    fn lease_holder_pid(&self) -> Option<u32> {
        find_driver_process(&self.place)
    }

    fn open_log(&self, end: LogEnd, durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>> {
        Box::pin(async move {
            match self.open_journal_writer(end, durability) {
                Ok(writer) => Ok(Box::new(writer) as Box<dyn RunLog>),
                Err(source) => Err(unavailable_store_error(
                    "write the journal",
                    &self.path.join(JOURNAL_FILE),
                    source,
                )),
            }
        })
    }

    fn open_reader(&self) -> BoxFuture<'_, Result<Box<dyn RunRecordReader>, LogReadError>> {
        Box::pin(
            async move { open_run_journal(&self.place).map(|records| Box::new(records) as Box<dyn RunRecordReader>) },
        )
    }

    fn open_follower(&self) -> Box<dyn RunLogFollower> {
        Box::new(JournalFollower::new(self.place.clone()))
    }

    fn load_ensemble_text(&self) -> BoxFuture<'_, Result<String, StoreError>> {
        Box::pin(async move {
            let read = self.read_ensemble_copy();
            read.map_err(|source| unavailable_store_error("read", &self.path.join(ENSEMBLE_COPY_FILE), source))
        })
    }

    fn create_nested_run<'a>(&'a self, name: &'a str, ensemble: &'a str) -> CreatedRunFuture<'a> {
        Box::pin(async move {
            self.id.parse_nested_name(name)?;
            let run = self.nested_run_with_name(name);
            let open_result = run.place.open_or_create_folder();
            open_result.map_err(|source| unavailable_store_error("create the folder", &run.path, source))?;
            run.write_ensemble_copy(ensemble)?;
            Ok(Arc::new(run) as Arc<dyn StoredRun>)
        })
    }

    fn find_nested_run<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move {
            if !is_valid_run_name(name) {
                return Ok(None);
            }
            let run = self.nested_run_with_name(name);
            let is_there = match run.open_folder() {
                Ok(folder) => folder.has_regular_file(JOURNAL_FILE),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(source) => return Err(unavailable_store_error("read", &run.path, source)),
            };
            Ok(is_there.then(|| Arc::new(run) as Arc<dyn StoredRun>))
        })
    }

    fn list_nested_run_names(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let place = self.place.join(NESTED_RUNS_FOLDER);
            let entries = match place.open_folder().and_then(|folder| folder.list_entry_names()) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(source) => return Err(unavailable_store_error("read", &place.path(), source)),
            };
            let mut names: Vec<String> = entries.into_iter().filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            Ok(names)
        })
    }

    fn remove_run(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.remove_run_folder()
                .map_err(|source| unavailable_store_error("delete", &self.path, source))
        })
    }
}

/// Creates a `.gitignore` that excludes the content of the folder. Ignores errors, and keeps an existing file.
pub(crate) fn write_gitignore(folder: &OpenFolder) {
    const NAME: &str = ".gitignore";
    let Ok(file) = folder.create_new_file(NAME) else { return };
    if file.write_all(b"*\n").is_err() {
        let _ = folder.remove_non_folder(NAME);
    }
}

/// Returns the error that this action failed at this path.
pub(crate) fn unavailable_store_error(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Unavailable {
        action,
        place: path.display().to_string(),
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use ensemble_core::store::contract;

    use super::*;

    #[tokio::test]
    async fn the_contract_holds() {
        let folder = tempfile::tempdir().expect("a folder");
        let count = std::sync::atomic::AtomicU32::new(0);
        let store = || {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let root = folder.path().join(number.to_string());
            Arc::new(FileRunStore::for_project(&root)) as Arc<dyn RunStore>
        };
        contract::check_store_contract(store).await;
    }
}
