//! The dialogue of an agent with its model: a request, the tool calls of the reply, their results, and so on until the
//! model sends a final reply.
//!
//! Example:
//!
//! ```
//! use ensemble_agents::agent::chat::{Dialogue, StreamItem, SimulatedReply, Thread};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `Dialogue::with_model("ollama/llama3.2:1b")?` asks a real model.
//! let dialogue = Dialogue::with_simulated_replies([
//!     SimulatedReply::with_tool_calls([("weather", json!({"city": "Paris"}))]),
//!     "It is sunny in Paris.".into(),
//!     "It will rain.".into(),
//! ])
//! .with_system("You know the weather.")
//! .with_tool_and_schema(
//!     "weather",
//!     "Tells the weather of a city.",
//!     json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}),
//!     |arguments: Value| async move { Ok(format!("sunny in {}", arguments["city"])) },
//! );
//!
//! // The reply is a stream, with the continued thread at its end.
//! let mut stream = dialogue.say(Thread::default(), "Paris today?");
//! while let Some(piece) = stream.next().await {
//!     match piece {
//!         StreamItem::User(message) => println!("> {}", message.content),
//!         StreamItem::Text(text) => print!("{text}"),
//!         StreamItem::Tool(call) => println!("{call}"),
//!         StreamItem::Restarted => println!("(once more)"),
//!         StreamItem::Final(message) => println!("\n= {}", message.content),
//!         StreamItem::Failed(error) => println!("\n! {error}"),
//!     }
//! }
//! let today = stream.finish().await?;
//!
//! // The stream can also be awaited. A thread is a value: it can be stored, and continued more than once.
//! let kept = today.thread.to_json();
//! let tomorrow = dialogue.say(Thread::from_json(&kept)?, "And tomorrow?").await?;
//! assert_eq!(tomorrow.text, "It will rain.");
//! # Ok(())
//! # }
//! ```
//!
//! - [`Dialogue::say`] gives a [`DialogueStream`]; `say_as::<T>()` (feature `typed`) gives a value of a type;
//!   [`Dialogue::step`] makes one request or performs the calls of one reply, and shows the calls before they are made.
//! - `tool` (feature `typed`) makes a tool of a function whose arguments are a type; [`Dialogue::with_tool_and_schema`] takes
//!   their JSON Schema; [`Dialogue::with_tools`] takes everything else that implements [`ModelTools`].
//! - [`Dialogue::with_context_window`] keeps long threads within a number of tokens or messages.
//! - A [`DialogueError`] carries the thread as it stands, and [`DialogueStream::cancel`] gives it; both can be continued.
//!   A thread belongs to the stream while that runs, so nobody can continue it in the meantime.
//!
//! LLM agents of an ensemble use the same loop.

mod context_window;
mod error;
#[cfg(feature = "acp")]
pub(in crate::agent) mod external;
mod function;
#[cfg(feature = "process")]
mod process;
mod replayed_thread;
mod round;
mod saved_dialogue;
mod shortened_request;
mod step;
mod stream;
#[cfg(test)]
mod tests;
mod thread_file;
mod tools;
mod trace;
#[cfg(feature = "typed")]
mod typed_reply;
mod window;

pub use error::{DialogueError, DialogueErrorKind};
pub use function::ToolError;
pub use replayed_thread::{ReplayScope, ThreadReplayResult};
pub(in crate::agent) use round::SESSION_KEY;
pub(in crate::agent) use round::add_reply_usage;
pub(in crate::agent) use round::complete_and_record_iteration;
pub use round::{FinishedRound, RoundEnd, RoundParameters};
pub use step::{DialogueStepResult, PendingToolCalls};
pub use stream::{DialogueStream, StreamItem, ToolCallMessage};
pub use thread_file::{ThreadFile, ThreadFileError};
pub use tools::{CallAdmission, ModelTools, NoTools};
pub use trace::TraceError;
#[cfg(feature = "typed")]
pub use typed_reply::{MAX_CORRECTIONS, TypedReply};
pub use window::{MessageSelector, UnsentIterations, WindowError, WindowInput, WindowOutput};

