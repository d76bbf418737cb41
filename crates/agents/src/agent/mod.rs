//! The runners: one trait, and one implementation for each kind of agent.
//!
//! A runner receives all data that the execution may use and returns an observation. It decides nothing about the
//! conversation.
//! **Invariant:** dropping the future of [`Runner::execute`] stops the execution and leaves nothing running.
//!
//! one implementation of `Runner` for each kind of agent.
//! - `agent/process/` starts child processes, each with an environment of its own (`agent/process/environment.rs`). A child process leads a process group (`agent/process/group.rs`), and a watchdog knows the
//!   groups. `agent/process/grace.rs` ends a group with SIGTERM before SIGKILL, in a thread of its own, since a dropped future cannot wait.
//!   `agent/process/strays.rs` kills orphans that have left their group: the program is their parent (a subreaper), and each process has a mark in its environment.
//! - `agent/process/sandbox/` is the sandbox of a child process. The program starts itself as a supervisor, which starts itself once more; the latter applies
//!   limits, Landlock (`agent/process/sandbox/landlock_rules.rs`) and seccomp (`agent/process/sandbox/seccomp_rules.rs`), and becomes the command. So no code runs between `fork` and `exec`. The supervisor
//!   takes from itself the right to send signals to the outside, so that one call kills everything below it, faster than it can grow.
//!   `agent/process/sandbox/refusal.rs` reads at the end of stderr what was refused.
//! - `agent/dialogue/` is the loop of requests and tool calls of one model. It is a library that needs no ensemble: LLM agents use it, and other
//!   programs can use it as a stream.
//! - `agent/window/` contains the inputs of a context window that need effects: a script, a summary, exact token counts.
//! - `agent/for_each/` performs the parts of an agent with `for_each` by the agent's own runner. It sends each part that has ended to the executor, which
//!   commits `part_ended`; the pure half (`agent/for_each/combine.rs`) decides what the outputs come to and which parts can still change it.
//! - `agent/acp/` lets programs that speak the Agent Client Protocol take part like models. `agent/acp/protocol.rs` is the only file that uses the types of the protocol's crate; `agent/acp/wire.rs` bounds what
//!   comes and queues what goes; `agent/acp/turn.rs` attends to one prompt; `agent/acp/files.rs` opens files folder by folder, without links. A program lives until the end of the run and is ended by a task of its own
//!   (`agent/acp/program.rs`), because a dropped execution cannot wait for the answer to its cancellation. `agent/acp/simulated.rs` is the built-in program.
//! - `agent/tool/` performs the tool calls of models, one file for each kind of tool. Scripts, agents and ensembles use the same runners as agents do;
//!   `agent/tool/mcp/` uses the official SDK for MCP servers; `agent/tool/mcp/fault.rs` says in words what went wrong, and `agent/tool/mcp/elicitation.rs` asks the operator what a server
//!   wants to know. A server lives longer than an execution; it is a process group of its own that
//!   the watchdog knows (`agent/process/service.rs`), and it ends with the run. Every tool call passes `agent/tool/gate.rs`,
//!   which says when it may begin, and `agent/tool/permission.rs`. `agent/tool/called.rs` performs agents that call one tool without a model.

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
