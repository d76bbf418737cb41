//! Performs the executions of agents: scripts, models with tools, people, and nested ensembles.
//!
//! - [`agent::Runner`] is the trait of the core that this crate implements once for each kind of agent:
//!   [`agent::kinds`].
//! - [`agent::chat`] is the loop of requests and tool calls of one model; it needs no ensemble.
//! - Models are in `ensemble-models`, child processes in `ensemble-process`, Rhai scripts in `ensemble-scripts`.
//!
//! The feature `mcp` adds the tools of MCP servers; the feature `tokenizers` adds exact token counts for models of OpenAI.
//!
//! # Example
//!
//! `examples/run_a_script.rs`; run it with `cargo run -p ensemble-agents --example run_a_script`:
//!
#![doc = concat!("```\n", include_str!("../examples/run_a_script.rs"), "```")]

pub mod agent;
