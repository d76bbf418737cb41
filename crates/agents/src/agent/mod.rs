//! The runners: one trait, and one implementation for each kind of agent.
//!
//! A runner receives all data that the execution may use and returns an observation. It decides nothing about the
//! conversation.
//! **Invariant:** dropping the future of [`Runner::execute`] stops the execution and leaves nothing running.
//!
//! - `agent/dialogue/` is the loop of requests and tool calls of one model. It is a library that needs no ensemble: LLM agents use it,
//!   and other programs can use it as a stream.
//! - `agent/window/` contains the inputs of a context window that need effects: a script, a summary, exact token counts.
//! - `agent/for_each/` performs the parts of an agent with `for_each` by the agent's own runner. It sends each part that has ended to the
//!   executor, which commits `part_ended`; `agent/for_each/combine.rs` is pure: it combines the outputs, and decides which parts can still
//!   change the result.
//! - `agent/acp/` lets programs of the Agent Client Protocol take part like models. `agent/acp/protocol.rs` is the only file that uses the
//!   types of the protocol's crate. A program lives until the end of the run, and a separate task ends it (`agent/acp/program.rs`), because a
//!   dropped execution cannot wait for the answer to its cancellation.
//! - `agent/tool/` performs the tool calls of models, one file for each kind of tool. Scripts, agents and ensembles use the same runners as
//!   agents do; `agent/tool/mcp/` uses the official SDK for MCP servers. A server lives longer than an execution, and ends with the run.
//!   Every tool call passes `agent/tool/gate.rs`, which says when it may begin, and `agent/tool/permission.rs`.

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
mod repair;
pub mod rhai_script;
pub mod schema;
pub mod schema_checked;
mod scope;
pub mod script;
pub mod sub_ensemble;
pub mod tool;
pub mod window;

pub use ensemble_core::runner::*;
