//! Answers about a text, as far as the text and the files around it tell.
//!
//! **Invariant:** no text and no position makes an answer fail.
//!
//! Answers about one text, one file for each kind of answer. They read the same tree, plan and checks as all other commands, and the files
//! around the text through `project::check`. A text that is not YAML at the moment is read without the lines that are in error.

pub mod completions;
mod cursor;
mod document_tree;
mod editor_view;
mod expression_code;
pub mod findings;
pub mod fixes;
pub mod hover;
mod lexer;
pub mod name_occurrences;
pub mod related_files;
pub mod rename;
mod schema;
mod script_occurrences;
pub mod symbols;
mod test_file_patterns;
mod vocabulary_words;

pub use editor_view::{EditorView, tested_ensemble_path};

#[cfg(test)]
mod tests;
