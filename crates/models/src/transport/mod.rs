//! The connection to servers of models: the network, keys, frames of a stream, pauses that servers ask for.

pub(crate) mod context_length;
pub(crate) mod credentials;
pub(crate) mod frames;
pub(crate) mod http_client;
pub(crate) mod network;
pub(crate) mod pauses;
#[cfg(feature = "process")]
pub(crate) mod process_network;
pub(crate) mod reply_error;
