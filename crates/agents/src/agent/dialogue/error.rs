//! A dialogue that did not come to its end, and the thread with which it can go on all the same.

use ensemble_core::thread::{StopReason, Thread, ToolEnd};
use ensemble_language::data::Usage;

/// What is told of a call that was under way when everything stopped.
pub(super) const UNKNOWN_FATE: &str = "the call was interrupted: it is not known whether it has taken effect";

/// What is told of a call that nobody made.
pub(super) const NOT_MADE: &str = "the call was not made";

/// Why a dialogue has no last word, and all that was said until then.
///
/// The thread can be continued like any other:
///
/// ```
/// use ensemble_agents::agent::dialogue::{Cause, Dialogue, Reply, Thread};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let dialogue = Dialogue::simulated([Reply::error("busy"), "Here I am.".into()]);
/// let error = dialogue.say(Thread::default(), "Hello?").await.expect_err("the model is busy");
/// assert_eq!(error.cause, Cause::Model("busy".into()));
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
    /// What went wrong.
    pub cause: Cause,
    /// All that was said, the exchange that failed included. [`Dialogue::say`](super::Dialogue::say) goes on with it:
    /// calls that had not ended are closed with an error that says so.
    pub thread: Thread,
    /// What the exchange has cost.
    pub usage: Box<Usage>,
    /// What the person who listens should know.
    pub warnings: Vec<String>,
}

/// Why a dialogue has no last word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The exchange was given up before its end.
    #[error("the exchange has not ended")]
    NotEnded,
    /// The thread is empty, so there is nothing that a model could answer.
    #[error("nothing has been said to the model yet")]
    NothingSaid,
    /// The model or its provider failed.
    #[error("{0}")]
    Model(String),
    /// The tools cannot be made ready.
    #[error("{0}")]
    Tools(String),
    /// The model still asks for tools after that many requests.
    #[error("the model still calls tools after {0} requests")]
    MaxTurnRequests(u32),
    /// What it may use of that limit of the run is used up.
    #[error("`{0}` is used up, and the model still calls tools")]
    UsedUp(&'static str),
    /// The model will not answer.
    #[error("the model refused: {0}")]
    Refused(String),
    /// The last reply was no value of the wanted type, and so was every one before it; with what was wrong.
    #[error("the model gave no answer of the wanted type: {0}")]
    Mismatch(String),
}

impl Cause {
    /// Why the dialogue stopped, where that has a name.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Self::MaxTurnRequests(_) => Some(StopReason::MaxTurnRequests),
            Self::UsedUp(_) => Some(StopReason::MaxTokens),
            Self::Refused(_) => Some(StopReason::Refusal),
            Self::Model(_) | Self::Tools(_) | Self::NotEnded | Self::NothingSaid | Self::Mismatch(_) => None,
        }
    }

    /// What became of calls that have no result.
    pub(super) fn fate_of_calls(&self) -> &'static str {
        match self {
            Self::Refused(_) => NOT_MADE,
            _ => UNKNOWN_FATE,
        }
    }
}

/// The thread with an end for every call that has none.
pub(super) fn closed(thread: Thread, fate: &str) -> Thread {
    let mut iterations = thread.into_iterations();
    let calls = iterations.iter_mut().flat_map(|iteration| &mut iteration.tool_calls);
    for call in calls.filter(|call| call.end.is_none()) {
        call.end = Some(ToolEnd::Error(fate.to_owned()));
    }
    Thread::of(iterations)
}
