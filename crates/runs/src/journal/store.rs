//! Where runs live: `.ensemble/runs/<run id>/`, each with its journal, a copy of its ensemble, and a lock.

#![expect(clippy::disallowed_methods, reason = "this room keeps the folder of runs")]

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::blobs::create_private_folder;

/// The folder of all runs of a project.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    /// Its id, which is the folder's name.
    pub id: String,
    path: PathBuf,
}

/// Holds the right to drive a run until it is dropped; the system takes it back when the process dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why a run cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system says no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// No run has such an id.
    #[error("no run is called `{id}` in {}", folder.display())]
    Unknown {
        /// The id or its beginning.
        id: String,
        /// Where was looked.
        folder: PathBuf,
    },
    /// Several ids begin so.
    #[error("`{id}` may be any of {}", candidates.join(", "))]
    Ambiguous {
        /// The beginning.
        id: String,
        /// The ids.
        candidates: Vec<String>,
    },
    /// There is no run at all.
    #[error("there is no run in {}", .0.display())]
    None(PathBuf),
    /// Another process drives it.
    #[error("another process ({owner}) drives run {id}")]
    Locked {
        /// The run.
        id: String,
        /// The process's id, as it wrote it.
        owner: String,
    },
}

impl Store {
    /// The runs of the project whose root is given.
    pub fn of(project_root: &Path) -> Self {
        Self {
            folder: project_root.join(".ensemble").join("runs"),
        }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder of a new run. Ids sort by time, to the millisecond.
    pub fn create(&self, now: DateTime<Utc>) -> Result<RunFolder, StoreError> {
        let made = fs::create_dir_all(&self.folder);
        made.map_err(|source| failed("create the folder", &self.folder, source))?;
        let ignore = self.folder.join(".gitignore");
        if !ignore.exists() {
            // Runs are recordings of one machine. Whoever wants one in git adds it by name.
            let _ = fs::write(&ignore, "*\n");
        }
        loop {
            let id = new_id(now);
            let path = self.folder.join(&id);
            match create_private_folder(&path) {
                Ok(()) => return Ok(RunFolder { id, path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(failed("create the folder", &path, source)),
            }
        }
    }

    /// The run whose id is `id` or alone begins with it; or the run, of whatever project, whose folder or journal stands
    /// at the path `id`.
    pub fn find(&self, id: &str) -> Result<RunFolder, StoreError> {
        if let Some(run) = RunFolder::at_path(Path::new(id)) {
            return Ok(run);
        }
        let all = self.list()?;
        if let Some(exact) = all.iter().find(|run| run.id == id) {
            return Ok(exact.clone());
        }
        let mut matching: Vec<RunFolder> = all.into_iter().filter(|run| run.id.starts_with(id)).collect();
        match matching.len() {
            1 => Ok(matching.remove(0)),
            0 => Err(StoreError::Unknown {
                id: id.to_owned(),
                folder: self.folder.clone(),
            }),
            _ => Err(StoreError::Ambiguous {
                id: id.to_owned(),
                candidates: matching.into_iter().map(|run| run.id).collect(),
            }),
        }
    }

    /// The latest run.
    pub fn last(&self) -> Result<RunFolder, StoreError> {
        self.list()?.pop().ok_or_else(|| StoreError::None(self.folder.clone()))
    }

    /// All runs, the oldest first.
    pub fn list(&self) -> Result<Vec<RunFolder>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("read", &self.folder, source)),
        };
        let mut runs: Vec<RunFolder> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| RunFolder::at(&entry.path()))
            .collect();
        runs.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(runs)
    }
}

/// `20261122-001902-9zab`: the second, its millisecond in two digits of base 36, and two letters of chance.
fn new_id(now: DateTime<Utc>) -> String {
    let digit = |value: u32| char::from_digit(value % 36, 36).expect("less than 36");
    let millisecond = now.timestamp_subsec_millis().min(999);
    let chance: String = std::iter::repeat_with(fastrand::lowercase).take(2).collect();
    let second = now.format("%Y%m%d-%H%M%S");
    format!("{second}-{}{}{chance}", digit(millisecond / 36), digit(millisecond))
}

impl RunFolder {
    /// The run in that folder, if it holds a journal.
    pub fn at(path: &Path) -> Option<Self> {
        let id = path.file_name()?.to_str()?.to_owned();
        path.join("journal.jsonl").is_file().then(|| Self {
            id,
            path: path.to_owned(),
        })
    }

    /// The run whose folder or journal has that path.
    fn at_path(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let folder = if path.is_file() { path.parent()? } else { &path };
        let run = Self::at(folder).filter(|run| run.ensemble().is_file())?;
        (path == *folder || path == run.journal()).then_some(run)
    }

    /// The same folder under the id by which its run knows itself: inner runs have long ones.
    #[must_use]
    pub fn known_as(self, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..self
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The copy of the ensemble's text.
    pub fn ensemble(&self) -> PathBuf {
        self.path.join("ensemble.yaml")
    }

    /// The folder of a run inside this one.
    pub fn nested(&self, name: &str) -> Result<Self, StoreError> {
        let path = self.path.join("sub").join(name);
        fs::create_dir_all(&path).map_err(|source| failed("create the folder", &path, source))?;
        Ok(Self {
            id: format!("{}/sub/{name}", self.id),
            path,
        })
    }

    /// Keeps the ensemble's text beside the journal.
    pub fn keep_ensemble(&self, text: &str) -> Result<(), StoreError> {
        let path = self.ensemble();
        fs::write(&path, text).map_err(|source| failed("write", &path, source))
    }

    /// Takes the right to drive the run.
    pub fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.join("lock");
        let io = |source| failed("open", &path, source);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io)?;
        if !locked_within_grace(&file).map_err(|source| failed("lock", &path, source))? {
            let mut owner = String::new();
            let _ = file.read_to_string(&mut owner);
            return Err(StoreError::Locked {
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

    /// Deletes the run.
    pub fn remove(&self) -> Result<(), StoreError> {
        fs::remove_dir_all(&self.path).map_err(|source| failed("delete", &self.path, source))
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
    StoreError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;

    #[test]
    fn ids_sort_by_time_within_a_second() {
        let begun = DateTime::<Utc>::UNIX_EPOCH;
        let ids: Vec<String> = (0..2000).map(|at| new_id(begun + Duration::milliseconds(at))).collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(ids.iter().all(|id| id.len() == ids[0].len()));
    }
}
