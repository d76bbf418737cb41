//! A language server for ensembles.
//!
//! - [`text`] is the text of an open file, with the positions of the protocol.
//! - [`server`] implements the Language Server Protocol over two streams. The answers come from `ensemble_ide`.

pub mod server;
pub mod text;