pub use ensemble_core::thread::{
    MergeOrder, MergeSide, Message, MessageRole, SavedThreadError, StopReason, TextTokenizer, Thread,
    ThreadAppendError, ThreadAppendErrorKind, ThreadIteration, ThreadMergeError, ThreadStatus, ToolCall, ToolCallEnd,
};
pub use ensemble_language::data::ModelUsage;
pub use ensemble_language::ensemble::{ContextWindow, ModelProfile, SimulatedReply, WindowStrategy};
pub use ensemble_models::ToolSpec;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use self::function::DialogueTools;
use self::stream::DialogueStreamInput;
use self::trace::DialogueTraces;
use super::BoxFuture;
use ensemble_core::runner::ExecutionRecorder;
use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::ExecutionAttemptRef;
use ensemble_language::data::RemainingBudget;
use ensemble_language::ensemble::{SIMULATED_PROVIDER, SimulatedReplySource};
use ensemble_models::Model;

/// The default for the maximum number of requests in one round.
pub const DEFAULT_MAX_ITERATIONS: u32 = 10;

/// Clock for the times of iterations.
pub type ClockFn = dyn Fn() -> DateTime<Utc> + Send + Sync;

/// Model with its tools. The conversation itself is in a [`Thread`]. Clones share the model.
#[derive(Clone)]
pub struct Dialogue {
    model: Model,
    tools: DialogueTools,
    window: Option<Arc<dyn MessageSelector>>,
    system: Option<String>,
    max_iterations: u32,
    #[cfg(feature = "typed")]
    max_corrections: u32,
    traces: DialogueTraces,
    now: Arc<ClockFn>,
}

impl fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: Vec<&str> = self.model.profiles().map(|link| &*link.name).collect();
        f.debug_struct("Dialogue")
            .field("models", &models)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

