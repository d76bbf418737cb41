//! Runs of ensembles on a durable execution engine, [Restate](https://restate.dev).
//!
//! - [`protocol`] contains the messages between the program, the engine's workers, and the workers among each other.
//! - [`EngineClient`] is the client: it starts, follows, answers, cancels, lists and downloads runs.
//! - [`unsupported`] finds the parts of an ensemble that workers do not execute.
//! - [`EngineAdminClient`] is the client of the admin interface: it finds and resumes calls that the engine has paused.
//!
//! The other side is the crate `ensemble-restate`.

mod absence;
mod admin;
mod client;
mod client_error;
mod copies;
pub mod protocol;
mod run_states;
pub mod unsupported;

pub use admin::{EngineAdminClient, PausedCall};
pub use client::EngineClient;
pub use client_error::EngineClientError;
pub use run_states::EngineRunState;
