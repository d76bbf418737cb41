//! Values that nobody may see: keys, and other values of the environment that a run sends somewhere.
//!
//! A run has one set. What performs an execution strikes them out of what it says, and the executor strikes them out of
//! every event once more before the event is appended. A secret is found in every form that `forms` lists, and behind
//! the escapes of `escapes`; what is inside of a structured secret is secret as well.
//!
//! Invariant: the executor strikes them out of every event before it is appended; names by which events belong together stay.

mod escapes;
mod forms;
mod matcher;
#[cfg(test)]
mod property_tests;
mod sensitivity;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use serde_json::{Map, Value};

use self::forms::SecretParts;
use self::matcher::SecretMatcher;
pub use self::sensitivity::is_secret_name;
pub use self::stream::RedactingStream;
use crate::conversation::Event;

/// Smallest number of bytes of a secret. Replacing shorter values (`none`, `ollama`) would damage texts.
pub const MIN_SECRET_LENGTH: usize = 8;

/// Text that replaces a secret.
pub const REDACTED_TEXT: &str = "[secret]";

/// Keys of an event with texts and data of agents, models, tools and people. Other keys contain names and numbers that link events.
const FREE_TEXT_KEYS: [&str; 25] = [
    "answer",
    "input",
    "context",
    "inputs",
    "text",
    "set",
    "output",
    "stderr",
    "stdout",
    "warnings",
    "detail",
    "prompt",
    "choices",
    "result",
    "error",
    "content",
    "arguments",
    "reasoning",
    "metadata",
    "message",
    "values",
    "description",
    "help",
    "question",
    "title",
];

/// Secrets of a run, and environment variables that child processes do not inherit. Clones share both.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<SecretsState>>);

/// Data of [`Secrets`].
#[derive(Default)]
struct SecretsState {
    variables: BTreeSet<String>,
    parts: SecretParts,
    /// Built at its first use after the last addition. `None`: there are no secrets.
    matcher: OnceLock<Option<SecretMatcher>>,
}

impl SecretsState {
    /// Returns the matcher, which is built at the first use. Returns `None` without secrets.
    fn lazy_matcher(&self) -> Option<&SecretMatcher> {
        let matcher = self.matcher.get_or_init(|| SecretMatcher::from_parts(&self.parts));
        matcher.as_ref()
    }
}

/// Error in the redaction of secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedactionError {
    /// The search for the secrets cannot be built, so that every text is replaced.
    #[error("the secrets of the run are too large to be found in texts")]
    Search,
    /// A record without the secrets is no record.
    #[error("the secrets of the run cannot be removed from a record")]
    Record,
}

impl Secrets {
    /// Withholds the environment variable from child processes that do not list the variable.
    pub fn withhold_from_children(&self, variable: &str) {
        let mut known_secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known_secrets.variables.insert(variable.to_owned());
    }

    /// Adds a value and its secret parts to the secrets, unless the value is short.
    pub fn add_secret(&self, value: &str) {
        self.add_secrets([value]);
    }

