//! The language of ensembles: from text to a plan and to findings, without I/O.

pub mod check;
pub mod condition;
pub mod data;
pub mod diagnostic;
pub mod ensemble;
pub mod loader;
pub mod plan;
#[cfg(any(test, feature = "random-ensembles"))]
pub mod random_ensembles;
pub mod source;
pub mod template;
