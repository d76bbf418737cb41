//! Counts the memory of a thread, and stops a thread that allocates too much: [`thread_limit`].

pub mod thread_limit;
