//! A server of the Model Context Protocol: the ensembles of a folder as tools.
//!
//! - [`catalog`] finds the ensembles of the folder, and makes a typed tool of each.
//! - [`session`] answers one client: it starts, awaits, answers, cancels and lists runs, and checks texts.
//! - [`stdio`] serves the client that has started the program.
//! - [`http`] serves clients on this machine over HTTP.
//! - [`skill`] is the text that teaches a model the language.
//!
//! The crate is a thin mapping over [`RunService`](ensemble_runs::service::run_service::RunService): the journals are the only state.

mod authoring;
pub mod catalog;
pub mod http;
mod names;
mod progress;
mod request_form;
pub mod session;
pub mod skill;
mod status;
pub mod stdio;
mod tools;
