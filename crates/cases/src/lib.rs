//! Tests of ensembles.
//!
//! A test file ([`ensemble_language::cases`]) has cases. Each is a conversation with stubs in the place of agents, and what
//! is expected of it.
//!
//! - [`suite::TestSuite::load_and_check`] reads a test file and its ensemble, and reports what is wrong with both.
//! - [`drive::CaseDriver::run_and_judge_case`] holds the conversation of a case, in virtual time and without a process, the network or a key.
//! - [`judge::list_unmet_expectations`] compares what happened with what is expected.
//! - [`suggest::suggest_cases_for_gaps`] makes cases for what no case reaches.
//! - [`mutate::generate_mutants`] changes an ensemble; [`mutate::EnsembleMutant::run_cases_on_mutant`] says which cases notice.
//! - [`update::update_contradicted_expectations`] puts what happened in the place of expectations that it contradicts.
//! - [`coverage::ReachedParts`] collects what conversations reach; [`coverage::CaseCoverage`] compares it with what is possible.

pub mod check;
pub mod coverage;
pub mod drive;
mod examples;
pub mod judge;
pub mod missing_parts;
pub mod mutate;
mod named_stubs;
mod people;
pub mod recorded_case;
mod replies;
pub mod stubs;
pub mod suggest;
pub mod suite;
mod unused_stubs;
pub mod update;
mod votes;
pub mod watch;
