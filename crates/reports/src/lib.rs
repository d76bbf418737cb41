//! Reports of findings, runs and graphs: for people, as JSON, for CI, as pictures and as pages.
//!
//! - [`report::Human`] and [`report::Events`] report a run while it happens.
//! - [`report::diagnostics`], [`report::Github`], [`report::Sarif`] and [`report::Junit`] report findings.
//! - [`report::graph::Picture`] is a graph of agents; [`report::graph::mermaid`], [`report::graph::dot`], [`report::graph::svg`] and
//!   [`report::graph::ascii`] draw it.
//! - [`report::story`] writes the [`Story`](ensemble_history::story::Story) of a recorded run as text, JSON, Markdown and HTML.
//!
//! # Example
//!
//! `examples/draw_a_graph.rs`; run it with `cargo run -p ensemble-reports --example draw_a_graph`:
//!
#![doc = concat!("```\n", include_str!("../examples/draw_a_graph.rs"), "```")]

pub mod report;
