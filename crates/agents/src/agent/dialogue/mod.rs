//! One agent and its model in dialogue: a request, the tools that the reply calls, their results, and so on until the
//! model has said its last word.
//!
//! It is a library of its own: [`Dialogue::say`] gives the messages as they come, as a stream with the continuation at
//! its end; [`Dialogue::until_done`] waits for the end; [`Dialogue::in_sequence`] says one thing after the other. LLM
//! agents of an ensemble are held on the same loop.
//!
//! ```
//! use std::sync::Arc;
//! use ensemble::agent::dialogue::{Dialogue, Piece};
//! use ensemble::ensemble::{Profile, Reply, Simulated};
//! use ensemble::model::Model;
//! use ensemble::thread::Thread;
//! use futures_util::StreamExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let replies = ["Sunny.", "Rain."].map(|text| Reply::Text(text.into()));
//! let model = Model::of(Profile {
//!     provider: "simulated".into(),
//!     simulated: Some(Simulated::Replies(replies.into())),
//!     ..Profile::default()
//! })?;
//! let dialogue = Dialogue::new(model).with_system("You know the weather.");
//!
//! let mut stream = dialogue.say(Thread::default(), "Paris today?")?;
//! while let Some(piece) = stream.next().await {
//!     match piece {
//!         Piece::Text(text) => print!("{text}"),
//!         Piece::Tool(call) => println!("{} gave {:?}", call.name, call.end),
//!         Piece::Again => println!("(once more)"),
//!         Piece::Final(message) => println!("\n= {}", message.content),
//!     }
//! }
//! let ended = stream.finish().await?;
//!
//! // Only what has ended can be continued; the types see to it.
//! let ended = dialogue.until_done(ended.thread, "And tomorrow?", 5).await?;
//! assert_eq!(ended.text, "Rain.");
//! assert_eq!(ended.thread.iterations().len(), 2);
//! # Ok(())
//! # }
//! ```

mod round;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

pub(in crate::agent) use round::count;
pub use round::{Conversed, Ended, Opening, Progress};
pub use stream::{DialogueStream, Piece};
pub use tools::{NoTools, Tools};

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::BoxFuture;
use crate::model::Model;
use ensemble_core::thread::{Message, Speaker, StopReason, Thread};
use ensemble_language::data::Usage;

/// Most requests of one round where nothing else is said.
pub const MAX_ITERATIONS: u32 = 10;

/// Tells the time of iterations.
pub type Now = dyn Fn() -> DateTime<Utc> + Send + Sync;

/// Keeps what is sent within the model's context window.
pub trait Window: Send + Sync {
    /// What of it is sent.
    fn fit<'a>(&'a self, sending: Sending<'a>) -> BoxFuture<'a, Result<Fitted, Unfitted>>;
}

/// What would be sent without a window.
#[derive(Debug, Clone)]
pub struct Sending<'a> {
    /// The instructions; they are sent beside the messages, and count.
    pub system: Option<&'a str>,
    /// The thread, the present user message included.
    pub messages: Vec<Message>,
    /// Who asks.
    pub speaker: &'a Speaker,
    /// Requests that the agent has made before.
    pub requests_made: u64,
    /// What was left out of the last request that left something out, as the thread keeps it.
    pub before: Option<Value>,
}

/// What is sent, and what is not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fitted {
    /// What is sent, in order.
    pub messages: Vec<Message>,
    /// Are the instructions left out?
    pub drops_system: bool,
    /// What was left out, in the form in which the thread keeps it; nothing if everything is sent.
    pub dropped: Option<Value>,
    /// What summing up has cost.
    pub usage: Usage,
    /// What the person who listens should know.
    pub warnings: Vec<String>,
}

/// Why nothing can be sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unfitted {
    /// In words.
    pub error: String,
    /// What it has cost to learn that.
    pub usage: Usage,
}

/// A model with its tools, ready to be talked to.
pub struct Dialogue {
    model: Model,
    tools: Arc<dyn Tools>,
    window: Option<Arc<dyn Window>>,
    system: Option<String>,
    max_iterations: u32,
    now: Arc<Now>,
}

/// Why a dialogue has no end that could be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialogueError {
    /// The thread that was given has not ended.
    #[error("a dialogue can only be continued when the model has said its last word")]
    NotEnded,
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
}

impl DialogueError {
    /// Why the dialogue stopped, where that has a name.
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self {
            Self::MaxTurnRequests(_) => Some(StopReason::MaxTurnRequests),
            Self::UsedUp(_) => Some(StopReason::MaxTokens),
            Self::Refused(_) => Some(StopReason::Refusal),
            Self::Model(_) | Self::Tools(_) | Self::NotEnded => None,
        }
    }
}

impl Dialogue {
    /// With that model, and nothing else.
    #[expect(
        clippy::disallowed_methods,
        reason = "the system's clock unless another is given; it decides nothing"
    )]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            tools: Arc::new(NoTools),
            window: None,
            system: None,
            max_iterations: MAX_ITERATIONS,
            now: Arc::new(Utc::now),
        }
    }

    /// With these tools for the model to call.
    #[must_use]
    pub fn with_tools(self, tools: Arc<dyn Tools>) -> Self {
        Self { tools, ..self }
    }

    /// With a context window.
    #[must_use]
    pub fn with_window(self, window: Option<Arc<dyn Window>>) -> Self {
        Self { window, ..self }
    }

    /// With these instructions, which every request begins with.
    #[must_use]
    pub fn with_system(self, system: impl Into<String>) -> Self {
        Self {
            system: Some(system.into()),
            ..self
        }
    }

    /// With at most that many requests in a round.
    #[must_use]
    pub fn with_max_iterations(self, max_iterations: u32) -> Self {
        Self { max_iterations, ..self }
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(self, now: Arc<Now>) -> Self {
        Self { now, ..self }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Says `text` and gives the messages as they come.
    ///
    /// # Errors
    /// [`DialogueError::NotEnded`]: `thread` has begun and not ended.
    pub fn say(&self, thread: Thread, text: impl Into<String>) -> Result<DialogueStream<'_>, DialogueError> {
        self.say_at_most(thread, text, self.max_iterations)
    }

    fn say_at_most(
        &self,
        thread: Thread,
        text: impl Into<String>,
        max_requests: u32,
    ) -> Result<DialogueStream<'_>, DialogueError> {
        if !thread.iterations().is_empty() && !thread.is_ended() {
            return Err(DialogueError::NotEnded);
        }
        Ok(DialogueStream::new(self, thread, text.into(), max_requests))
    }

    /// Says `text` and waits for the end, for at most `max_requests` requests.
    ///
    /// # Errors
    /// [`DialogueError`]: the round had no end.
    pub async fn until_done(
        &self,
        thread: Thread,
        text: impl Into<String>,
        max_requests: u32,
    ) -> Result<Ended, DialogueError> {
        self.say_at_most(thread, text, max_requests)?.finish().await
    }

    /// Says one thing after the other, each when the one before has ended.
    ///
    /// # Errors
    /// The first round that had no end; what follows is not said.
    pub async fn in_sequence<T: Into<String>>(
        &self,
        thread: Thread,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Ended>, DialogueError> {
        let mut thread = thread;
        let mut all = Vec::new();
        for text in texts {
            let ended = self.say(thread, text)?.finish().await?;
            thread = ended.thread.clone();
            all.push(ended);
        }
        Ok(all)
    }
}
