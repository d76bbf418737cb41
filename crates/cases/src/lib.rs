//! Tests of ensembles.
//!
//! A test file ([`ensemble_language::cases`]) has cases. Each is a conversation with stubs in the place of agents, and what
//! is expected of it.
//!
//! - [`suite::Suite::read`] reads a test file and its ensemble, and reports what is wrong with both.
//! - [`drive::Driver::run`] holds the conversation of a case, in virtual time and without a process, the network or a key.
//! - [`judge::judge`] compares what happened with what is expected.
//! - [`suggest::suggest`] makes cases for what no case reaches.
//! - [`mutate::mutants`] changes an ensemble; [`mutate::Mutant::fate`] says which cases notice.
//! - [`update::updated`] puts what happened in the place of expectations that it contradicts.
//! - [`coverage::Reached`] collects what conversations reach; [`coverage::Coverage`] compares it with what is possible.

pub mod check;
pub mod coverage;
pub mod drive;
mod examples;
pub mod judge;
pub mod mutate;
pub mod recorded;
pub mod stubs;
pub mod suggest;
pub mod suite;
pub mod update;
mod votes;
