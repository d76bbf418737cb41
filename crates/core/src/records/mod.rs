//! The lines of a journal: how a record is written and read.
//!
//! Every store of journals uses this form, and so does `--output events`.
//!
//! Invariant: a record that is written and read again is the same record.

mod large;
mod line;

pub use large::{LARGE, LargeFields};
pub use line::{LineError, decode_record, decode_with_storage, encode_record, encode_with_storage};
