//! What performs an execution: one trait, and a room for each kind of agent.
//!
//! A runner is handed all it may know, tells what it observed, and decides nothing about the conversation.
//! **Invariant:** dropping the future of [`Runner::execute`] stops the execution and leaves nothing running.

pub mod build_error;
pub mod dialogue;
#[cfg(test)]
mod fixtures;
pub mod input;
pub mod llm;
pub mod output;
pub mod process;
mod repair;
pub mod reply;
pub mod rhai_script;
pub mod schema;
pub mod schema_checked;
mod scope;
pub mod script;
pub mod sub_ensemble;
pub mod tool;
pub mod window;

pub use ensemble_core::runner::*;
