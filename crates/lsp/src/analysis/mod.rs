//! Answers about a text, as far as the text and the files around it tell.
//!
//! **Invariant:** no text and no position makes an answer fail.

pub mod findings;
