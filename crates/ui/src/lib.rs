//! A page in the browser over the runs of a project, and the server behind it.
//!
//! - [`Server`] listens on the loopback interface and serves one page, the interface that the page uses, and
//!   `/v1/chat/completions` for chat programs.
//! - [`Token`] is what a client must know.
//!
//! The server keeps nothing of its own: what it shows is folded from the journals, which it follows whoever
//! writes them, and read from the files of ensembles.

mod api;
mod app;
mod briefs;
mod chat;
mod conversations;
mod design;
mod events;
mod follow;
mod page;
mod reply;
mod route;
mod server;
mod view;

pub use app::{NewFile, Settings};
pub use ensemble_wire::token::Token;
pub use server::Server;
