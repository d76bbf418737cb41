//! A reader that follows a journal while another process appends to the journal, without a lock.
//!
//! A line can be incomplete when it is read, and a new driver can truncate an incomplete line and write another line instead. So a line is
//! used only when it is complete and its checksum matches. Until then, the line is read again.

#![expect(clippy::disallowed_methods, reason = "this room reads the journal")]

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::blobs::BlobFolder;
use super::folder::LinkSafePath;
use super::write::JOURNAL_FILE;
use ensemble_core::conversation::Record;
use ensemble_core::records::parse_record_line_with_storage;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{LogReadError, RunLogFollower};

/// The number of reads of a bad line with later lines after which the journal counts as damaged.
const PATIENCE: u32 = 5;

/// The name of the lock file in the folder of a run.
pub(crate) const LOCK_FILE: &str = "lock";

/// A reader that follows a journal while another process appends to the journal.
#[derive(Debug)]
pub(crate) struct JournalFollower {
    place: LinkSafePath,
    path: PathBuf,
    /// Bytes of the whole records that were read.
    offset: u64,
    next_seq: u64,
    /// The number of reads in which the next line was bad although later lines exist.
    failures: u32,
}

impl JournalFollower {
    /// Follows the journal in the folder from its first record.
    pub(crate) fn new(place: LinkSafePath) -> Self {
        Self {
            path: place.path().join(JOURNAL_FILE),
            place,
            offset: 0,
            next_seq: 0,
            failures: 0,
        }
    }

    /// Passes every record that was completed since the last call to `each`. Returns the number of records.
    fn read_new_records(&mut self, mut each: impl FnMut(Record)) -> Result<u64, LogReadError> {
        let io = |source: std::io::Error| LogReadError::Unavailable {
            place: self.path.display().to_string(),
            source: source.into(),
        };
        let opened = self
            .place
            .open_folder()
            .and_then(|folder| folder.open_file_for_reading(JOURNAL_FILE));
        let mut file = opened.map_err(io)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        let mut lines = BufReader::with_capacity(1 << 16, file);
        let before = self.next_seq;
        let blobs = BlobFolder::for_journal(self.place.clone());
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines.read_until(b'\n', &mut line).map_err(io)? as u64;
            let Some(complete_line) = line.strip_suffix(b"\n") else {
                break;
            };
            let error = match parse_record_line_with_storage(complete_line, Some(&blobs)) {
                Ok(record) if record.seq == self.next_seq => {
                    self.offset += length;
                    self.next_seq += 1;
                    self.failures = 0;
                    each(record);
                    continue;
                }
                Ok(record) => format!("expected sequence number {}, found {}", self.next_seq, record.seq),
                Err(error) => error.to_string(),
            };
            // The last line may be torn, and one that was being replaced while it was read is whole the next time.
            let is_last = lines.fill_buf().map_err(io)?.is_empty();
            self.failures += u32::from(!is_last);
            if self.failures > PATIENCE {
                return Err(LogReadError::Damaged {
                    place: self.path.display().to_string(),
                    line: self.next_seq + 1,
                    error,
                });
            }
            break;
        }
        Ok(self.next_seq - before)
    }
}

impl RunLogFollower for JournalFollower {
    fn poll_records(&mut self) -> BoxFuture<'_, Result<Vec<Record>, LogReadError>> {
        let mut records = Vec::new();
        let polled = self.read_new_records(|record| records.push(record));
        Box::pin(std::future::ready(polled.map(|_| records)))
    }
}

/// Returns the id of the process that drives the run in this folder, without taking the lock. The id is in the lock file. Linux also checks
/// that the process has the file open. On other systems, a new process with the same id is mistaken for the driver.
pub(crate) fn find_driver_process(run: &LinkSafePath) -> Option<u32> {
    let lock = run.path().join(LOCK_FILE);
    let text = read_lock_owner(run.open_folder().ok()?.open_file_for_reading(LOCK_FILE).ok()?);
    let pid: u32 = text.trim().strip_prefix("pid ")?.parse().ok()?;
    (is_process_alive(pid) && has_process_file_open(pid, &lock) != Some(false)).then_some(pid)
}

