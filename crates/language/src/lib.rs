//! The language of ensembles: from the text of an ensemble to findings and to a plan.
//!
//! This crate parses, checks and plans. It receives texts and returns values; it does not read files, start processes or
//! use a clock.
//!
//! - [`source::SourceText`] is a text with a name; [`source::Route`] is the position of a value in an ensemble.
//! - [`loader::load_ensemble`] parses a text and returns an [`ensemble::Ensemble`] and all findings.
//! - [`check::check_ensemble`] returns what is suspicious in an ensemble without errors.
//! - [`plan::Plan`] is the ensemble as a graph with compiled conditions ([`condition::Condition`]).
//! - [`profiles::ModelProfiles`] are the model profiles that agents can name, with overrides.
//! - [`hidden_characters`] makes texts of others safe to show.
//! - [`yaml::edit`] edits YAML texts: [`yaml::edit::TextFix`] is a fix of a finding; [`fix::fix_text`] applies all fixes of a text.
//! - [`design::fix_for_command`] edits the graph of an ensemble in its text.
//! - [`diagnostic::Finding`] is a problem at a route; [`diagnostic::Diagnostic`] is a problem at a position in the text.
//!
//! # Example
//!
//! `examples/findings_and_plan.rs`; run it with `cargo run -p ensemble-language --example findings_and_plan`:
//!
#![doc = concat!("```\n", include_str!("../examples/findings_and_plan.rs"), "```")]

pub mod cases;
pub mod check;
pub mod condition;
pub mod data;
pub mod definition;
pub mod design;
pub mod diagnostic;
pub mod ensemble;
pub mod execution_history;
pub mod fix;
pub mod hidden_characters;
pub mod loader;
pub mod names;
pub mod plan;
pub mod profiles;
#[cfg(any(test, feature = "random-ensembles"))]
pub mod random_ensembles;
pub mod source;
pub mod template;
pub mod vocabulary;
pub mod yaml;
