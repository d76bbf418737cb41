//! The writer of journals, which appends records and syncs them as often as the durability requires.

#![expect(clippy::disallowed_methods, reason = "this room writes the journal")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blobs::BlobFolder;
use super::fault::{AppendFaultPoint, count_append_fault, is_fault_armed, kill_own_process};
use super::folder::LinkSafePath;
use super::sink::{RecordedFileWriter, WatchedFile};
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::{CommitError, LogFuture, RunLog, SyncPoint};
use ensemble_core::records::{LargeFieldStorage, append_record_line_with_storage};
use ensemble_core::store::{Durability, LogEnd};

/// The file name of the journal in the folder of a run.
pub(crate) const JOURNAL_FILE: &str = "journal.jsonl";
/// The interval of the checks that the journal is still at its path, if records are not synced.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// A writer that appends records to a journal.
#[derive(Debug)]
pub struct JournalWriter {
    file: Arc<RecordedFileWriter>,
    /// The journal, and the lock of its run: the run stops if one of them is deleted or replaced.
    watched_files: Vec<WatchedFile>,
    /// The time of the last check of the watched files.
    checked_at: Instant,
    /// Bytes of whole records in the file.
    length: u64,
    dirty: bool,
    durability: Durability,
    /// The files for large fields.
    blobs: BlobFolder,
    buffer: Vec<u8>,
    /// The process kills itself after the next sync.
    has_failed: bool,
}

