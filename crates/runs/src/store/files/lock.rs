//! The lock of a run: one process at a time executes it.
//!
//! Two things are locked, the file `lock` and the folder of the run, so that whoever deletes the file gives nobody else the run. The
//! system releases both when the process ends.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::time::Duration;

use rustix::io::Errno;

use super::folder::{Folder, Place};
use super::follow::{LOCK, driver, owner};
use super::sink::{Identity, Watched};
use ensemble_core::store::{Lease, RunId, StoreError};

/// A lock that this process holds.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
    _folder: Folder,
    watched: Watched,
}

impl Lease for Lock {}

/// The result of trying to lock a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    Locked,
    /// Somebody else has it.
    Taken,
    /// The file system has no locks.
    Unsupported,
}

impl Lock {
    /// Takes the lock of the run in this folder.
    pub(crate) fn take(id: &RunId, place: &Place) -> Result<Self, StoreError> {
        let path = place.path().join(LOCK);
        let failed = |source: io::Error| StoreError::Unavailable {
            action: "lock",
            place: path.display().to_string(),
            source: source.into(),
        };
        // Asked before this process has the file open.
        let driver = driver(place);
        let folder = place.open().map_err(failed)?;
        let mut file = folder.open_or_create(LOCK).map_err(failed)?;
        let tried = locked_within_grace(&file).map_err(failed)?;
        // Not every file system locks folders.
        let folder_tried = locked_within_grace(folder.file()).unwrap_or(Tried::Unsupported);
        let is_driven = tried == Tried::Unsupported && driver.is_some();
        if is_driven || [tried, folder_tried].contains(&Tried::Taken) {
            return Err(StoreError::Leased {
                id: id.clone(),
                owner: Some(owner(&file))
                    .filter(|owner| !owner.is_empty())
                    .unwrap_or_else(|| "its lock does not name it".to_owned()),
            });
        }
        let watched = Watched::new(&file, &path).map_err(failed)?;
        is_in_place(&watched, &folder, place).map_err(failed)?;
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "pid {}", std::process::id()));
        written.map_err(failed)?;
        Ok(Self {
            _file: file,
            _folder: folder,
            watched,
        })
    }

    /// The file of the lock, which must stay where it is.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }
}

/// Between opening and locking, somebody may have deleted the run, and another may have made it anew.
fn is_in_place(lock: &Watched, folder: &Folder, place: &Place) -> io::Result<()> {
    lock.check()?;
    match Identity::at(&place.path()) == Some(Identity::of(folder.file())?) {
        true => Ok(()),
        false => Err(io::Error::other("the folder of the run was replaced")),
    }
}

/// Takes the lock. A driver that was killed in the middle of starting a child keeps it for the moment that the
/// child needs to begin, so a lock that is taken is tried again before it counts as taken.
fn locked_within_grace(file: &File) -> io::Result<Tried> {
    const TRIES: u32 = 25;
    for attempt in 1..=TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Tried::Locked),
            Err(TryLockError::WouldBlock) if attempt == TRIES => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok(Tried::Unsupported),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(Tried::Taken)
}

fn has_no_locks(error: &io::Error) -> bool {
    let without = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP];
    Errno::from_io_error(error).is_some_and(|error| without.contains(&error))
        || error.kind() == io::ErrorKind::Unsupported
}
