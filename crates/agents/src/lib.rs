//! What performs the executions of agents: scripts, models with tools, people, and inner ensembles.
//!
//! - [`agent::Runner`] is the trait of the core that this crate implements once for each kind of agent:
//!   [`agent::script`], [`agent::llm`], [`agent::input`] and [`agent::sub_ensemble`].
//! - [`agent::dialogue`] is the loop of requests and tool calls of one model; it needs no ensemble.
//! - [`model::Model`] is a model with its retries and fallbacks; [`model::Provider`] is the trait of a provider.
//! - [`regular`] reads the files that a text names.
//! - [`sandbox::Script`] is a compiled Rhai script.
//! - [`room`] lets child processes and connections wait that do not fit into the limits of this process.
//!
//! The feature `mcp` adds the tools of MCP servers; the feature `tokenizers` adds exact token counts for models of OpenAI.
//!
//! # Example
//!
//! `examples/run_a_script.rs`; run it with `cargo run -p ensemble-agents --example run_a_script`:
//!
#![doc = concat!("```\n", include_str!("../examples/run_a_script.rs"), "```")]

pub mod agent;
