//! Answers and tools with Rust types: their JSON Schemas follow from the types.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::round::{append_exchange, count_requests, count_summaries};
use super::{Dialogue, DialogueError, DialogueErrorKind, ToolError};
use crate::agent::output::repair::{correction_request, explain_mismatch, mismatch_text};
use crate::agent::output::schema::OutputSchema;
use ensemble_core::reply::{output_for_schema, parse_reply_with_schema};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{IgnoredLiveOutput, MessageRole, StopReason, Thread, ThreadIteration};
use ensemble_language::data::ModelUsage;

/// Default maximum number of corrections of a reply that does not match the type.
pub const MAX_CORRECTIONS: u32 = 2;

/// Result of [`Dialogue::say_as`].
#[derive(Debug, Clone, PartialEq)]
pub struct TypedReply<T> {
    /// The answer.
    pub value: T,
    /// The thread, which can be continued. It does not contain rejected replies and corrections.
    pub thread: Thread,
    /// The usage of all requests.
    pub usage: ModelUsage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Wraps an answer that is not a JSON object, because providers require an object.
#[derive(Deserialize, JsonSchema)]
struct WrappedReply<T> {
    /// The answer.
    value: T,
}

/// Schema and decoder for replies of one type.
struct ReplySchema<T> {
    schema: Arc<Value>,
    compiled: OutputSchema,
    read: fn(Value) -> serde_json::Result<T>,
}

impl<T: DeserializeOwned + JsonSchema> ReplySchema<T> {
    /// Generates the schema of the type, and wraps types that are not objects.
    fn new() -> Result<Self, String> {
        let schema = schemars::schema_for!(T).to_value();
        let (schema, read): (Value, fn(Value) -> serde_json::Result<T>) = match schema["type"] == "object" {
            true => (schema, serde_json::from_value),
            false => (schemars::schema_for!(WrappedReply<T>).to_value(), |value| {
                serde_json::from_value(value).map(|enclosed: WrappedReply<T>| enclosed.value)
            }),
        };
        Ok(Self {
            compiled: OutputSchema::compile(&schema)?,
            schema: Arc::new(schema),
            read,
        })
    }

    /// Renders the instruction to answer with JSON that matches the schema.
    fn schema_instructions(&self) -> String {
        format!(
            "Your answer must be one JSON object that matches this JSON Schema, and nothing else:\n{}",
            self.schema
        )
    }

    /// Parses the reply as a value of the type. Returns the errors of a reply that does not match.
    fn parse_reply(&self, text: &str) -> Result<T, Vec<String>> {
        let output = parse_reply_with_schema(text);
        let object = output_for_schema(&output).into_owned();
        let errors = self.compiled.list_output_errors(&object);
        if !errors.is_empty() {
            return Err(explain_mismatch(text, errors));
        }
        (self.read)(Value::Object(object)).map_err(|error| vec![error.to_string()])
    }
}

impl Dialogue {
    /// Sends the user message `text` and returns the final reply as a value of type `T`.
    ///
    /// The model receives the JSON Schema of `T`. A reply that does not match is sent back with the errors, at most
    /// [`with_max_corrections`](Self::with_max_corrections) times.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, Thread};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Forecast {
    ///     city: String,
    ///     degrees: f64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let replies = [r#"{"city": "Paris", "degrees": "warm"}"#, r#"{"city": "Paris", "degrees": 21}"#];
    /// let dialogue = Dialogue::with_simulated_replies(replies);
    /// let answer = dialogue.say_as::<Forecast>(Thread::default(), "Paris tomorrow?").await?;
    /// assert_eq!((answer.value.city.as_str(), answer.value.degrees), ("Paris", 21.0));
    /// assert_eq!(answer.usage.requests, 2, "the first reply was sent back");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DialogueErrorKind::Mismatch`]: the last correction failed too. Every other cause ends the exchange at once.
    pub async fn say_as<T>(&self, thread: Thread, text: impl Into<String>) -> Result<TypedReply<T>, DialogueError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let text = text.into();
        let mut exchange = Thread::default();
        let ledger = AttemptLedger::default();
        let earlier = thread.fail_open_calls(ensemble_core::thread::INTERRUPTED_CALL_ERROR);
        let result = match ReplySchema::<T>::new() {
            Ok(reply_schema) => {
                self.request_valid_reply(&reply_schema, &earlier, text, &mut exchange, &ledger)
                    .await
            }
            Err(error) => Err(DialogueErrorKind::Mismatch(format!(
                "the schema of the type cannot be used: {error}"
            ))),
        };
        let (usage, warnings) = (ledger.usage_so_far(), ledger.take_warnings());
        match result {
            Ok(value) => Ok(TypedReply {
                value,
                thread: append_exchange(earlier, drop_rejected_replies(exchange), usage),
                usage,
                warnings,
            }),
            Err(cause) => Err(DialogueError {
                thread: append_exchange(earlier, exchange.into_iterations(), usage)
                    .fail_open_calls(cause.open_call_error()),
                cause,
                usage: Box::new(usage),
                warnings,
            }),
        }
    }

