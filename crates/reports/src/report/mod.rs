//! Reports of runs and findings. Only this module formats them.
//!
//! **Invariant:** a reporter receives an event after it was committed, and changes nothing.

mod console;
mod context_window;
pub mod diagnostics;
pub mod door;
mod events;
pub mod exploration;
mod form;
mod format;
mod github;
pub mod graph;
mod human;
mod junit;
mod parts;
mod place;
mod reasoning;
mod reasons;
mod sarif;
mod stood_in;
pub mod story;
pub mod tested;
mod values;
mod wrap;
mod xml;

pub use ensemble_core::conversation::RunResult;
pub use ensemble_core::reporter::{Reporter, Silent};

pub use console::{ConsoleOptions, ConsoleWriter};
pub use events::Events;
pub use form::{CheckedFile, Form, Totals};
pub use format::count;
pub use github::Github;
pub use human::{Human, Verbosity};
pub use junit::Junit;
pub use sarif::{Rule, Sarif};
pub use wrap::{LineWidth, hanging};