impl Dialogue {
    /// A dialogue with this model, without tools, instructions and context window.
    /// Creates a dialogue without tools, context window and system message.
    #[expect(
        clippy::disallowed_methods,
        reason = "the system's clock unless another is given; it decides nothing"
    )]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            tools: DialogueTools::default(),
            window: None,
            system: None,
            max_iterations: DEFAULT_MAX_ITERATIONS,
            #[cfg(feature = "typed")]
            max_corrections: MAX_CORRECTIONS,
            traces: DialogueTraces::default(),
            now: Arc::new(|| SystemTime::now().into()),
        }
    }

    /// Creates a dialogue with scripted replies, for tests and examples. The last reply repeats.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, Thread};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies(["Sunny.", "Rain."]);
    /// let all = dialogue.say_all(Thread::default(), ["Paris?", "London?"]).await?;
    /// assert_eq!((all[0].text.as_str(), all[1].text.as_str()), ("Sunny.", "Rain."));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_simulated_replies(replies: impl IntoIterator<Item = impl Into<SimulatedReply>>) -> Self {
        let replies: Vec<SimulatedReply> = replies.into_iter().map(Into::into).collect();
        let model = Model::from_profile_without_keys(ModelProfile {
            provider: SIMULATED_PROVIDER.into(),
            simulated: (!replies.is_empty()).then_some(SimulatedReplySource::Replies(replies)),
            ..ModelProfile::default()
        });
        Self::new(model.expect("prepared replies need nothing from outside"))
    }

    /// Sets the tools that the model may call, in addition to functions.
    #[must_use]
    pub fn with_tools(self, tools: Arc<dyn ModelTools>) -> Self {
        Self {
            tools: self.tools.with_other_tools(tools),
            ..self
        }
    }

    /// Adds a function that the model can call. `parameters` is the JSON Schema of its arguments, an object.
    ///
    /// Arguments are checked before the call. The model receives errors and can try again. Calls of one reply run in parallel.
    ///
    /// If the name or the schema is not valid, the first request fails with [`DialogueErrorKind::Tools`].
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, SimulatedReply, Thread};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    /// let dialogue = Dialogue::with_simulated_replies([SimulatedReply::with_tool_calls([("double", json!({"n": 21}))]), "It is 42.".into()])
    ///     .with_tool_and_schema("double", "Doubles a number.", schema, |arguments: Value| async move {
    ///         let n = arguments["n"].as_i64().ok_or("n is too large")?;
    ///         Ok(n * 2)
    ///     });
    /// let ended = dialogue.say(Thread::default(), "Twice 21?").await?;
    /// assert_eq!(ended.thread.iterations()[0].tool_calls[0].text_for_model(), "42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_tool_and_schema<F, Fut, R>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
        function: F,
    ) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
        R: Serialize,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            parameters,
        };
        Self {
            tools: self.tools.with_function(spec, function),
            ..self
        }
    }

    /// Sets the system message of every request.
    #[must_use]
    pub fn with_system(self, system: impl Into<String>) -> Self {
        Self {
            system: Some(system.into()),
            ..self
        }
    }

    /// Sets the maximum number of requests in a round.
    #[must_use]
    pub fn with_max_iterations(self, max_iterations: u32) -> Self {
        Self { max_iterations, ..self }
    }

    /// Replaces the system clock.
    #[must_use]
    pub fn with_clock(self, now: Arc<ClockFn>) -> Self {
        Self { now, ..self }
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Sends the user message `text` and returns a stream of the replies, which can also be awaited for its end.
    ///
    /// The stream owns the thread until its end, even if it fails or is cancelled; keep a clone if the stream may be
    /// dropped. Calls of the thread without a result get an error that says so. If the thread ends with a message of the
    /// user that has no reply, the stream fails with [`DialogueErrorKind::Unanswered`] and sends nothing.
    pub fn say(&self, thread: Thread, text: impl Into<String>) -> DialogueStream<'_> {
        DialogueStream::new(
            self,
            thread,
            DialogueStreamInput::Message(Message::new(MessageRole::User, text)),
            self.max_iterations,
        )
    }

    /// Continues a thread without a new message, up to the final reply: makes the tool calls that have not ended, or
    /// repeats the request that has no reply. If the thread is empty or complete, the stream fails and sends nothing.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, SimulatedReply, Thread};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies([SimulatedReply::with_error("overloaded"), "Sunny.".into()]);
    /// let error = dialogue.say(Thread::default(), "Paris today?").await.expect_err("the provider is overloaded");
    /// let ended = dialogue.continue_thread(error.thread).await?;
    /// assert_eq!((ended.text.as_str(), ended.thread.message_count()), ("Sunny.", 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn continue_thread(&self, thread: Thread) -> DialogueStream<'_> {
        DialogueStream::new(self, thread, DialogueStreamInput::Continuation, self.max_iterations)
    }

    /// Sends the user message `text` and waits for the final reply, with at most `max_requests` requests.
    ///
    /// # Errors
    /// [`DialogueError`]: the round failed.
    pub async fn say_with_max_requests(
        &self,
        thread: Thread,
        text: impl Into<String>,
        max_requests: u32,
    ) -> Result<FinishedRound, DialogueError> {
        DialogueStream::new(
            self,
            thread,
            DialogueStreamInput::Message(Message::new(MessageRole::User, text)),
            max_requests,
        )
        .await
    }

    /// Sends several user messages, each after the end of the round before.
    ///
    /// # Errors
    /// The error of the first round that failed; later messages are not sent.
    pub async fn say_all<T: Into<String>>(
        &self,
        thread: Thread,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<FinishedRound>, DialogueError> {
        let mut thread = thread;
        let mut all = Vec::new();
        for text in texts {
            let round_result = self.say(thread, text).await?;
            thread = round_result.thread.clone();
            all.push(round_result);
        }
        Ok(all)
    }

    /// Creates the parameters of a round outside of an ensemble.
    fn default_round_parameters(&self, thread: Thread, text: String, max_requests: u32) -> RoundParameters {
        RoundParameters {
            requests_made: round::count_requests(&thread),
            summaries_made: round::count_summaries(&thread),
            earlier: thread.message_count(),
            attachments: Vec::new(),
            thread: Arc::new(thread),
            text,
            systems: self.system_messages_by_profile(),
            source: ExecutionAttemptRef {
                run: "".into(),
                agent: "assistant".into(),
                execution: 1,
                attempt: 1,
            },
            max_requests,
            remaining: RemainingBudget::default(),
            output_schema: None,
            remembered_text: None,
            records: ExecutionRecorder::default(),
            options: Some(self.stored_options_to_json()),
            goes_on: None,
            clock: Stopwatch::default(),
        }
    }

    /// Returns the system message for each profile in the fallback chain: the text of the profile, then that of the dialogue.
    fn system_messages_by_profile(&self) -> Vec<Option<String>> {
        let system = |of_profile: Option<&String>| {
            let parts: Vec<&str> = of_profile.into_iter().chain(&self.system).map(String::as_str).collect();
            (!parts.is_empty()).then(|| parts.join("\n\n"))
        };
        let profiles = self.model.profiles();
        profiles
            .map(|link| system(link.profile.system_prompt.as_ref()))
            .collect()
    }
}
