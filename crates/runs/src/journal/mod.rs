//! The journal: one line of JSON for each event, appended before anything acts on it.
//!
//! **Invariant:** what stands in the journal has happened, and what has been reported stands in the journal.
//! A line is written in one piece with its sequence number and a checksum; a line torn by a crash can only be
//! the last one, and is dropped with a warning when the journal is read.

mod blobs;
mod compare;
mod fault;
mod follow;
mod read;
mod store;
mod write;

pub use blobs::Blobs;
pub use compare::{ComparingLedger, RecordedDecision, RecordedDecisions};
pub use ensemble_core::log::{Divergence, FORMAT, Ledger, LedgerError, SyncPoint};
pub use ensemble_core::records::{LARGE, LineError, decode, decode_beside, encode};
pub use fault::Fault;
pub use follow::Follower;
pub use read::{Journal, ReadError, Records, open, read, read_from};
pub use store::{Lock, RunFolder, Store, StoreError};
pub use write::{Durability, JournalWriter};
