//! Reading a journal back: every line checked, a torn last one dropped.

#![expect(clippy::disallowed_methods, reason = "this room reads the journal")]

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::FORMAT;
use super::blobs::Blobs;
use super::{LineError, decode_beside};
use ensemble_core::conversation::{Event, Record};

/// A journal as it was read.
#[derive(Debug)]
pub struct Journal {
    /// All records that are whole.
    pub records: Vec<Record>,
    /// Bytes of the whole records; what follows was torn.
    pub length: u64,
    /// Was a torn last line dropped?
    pub torn: bool,
    /// Its format.
    pub format: u32,
}

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
    format: u32,
    ended: bool,
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line that is not the last is damaged.
    #[error("{}:{line}: the journal is damaged: {error}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// How.
        error: String,
    },
    /// Nothing in it.
    #[error("{} holds no record", .0.display())]
    Empty(PathBuf),
    /// A later version of the program wrote it.
    #[error("{} has format {format}, and this version reads up to {FORMAT}: use a later version of ensemble", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
}

/// Begins to read the journal at `path`.
pub fn open(path: &Path) -> Result<Records<BufReader<File>>, ReadError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    Ok(Records::new(BufReader::with_capacity(1 << 16, file), path))
}

/// Reads the whole journal at `path`.
pub fn read(path: &Path) -> Result<Journal, ReadError> {
    collect(open(path)?)
}

/// Reads a whole journal from anywhere; errors speak of it as `path`.
pub fn read_from(lines: impl BufRead, path: &Path) -> Result<Journal, ReadError> {
    collect(Records::new(lines, path))
}

fn collect(mut records: Records<impl BufRead>) -> Result<Journal, ReadError> {
    let all = records.by_ref().collect::<Result<Vec<Record>, ReadError>>()?;
    Ok(Journal {
        records: all,
        length: records.length,
        torn: records.torn,
        format: records.format,
    })
}

fn unreadable(path: &Path, source: io::Error) -> ReadError {
    ReadError::Io {
        path: path.to_owned(),
        source,
    }
}

impl<R: BufRead> Records<R> {
    fn new(lines: R, path: &Path) -> Self {
        Self {
            lines,
            path: path.to_owned(),
            blobs: Blobs::beside(path),
            line: Vec::new(),
            count: 0,
            length: 0,
            torn: false,
            format: FORMAT,
            ended: false,
        }
    }

    /// Bytes of the whole records so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Was a torn last line dropped?
    pub fn torn(&self) -> bool {
        self.torn
    }

    /// The journal's format, once its first record has been read.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// The next record; `None` at the end.
    fn read(&mut self) -> Result<Option<Record>, ReadError> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        let length = read.map_err(|source| unreadable(&self.path, source))? as u64;
        if length == 0 {
            return self.end();
        }
        match self.check() {
            Ok(record) => {
                if self.count == 0 {
                    self.format = check_format(&self.path, &record)?;
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
                    return self.end();
                }
                Err(ReadError::Damaged {
                    path: self.path.clone(),
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

    fn end(&mut self) -> Result<Option<Record>, ReadError> {
        self.ended = true;
        if self.count == 0 {
            return Err(ReadError::Empty(self.path.clone()));
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

/// The format that the first record names.
fn check_format(path: &Path, first: &Record) -> Result<u32, ReadError> {
    match &first.event {
        Event::RunStarted(started) if started.format <= FORMAT => Ok(started.format),
        Event::RunStarted(started) => Err(ReadError::Format {
            path: path.to_owned(),
            format: started.format,
        }),
        other => Err(ReadError::Damaged {
            path: path.to_owned(),
            line: 1,
            error: format!("it begins with `{}`", other.name()),
        }),
    }
}
