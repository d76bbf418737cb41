//! What the runners of agents share: tools, programs, sandboxes.

pub(crate) mod external;
pub(crate) mod external_models;
pub(crate) mod sandboxes;
pub(crate) mod shared_parts;
pub(crate) mod stubbed_model;
pub(crate) mod tools;
