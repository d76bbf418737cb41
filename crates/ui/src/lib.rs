//! A page in the browser over the runs of a project, and the server behind it.
//!
//! - [`UiServer`] listens on the loopback interface and serves one page, the interface that the page uses, and
//!   `/v1/chat/completions` for chat programs.
//! - [`AccessToken`] is what a client must know.
//!
//! The server keeps nothing of its own: what it shows is folded from the journals, which it follows whoever
//! writes them, and read from the files of ensembles.

mod api;
mod app;
mod chat;
mod conversations;
mod design;
mod events;
mod page;
mod reply;
mod route;
mod run_list;
mod server;
mod view;
mod watched_run;

pub use app::{NewEnsembleFile, UiServerSettings};
pub use ensemble_wire::token::AccessToken;
pub use server::UiServer;
