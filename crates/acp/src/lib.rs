//! An ensemble as one agent of the Agent Client Protocol, over two streams.
//!
//! Each session is a run with the same id, and each prompt continues the run. The journal of the run is the only state, so a session that
//! another process started is loaded from the journal.

mod budget_use;
mod message_progress;
mod prompt_failures;
mod protocol;
pub mod server;
mod session;
mod session_update;
mod shown_questions;
mod stop_reasons;
mod turn;
mod updates;
mod wire;