    /// Adds these values and their secret parts to the secrets, except short values.
    pub fn add_secrets<'v>(&self, values: impl IntoIterator<Item = &'v str>) {
        let is_new =
            |value: &&str| value.trim().len() >= MIN_SECRET_LENGTH && !self.read_state().parts.contains_value(value);
        let new: Vec<&str> = values.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let mut known_secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        new.into_iter().for_each(|value| known_secrets.parts.add_value(value));
        known_secrets.matcher = OnceLock::new();
    }

    /// Checks that the secrets can be searched for. Builds the matcher.
    ///
    /// # Errors
    /// The search is too large. Then every text is replaced.
    pub fn check_matcher(&self) -> Result<(), RedactionError> {
        match self
            .read_state()
            .lazy_matcher()
            .is_some_and(SecretMatcher::matches_everything)
        {
            true => Err(RedactionError::Search),
            false => Ok(()),
        }
    }

    /// Returns the environment variables that child processes do not inherit.
    pub fn withheld_variables(&self) -> BTreeSet<String> {
        self.read_state().variables.clone()
    }

    /// Returns whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.read_state().parts.texts.is_empty()
    }

    /// Splits a text into a redacted part that can be shown, and an end that can be the beginning of a secret.
    fn split_at_possible_secret(&self, text: &str) -> (String, String) {
        match self.read_state().lazy_matcher() {
            Some(matcher) => matcher.split_at_possible_secret(text),
            None => (text.to_owned(), String::new()),
        }
    }

    /// Redacts a fragment of a longer text, including parts of secrets at both ends of the fragment.
    pub fn redact_fragment(&self, text: &str) -> String {
        let known_secrets = self.read_state();
        match known_secrets.lazy_matcher() {
            Some(matcher) => matcher.redact_fragment(text),
            None => text.to_owned(),
        }
    }

    /// Locks the state for reading, also after a panic of a writer.
    fn read_state(&self) -> RwLockReadGuard<'_, SecretsState> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the secrets in the text.
    pub fn redact<'t>(&self, text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
        match self.read_state().lazy_matcher() {
            Some(matcher) => matcher.redact(text.into()),
            None => text.into(),
        }
    }

    /// Replaces the secrets in all texts and keys of the value.
    pub fn redact_value(&self, value: &mut Value) {
        if let Some(matcher) = self.read_state().lazy_matcher() {
            matcher.redact_value_in_place(value, SecretReplacement::Whole);
        }
    }

    /// Replaces the secrets in all texts and keys of the map.
    pub fn redact_map(&self, map: &mut Map<String, Value>) {
        if let Some(matcher) = self.read_state().lazy_matcher() {
            matcher.redact_map_in_place(map, SecretReplacement::Whole);
        }
    }

    /// Replaces the secrets in the texts and data of the event.
    ///
    /// # Errors
    /// The event would not be valid without the secrets.
    pub fn redact_event(&self, event: Event) -> Result<Event, RedactionError> {
        let known_secrets = self.read_state();
        let Some(matcher) = known_secrets.lazy_matcher() else {
            return Ok(event);
        };
        let event = matcher.redact_stderr_of_event(event);
        let text = serde_json::to_string(&event).map_err(|_| RedactionError::Record)?;
        if !matcher.contains_secret(&text) {
            return Ok(event);
        }
        // A field can need a map or a list where the whole value is a secret.
        for form in [SecretReplacement::Whole, SecretReplacement::Members] {
            let mut document: Value = serde_json::from_str(&text).map_err(|_| RedactionError::Record)?;
            match document.get_mut("data") {
                Some(data) if matches!(event, Event::ContextSet(_)) => matcher.redact_value_in_place(data, form),
                Some(data) => matcher.redact_free_texts(data, form),
                None => {}
            }
            if let Ok(event) = serde_json::from_value(document) {
                return Ok(event);
            }
        }
        Err(RedactionError::Record)
    }
}

/// Replacement of an object or a list that is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SecretReplacement {
    /// One text.
    Whole,
    /// The same object or list, without its texts and numbers.
    Members,
}

impl SecretMatcher {
    /// Redacts stderr of the event as a fragment, because a secret can be cut at the start.
    fn redact_stderr_of_event(&self, mut event: Event) -> Event {
        let stderr = match &mut event {
            Event::ExecutionFinished(finished) => Some(&mut finished.stderr),
            Event::AttemptFailed(failed) => Some(&mut failed.stderr),
            _ => None,
        };
        if let Some(text) = stderr.filter(|text| !text.is_empty()) {
            *text = self.redact_fragment(text);
        }
        event
    }

