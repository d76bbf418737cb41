//! The folder of runs, and the folder of one run.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode};

use super::folder::{Folder, Place};
use super::follow::{Follower, driver};
use super::lock::Lock;
use super::read::open_in;
use super::sink::Watched;
use super::write::{JOURNAL, JournalWriter};
use ensemble_core::log::RunLog;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{
    Durability, Lease, LogEnd, ReadError, RunFollower, RunId, RunReader, RunStore, StoreError, StoredRun, only,
};

/// The name of the copy of the ensemble in the folder of a run.
const COPY: &str = "ensemble.yaml";
/// The name of the folder of the runs inside a run.
const INNER: &str = "sub";
/// What the ids of runs of batches begin with.
const ROW: &str = "row-";
/// The largest copy of an ensemble that is read, in bytes.
const LARGEST_COPY: u64 = 64 << 20;

/// The runs of a project, in the folder `.ensemble/runs` of its root.
#[derive(Debug, Clone)]
pub struct FileStore {
    place: Place,
    folder: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone)]
struct FileRun {
    id: RunId,
    place: Place,
    path: PathBuf,
    /// The lock that this process holds, also for the runs inside.
    lock: Arc<Mutex<Option<Watched>>>,
}

type Created<'a> = BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

impl FileStore {
    /// The runs of the project whose root is given.
    pub fn of(project_root: &Path) -> Self {
        let place = Place::below(project_root, Path::new(".ensemble").join("runs"));
        Self {
            folder: place.path(),
            place,
        }
    }

    /// The run of a row with this id, in whatever batch of the project.
    fn in_batches(&self, id: &str) -> Option<Arc<dyn StoredRun>> {
        let batches = Place::at(&self.folder.parent()?.join("batches"));
        let mut names = batches.open().ok()?.entries().ok()?;
        names.sort();
        let run = names
            .iter()
            .find_map(|name| FileRun::at(batches.join(name).join("runs").join(id)))?;
        Some(Arc::new(run))
    }

    pub(crate) fn at(place: Place) -> Self {
        Self {
            folder: place.path(),
            place,
        }
    }

    /// Removes what is left of a run that was killed before its first record.
    pub(crate) fn discard(&self, id: &RunId) -> Result<(), StoreError> {
        let removed = self
            .place
            .open()
            .and_then(|folder| folder.remove_all(id.as_str().as_ref()));
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(failed("delete", &self.folder.join(id.as_str()), source))
            }
            _ => Ok(()),
        }
    }

    /// The folder of the runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The run, of whatever project, in the folder `path`, if that holds a journal.
    pub fn run_in(path: &Path) -> Option<Arc<dyn StoredRun>> {
        FileRun::at(Place::at(path)).map(|run| Arc::new(run) as Arc<dyn StoredRun>)
    }

    /// The run around the folder of a run inside another.
    pub fn run_around(path: &Path) -> Option<Arc<dyn StoredRun>> {
        let mut outer = path.ancestors().skip(1);
        let has_lock = |path: &&Path| Place::at(path).open().is_ok_and(|folder| folder.has_file("lock"));
        Self::run_in(outer.find(has_lock)?)
    }

    /// Removes the link of that name from the folder of the runs, or the link at the path `given` if it names a run. What it names
    /// stays as it is. Is there such a link?
    ///
    /// # Errors
    /// The link cannot be removed.
    pub fn remove_link(&self, given: &Path) -> Result<bool, StoreError> {
        let name = given.file_name().unwrap_or_default();
        let is_name = given.components().count() == 1;
        let is_of_run = || {
            given
                .canonicalize()
                .is_ok_and(|run| FileRun::at(Place::at(&run)).is_some())
        };
        for (place, is_meant) in [
            (self.place.clone(), is_name),
            (Place::at(given.parent().unwrap_or(given)), !is_name),
        ] {
            let Some(folder) = place.open().ok().filter(|_| is_meant) else {
                continue;
            };
            let is_link = folder.kind(name) == Some(FileType::Symlink);
            if is_link && (place == self.place || place.path() == self.folder || is_of_run()) {
                let removed = folder.remove_file(name);
                removed.map_err(|source| failed("delete", &place.path().join(name), source))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn make(&self, id: &RunId, ensemble: &str) -> Result<FileRun, StoreError> {
        let missing = self.place.missing();
        let made = self.make_in_place(id, ensemble);
        if made.is_err() {
            // Nothing is left of folders that were made for nothing; one that is not empty stays.
            missing.into_iter().for_each(|place| drop(place.remove()));
        }
        made
    }

    fn make_in_place(&self, id: &RunId, ensemble: &str) -> Result<FileRun, StoreError> {
        let folder = self.place.make();
        let folder = folder.map_err(|source| failed("create the folder", &self.folder, source))?;
        ignore_in_git(&folder);
        let run = FileRun::new(id.clone(), self.place.join(id.as_str()));
        match folder.make(id.as_str().as_ref(), Mode::RWXU) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::Exists(id.clone())),
            Err(source) => return Err(failed("create the folder", &run.path, source)),
        }
        if let Err(error) = run.keep(ensemble) {
            let _ = folder.remove_all(id.as_str().as_ref());
            return Err(error);
        }
        Ok(run)
    }

    fn all(&self) -> Result<Vec<Arc<dyn StoredRun>>, StoreError> {
        let entries = match self.place.open().and_then(|folder| folder.entries()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("read", &self.folder, source)),
        };
        let entries = entries.iter().map(|name| self.place.join(name));
        let mut runs: Vec<FileRun> = entries.filter_map(FileRun::at).collect();
        runs.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(runs
            .into_iter()
            .map(|run| Arc::new(run) as Arc<dyn StoredRun>)
            .collect())
    }
}

