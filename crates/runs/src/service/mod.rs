//! The run service for several clients.

pub(crate) mod answer_checks;
pub mod run_service;
