//! Messages of clients and servers: lines with a size limit, and connections over HTTP on this machine (feature `http`).
//!
//! The crate contains no protocol: the front ends and the clients of tools interpret the messages.

#[cfg(feature = "http")]
pub mod bodies;
#[cfg(feature = "http")]
pub mod connections;
#[cfg(feature = "http")]
pub mod guard;
pub mod json_rpc;
pub mod lines;
#[cfg(feature = "http")]
pub mod token;