/// Reads the owner of a lock from the lock file, at most 64 bytes.
pub(crate) fn read_lock_owner(lock: impl Read) -> String {
    const LONGEST: u64 = 64;
    let mut text = Vec::new();
    let _is_unreadable = lock.take(LONGEST).read_to_end(&mut text);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Returns whether a process with this id exists. Always true if the system cannot check.
#[cfg(unix)]
fn is_process_alive(pid: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // One that may not be asked is there.
    pid.is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

/// Returns true, because this system cannot check for processes.
#[cfg(not(unix))]
fn is_alive(_pid: u32) -> bool {
    true
}

/// Returns whether the process has the file open. Returns `None` if the system does not report open files.
fn has_process_file_open(pid: u32, file: &Path) -> Option<bool> {
    let file = file.canonicalize().ok()?;
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut open = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    Some(open.any(|target| target == file))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;
    use ensemble_core::conversation::{Event, TurnFinished};
    use ensemble_core::records::append_record_line;

    fn line(seq: u64) -> Vec<u8> {
        let mut line = Vec::new();
        let event = Event::TurnFinished(TurnFinished {
            turn: u32::try_from(seq).expect("small"),
            requests: indexmap::IndexMap::new(),
            requested_at_limit: Vec::new(),
            warnings: vec!["ä".repeat(20)],
        });
        let at = chrono::DateTime::UNIX_EPOCH;
        append_record_line(&Record { seq, at, event }, &mut line);
        line
    }

    fn polled(follower: &mut JournalFollower) -> Vec<u64> {
        let mut seen = Vec::new();
        follower
            .read_new_records(|record| seen.push(record.seq))
            .expect("a journal");
        seen
    }

    #[test]
    fn a_line_is_read_when_it_is_whole_wherever_it_was_cut() {
        let (one, two) = (line(0), line(1));
        for cut in 0..two.len() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("journal.jsonl");
            let mut file = File::create(&path).expect("a file");
            file.write_all(&one).expect("written");
            let mut follower = JournalFollower::new(LinkSafePath::from_path(folder.path()));
            assert_eq!(polled(&mut follower), [0]);
            file.write_all(&two[..cut]).expect("written");
            assert_eq!(polled(&mut follower), [0; 0], "cut at {cut}");
            file.write_all(&two[cut..]).expect("written");
            assert_eq!(polled(&mut follower), [1], "cut at {cut}");
            assert_eq!(polled(&mut follower), [0; 0]);
        }
    }

    #[test]
    fn a_torn_line_that_another_driver_replaces_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        let torn = [line(0), line(1)[..30].to_vec()].concat();
        std::fs::write(&path, torn).expect("written");
        let mut follower = JournalFollower::new(LinkSafePath::from_path(folder.path()));
        assert_eq!(polled(&mut follower), [0]);
        std::fs::write(&path, [line(0), line(1), line(2)].concat()).expect("written");
        assert_eq!(polled(&mut follower), [1, 2]);
    }

    #[test]
    fn damage_inside_is_an_error_with_its_line_and_a_torn_end_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal.jsonl");
        let mut bad = line(1);
        bad[20] ^= 1;
        std::fs::write(&path, [line(0), bad.clone()].concat()).expect("written");
        let mut follower = JournalFollower::new(LinkSafePath::from_path(folder.path()));
        for _ in 0..20 {
            follower.read_new_records(|_| {}).expect("the last line may be torn");
        }
        std::fs::write(&path, [line(0), bad, line(2)].concat()).expect("written");
        let error = (0..20)
            .find_map(|_| follower.read_new_records(|_| {}).err())
            .expect("an error");
        assert!(error.to_string().contains("journal.jsonl:2:"), "{error}");
    }
}
