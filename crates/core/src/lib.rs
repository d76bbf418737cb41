//! The core of a run: events, state, decisions, and the traits that the other crates implement.
//!
//! This crate does not read files, start processes or use the system clock. The executor measures deadlines with
//! tokio's timer.
//!
//! - [`conversation::Event`] is what can happen in a run; [`conversation::Record`] is an event with its number and
//!   time.
//! - [`conversation::ConversationState`] is computed from the records, with `apply`.
//! - [`resolver::decide_next_step`] returns what happens next.
//! - [`executor::Executor`] is the loop that commits events and performs executions.
//! - [`runner::Runner`], [`log::RunLog`], [`store::RunStore`], [`reporter::Reporter`] and [`operator::Operator`] are
//!   the traits for agents, logs, stores, reports, and the person or program that answers questions.
//!
//! # Example
//!
//! `examples/decide_by_hand.rs`; run it with `cargo run -p ensemble-core --example decide_by_hand`:
//!
#![doc = concat!("```\n", include_str!("../examples/decide_by_hand.rs"), "```")]

pub mod conversation;
pub mod executor;
pub mod log;
pub mod operator;
#[cfg(any(test, feature = "random-conversations"))]
pub mod random_conversations;
pub mod records;
pub mod reply;
pub mod reporter;
pub mod request;
pub mod resolver;
pub mod runner;
pub mod secrets;
pub mod stopwatch;
pub mod store;
pub mod thread;
pub mod trace;
