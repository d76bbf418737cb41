//! Answers about a text, as far as the text and the files around it tell.
//!
//! **Invariant:** no text and no position makes an answer fail.
//!
//! Answers about one text, one file for each kind of answer. They read the same tree, plan and checks as all other commands, and the files
//! around the text through `project::check`. A text that is not YAML at the moment is read without the lines that are in error.

mod code;
pub mod complete;
mod cursor;
pub mod files;
pub mod findings;
pub mod fixes;
pub mod hover;
mod lexis;
pub mod names;
pub mod rename;
mod schema;
mod scripts;
pub mod symbols;
mod tested;
mod tree;
mod view;
mod words;

pub use view::{View, tested_by};

#[cfg(test)]
mod tests;
