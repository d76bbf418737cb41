//! The terminal: standard streams, lines of input, the operator, signals.

#![expect(
    clippy::disallowed_methods,
    reason = "the edge reads the environment, files and the clock"
)]

pub(crate) mod lines;
pub(crate) mod operator;
pub(crate) mod signals;
pub(crate) mod streams;
pub(crate) mod write_errors;
