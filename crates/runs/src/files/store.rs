//! The folder of runs, and the folder of one run.

#![expect(clippy::disallowed_methods, reason = "this room keeps the folder of runs")]

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::blobs::{create_private_folder, create_private_folders, private};
use super::follow::{Follower, driver};
use super::read::open_journal;
use super::write::JournalWriter;
use ensemble_core::log::RunLog;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{
    Durability, Lease, LogEnd, ReadError, RunFollower, RunId, RunReader, RunStore, StoreError, StoredRun, only,
};

/// The runs of a project, in the folder `.ensemble/runs` of its root.
#[derive(Debug, Clone)]
pub struct FileStore {
    folder: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone)]
struct FileRun {
    id: RunId,
    path: PathBuf,
}

/// The lock of a run. The system takes it back when the process dies.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lease for Lock {}

type Created<'a> = BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>>;

impl FileStore {
    /// The runs of the project whose root is given.
    pub fn of(project_root: &Path) -> Self {
        Self {
            folder: project_root.join(".ensemble").join("runs"),
        }
    }

    /// The folder of the runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The run, of whatever project, in the folder `path`, if that holds a journal.
    pub fn run_in(path: &Path) -> Option<Arc<dyn StoredRun>> {
        FileRun::at(path).map(|run| Arc::new(run) as Arc<dyn StoredRun>)
    }

    /// The run around the folder of a run inside another.
    pub fn run_around(path: &Path) -> Option<Arc<dyn StoredRun>> {
        let mut outer = path.ancestors().skip(1);
        Self::run_in(outer.find(|path| path.join("lock").is_file())?)
    }

    fn make(&self, id: &RunId, ensemble: &str) -> Result<FileRun, StoreError> {
        let made = create_private_folders(&self.folder);
        made.map_err(|source| failed("create the folder", &self.folder, source))?;
        let ignore = self.folder.join(".gitignore");
        if !ignore.exists() {
            // Runs are recordings of one machine. Whoever wants one in git adds it by name.
            let _ = fs::write(&ignore, "*\n");
        }
        let path = self.folder.join(id.as_str());
        match create_private_folder(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(StoreError::Exists(id.clone())),
            Err(source) => return Err(failed("create the folder", &path, source)),
        }
        let run = FileRun { id: id.clone(), path };
        run.keep(ensemble)?;
        Ok(run)
    }

    fn all(&self) -> Result<Vec<Arc<dyn StoredRun>>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("read", &self.folder, source)),
        };
        let entries = entries.filter_map(Result::ok);
        let mut runs: Vec<FileRun> = entries.filter_map(|entry| FileRun::at(&entry.path())).collect();
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

    /// Also finds the run, of whatever project, whose folder or journal stands at the path `given`.
    fn find<'a>(&'a self, given: &'a str) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, StoreError>> {
        Box::pin(async move {
            match FileRun::at_path(Path::new(given)) {
                Some(run) => Ok(Arc::new(run) as Arc<dyn StoredRun>),
                None => only(given, self.all()?, self.place()),
            }
        })
    }
}

impl FileRun {
    /// The run in that folder, if it holds a journal.
    fn at(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let inside = path.parent().filter(|folder| folder.ends_with("sub"));
        let outer = inside.and_then(Path::parent).and_then(Self::at);
        path.join("journal.jsonl").is_file().then(|| Self {
            id: outer.map_or_else(|| RunId::new(name), |outer| outer.id.inside(name)),
            path: path.to_owned(),
        })
    }

    /// The run whose folder or journal has that path.
    fn at_path(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let folder = if path.is_file() { path.parent()? } else { &path };
        let run = Self::at(folder).filter(|run| run.copy().is_file())?;
        (path == *folder || path == run.journal()).then_some(run)
    }

    fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The copy of the ensemble's text.
    fn copy(&self) -> PathBuf {
        self.path.join("ensemble.yaml")
    }

    fn keep(&self, ensemble: &str) -> Result<(), StoreError> {
        let path = self.copy();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        private(&mut options);
        let file = options.open(&path);
        let written = file.and_then(|mut file| file.write_all(ensemble.as_bytes()));
        written.map_err(|source| failed("write", &path, source))
    }

    fn nested(&self, name: &str) -> Self {
        Self {
            id: self.id.inside(name),
            path: self.path.join("sub").join(name),
        }
    }

    fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.join("lock");
        let io = |source| failed("open", &path, source);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io)?;
        if !locked_within_grace(&file).map_err(|source| failed("lock", &path, source))? {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(StoreError::Leased {
                id: self.id.clone(),
                owner: owner.trim().to_owned(),
            });
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "pid {}", std::process::id()));
        written.map_err(|source| failed("write", &path, source))?;
        Ok(Lock { _file: file })
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
        Box::pin(async move { self.lock().map(|lock| Box::new(lock) as Box<dyn Lease>) })
    }

    fn driver(&self) -> Option<u32> {
        driver(&self.path)
    }

    fn log(&self, end: LogEnd, durability: Durability) -> BoxFuture<'_, Result<Box<dyn RunLog>, StoreError>> {
        Box::pin(async move {
            let path = self.journal();
            let opened = match end.position {
                0 => JournalWriter::create(&path, durability),
                _ => JournalWriter::resume(&path, end, durability),
            };
            match opened {
                Ok(writer) => Ok(Box::new(writer) as Box<dyn RunLog>),
                Err(source) => Err(failed("write the journal", &path, source)),
            }
        })
    }

    fn read(&self) -> BoxFuture<'_, Result<Box<dyn RunReader>, ReadError>> {
        Box::pin(async move { open_journal(&self.journal()).map(|records| Box::new(records) as Box<dyn RunReader>) })
    }

    fn follow(&self) -> Box<dyn RunFollower> {
        Box::new(Follower::new(&self.journal()))
    }

    fn ensemble(&self) -> BoxFuture<'_, Result<String, StoreError>> {
        Box::pin(async move {
            let path = self.copy();
            fs::read_to_string(&path).map_err(|source| failed("read", &path, source))
        })
    }

    fn create_inside<'a>(&'a self, name: &'a str, ensemble: &'a str) -> Created<'a> {
        Box::pin(async move {
            let run = self.nested(name);
            let made = create_private_folders(&run.path);
            made.map_err(|source| failed("create the folder", &run.path, source))?;
            run.keep(ensemble)?;
            Ok(Arc::new(run) as Arc<dyn StoredRun>)
        })
    }

    fn inside<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<dyn StoredRun>>, StoreError>> {
        Box::pin(async move {
            let run = self.nested(name);
            Ok(run.journal().is_file().then(|| Arc::new(run) as Arc<dyn StoredRun>))
        })
    }

    fn names_inside(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            let folder = self.path.join("sub");
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(source) => return Err(failed("read", &folder, source)),
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let mut names: Vec<String> = names.collect();
            names.sort();
            Ok(names)
        })
    }

    fn remove(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { fs::remove_dir_all(&self.path).map_err(|source| failed("delete", &self.path, source)) })
    }
}

/// Takes the lock. A driver that was killed in the middle of starting a child keeps it for the moment that the
/// child needs to begin, so a lock that is taken is tried again before it counts as taken.
fn locked_within_grace(file: &File) -> io::Result<bool> {
    const TRIES: u32 = 25;
    for attempt in 1..=TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if attempt == TRIES => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
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
