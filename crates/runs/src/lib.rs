//! The run layer: runs that are started, followed, answered, cancelled, resumed, forked and replayed.

mod agents;
pub mod around;
mod desk;
mod error;
mod events;
pub mod files;
mod fork;
pub mod given;
mod host;
mod inner;
mod options;
mod outputs;
mod parts;
pub mod prepare;
pub mod project;
mod ready;
pub mod recorded;
pub mod replay;
mod reuse;
mod reused;
mod run;
mod runs;
mod tools;

pub use error::RunError;
pub use events::{LivePiece, Piece, RunEvent, RunEventKind, RunEvents};
pub use fork::{EditedText, ReadyFork};
pub use host::Host;
pub use options::{CacheFolder, RunOptions};
pub use prepare::Prepared;
pub use project::Project;
pub use ready::Ready;
pub use recorded::RecordedRun;
pub use run::{Finished, Run};
pub use runs::{EnsembleRef, HeldRun, Runs, WhichRun};
