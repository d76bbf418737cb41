//! `ensemble` runs conversations between agents, described in YAML.
//!
//! The rooms and which of them may know which others are told in `docs/architecture.md`.

pub mod agent;
pub mod check;
pub mod cli;
pub mod condition;
pub mod conversation;
pub mod data;
pub mod diagnostic;
pub mod ensemble;
pub mod executor;
pub mod explore;
pub mod import;
pub mod journal;
pub mod loader;
pub mod model;
pub mod plan;
#[cfg(test)]
mod random_ensembles;
pub mod report;
pub mod resolver;
pub mod sandbox;
pub mod source;
pub mod story;
pub mod template;
pub mod thread;
