//! `ensemble` runs conversations between agents, described in YAML.
//!
//! The rooms and which of them may know which others are told in `docs/architecture.md`.

pub mod agent;
pub mod check;
pub mod condition;
pub mod data;
pub mod diagnostic;
pub mod ensemble;
pub mod loader;
pub mod report;
pub mod sandbox;
pub mod source;
pub mod thread;
