//! The reader of journals, which checks every line and drops an incomplete last line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::blobs::BlobFolder;
use super::folder::FolderPath;
use super::write::JOURNAL;
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::FORMAT;
use ensemble_core::records::{LineError, decode_with_storage};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{Journal, LogEnd, ReadError, RunReader};
use ensemble_scripts::regular_files::open_regular;

/// An iterator over the records of a journal, with one record in memory at a time. The iterator ends after the first error.
#[derive(Debug)]
pub struct JournalRecords<R> {
    lines: R,
    path: PathBuf,
    blobs: BlobFolder,
    line: Vec<u8>,
    /// Records so far.
    count: u64,
    length: u64,
    is_torn: bool,
    has_ended: bool,
}

/// An iterator over the records of a journal file.
pub type JournalFile = JournalRecords<BufReader<File>>;

/// Opens the journal at `path` for reading. Follows no links in the folder of a run.
///
/// # Errors
///
/// The file cannot be opened.
pub fn open_journal(path: &Path) -> Result<JournalFile, ReadError> {
    let folder = FolderPath::from_path(path.parent().unwrap_or(Path::new("")));
    if folder.is_below_base() && path.ends_with(JOURNAL) {
        return open_journal_in(&folder);
    }
    let file = open_regular(path).map_err(|source| read_error(path, source))?;
    Ok(JournalRecords::new(
        BufReader::with_capacity(1 << 16, file),
        path,
        folder,
    ))
}

/// Opens the journal in the folder of a run, without following links.
pub(crate) fn open_journal_in(folder: &FolderPath) -> Result<JournalFile, ReadError> {
    let path = folder.path().join(JOURNAL);
    let opened = folder.open_folder().and_then(|folder| folder.open_for_reading(JOURNAL));
    let file = opened.map_err(|source| read_error(&path, source))?;
    Ok(JournalRecords::new(
        BufReader::with_capacity(1 << 16, file),
        &path,
        folder.clone(),
    ))
}

/// Reads the whole journal at `path`.
///
/// # Errors
///
/// The journal cannot be read, or a line other than the last is damaged.
pub fn read_journal(path: &Path) -> Result<Journal, ReadError> {
    collect_journal(open_journal(path)?)
}

/// Reads a whole journal from `lines`. Errors use `path` as its name.
///
/// # Errors
///
/// As [`read_journal`].
pub fn read_journal_lines(lines: impl BufRead, path: &Path) -> Result<Journal, ReadError> {
    collect_journal(JournalRecords::new(
        lines,
        path,
        FolderPath::from_path(path.parent().unwrap_or(Path::new(""))),
    ))
}

/// Collects all records, with the position after the last complete record.
fn collect_journal(mut records: JournalRecords<impl BufRead>) -> Result<Journal, ReadError> {
    let all = records.by_ref().collect::<Result<Vec<Record>, ReadError>>()?;
    Ok(Journal {
        records: all,
        end: records.records_end(),
        is_torn: records.is_torn,
    })
}

/// Returns the error that the journal cannot be read.
fn read_error(path: &Path, source: io::Error) -> ReadError {
    ReadError::Unavailable {
        place: path.display().to_string(),
        source: source.into(),
    }
}

impl<R: BufRead> JournalRecords<R> {
    /// Creates an iterator from the lines of a journal. `path` is the name in errors, and `folder` contains the large fields.
    fn new(lines: R, path: &Path, folder: FolderPath) -> Self {
        Self {
            lines,
            path: path.to_owned(),
            blobs: BlobFolder::for_journal(folder),
            line: Vec::new(),
            count: 0,
            length: 0,
            is_torn: false,
            has_ended: false,
        }
    }

    /// Returns the position after the last complete record that was read.
    pub fn records_end(&self) -> LogEnd {
        LogEnd { position: self.length }
    }

    /// Reads the next record. Returns `None` at the end. A damaged last line counts as the end.
    fn read_record(&mut self) -> Result<Option<Record>, ReadError> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let length = read.map_err(|source| read_error(&self.path, source))? as u64;
        if length == 0 {
            return self.finish_reading();
        }
        match self.check_line() {
            Ok(record) => {
                if self.count == 0 {
                    check_format(&self.path, &record)?;
                }
                self.count += 1;
                self.length += length;
                Ok(Some(record))
            }
            Err(error) => {
                let following_bytes = self.lines.fill_buf();
                let is_last = following_bytes
                    .map_err(|source| read_error(&self.path, source))?
                    .is_empty();
                if is_last && matches!(error, LineError::Incomplete | LineError::Checksum) {
                    self.is_torn = true;
                    return self.finish_reading();
                }
                Err(ReadError::Damaged {
                    place: self.path.display().to_string(),
                    line: self.count + 1,
                    error: error.to_string(),
                })
            }
        }
    }

    /// Decodes the current line, and checks its checksum and its sequence number.
    fn check_line(&self) -> Result<Record, LineError> {
        let line = self.line.strip_suffix(b"\n").ok_or(LineError::Incomplete)?;
        let record = decode_with_storage(line, Some(&self.blobs))?;
        if record.seq == self.count {
            return Ok(record);
        }
        let message = format!("expected sequence number {}, found {}", self.count, record.seq);
        Err(LineError::Content(message))
    }

    /// Marks the end of the journal.
    ///
    /// # Errors
    ///
    /// The journal has no records.
    fn finish_reading(&mut self) -> Result<Option<Record>, ReadError> {
        self.has_ended = true;
        if self.count == 0 {
            return Err(ReadError::Empty {
                place: self.path.display().to_string(),
            });
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for JournalRecords<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read_record();
        self.has_ended |= read.is_err();
        read.transpose()
    }
}

impl<R: BufRead + Send> RunReader for JournalRecords<R> {
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        let next = Iterator::next(self).transpose();
        Box::pin(std::future::ready(next))
    }

    fn log_end(&self) -> LogEnd {
        JournalRecords::records_end(self)
    }

    fn is_torn(&self) -> bool {
        self.is_torn
    }
}

/// Checks the format that the first record names.
///
/// # Errors
///
/// The format is not supported, or the first record is another event.
fn check_format(path: &Path, first: &Record) -> Result<(), ReadError> {
    match &first.event {
        Event::RunStarted(started) if started.format == FORMAT => Ok(()),
        Event::RunStarted(started) => Err(ReadError::Format {
            place: path.display().to_string(),
            format: started.format,
        }),
        other => Err(ReadError::Damaged {
            place: path.display().to_string(),
            line: 1,
            error: format!("it begins with `{}`", other.event_name()),
        }),
    }
}
