//! The lock of a run: one process at a time executes it.
//!
//! Both the file `lock` and the folder of the run are locked, so that another process cannot take over the run after the file was deleted.
//! The system releases both locks when the process ends.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::time::Duration;

use rustix::io::Errno;

use super::folder::{LinkSafePath, OpenFolder};
use super::follow::{LOCK_FILE, find_driver_process, read_lock_owner};
use super::sink::{FileIdentity, WatchedFile};
use ensemble_core::store::{RunId, RunLease, StoreError};

/// A lock of a run that this process holds.
#[derive(Debug)]
pub(crate) struct RunFileLock {
    _file: File,
    _folder: OpenFolder,
    watched_file: WatchedFile,
}

impl RunLease for RunFileLock {}

/// The result of an attempt to lock a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockAttemptResult {
    Locked,
    /// Somebody else has it.
    TakenByOther,
    /// The file system has no locks.
    Unsupported,
}

impl RunFileLock {
    /// Takes the lock of the run in this folder: of its lock file and of the folder.
    ///
    /// # Errors
    ///
    /// Another process has the lock, or the folder cannot be locked.
    pub(crate) fn acquire_run_lock(id: &RunId, place: &LinkSafePath) -> Result<Self, StoreError> {
        let path = place.path().join(LOCK_FILE);
        let failed = |source: io::Error| StoreError::Unavailable {
            action: "lock",
            place: path.display().to_string(),
            source: source.into(),
        };
        // Asked before this process has the file open.
        let driver = find_driver_process(place);
        let folder = place.open_folder().map_err(failed)?;
        let mut file = folder.open_or_create_file(LOCK_FILE).map_err(failed)?;
        let file_attempt = try_lock_with_grace(&file).map_err(failed)?;
        // Not every file system locks folders.
        let folder_tried = try_lock_with_grace(folder.file()).unwrap_or(LockAttemptResult::Unsupported);
        let is_driven = file_attempt == LockAttemptResult::Unsupported && driver.is_some();
        if is_driven || [file_attempt, folder_tried].contains(&LockAttemptResult::TakenByOther) {
            return Err(StoreError::Leased {
                id: id.clone(),
                owner: Some(read_lock_owner(&file))
                    .filter(|owner| !owner.is_empty())
                    .unwrap_or_else(|| "its lock does not name the process".to_owned()),
            });
        }
        let watched = WatchedFile::new(&file, &path).map_err(failed)?;
        check_lock_in_place(&watched, &folder, place).map_err(failed)?;
        let write_result = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "pid {}", std::process::id()));
        write_result.map_err(failed)?;
        Ok(Self {
            _file: file,
            _folder: folder,
            watched_file: watched,
        })
    }

    /// Returns the lock file, which must not be moved or replaced.
    pub(crate) fn watched_file(&self) -> &WatchedFile {
        &self.watched_file
    }
}

/// Checks that the locked file and folder are still at their paths. Another process can have replaced them before the lock was taken.
///
/// # Errors
///
/// The file or the folder was deleted or replaced.
fn check_lock_in_place(lock: &WatchedFile, folder: &OpenFolder, place: &LinkSafePath) -> io::Result<()> {
    lock.check_not_replaced()?;
    match FileIdentity::from_path(&place.path()) == Some(FileIdentity::from_file(folder.file())?) {
        true => Ok(()),
        false => Err(io::Error::other("the folder of the run was replaced")),
    }
}

/// Tries to lock the file for 250 ms. Retries, because a child process that is starting can briefly keep the lock of a killed driver.
fn try_lock_with_grace(file: &File) -> io::Result<LockAttemptResult> {
    const TRIES: u32 = 25;
    for attempt in 1..=TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(LockAttemptResult::Locked),
            Err(TryLockError::WouldBlock) if attempt == TRIES => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) if is_lock_unsupported(&error) => {
                return Ok(LockAttemptResult::Unsupported);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(LockAttemptResult::TakenByOther)
}

/// Returns whether the error means that the file system does not support locks.
fn is_lock_unsupported(error: &io::Error) -> bool {
    let without = [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::NOTSUP];
    Errno::from_io_error(error).is_some_and(|error| without.contains(&error))
        || error.kind() == io::ErrorKind::Unsupported
}
