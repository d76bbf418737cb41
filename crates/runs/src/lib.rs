//! The run layer: starts, follows, answers, cancels, resumes, continues, forks and replays runs of ensembles.
//!
//! - [`run()`] runs one ensemble to its end.
//! - [`Runs`] starts new runs and continues recorded runs; [`RunOptions`] contains the options of a run.
//! - [`RunHandle`] is the handle of a running run: [`RunHandle::events`], [`RunHandle::answer_request`], [`RunHandle::continue_with_message`],
//!   [`RunHandle::cancel`], [`RunHandle::wait_for_end`].
//! - [`RunService`](crate::service::run_service::RunService) drives runs for several clients, which follow, answer, cancel and list them.
//! - [`RunHost`] is the environment of runs: variables, clock, randomness, watchdog and operator.
//! - [`crate::store::files::FileRunStore`] stores runs in files. Every other [`RunStore`](ensemble_core::store::RunStore) can be used as well, such as
//!   [`MemoryStore`](ensemble_core::store::MemoryStore).
//!
//! Runs are driven in tasks on the caller's tokio runtime, any number of them in one process. The crate installs no signal
//! handler, writes to no standard stream, and reads the environment of the process only through [`RunHost::from_system`] and
//! [`Project::from_process`].
//!
//! - A run is a task: [`ReadyRun::start_and_spawn`] spawns it on the caller's runtime, and dropping the handle does not end it.
//! - A subscriber has a bounded queue. Missed records are read from the log, and each record is delivered once. Live events are marked
//!   as not committed, and a slow subscriber loses them.
//! - While an operator is asked, the time limits of the run and the turn pause. While an operator decides about a tool, the time limit of the
//!   execution pauses too.
//!
//! # Example
//!
//! `examples/front_end.rs`, a front end; run it with `cargo run -p ensemble-runs --example front_end`:
//!
#![doc = concat!("```\n", include_str!("../examples/front_end.rs"), "```")]

pub mod batch;
pub(crate) mod drive;
pub mod error;
pub mod exploration;
pub(crate) mod fork;
mod inputs;
pub mod local_turns;
pub mod options;
pub mod replay;
pub(crate) mod runners;
pub mod service;
mod simple;
pub mod start;
pub mod steps;
pub mod store;

// The rooms of the project by their names, for the modules of this crate.
use ensemble_project::{prepare, project, review};

pub use crate::drive::client_servers::{ClientServer, ClientServers, ClientServersError};
pub use crate::drive::decided_requests::UnusedAnswer;
pub use crate::drive::events::{LiveEvent, LiveEventKind, RunEvent, RunEventKind, RunTracer};
pub use crate::drive::host::RunHost;
pub use crate::drive::run::{FinishedRun, RunHandle};
pub use crate::drive::run_events::RunEventStream;
pub use crate::fork::forked_run::{ForkChanges, PreparedFork};
pub use crate::fork::merged_run::MergedRun;
pub use crate::options::arguments::is_possible_permission_name;
pub use crate::options::replacements::{AgentReplacements, ReplyStub};
pub use crate::options::run_options::{ReplyCacheFolder, RunOptions};
pub use crate::service::answer_checks::check_and_resolve_answers;
pub use crate::start::ready::ReadyRun;
pub use crate::start::recorded_run::RecordedRun;
pub use crate::start::runs::{EnsembleRef, LeasedRun, RunSelector, Runs};
pub use crate::start::substitutes::StubOutputMode;
pub use ensemble_agents::agent::kinds::generator::{ConversationSnapshot, GeneratorRequest, ResponseGenerator};
pub use ensemble_agents::agent::kinds::input::PreparedAnswers;
pub use ensemble_agents::agent::kinds::input::StubbedInputQuestion;
pub use ensemble_agents::agent::kinds::prompt_preview::PromptPreview;
pub use ensemble_agents::agent::mcp::McpServerStub;
pub use ensemble_project::{ForeignFile, IgnoredContent, PreparedEnsemble, Project, ProjectError, Trust};
pub use error::{RunError, RunMergeError};
pub use inputs::{InputError, inputs_schema as schema_of_inputs};
pub use simple::{RunBuilder, RunOutcome, run};
