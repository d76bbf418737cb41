//! The shared parts of agent runners: tools, programs and sandboxes.

pub(crate) mod external;
pub(crate) mod external_models;
pub(crate) mod sandboxes;
pub(crate) mod shared_parts;
pub(crate) mod stubbed_model;
pub(crate) mod tools;
