//! Runs in files.

pub mod files;
