//! Analysis of texts for editors: findings, fixes, hovers, completions, names and renames.
//!
//! This crate has no protocol and no thread. The language server and the designer of the page use it.

pub mod analysis;
