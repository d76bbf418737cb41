//! An ensemble as one agent of the Agent Client Protocol, over two streams.
//!
//! A session is a run: its id is the id of the run, and each prompt goes on with it. The journal of the run is the only
//! state, so a session that another process began is loaded from it.

mod budget_use;
mod message_progress;
mod prompt_failures;
mod protocol;
pub mod server;
mod session;
mod shown_questions;
mod stop_reasons;
mod turn;
mod updates;
mod wire;
