//! Converts ensembles of llm-orc and workflows of Conductor into ensembles of this language.
//!
//! [`import::import_ensemble`] takes a text and returns a text without errors, and a list of the parts that it could not convert.
//! [`import::ImportContext`] says what is known about the surroundings of the file, such as scripts and other ensembles.
//!
//! # Example
//!
//! `examples/convert.rs`; run it with `cargo run -p ensemble-import --example convert`:
//!
#![doc = concat!("```\n", include_str!("../examples/convert.rs"), "```")]

pub mod import;
