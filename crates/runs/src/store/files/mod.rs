//! Runs in files: `.ensemble/runs/<run id>/`, each with its journal, a copy of its ensemble, and a lock.
//!
//! The journal has one line of JSON for each event, which is appended before any effect of the event. **Invariant:** every recorded event
//! has happened, and every reported event is recorded. A line is written in one piece with its sequence number and a checksum. Only the
//! last line can be incomplete after a crash. A reader drops an incomplete line with a warning.
//!
//! The module contains the writer (`files/write.rs`), the reader (`files/read.rs`), the folder of runs (`files/store.rs`) with its locks
//! (`files/lock.rs`), large fields (`files/blobs.rs`), and a reader that follows a journal without a lock while another process appends to
//! the journal (`files/follow.rs`). All of them open files relative to an open folder, without following links (`files/folder.rs`). For
//! tests, the process can kill itself at a chosen append (`files/fault.rs`) and record its effects on the disk (`files/effects.rs`,
//! testing.md).

mod batch;
mod blobs;
mod effects;
mod fault;
mod folder;
mod follow;
mod lock;
mod read;
mod sink;
mod store;
mod write;

pub use batch::BatchFiles;
#[cfg(debug_assertions)]
pub use effects::start_recording_effects;
#[cfg(debug_assertions)]
pub use fault::AppendFault;
pub use read::{JournalFileRecords, JournalRecords, open_journal, read_journal, read_journal_lines};
pub use store::FileRunStore;
pub use write::JournalWriter;
