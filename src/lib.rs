//! Runs conversations between agents, described in YAML, inside your own program.
//!
//! - [`run`] runs an ensemble to its end, in one line.
//! - [`Runs`] starts, follows, answers, cancels, resumes, continues, forks and replays runs.
//! - [`dialogue`] talks with one language model: streams, typed answers, tools from functions, threads that are saved.
//!
//! `docs/library.md` is the guide; its examples are compiled and run by the tests.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let memory = std::sync::Arc::new(ensemble::MemoryStore::new());
//! let outcome = ensemble::run("ensembles/writer-reviewer.yaml").with_input("the water is off on Tuesday")
//! #    .with_store(memory)
//!     .await?;
//! assert!(outcome.is_completed());
//! println!("{}", outcome.answer_text().unwrap_or_default());
//! # Ok(())
//! # }
//! ```
//!
//! The crates below are the layers; `docs/architecture.md` says what each is for.

pub use ensemble_agents as agents;
pub use ensemble_core as core;
pub use ensemble_language as language;
pub use ensemble_project as project;
pub use ensemble_runs as runs;

pub use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record, RunCanceller};
pub use ensemble_core::log::{CommitError, LogFuture, LogReadError, RunLog};
pub use ensemble_core::operator::{Operator, OperatorAnswer, PermissionAnswer, PermissionRequest, QuestionRequest};
pub use ensemble_core::request::{
    AnswerAuthor, AnswerSource, PendingRequest, PermissionDecision, RequestAddress, RequestAnswer, RequestDigest,
};
pub use ensemble_core::store::{
    Durability, JournalContents, LogEnd, MemoryStore, RunId, RunLease, RunLogFollower, RunRecordReader, RunStore,
    StoreError, StoredRun,
};
pub use ensemble_runs::service::run_service::RunService;
pub use ensemble_runs::{
    ConversationSnapshot, EnsembleRef, GeneratorRequest, LiveEvent, LiveEventKind, Project, ProjectError,
    ResponseGenerator, RunBuilder, RunError, RunEvent, RunEventKind, RunEventStream, RunHandle, RunHost, RunOptions,
    RunOutcome, Runs, Trust, run,
};

/// Dialogues with one language model: streams of what is said, answers with types, tools from functions, threads that are
/// saved and continued.
///
/// `docs/library.md` shows each of them.
///
/// ```
/// use ensemble::dialogue::{Dialogue, Thread};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // `Dialogue::with_model("ollama/llama3.2:1b")?` asks a real model.
/// let dialogue = Dialogue::with_simulated_replies(["Sunny.", "Rain."]);
/// let today = dialogue.say(Thread::default(), "Paris today?").await?;
/// let tomorrow = dialogue.say(today.thread, "And tomorrow?").await?;
/// assert_eq!(tomorrow.text, "Rain.");
/// # Ok(())
/// # }
/// ```
pub mod dialogue {
    pub use ensemble_agents::agent::build_error::RunnerBuildError;
    #[cfg(feature = "typed")]
    pub use ensemble_agents::agent::chat::TypedReply;
    pub use ensemble_agents::agent::chat::{
        CallAdmission, ContextWindow, Dialogue, DialogueError, DialogueErrorKind, DialogueStepResult, DialogueStream,
        FinishedRound, MergeOrder, MergeSide, Message, MessageRole, MessageSelector, ModelProfile, ModelTools,
        ModelUsage, NoTools, PendingToolCalls, ReplayScope, SavedThreadError, SimulatedReply, StopReason, StreamItem,
        TextTokenizer, Thread, ThreadAppendError, ThreadAppendErrorKind, ThreadFile, ThreadFileError, ThreadIteration,
        ThreadMergeError, ThreadReplayResult, ThreadStatus, ToolCall, ToolCallEnd, ToolCallMessage, ToolError,
        ToolSpec, TraceError, UnsentIterations, WindowError, WindowInput, WindowOutput, WindowStrategy,
    };
    pub use ensemble_core::request::{AnswerRecord, PendingRequest, RequestAddress, RequestDigest};
    pub use ensemble_core::runner::AttemptLedger;
    pub use ensemble_core::runner::BoxFuture;
    pub use ensemble_core::stopwatch::Stopwatch;
    pub use ensemble_core::thread::window::ThreadSize;
    pub use ensemble_core::thread::{Attachment, ExecutionAttemptRef, Reasoning};
    pub use ensemble_language::data::{Cost, FailureKind, JsonMap, OperatorQuestion, ToolPermissionRequest};
    pub use ensemble_language::ensemble::{ConfiguredHeader, RateLimit, RetryPolicy, SimulatedReplySource, TokenPrice};
    pub use ensemble_language::profiles::ProfileError;
    pub use ensemble_models::{Model, ModelNetwork};
}

#[cfg(test)]
mod tests;

/// The examples of the documents, which are compiled and run.
#[cfg(all(doctest, feature = "typed"))]
mod documents {
    #[doc = include_str!("../docs/library.md")]
    mod library {}

    #[doc = include_str!("../README.md")]
    mod readme {}
}
