//! When a model is asked again, and at which pace.

pub(crate) mod chain;
pub(crate) mod pace;
pub(crate) mod paced_provider;
pub(crate) mod quirks;