    /// Replaces the secrets in a value and its keys.
    fn redact_value_in_place(&self, value: &mut Value, form: SecretReplacement) {
        if self.is_secret_value(value) {
            replace_secret_value(value, form);
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(struck) = self.redact(Cow::Borrowed(text)) {
                    *text = struck;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value_in_place(item, form)),
            Value::Object(map) => self.redact_map_in_place(map, form),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces the secrets in the keys and values of a map.
    fn redact_map_in_place(&self, map: &mut Map<String, Value>, form: SecretReplacement) {
        if self.is_secret_map(map) {
            map.values_mut().for_each(|value| replace_secret_value(value, form));
            return;
        }
        if map
            .keys()
            .any(|key| matches!(self.redact(Cow::Borrowed(key)), Cow::Owned(_)))
        {
            let entries = std::mem::take(map).into_iter();
            *map = entries
                .map(|(key, value)| (self.redact(Cow::Owned(key)).into_owned(), value))
                .collect();
        }
        map.values_mut()
            .for_each(|value| self.redact_value_in_place(value, form));
    }

    /// Replaces the secrets in the values of keys with free text.
    fn redact_free_texts(&self, value: &mut Value, form: SecretReplacement) {
        match value {
            Value::Object(map) => {
                map.iter_mut()
                    .for_each(|(key, value)| match FREE_TEXT_KEYS.contains(&key.as_str()) {
                        true => self.redact_value_in_place(value, form),
                        false => self.redact_free_texts(value, form),
                    })
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_free_texts(item, form)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Replaces a value that is a secret as a whole.
fn replace_secret_value(value: &mut Value, form: SecretReplacement) {
    match value {
        Value::Array(items) if form == SecretReplacement::Members => {
            items.iter_mut().for_each(|item| replace_secret_value(item, form))
        }
        Value::Object(map) if form == SecretReplacement::Members => {
            map.values_mut().for_each(|item| replace_secret_value(item, form));
        }
        Value::Null if form == SecretReplacement::Members => {}
        _ => *value = Value::from(REDACTED_TEXT),
    }
}

/// Does not show the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets() -> Secrets {
        let secrets = Secrets::default();
        for value in [
            "none",
            " sk-0123456789\n",
            "Bearer other-9876543210",
            "quo\"ted\\secret",
            "sk-0123456789-longer",
        ] {
            secrets.add_secret(value);
        }
        secrets
    }

    #[test]
    fn secrets_are_struck_out_of_texts_and_keys() {
        let rows = [
            ("none", "none"),
            ("a sk-0123456789, sk-0123456789-longer.", "a [secret], [secret]."),
            ("Bearer other-9876543210 other-9876543210", "[secret] [secret]"),
            ("quo\"ted\\secret", "[secret]"),
        ];
        for (text, expected) in rows {
            assert_eq!(secrets().redact(text), expected);
        }
        let mut value = json!({"sk-0123456789": ["x", {"y": "a sk-0123456789"}], "n": 1});
        secrets().redact_value(&mut value);
        assert_eq!(value, json!({"[secret]": ["x", {"y": "a [secret]"}], "n": 1}));
        assert_eq!(format!("{:?}", secrets()), "Secrets");
    }

    #[test]
    fn nothing_is_shown_if_secrets_cannot_be_searched_for() {
        let secrets = secrets();
        assert_eq!(secrets.check_matcher(), Ok(()));
        secrets.0.write().unwrap_or_else(PoisonError::into_inner).matcher =
            OnceLock::from(Some(SecretMatcher::blind()));
        assert_eq!(secrets.check_matcher(), Err(RedactionError::Search));
        assert_eq!(secrets.redact("nothing to see"), REDACTED_TEXT);
        assert_eq!(secrets.redact(""), "");
        assert_eq!(secrets.redact_fragment("nothing to see"), REDACTED_TEXT);
        let mut value = json!({"a": [1, "b"]});
        secrets.redact_value(&mut value);
        assert_eq!(value, json!(REDACTED_TEXT));
        let mut stream = RedactingStream::new(secrets.clone());
        assert_eq!(stream.push_piece("nothing"), "");
        assert_eq!(stream.finish(), REDACTED_TEXT);
        let set = |text: &str| Event::ContextSet([("a".into(), Arc::new(json!(text)))].into_iter().collect());
        assert_eq!(secrets.redact_event(set("nothing to see")), Ok(set(REDACTED_TEXT)));
    }

    #[test]
    fn an_event_keeps_the_names_by_which_it_belongs_to_others() {
        let event = |agent: &str, said: &str| -> Event {
            let event = json!({"event": "execution_finished", "data": {
                "turn": 1, "agent": agent, "execution": 1, "attempt": 1, "execution_time": 0.5, "stderr": said, "warnings": [said],
                "output": {"name": said, said: [said]},
                "exchange": [{"number": 1, "messages": [{"role": "user", "content": said}],
                    "tool_calls": [{"id": "c", "name": "t", "arguments": {"a": said}, "result": said, "duration": 0.0}]}],
            }});
            serde_json::from_value(event).expect("an event")
        };
        for secret in ["sk-0123456789", "quo\"ted\\secret"] {
            let struck = secrets().redact_event(event("sk-0123456789", secret));
            assert_eq!(struck, Ok(event("sk-0123456789", "[secret]")));
        }
        let plain = event("a", "nothing to see");
        assert_eq!(secrets().redact_event(plain.clone()), Ok(plain));
        let set = |text: &str| Event::ContextSet([(text.into(), Arc::new(json!(text)))].into_iter().collect());
        assert_eq!(secrets().redact_event(set("sk-0123456789")), Ok(set("[secret]")));
    }
}
