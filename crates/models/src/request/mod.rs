//! The parts of a request that dialects share.

pub(crate) mod attachments;
pub(crate) mod options;
pub(crate) mod prompt_cache;
pub(crate) mod schema;
pub(crate) mod tool_files;
