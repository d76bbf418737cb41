//! Counts the memory of a thread, and stops a thread that takes too much: [`share`].

pub mod share;
