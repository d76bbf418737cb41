//! The runners: one trait, and one implementation for each kind of agent.
//!
//! A runner receives all data that the execution may use and returns an observation. It decides nothing about the
//! conversation.
//! **Invariant:** dropping the future of [`Runner::execute_attempt`] stops the execution and leaves nothing running.
//!
//! - `agent/kinds/` has one runner for each kind of agent; `agent/output/` makes outputs of their replies.
//! - `agent/chat/` is the loop of requests and tool calls of one model. It is a library that needs no ensemble: LLM agents use it,
//!   and other programs can use it as a stream.
//! - `agent/window/` contains the inputs of a context window that need effects: a script, a summary, exact token counts.
//! - `agent/for_each/` performs the parts of an agent with `for_each` by the agent's own runner. It sends each part that has ended to the
//!   executor, which commits `part_ended`; `agent/for_each/combine.rs` is pure: it combines the outputs, and decides which parts can still
//!   change the result.
//! - `agent/acp/` lets programs of the Agent Client Protocol take part like models. `agent/acp/protocol.rs` is the only file that uses the
//!   types of the protocol's crate. A program lives until the end of the run, and a separate task ends it (`agent/acp/program.rs`), because a
//!   dropped execution cannot wait for the answer to its cancellation.
//! - `agent/tools/` performs the tool calls of models, one file for each kind of tool. Scripts, agents and ensembles use the same runners as
//!   agents do; `agent/mcp/` uses the official SDK for MCP servers. A server lives longer than an execution, and ends with the run.
//!   Every tool call passes `agent/tools/gate.rs`, which says when it may begin, and `agent/tools/permission.rs`.

#[cfg(feature = "acp")]
pub mod acp;
pub mod attachments;
pub mod build_error;
pub mod chat;
#[cfg(test)]
mod fixtures;
pub mod for_each;
pub mod kinds;
pub mod mcp;
pub mod output;
pub mod tools;
pub mod window;

pub use ensemble_core::runner::*;
