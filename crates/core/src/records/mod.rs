//! The lines of a journal: how a record is written and read.
//!
//! Every store of journals uses this form, and so does `--output events`.
//!
//! Invariant: a record that is written and read again is the same record.

mod large;
mod line;

pub use large::{LargeFieldStorage, MAX_INLINE_FIELD};
pub use line::{
    JournalLineError, append_record_line, append_record_line_with_storage, parse_record_line,
    parse_record_line_with_storage,
};
