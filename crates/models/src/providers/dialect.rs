//! The trait of dialects.

use serde_json::{Map, Value, json};

use crate::ModelRequest;
use crate::reply::assembly::Assembly;
use crate::transport::frames::Framing;
use crate::transport::reply_error::ReplyError;
use ensemble_language::ensemble::Profile;

/// The protocol of a provider: the format of its requests and replies.
pub(crate) trait Dialect: Sync {
    /// The conventional path of a base URL; it is added to a base URL without a path.
    fn default_path(&self) -> &'static str;

    /// The path of requests to a model, after the base URL.
    fn chat_path(&self, model: &str) -> String;

    /// The path of the list of models, after the base URL.
    fn models_path(&self) -> &'static str;

    /// The header with the key, and the headers that every request needs.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// Can the request have this schema? Otherwise the model is told in words.
    fn takes_schema(&self, _request: &ModelRequest, _schema: &Value) -> bool {
        true
    }

    /// The body of a request. Without `schema`, the reply may have any form.
    fn body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value;

    /// Returns how the events of a reply are separated.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Adds one event to the reply, or a complete reply that is not streamed.
    fn take(&self, event: &Value, reply: &mut Assembly<'_>) -> Result<(), ReplyError>;

    /// Returns whether this text, which is not JSON, ends a stream.
    fn is_end(&self, _event: &str) -> bool {
        false
    }

    /// The names of models in a list.
    fn models(&self, list: &Value) -> Vec<String> {
        names(list, "data", "id")
    }
}

pub(crate) fn names(list: &Value, key: &str, name: &str) -> Vec<String> {
    let models = list.get(key).and_then(Value::as_array);
    let name = |model: &Value| model.get(name)?.as_str().map(str::to_owned);
    models.into_iter().flatten().filter_map(name).collect()
}

/// The sampling settings of the profile; `words` are the names of temperature, top_p, max_tokens and seed in the
/// dialect. Settings without a name are not sent.
pub(crate) fn sampling(profile: &Profile, words: [Option<&str>; 4]) -> Map<String, Value> {
    let values = [
        profile.temperature.map(|value| json!(value)),
        profile.top_p.map(|value| json!(value)),
        profile.max_tokens.map(|value| json!(value)),
        profile.seed.map(|value| json!(value)),
    ];
    let pairs = words.into_iter().zip(values);
    pairs
        .filter_map(|(word, value)| Some((word?.to_owned(), value?)))
        .collect()
}
