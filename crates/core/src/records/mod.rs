//! The lines of a journal: how a record is written and read.
//!
//! Every store of journals uses this form, and so does `--output events`.
//!
//! Invariant: a record that is written and read again is the same record.

mod large;
mod line;

pub use large::{LARGE, LargeFields};
pub use line::{LineError, decode, decode_beside, encode, encode_beside};