impl RunStore for FileStore {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn create<'a>(&'a self, id: &'a RunId, ensemble: &'a str) -> Created<'a> {
        Box::pin(async move { self.make(id, ensemble).map(|run| Arc::new(run) as Arc<dyn StoredRun>) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move { self.all() })
    }

    /// Also finds the run, of whatever project, whose folder or journal stands at the path `given`, and runs of batches by their whole
    /// ids.
    fn find<'a>(&'a self, given: &'a str) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            match FileRun::at_path(Path::new(given)) {
                Some(run) => Ok(Arc::new(run) as Arc<dyn StoredRun>),
                None if given.starts_with(ROW) => match self.in_batches(given) {
                    Some(run) => Ok(run),
                    None => only(given, self.all()?, self.place()),
                },
                None => only(given, self.all()?, self.place()),
            }
        })
    }
}

impl FileRun {
    fn new(id: RunId, place: Place) -> Self {
        Self {
            id,
            path: place.path(),
            place,
            lock: Arc::default(),
        }
    }

    /// The run in that folder, if it holds a journal.
    fn at(place: Place) -> Option<Self> {
        let path = place.path();
        let name = path.file_name()?.to_str()?;
        let inside = path.parent().filter(|folder| folder.ends_with(INNER));
        let outer = inside.and_then(Path::parent);
        let outer = outer.and_then(|outer| Self::at(Place::at(outer)));
        let id = outer.map_or_else(|| RunId::new(name), |outer| outer.id.inside(name));
        place.open().ok()?.has_file(JOURNAL).then(|| Self::new(id, place))
    }

    /// The run whose folder or journal has that path.
    fn at_path(path: &Path) -> Option<Self> {
        let mut path = std::path::absolute(path).ok()?;
        if !Place::at(&path).is_bounded() {
            path = path.canonicalize().ok()?;
        }
        if path.file_name() == Some(OsStr::new(JOURNAL)) {
            path.pop();
        }
        let run = Self::at(Place::at(&path))?;
        run.opened().ok()?.has_file(COPY).then_some(run)
    }

    fn opened(&self) -> io::Result<Folder> {
        self.place.open()
    }

    /// Keeps a copy of the ensemble's text.
    fn keep(&self, ensemble: &str) -> Result<(), StoreError> {
        let kept = self.opened().and_then(|folder| {
            let file = folder.create_anew(COPY)?;
            file.write_all(ensemble.as_bytes())
        });
        kept.map_err(|source| failed("write", &self.path.join(COPY), source))
    }

    /// Makes sure that the copy is on the disk.
    fn sync_copy(&self) -> io::Result<()> {
        self.opened()?.extend(COPY)?.sync()
    }

