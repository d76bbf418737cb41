//! Reading a journal back: every line checked, a torn last one dropped.

#![expect(clippy::disallowed_methods, reason = "this room reads the journal")]

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::FORMAT;
use super::line::{LineError, decode};
use crate::conversation::{Event, Record};

/// A journal as it was read.
#[derive(Debug)]
pub struct Journal {
    /// All records that are whole.
    pub records: Vec<Record>,
    /// Bytes of the whole records; what follows was torn.
    pub length: u64,
    /// Was a torn last line dropped?
    pub torn: bool,
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

/// Reads the journal at `path`.
pub fn read(path: &Path) -> Result<Journal, ReadError> {
    let file = std::fs::File::open(path).map_err(|source| unreadable(path, source))?;
    read_from(BufReader::with_capacity(1 << 16, file), path)
}

fn unreadable(path: &Path, source: io::Error) -> ReadError {
    ReadError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Reads a journal from anywhere; errors speak of it as `path`.
pub fn read_from(mut lines: impl BufRead, path: &Path) -> Result<Journal, ReadError> {
    let io = |source| unreadable(path, source);
    let mut journal = Journal {
        records: Vec::new(),
        length: 0,
        torn: false,
    };
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let length = lines.read_until(b'\n', &mut line).map_err(io)? as u64;
        if length == 0 {
            break;
        }
        match check(&line, &journal) {
            Ok(record) => {
                journal.records.push(record);
                journal.length += length;
            }
            Err(error) => {
                let is_last = lines.fill_buf().map_err(io)?.is_empty();
                let torn = is_last && !matches!(error, LineError::Content(_));
                if !torn {
                    let (path, line, error) = (path.to_owned(), number, error.to_string());
                    return Err(ReadError::Damaged { path, line, error });
                }
                journal.torn = true;
            }
        }
    }
    check_format(path, &journal)?;
    Ok(journal)
}

fn check(line: &[u8], journal: &Journal) -> Result<Record, LineError> {
    let line = line.strip_suffix(b"\n").ok_or(LineError::Incomplete)?;
    let record = decode(line)?;
    let expected = journal.records.len() as u64;
    if record.seq == expected {
        Ok(record)
    } else {
        let message = format!("expected sequence number {expected}, found {}", record.seq);
        Err(LineError::Content(message))
    }
}

fn check_format(path: &Path, journal: &Journal) -> Result<(), ReadError> {
    match journal.records.first().map(|record| &record.event) {
        None => Err(ReadError::Empty(path.to_owned())),
        Some(Event::RunStarted(started)) if started.format <= FORMAT => Ok(()),
        Some(Event::RunStarted(started)) => Err(ReadError::Format {
            path: path.to_owned(),
            format: started.format,
        }),
        Some(other) => Err(ReadError::Damaged {
            path: path.to_owned(),
            line: 1,
            error: format!("it begins with `{}`", other.name()),
        }),
    }
}
