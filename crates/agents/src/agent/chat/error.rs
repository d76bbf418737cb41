//! The error of a dialogue, with the thread that can be continued.

use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{INTERRUPTED_CALL_ERROR, StopReason, Thread};
use ensemble_language::data::{FailureKind, ModelUsage};
use ensemble_models::{ModelError, ModelErrorKind};

/// The error of a call that was not made.
pub(crate) const CALL_NOT_MADE: &str = "the call was not made";

/// Error of a dialogue without a final reply, with the thread so far.
///
/// The thread can be continued like any other:
///
/// ```
/// use ensemble_agents::agent::chat::{DialogueErrorKind, Dialogue, SimulatedReply, Thread};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dialogue = Dialogue::with_simulated_replies([SimulatedReply::with_error("busy"), "Here I am.".into()]);
/// let error = dialogue.say(Thread::default(), "Hello?").await.expect_err("the model is busy");
/// assert_eq!(error.cause, DialogueErrorKind::Model("busy".into()));
/// assert_eq!(error.thread.initial_query(), Some("Hello?"));
///
/// let ended = dialogue.say(error.thread, "Are you there?").await?;
/// assert_eq!(ended.text, "Here I am.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{cause}")]
pub struct DialogueError {
    /// The cause.
    pub cause: DialogueErrorKind,
    /// The thread including the failed exchange. [`Dialogue::say`](super::Dialogue::say) continues it: calls that have
    /// not ended get an error that says so.
    pub thread: Thread,
    /// The usage of the exchange.
    pub usage: Box<ModelUsage>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Kind of a [`DialogueError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DialogueErrorKind {
    /// The exchange was stopped before its end.
    #[error("the exchange has not ended")]
    NotEnded,
    /// The thread is empty.
    #[error("no message has been sent to the model yet")]
    NothingSaid,
    /// The thread ends with a message of the user that has no reply, so a further message cannot follow.
    #[error("the last message of the thread is the user's and has no reply; continue the thread without a new message")]
    Unanswered,
    /// The thread is to be continued without a new message, but it ends with the final reply of the model.
    #[error("the thread ends with a reply of the model; send a new message")]
    Complete,
    /// The model or its provider failed.
    #[error("{0}")]
    Model(String),
    /// The tools are not available.
    #[error("{0}")]
    Tools(String),
    /// The model still calls tools after this number of requests.
    #[error("the model still calls tools after {0} requests")]
    MaxTurnRequests(u32),
    /// The budget for this limit of the run is used up.
    #[error("`{0}` is used up, and the model still calls tools")]
    UsedUp(&'static str),
    /// The model refused to answer, or a content filter stopped it.
    #[error("the model refused: {0}")]
    Refused(String),
    /// The request has more tokens than the context window of the model.
    #[error("{0}")]
    ContextTooLong(String),
    /// A tool call needs an answer of a person, and nobody is there.
    #[error("a tool call waits for an answer: {}", .0.first().map_or("", |request| request.question.prompt.trim()))]
    Waits(Vec<PendingRequest>),
    /// An external program failed in this way.
    #[error("{1}")]
    External(FailureKind, String),
    /// No reply was a value of the wanted type; with the errors of the last one.
    #[error("the model gave no answer of the requested type: {0}")]
    Mismatch(String),
}

impl DialogueErrorKind {
    /// Returns the stop reason that corresponds to this error, if there is one.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Self::MaxTurnRequests(_) => Some(StopReason::MaxTurnRequests),
            Self::UsedUp(_) => Some(StopReason::MaxTokens),
            Self::Refused(_) => Some(StopReason::Refusal),
            Self::NotEnded => Some(StopReason::Cancelled),
            Self::External(kind, _) => StopReason::from_failure_kind(*kind),
            Self::Model(_)
            | Self::ContextTooLong(_)
            | Self::Tools(_)
            | Self::NothingSaid
            | Self::Unanswered
            | Self::Complete
            | Self::Waits(_)
            | Self::Mismatch(_) => None,
        }
    }

    /// Returns the failure kind of an execution that ends with this error.
    pub fn failure_kind(&self) -> FailureKind {
        match self {
            Self::External(kind, _) => *kind,
            Self::Tools(_) => FailureKind::Unavailable,
            Self::Refused(_) => FailureKind::Refusal,
            Self::MaxTurnRequests(_) => FailureKind::MaxIterations,
            Self::UsedUp(_) => FailureKind::MaxTokens,
            Self::NotEnded => FailureKind::Cancelled,
            Self::Waits(_) => FailureKind::Unavailable,
            Self::Mismatch(_) => FailureKind::Schema,
            Self::Model(_) | Self::ContextTooLong(_) | Self::NothingSaid | Self::Unanswered | Self::Complete => {
                FailureKind::Model
            }
        }
    }

    /// Returns the error text for calls without a result.
    pub(crate) fn open_call_error(&self) -> &'static str {
        match self {
            Self::Refused(_) => CALL_NOT_MADE,
            _ => INTERRUPTED_CALL_ERROR,
        }
    }
}

impl From<ModelError> for DialogueErrorKind {
    fn from(error: ModelError) -> Self {
        match error.kind {
            ModelErrorKind::ModelRefused => Self::Refused(error.message),
            ModelErrorKind::ContextTooLong => Self::ContextTooLong(error.message),
            _ => Self::Model(error.message),
        }
    }
}
