//! The reader of journals, which checks every line and drops an incomplete last line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::blobs::BlobFolder;
use super::folder::LinkSafePath;
use super::write::JOURNAL_FILE;
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::JOURNAL_FORMAT;
use ensemble_core::records::{JournalLineError, parse_record_line_with_storage};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{JournalContents, LogEnd, LogReadError, RunRecordReader};
use ensemble_scripts::regular_files::open_regular_file;

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
pub type JournalFileRecords = JournalRecords<BufReader<File>>;

/// Opens the journal at `path` for reading. Follows no links in the folder of a run.
///
/// # Errors
///
/// The file cannot be opened.
pub fn open_journal(path: &Path) -> Result<JournalFileRecords, LogReadError> {
    let folder = LinkSafePath::from_path(path.parent().unwrap_or(Path::new("")));
    if folder.has_unfollowed_part() && path.ends_with(JOURNAL_FILE) {
        return open_run_journal(&folder);
    }
    let file = open_regular_file(path).map_err(|source| unavailable_error(path, source))?;
    Ok(JournalRecords::new(
        BufReader::with_capacity(1 << 16, file),
        path,
        folder,
    ))
}

/// Opens the journal in the folder of a run, without following links.
pub(crate) fn open_run_journal(folder: &LinkSafePath) -> Result<JournalFileRecords, LogReadError> {
    let path = folder.path().join(JOURNAL_FILE);
    let opened = folder
        .open_folder()
        .and_then(|folder| folder.open_file_for_reading(JOURNAL_FILE));
    let file = opened.map_err(|source| unavailable_error(&path, source))?;
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
pub fn read_journal(path: &Path) -> Result<JournalContents, LogReadError> {
    collect_journal(open_journal(path)?)
}

/// Reads a whole journal from `lines`. Errors use `path` as its name.
///
/// # Errors
///
/// As [`read_journal`].
pub fn read_journal_lines(lines: impl BufRead, path: &Path) -> Result<JournalContents, LogReadError> {
    collect_journal(JournalRecords::new(
        lines,
        path,
        LinkSafePath::from_path(path.parent().unwrap_or(Path::new(""))),
    ))
}

/// Collects all records, with the position after the last complete record.
fn collect_journal(mut records: JournalRecords<impl BufRead>) -> Result<JournalContents, LogReadError> {
    let all = records.by_ref().collect::<Result<Vec<Record>, LogReadError>>()?;
    Ok(JournalContents {
        records: all,
        end: records.complete_records_end(),
        is_torn: records.is_torn,
    })
}

/// Returns the error that the journal cannot be read.
fn unavailable_error(path: &Path, source: io::Error) -> LogReadError {
    LogReadError::Unavailable {
        place: path.display().to_string(),
        source: source.into(),
    }
}

impl<R: BufRead> JournalRecords<R> {
    /// Creates an iterator from the lines of a journal. `path` is the name in errors, and `folder` contains the large fields.
    fn new(lines: R, path: &Path, folder: LinkSafePath) -> Self {
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
    pub fn complete_records_end(&self) -> LogEnd {
        LogEnd { position: self.length }
    }

    /// Reads the next record. Returns `None` at the end. A damaged last line counts as the end.
    fn read_next_record(&mut self) -> Result<Option<Record>, LogReadError> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let length = read.map_err(|source| unavailable_error(&self.path, source))? as u64;
        if length == 0 {
            return self.mark_ended();
        }
        match self.decode_line() {
            Ok(record) => {
                if self.count == 0 {
                    check_journal_format(&self.path, &record)?;
                }
                self.count += 1;
                self.length += length;
                Ok(Some(record))
            }
            Err(error) => {
                let following_bytes = self.lines.fill_buf();
                let is_last = following_bytes
                    .map_err(|source| unavailable_error(&self.path, source))?
                    .is_empty();
                if is_last && matches!(error, JournalLineError::Incomplete | JournalLineError::Checksum) {
                    self.is_torn = true;
                    return self.mark_ended();
                }
                Err(LogReadError::Damaged {
                    place: self.path.display().to_string(),
                    line: self.count + 1,
                    error: error.to_string(),
                })
            }
        }
    }

    /// Decodes the current line, and checks its checksum and its sequence number.
    fn decode_line(&self) -> Result<Record, JournalLineError> {
        let line = self.line.strip_suffix(b"\n").ok_or(JournalLineError::Incomplete)?;
        let record = parse_record_line_with_storage(line, Some(&self.blobs))?;
        if record.seq == self.count {
            return Ok(record);
        }
        let message = format!("expected sequence number {}, found {}", self.count, record.seq);
        Err(JournalLineError::Content(message))
    }

    /// Marks the end of the journal.
    ///
    /// # Errors
    ///
    /// The journal has no records.
    fn mark_ended(&mut self) -> Result<Option<Record>, LogReadError> {
        self.has_ended = true;
        if self.count == 0 {
            return Err(LogReadError::Empty {
                place: self.path.display().to_string(),
            });
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for JournalRecords<R> {
    type Item = Result<Record, LogReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read_next_record();
        self.has_ended |= read.is_err();
        read.transpose()
    }
}

impl<R: BufRead + Send> RunRecordReader for JournalRecords<R> {
    fn next_record(&mut self) -> BoxFuture<'_, Result<Option<Record>, LogReadError>> {
        let next = Iterator::next(self).transpose();
        Box::pin(std::future::ready(next))
    }

    fn position_after_read_records(&self) -> LogEnd {
        JournalRecords::complete_records_end(self)
    }

    fn has_dropped_incomplete_record(&self) -> bool {
        self.is_torn
    }
}

/// Checks the format that the first record names.
///
/// # Errors
///
/// The format is not supported, or the first record is another event.
fn check_journal_format(path: &Path, first: &Record) -> Result<(), LogReadError> {
    match &first.event {
        Event::RunStarted(started) if started.format == JOURNAL_FORMAT => Ok(()),
        Event::RunStarted(started) => Err(LogReadError::Format {
            place: path.display().to_string(),
            format: started.format,
        }),
        other => Err(LogReadError::Damaged {
            place: path.display().to_string(),
            line: 1,
            error: format!("it begins with `{}`", other.event_name()),
        }),
    }
}
