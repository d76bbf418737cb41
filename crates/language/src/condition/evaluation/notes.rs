//! What an evaluation noticed without failing: keys that are missing, and comparisons that can never be true.
//!
//! A note is made only when a key is missing or two values differ, so an evaluation that finds everything costs nothing.

use std::cell::RefCell;

use rhai::INT;

use crate::condition::evaluation::code::{EvaluationSite, KeyReadSource};
use crate::condition::evaluation::report::{clip_for_message, render_value};
use crate::condition::evaluation::value::ConditionValue;

/// The maximum number of notes of one evaluation. Further notes are dropped.
const MAX_NOTES: usize = 32;
/// The maximum number of keys of a map that a note names.
const MAX_NAMED_KEYS: usize = 12;

thread_local! {
    /// The notes of the evaluation on this thread.
    static NOTES: RefCell<Vec<EngineNote>> = const { RefCell::new(Vec::new()) };
}

/// A note of the engine, before the span in the user's text is known.
pub(crate) struct EngineNote {
    site: usize,
    key: String,
    /// The end of the sentence.
    words: String,
}

/// A note about a read of a missing key, or about a comparison of values that are never equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationNote {
    /// The text as the user wrote it: `output.aproved`.
    pub expression: String,
    /// The key that is missing; empty for a comparison.
    pub key: String,
    place: EvaluationNoteSubject,
    words: String,
}

/// The subject of a note.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EvaluationNoteSubject {
    Output,
    Named(String),
    Comparison,
}

impl EvaluationNote {
    /// Converts a note of the engine to a note about the text. Returns `None` if the site is unknown.
    pub(crate) fn from_engine(note: EngineNote, text: &str, sites: &[EvaluationSite]) -> Option<Self> {
        let site = sites.get(note.site)?;
        let part = |start: usize, end: usize| {
            let words: Vec<&str> = text[start..end].split_whitespace().collect();
            clip_for_message(&words.join(" "))
        };
        let place = match &site.place {
            _ if note.key.is_empty() => EvaluationNoteSubject::Comparison,
            KeyReadSource::Output => EvaluationNoteSubject::Output,
            KeyReadSource::OutputOf(agent) => EvaluationNoteSubject::Named(format!("the output of `{agent}`")),
            KeyReadSource::Context => EvaluationNoteSubject::Named("the context".to_owned()),
            KeyReadSource::Value => {
                EvaluationNoteSubject::Named(format!("`{}`", part(site.operand.start, site.operand.end)))
            }
        };
        Some(Self {
            expression: part(site.span.start, site.span.end),
            key: note.key,
            place,
            words: note.words,
        })
    }

    /// Returns whether both notes are about the same expression and the same key.
    pub(crate) fn is_about_same_read(&self, other: &Self) -> bool {
        (&self.expression, &self.key) == (&other.expression, &other.key)
    }

    /// Renders the note as a sentence for the user. `dependency`: the agent whose output is `output`.
    pub fn describe(&self, dependency: Option<&str>) -> String {
        format!("{}{}", self.describe_read_start(dependency), self.words)
    }

    /// Returns whether the sentence is about the same read. The end of a sentence depends on the value that was read.
    pub fn is_same_read_as_sentence(&self, sentence: &str) -> bool {
        sentence.starts_with(&self.describe_read_start(None))
    }

    /// Renders the beginning of the sentence, which is the same for all values.
    fn describe_read_start(&self, dependency: Option<&str>) -> String {
        let Self { expression, key, .. } = self;
        let place = match (&self.place, dependency) {
            (EvaluationNoteSubject::Comparison, _) => return format!("`{expression}`: "),
            (EvaluationNoteSubject::Named(name), _) => name.clone(),
            (EvaluationNoteSubject::Output, Some(agent)) => format!("the output of `{agent}`"),
            (EvaluationNoteSubject::Output, None) => "the output".to_owned(),
        };
        format!("`{expression}`: {place} has no `{}`; ", clip_for_message(key))
    }
}

/// Takes the notes of the last evaluation on this thread, and leaves none.
pub(crate) fn take_notes() -> Vec<EngineNote> {
    NOTES.take()
}

/// Removes all notes on this thread before a new evaluation.
pub(crate) fn reset_notes() {
    NOTES.with_borrow_mut(Vec::clear);
}

/// Adds a note if the map does not contain the key.
pub(crate) fn note_missing_key(site: INT, base: &ConditionValue, key: &str) {
    let ConditionValue::Map(map) = base else { return };
    if !map.contains_key(key) {
        add_note_once_per_key(site, key, || match map.len() {
            0 => "it is empty".to_owned(),
            count => {
                let keys = map.list_first_keys(MAX_NAMED_KEYS);
                let keys: Vec<String> = keys.iter().map(|key| format!("`{}`", clip_for_message(key))).collect();
                match count.saturating_sub(MAX_NAMED_KEYS) {
                    0 => format!("it has {}", keys.join(", ")),
                    more => format!("it has {} and {more} more", keys.join(", ")),
                }
            }
        });
    }
}

/// Adds a note if a string was compared with a boolean or a number.
pub(crate) fn note_unequal_types(site: INT, a: &ConditionValue, b: &ConditionValue) {
    use ConditionValue::{Bool, Float, Int, Text};
    if let (Text(_), Bool(_) | Int(_) | Float(_)) | (Bool(_) | Int(_) | Float(_), Text(_)) = (a, b) {
        add_note_once_per_key(site, "", || {
            format!(
                "{} is {} and {} is {}, so they are never equal",
                render_value(a),
                a.type_name_with_article(),
                render_value(b),
                b.type_name_with_article()
            )
        });
    }
}

/// Adds a note, unless the limit is reached or a note about the same site and key exists.
fn add_note_once_per_key(site: INT, key: &str, words: impl FnOnce() -> String) {
    let Ok(site) = usize::try_from(site) else { return };
    NOTES.with_borrow_mut(|notes| {
        let is_known = notes.iter().any(|note| note.site == site && note.key == key);
        if !is_known && notes.len() < MAX_NOTES {
            notes.push(EngineNote {
                site,
                key: key.to_owned(),
                words: words(),
            });
        }
    });
}
