//! What a run is: events and the state that is their fold, the resolver, exploration, the executor, and the traits that
//! agents, stores and reports implement. Without files, clocks and processes.

pub mod conversation;
pub mod executor;
pub mod explore;
pub mod log;
pub mod operator;
pub mod records;
pub mod reporter;
pub mod resolver;
pub mod runner;
pub mod stopwatch;
pub mod store;
pub mod thread;
