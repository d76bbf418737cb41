//! A thread as JSON text, so that it can be saved, or passed between programs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Thread, ThreadIteration, ThreadStatus};

/// The version that is written. Readers do not accept other versions.
const THREAD_FORMAT_VERSION: u64 = 1;

/// Reason why a text is not a saved thread.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum SavedThreadError {
    /// The text is not JSON.
    #[error("the saved thread is not JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The text is JSON, but not a saved thread.
    #[error("the JSON is not a saved thread: {0}")]
    Shape(String),
    /// It was written with another version.
    #[error("the saved thread has version {0}, and this program reads version {THREAD_FORMAT_VERSION}")]
    Version(u64),
    /// One iteration cannot be read.
    #[error("iteration {number} of the saved thread: {error}")]
    Iteration {
        /// The number of the iteration, from 1.
        number: usize,
        /// The error.
        #[source]
        error: serde_json::Error,
    },
    /// An iteration calls tools, but contains no reply of the model that makes the calls.
    #[error("iteration {0} of the saved thread calls tools, but contains no message of the assistant")]
    CallsWithoutReply(usize),
}

/// Document of a saved thread. Loading uses only the version and the iterations, from which the other keys follow.
#[derive(Serialize)]
struct SavedThreadDocument<'a> {
    version: u64,
    status: ThreadStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<DateTime<Utc>>,
    iterations: &'a [ThreadIteration],
}

impl Thread {
    /// Returns the thread as one line of JSON: `{"version": 1, "status": "complete", "instructions": "…", "options": {…},
    /// "created_at": "…", "updated_at": "…", "iterations": [...]}`. Omits keys without a value.
    pub fn to_json(&self) -> String {
        let saved = SavedThreadDocument {
            version: THREAD_FORMAT_VERSION,
            status: self.status(),
            instructions: self.instructions(),
            options: self.options(),
            created_at: self.created_at(),
            updated_at: self.updated_at(),
            iterations: &self.iterations,
        };
        serde_json::to_string(&saved).expect("keys are strings, and writing to a string cannot fail")
    }

    /// Parses the JSON of a saved thread. Numbers the iterations again, in their order.
    ///
    /// # Errors
    /// The text is not a saved thread. The error has the position.
    pub fn from_json(text: &str) -> Result<Self, SavedThreadError> {
        let value: Value = serde_json::from_str(text).map_err(SavedThreadError::Json)?;
        let shape = |what: &str| SavedThreadError::Shape(what.to_owned());
        let Value::Object(mut saved) = value else {
            return Err(shape("expected an object"));
        };
        let version = saved.get("version").ok_or_else(|| shape("it has no `version`"))?;
        match version.as_u64() {
            Some(THREAD_FORMAT_VERSION) => {}
            Some(other) => return Err(SavedThreadError::Version(other)),
            None => return Err(shape("its `version` is not an integer")),
        }
        match saved.remove("iterations") {
            Some(Value::Array(iterations)) => {
                let iterations = (1..)
                    .zip(iterations)
                    .map(|(number, value)| parse_saved_iteration(number, value));
                iterations.collect::<Result<_, _>>().map(Self::from_iterations)
            }
            Some(_) => Err(shape("its `iterations` are not a list")),
            None => Err(shape("it has no `iterations`")),
        }
    }
}

/// Parses the iteration with this number.
///
/// # Errors
/// The iteration is invalid, or has tool calls without a reply.
fn parse_saved_iteration(number: usize, value: Value) -> Result<ThreadIteration, SavedThreadError> {
    let iteration =
        ThreadIteration::deserialize(value).map_err(|error| SavedThreadError::Iteration { number, error })?;
    match iteration.tool_calls.is_empty() || iteration.has_reply() {
        true => Ok(iteration),
        false => Err(SavedThreadError::CallsWithoutReply(number)),
    }
}

#[cfg(test)]
mod tests;