    fn copy(&self) -> io::Result<String> {
        let mut text = String::new();
        let file = self.opened()?.read(COPY)?;
        match file.take(LARGEST_COPY + 1).read_to_string(&mut text)? as u64 {
            0..=LARGEST_COPY => Ok(text),
            _ => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    fn nested(&self, name: &str) -> Self {
        Self {
            lock: Arc::clone(&self.lock),
            ..Self::new(self.id.inside(name), self.place.join(INNER).join(name))
        }
    }

    fn journal(&self, end: LogEnd, durability: Durability) -> io::Result<JournalWriter> {
        if durability != Durability::None {
            self.sync_copy()?;
        }
        let mut writer = match end.position {
            0 => JournalWriter::begin(&self.place, JOURNAL, durability)?,
            _ => JournalWriter::resume(&self.place, end, durability)?,
        };
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = &*lock {
            writer.watch(lock.clone());
        }
        Ok(writer)
    }

    /// Removes the folder with all that is in it.
    fn delete(&self) -> io::Result<()> {
        let around = Place::at(self.path.parent().unwrap_or(Path::new(""))).open()?;
        around.remove_all(self.path.file_name().unwrap_or_default())
    }
}

impl StoredRun for FileRun {
    fn id(&self) -> &RunId {
        &self.id
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn lease(&self) -> BoxFuture<'_, Result<Box<dyn Lease>, StoreError>> {
        Box::pin(async move {
            let lock = Lock::take(&self.id, &self.place)?;
            *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock.watched().clone());
            Ok(Box::new(lock) as Box<dyn Lease>)
        })
    }

    fn driver(&self) -> Option<u32> {
        driver(&self.place)
    }

    fn log(&self, end: LogEnd, durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>> {
        Box::pin(async move {
            match self.journal(end, durability) {
                Ok(writer) => Ok(Box::new(writer) as Box<dyn RunLog>),
                Err(source) => Err(failed("write the journal", &self.path.join(JOURNAL), source)),
            }
        })
    }

    fn read(&self) -> BoxFuture<'_, Result<Box<dyn RunReader>, ReadError>> {
        Box::pin(async move { open_in(&self.place).map(|records| Box::new(records) as Box<dyn RunReader>) })
    }

    fn follow(&self) -> Box<dyn RunFollower> {
        Box::new(Follower::new(self.place.clone()))
    }

    fn ensemble(&self) -> BoxFuture<'_, Result<String, StoreError>> {
        Box::pin(async move {
            let read = self.copy();
            read.map_err(|source| failed("read", &self.path.join(COPY), source))
        })
    }

    fn create_inside<'a>(&'a self, name: &'a str, ensemble: &'a str) -> Created<'a> {
        Box::pin(async move {
            let run = self.nested(name);
            let made = run.place.make();
            made.map_err(|source| failed("create the folder", &run.path, source))?;
            run.keep(ensemble)?;
            Ok(Arc::new(run) as Arc<dyn StoredRun>)
        })
    }

    fn inside<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move {
            let run = self.nested(name);
            let is_there = match run.opened() {
                Ok(folder) => folder.has_file(JOURNAL),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(source) => return Err(failed("read", &run.path, source)),
            };
            Ok(is_there.then(|| Arc::new(run) as Arc<dyn StoredRun>))
        })
    }

    fn names_inside(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let place = self.place.join(INNER);
            let entries = match place.open().and_then(|folder| folder.entries()) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(source) => return Err(failed("read", &place.path(), source)),
            };
            let mut names: Vec<String> = entries.into_iter().filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            Ok(names)
        })
    }

    fn remove(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.delete().map_err(|source| failed("delete", &self.path, source)) })
    }
}

/// Runs are recordings of one machine. Whoever wants one in git adds it by name.
pub(crate) fn ignore_in_git(folder: &Folder) {
    const NAME: &str = ".gitignore";
    let Ok(file) = folder.create(NAME) else { return };
    if file.write_all(b"*\n").is_err() {
        let _ = folder.remove_file(NAME);
    }
}

pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
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
            Arc::new(FileStore::of(&root)) as Arc<dyn RunStore>
        };
        contract::check(store).await;
    }
}
