//! Reports of findings, runs and graphs: text for users, JSON, formats of CI, pictures and pages.
//!
//! - [`report::HumanReporter`] and [`report::JsonEventPrinter`] report a run while it happens.
//! - [`report::diagnostics`], [`report::GithubFindingsFormat`], [`report::SarifFindingsFormat`] and [`report::JunitFindingsFormat`] report findings.
//! - [`report::graph::GraphPicture`] is a graph of agents; [`report::graph::render_mermaid`], [`report::graph::render_dot`], [`report::graph::render_svg`] and
//!   [`report::graph::render_ascii`] draw it.
//! - [`report::story`] writes the [`Story`](ensemble_history::story::RunStory) of a recorded run as text, JSON, Markdown and HTML.
//!
//! # Example
//!
//! `examples/draw_a_graph.rs`; run it with `cargo run -p ensemble-reports --example draw_a_graph`:
//!
#![doc = concat!("```\n", include_str!("../examples/draw_a_graph.rs"), "```")]

pub mod report;
