//! The trait of dialects.

use serde_json::{Map, Value, json};

use crate::ModelRequest;
use crate::reply::assembly::ReplyAssembly;
use crate::transport::frames::EventFraming;
use crate::transport::reply_error::ReplyError;
use ensemble_language::ensemble::ModelProfile;

/// Protocol of a provider: the format of its requests and replies.
pub(crate) trait ProviderDialect: Sync {
    /// Returns the usual path of a base URL, which is added to a base URL without a path.
    fn default_base_path(&self) -> &'static str;

    /// Returns the path of requests to a model, after the base URL.
    fn chat_path(&self, model: &str) -> String;

    /// Returns the path of the list of models, after the base URL.
    fn models_path(&self) -> &'static str;

    /// Returns the header with the key, and the headers that every request needs.
    fn request_headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// Returns whether the request can contain this schema. Otherwise the prompt describes the schema.
    fn supports_schema(&self, _request: &ModelRequest, _schema: &Value) -> bool {
        true
    }

    /// Builds the body of a request. Without `schema`, the reply can have any form.
    fn request_body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value;

    /// Returns the separation of the events in a reply.
    fn reply_event_framing(&self) -> EventFraming {
        EventFraming::Events
    }

    /// Adds one event, or a complete reply that is not streamed, to the reply.
    fn add_event_to_reply(&self, event: &Value, reply: &mut ReplyAssembly<'_>) -> Result<(), ReplyError>;

    /// Returns whether `[DONE]` ends a stream, even without an end reason.
    fn ends_with_done(&self) -> bool {
        false
    }

    /// Returns whether an event has the form of this protocol. Other events are ignored if their name is unknown, too.
    fn recognizes_event(&self, event: &Value) -> bool;

    /// Returns the limit on reply tokens in a request.
    fn max_tokens(&self, profile: &ModelProfile) -> Option<u64> {
        profile.max_tokens
    }

    /// Extracts the names of models from the response with the list.
    fn parse_model_names(&self, list: &Value) -> Vec<String> {
        collect_name_fields(list, "data", "id")
    }
}

/// Collects the field `name` of all objects in the array `key`.
pub(crate) fn collect_name_fields(list: &Value, key: &str, name: &str) -> Vec<String> {
    let models = list.get(key).and_then(Value::as_array);
    let name = |model: &Value| model.get(name)?.as_str().map(str::to_owned);
    models.into_iter().flatten().filter_map(name).collect()
}

/// Returns the sampling settings of the profile. `words` are the keys for temperature, top_p, max_tokens and seed.
///
/// Settings without a key are left out.
pub(crate) fn sampling_settings_with_keys(profile: &ModelProfile, words: [Option<&str>; 4]) -> Map<String, Value> {
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