    /// Sets the maximum number of corrections of a reply that does not match the type.
    #[must_use]
    pub fn with_max_corrections(self, max_corrections: u32) -> Self {
        Self {
            max_corrections,
            ..self
        }
    }

    /// Sends `text`, then corrections, until a reply matches the type. Appends all messages to `said`.
    async fn request_valid_reply<T: DeserializeOwned + JsonSchema>(
        &self,
        wanted: &ReplySchema<T>,
        earlier: &Thread,
        mut text: String,
        said: &mut Thread,
        ledger: &AttemptLedger,
    ) -> Result<T, DialogueErrorKind> {
        let mut corrections_left = self.max_corrections;
        loop {
            let thread = earlier.clone().append_iterations(said.iterations().to_vec());
            let mut opening = self.default_round_parameters(thread, text, self.max_iterations);
            opening.requests_made = count_requests(earlier);
            opening.summaries_made = count_summaries(earlier);
            opening.output_schema = Some(Arc::clone(&wanted.schema));
            let with_schema = |system: Option<String>| {
                let parts = system.into_iter().chain([wanted.schema_instructions()]);
                Some(parts.collect::<Vec<_>>().join("\n\n"))
            };
            opening.systems = self.system_messages_by_profile().into_iter().map(with_schema).collect();
            let end = self.run_round(opening, &self.tools, &IgnoredLiveOutput, ledger).await;
            *said = std::mem::take(said).append_iterations(ledger.end_round().into_iterations());
            let (reply, stop_reason) = end?;
            let mut errors = match wanted.parse_reply(&reply) {
                Ok(value) => return Ok(value),
                Err(errors) => errors,
            };
            if stop_reason == StopReason::MaxTokens {
                errors.push("it was cut off at its token limit; a shorter reply is needed".to_owned());
            }
            if corrections_left == 0 {
                return Err(DialogueErrorKind::Mismatch(mismatch_text(&errors)));
            }
            corrections_left -= 1;
            text = correction_request(&mismatch_text(&errors));
        }
    }

    /// Adds a function that the model can call. The JSON Schema of its arguments is generated from `A`, a struct or a map.
    ///
    /// The model receives errors and can try again. Calls of one reply run in parallel.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, SimulatedReply, Thread};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct City {
    ///     /// In English.
    ///     name: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies([SimulatedReply::with_tool_calls([("weather", json!({"name": "Paris"}))]), "Sunny.".into()])
    ///     .with_tool("weather", "Tells the weather of a city.", |city: City| async move {
    ///         Ok(format!("sunny in {}", city.name))
    ///     });
    /// let ended = dialogue.say(Thread::default(), "Paris today?").await?;
    /// assert_eq!(ended.thread.iterations()[0].tool_calls[0].text_for_model(), "sunny in Paris");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_tool<A, F, Fut, R>(self, name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
        R: Serialize,
    {
        let parameters = schemars::schema_for!(A).to_value();
        self.with_tool_and_schema(name, description, parameters, move |arguments| {
            // The function is called before anything is awaited, so that it need not be shared with the future.
            let called = serde_json::from_value::<A>(arguments).map(&function);
            async move { called?.await }
        })
    }
}

/// Returns the iterations without rejected replies and correction requests.
fn drop_rejected_replies(said: Thread) -> Vec<ThreadIteration> {
    let mut mended: Vec<ThreadIteration> = Vec::new();
    for iteration in said.into_iterations() {
        let is_correction = iteration
            .messages
            .first()
            .is_some_and(|first| first.role == MessageRole::User);
        match mended.last_mut().filter(|_| is_correction) {
            Some(rejected) => {
                rejected.messages.pop();
                rejected.messages.extend(iteration.messages.into_iter().skip(1));
                rejected.tool_calls = iteration.tool_calls;
                rejected.completed_at = iteration.completed_at;
                rejected.metadata = iteration.metadata;
            }
            None => mended.push(iteration),
        }
    }
    mended
}

#[cfg(test)]
mod tests;
