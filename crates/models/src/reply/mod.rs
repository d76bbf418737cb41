//! The parts of a reply, assembled from the pieces of a stream.

pub(crate) mod assembly;
pub(crate) mod call_ids;
pub(crate) mod calls;
pub(crate) mod end_reasons;
pub(crate) mod reasoning;
pub(crate) mod think_tags;
