//! A language server for ensembles.
//!
//! - [`text`] is the text of an open file, with the positions of the protocol.
//! - [`analysis`] answers questions about a text: findings, hovers, completions, names. It knows nothing of the protocol's
//!   messages.
//! - [`server`] speaks the Language Server Protocol over two streams that its caller hands in.

pub mod analysis;
pub mod server;
pub mod text;
