//! The connection to servers of models: addresses, keys, frames of a stream, failures.

pub(crate) mod address;
pub(crate) mod context_length;
pub(crate) mod credentials;
pub(crate) mod failure;
pub(crate) mod frames;
pub(crate) mod network;
pub(crate) mod pauses;
#[cfg(feature = "process")]
pub(crate) mod process_network;
pub(crate) mod reply_error;
