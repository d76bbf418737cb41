//! What dialects have in common.

use serde_json::{Map, Value, json};

use super::assembly::Assembly;
use super::frames::Framing;
use super::reply_error::ReplyError;
use crate::model::ModelRequest;
use ensemble_language::ensemble::Profile;

/// One way of speaking to a provider.
pub(super) trait Dialect: Sync {
    /// What stands at the end of a base URL by convention; it is added where a base URL has no path at all.
    fn default_path(&self) -> &'static str;

    /// Where a model is asked, after the base URL.
    fn chat_path(&self, model: &str) -> String;

    /// Where it is told which models there are, after the base URL.
    fn models_path(&self) -> &'static str;

    /// The header that carries the key, with it, and headers that every request needs.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// The request. Without `schema`, the reply may have any form.
    fn body(&self, request: &ModelRequest, schema: Option<&Value>) -> Value;

    /// How the events of a reply are told apart.
    fn framing(&self) -> Framing {
        Framing::Events
    }

    /// Takes one event of a reply, or the whole of a reply that does not stream.
    fn take(&self, event: &Value, reply: &mut Assembly<'_>) -> Result<(), ReplyError>;

    /// Text that is no JSON and ends a stream.
    fn is_end(&self, _event: &str) -> bool {
        false
    }

    /// The names of models in a list.
    fn models(&self, list: &Value) -> Vec<String> {
        names(list, "data", "id")
    }
}

pub(super) fn names(list: &Value, key: &str, name: &str) -> Vec<String> {
    let models = list.get(key).and_then(Value::as_array);
    let name = |model: &Value| model.get(name)?.as_str().map(str::to_owned);
    models.into_iter().flatten().filter_map(name).collect()
}

/// The profile's wishes, by the dialect's words for temperature, nucleus, most tokens and seed; those without a word
/// are not sent.
pub(super) fn sampling(profile: &Profile, words: [Option<&str>; 4]) -> Map<String, Value> {
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