impl JournalWriter {
    /// Creates a new journal.
    ///
    /// # Errors
    ///
    /// The path is not a file in a folder, the file exists, or it cannot be created.
    pub fn create_at_path(path: &Path, durability: Durability) -> io::Result<Self> {
        let (folder, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Self::create_in_folder(&LinkSafePath::from_path(folder), name, durability)
    }

    /// Creates a new journal with this name in the folder, and syncs the folder.
    ///
    /// # Errors
    ///
    /// The file exists, or it cannot be created.
    pub(crate) fn create_in_folder(place: &LinkSafePath, name: &str, durability: Durability) -> io::Result<Self> {
        let file = place.open_folder()?.create_new_file(name)?;
        if durability != Durability::None {
            place.sync_up_to_base()?;
        }
        Self::new(place, file, 0, durability)
    }

    /// Opens the journal in the folder for appending. Truncates everything after `end`.
    pub(crate) fn resume_in_folder(place: &LinkSafePath, end: LogEnd, durability: Durability) -> io::Result<Self> {
        let file = place.open_folder()?.open_file_for_append(JOURNAL_FILE)?;
        file.truncate(end.position)?;
        if durability != Durability::None {
            // Whoever wrote so far may have promised less.
            file.sync_content()?;
            place.sync_up_to_base()?;
        }
        Self::new(place, file, end.position, durability)
    }

    /// Creates the writer of a file with this length.
    fn new(place: &LinkSafePath, file: RecordedFileWriter, length: u64, durability: Durability) -> io::Result<Self> {
        let blobs = BlobFolder::for_journal(place.clone());
        let blobs = if durability == Durability::None {
            blobs.without_sync()
        } else {
            blobs
        };
        Ok(Self {
            watched_files: vec![file.to_watched()?],
            checked_at: Instant::now(),
            file: Arc::new(file),
            length,
            dirty: false,
            durability,
            blobs,
            buffer: Vec::with_capacity(4096),
            has_failed: false,
        })
    }

    /// Stops appending if this file is deleted or replaced.
    pub(crate) fn watch_file(&mut self, file: WatchedFile) {
        self.watched_files.push(file);
    }

    /// Checks that no watched file was deleted or replaced, because writes to a deleted file are lost.
    fn check_files_not_replaced(&mut self) -> Result<(), CommitError> {
        self.checked_at = Instant::now();
        let checked = self.watched_files.iter().try_for_each(WatchedFile::check_not_replaced);
        checked.map_err(|error| self.write_commit_error(error))
    }

    /// Checks the watched files at the end of a run, and at most every 100 ms. With syncing, each sync checks them as well.
    fn check_files_if_due(&mut self, record: &Record) -> Result<(), CommitError> {
        let is_due = matches!(record.event, Event::RunEnded(_)) || self.checked_at.elapsed() >= WATCH_INTERVAL;
        if is_due {
            self.check_files_not_replaced()
        } else {
            Ok(())
        }
    }

    /// Returns the error that the journal cannot be written.
    fn write_commit_error(&self, source: io::Error) -> CommitError {
        CommitError::Write {
            place: self.file.path().display().to_string(),
            source: source.into(),
        }
    }

    /// Writes the record in one piece, before the future returns, so that a dropped future cannot leave an incomplete line.
    fn write_record(&mut self, record: &Record) -> Result<(), CommitError> {
        let fault = count_append_fault();
        if fault == Some(AppendFaultPoint::Before) {
            kill_own_process();
        }
        self.buffer.clear();
        self.encode_to_buffer(record)?;
        if fault == Some(AppendFaultPoint::Torn) {
            let _ = self.file.write_all(&self.buffer[..self.buffer.len() / 2]);
            kill_own_process();
        }
        self.write_buffer()?;
        self.check_files_if_due(record)?;
        match fault {
            Some(AppendFaultPoint::Written) => kill_own_process(),
            Some(AppendFaultPoint::Synced) => self.has_failed = true,
            _ => {}
        }
        Ok(())
    }

    /// Writes both records in one piece, or one by one if a fault is armed.
    fn write_record_pair(&mut self, first: &Record, second: &Record) -> Result<(), CommitError> {
        if is_fault_armed() {
            self.write_record(first)?;
            return self.write_record(second);
        }
        self.buffer.clear();
        self.encode_to_buffer(first)?;
        self.encode_to_buffer(second)?;
        self.write_buffer()?;
        self.check_files_if_due(second)
    }

    /// Appends the line of the record to the buffer. Stores large fields as files.
    fn encode_to_buffer(&mut self, record: &Record) -> Result<(), CommitError> {
        let large: &dyn LargeFieldStorage = &self.blobs;
        let encoded = append_record_line_with_storage(record, &mut self.buffer, Some(large));
        encoded.map_err(|error| self.write_commit_error(error))
    }

    /// Writes the buffer to the journal. After an error, truncates the journal to its last complete record.
    fn write_buffer(&mut self) -> Result<(), CommitError> {
        if let Err(error) = self.file.write_all(&self.buffer) {
            // Half a line must not stay in the way of a later resume; if this fails too, reading drops it.
            let _ = self.file.truncate(self.length);
            return Err(self.write_commit_error(error));
        }
        self.length += self.buffer.len() as u64;
        self.dirty = true;
        Ok(())
    }

    /// Returns whether the journal must be synced at this point: the durability requires it, and records were written since the last sync.
    fn needs_sync(&self, point: SyncPoint) -> bool {
        let is_sync_point = match self.durability {
            Durability::None => false,
            Durability::Turn => point == SyncPoint::Turn,
            Durability::Commit => true,
        };
        is_sync_point && self.dirty
    }

    /// Syncs the journal on a blocking thread, so that a slow disk does not block the runtime. Then checks the watched files.
    async fn sync_file(&mut self) -> Result<(), CommitError> {
        let file = Arc::clone(&self.file);
        let synced = tokio::task::spawn_blocking(move || file.sync_content()).await;
        let synced = synced.unwrap_or_else(|error| Err(io::Error::other(error)));
        synced.map_err(|error| self.write_commit_error(error))?;
        self.dirty = false;
        self.check_files_not_replaced()
    }
}

impl RunLog for JournalWriter {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(self.write_record(record))
    }

    fn append_both<'a>(&'a mut self, first: &'a Record, second: &'a Record) -> LogFuture<'a> {
        LogFuture::ready(self.write_record_pair(first, second))
    }

    fn sync(&mut self, point: SyncPoint) -> LogFuture<'_> {
        if !self.needs_sync(point) && !self.has_failed {
            return LogFuture::ready(Ok(()));
        }
        LogFuture::boxed(async move {
            if self.needs_sync(point) {
                self.sync_file().await?;
            }
            if self.has_failed {
                kill_own_process();
            }
            Ok(())
        })
    }
}
