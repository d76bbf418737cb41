//! The runners: one trait, and one implementation for each kind of agent.
//!
//! A runner receives all data that the execution may use and returns an observation. It decides nothing about the
//! conversation.
//! **Invariant:** dropping the future of [`Runner::execute`] stops the execution and leaves nothing running.

#[cfg(feature = "acp")]
pub mod acp;
pub mod attachments;
pub mod build_error;
pub mod dialogue;
#[cfg(test)]
mod fixtures;
pub mod for_each;
mod given_values;
pub mod inner_inputs;
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
