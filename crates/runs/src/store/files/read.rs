//! Reading a journal back: every line checked, a torn last one dropped.

#![expect(clippy::disallowed_methods, reason = "this room reads the journal")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::folder::Place;
use super::write::JOURNAL;
use ensemble_core::conversation::{Event, Record};
use ensemble_core::log::FORMAT;
use ensemble_core::records::{LineError, decode_beside};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{Journal, LogEnd, ReadError, RunReader};

/// The records of a journal, one after the other: no more than one is in memory.
///
/// After the first error there is nothing more.
#[derive(Debug)]
pub struct Records<R> {
    lines: R,
    path: PathBuf,
    blobs: Blobs,
    line: Vec<u8>,
    /// Records so far.
    count: u64,
    length: u64,
    torn: bool,
    ended: bool,
}

/// A journal in a file.
pub type JournalFile = Records<BufReader<File>>;

/// Opens the journal at `path` for reading: in the folder of a run without following links, elsewhere as the path says.
///
/// # Errors
/// The file cannot be opened.
pub fn open_journal(path: &Path) -> Result<JournalFile, ReadError> {
    let folder = Place::at(path.parent().unwrap_or(Path::new("")));
    if folder.is_bounded() && path.ends_with(JOURNAL) {
        return open_in(&folder);
    }
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    Ok(Records::new(BufReader::with_capacity(1 << 16, file), path, folder))
}

/// Opens the journal in the folder of a run.
pub(crate) fn open_in(folder: &Place) -> Result<JournalFile, ReadError> {
    let path = folder.path().join(JOURNAL);
    let opened = folder.open().and_then(|folder| folder.read(JOURNAL));
    let file = opened.map_err(|source| unreadable(&path, source))?;
    Ok(Records::new(
        BufReader::with_capacity(1 << 16, file),
        &path,
        folder.clone(),
    ))
}

/// Reads the whole journal at `path`.
///
/// # Errors
/// The journal cannot be read, or a line that is not the last is damaged.
pub fn read_journal(path: &Path) -> Result<Journal, ReadError> {
    collect(open_journal(path)?)
}

/// Reads a whole journal from `lines`; errors name it `path`.
///
/// # Errors
/// As [`read_journal`].
pub fn read_lines(lines: impl BufRead, path: &Path) -> Result<Journal, ReadError> {
    collect(Records::new(
        lines,
        path,
        Place::at(path.parent().unwrap_or(Path::new(""))),
    ))
}

fn collect(mut records: Records<impl BufRead>) -> Result<Journal, ReadError> {
    let all = records.by_ref().collect::<Result<Vec<Record>, ReadError>>()?;
    Ok(Journal {
        records: all,
        end: records.end(),
        is_torn: records.torn,
    })
}

fn unreadable(path: &Path, source: io::Error) -> ReadError {
    ReadError::Unavailable {
        place: path.display().to_string(),
        source: source.into(),
    }
}

impl<R: BufRead> Records<R> {
    fn new(lines: R, path: &Path, folder: Place) -> Self {
        Self {
            lines,
            path: path.to_owned(),
            blobs: Blobs::in_folder(folder),
            line: Vec::new(),
            count: 0,
            length: 0,
            torn: false,
            ended: false,
        }
    }

    /// The end of the whole records so far.
    pub fn end(&self) -> LogEnd {
        LogEnd { position: self.length }
    }

    /// The next record; `None` at the end.
    fn read(&mut self) -> Result<Option<Record>, ReadError> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let length = read.map_err(|source| unreadable(&self.path, source))? as u64;
        if length == 0 {
            return self.finish();
        }
        match self.check() {
            Ok(record) => {
                if self.count == 0 {
                    check_format(&self.path, &record)?;
                }
                self.count += 1;
                self.length += length;
                Ok(Some(record))
            }
            Err(error) => {
                let rest = self.lines.fill_buf();
                let is_last = rest.map_err(|source| unreadable(&self.path, source))?.is_empty();
                if is_last && matches!(error, LineError::Incomplete | LineError::Checksum) {
                    self.torn = true;
                    return self.finish();
                }
                Err(ReadError::Damaged {
                    place: self.path.display().to_string(),
                    line: self.count + 1,
                    error: error.to_string(),
                })
            }
        }
    }

    fn check(&self) -> Result<Record, LineError> {
        let line = self.line.strip_suffix(b"\n").ok_or(LineError::Incomplete)?;
        let record = decode_beside(line, Some(&self.blobs))?;
        if record.seq == self.count {
            return Ok(record);
        }
        let message = format!("expected sequence number {}, found {}", self.count, record.seq);
        Err(LineError::Content(message))
    }

    fn finish(&mut self) -> Result<Option<Record>, ReadError> {
        self.ended = true;
        if self.count == 0 {
            return Err(ReadError::Empty {
                place: self.path.display().to_string(),
            });
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended |= read.is_err();
        read.transpose()
    }
}

impl<R: BufRead + Send> RunReader for Records<R> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Record>, ReadError>> {
        let next = Iterator::next(self).transpose();
        Box::pin(std::future::ready(next))
    }

    fn end(&self) -> LogEnd {
        Records::end(self)
    }

    fn is_torn(&self) -> bool {
        self.torn
    }
}

/// Checks the format that the first record names.
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
            error: format!("it begins with `{}`", other.name()),
        }),
    }
}
