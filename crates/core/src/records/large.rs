//! Large fields of events, which a store may keep beside the lines of a journal.

use std::io;

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// A field whose JSON is longer than this many bytes is stored beside the line.
pub const LARGE: usize = 64 << 10;

/// Events and their fields that may be stored beside the line.
const MOVABLE: [(&str, &[&str]); 3] = [
    ("run_started", &["input", "context"]),
    ("message_added", &["text"]),
    ("execution_finished", &["output", "exchange"]),
];

/// Where the large fields of a journal are kept.
pub trait LargeFields {
    /// Stores the bytes and returns their name, the SHA-256 in hex. Storing the same bytes twice is no error.
    ///
    /// # Errors
    /// The bytes cannot be stored.
    fn put(&self, bytes: &[u8]) -> io::Result<String>;

    /// The text that was stored under that name, checked against the name.
    ///
    /// # Errors
    /// A sentence that says why the text cannot be had.
    fn get(&self, name: &str) -> Result<String, String>;
}

/// Fields that are stored beside the line: field name → name in the store.
pub(super) type Moved = IndexMap<String, String>;

/// The fields of an event's data, unread.
type Fields = IndexMap<String, Box<RawValue>>;

/// Takes the large fields out of the data that stands in `buffer` from `start` on.
pub(super) fn take_out(large: &dyn LargeFields, event: &str, buffer: &mut Vec<u8>, start: usize) -> io::Result<Moved> {
    let mut moved = Moved::new();
    let movable = MOVABLE.iter().find(|(name, _)| *name == event);
    let (Some((_, movable)), true) = (movable, buffer.len() - start > LARGE) else {
        return Ok(moved);
    };
    let mut fields: Fields = serde_json::from_slice(&buffer[start..])?;
    for field in *movable {
        if fields.get(*field).is_some_and(|value| value.get().len() > LARGE)
            && let Some(value) = fields.shift_remove(*field)
        {
            moved.insert((*field).to_owned(), large.put(value.get().as_bytes())?);
        }
    }
    if !moved.is_empty() {
        buffer.truncate(start);
        serde_json::to_writer(buffer, &fields)?;
    }
    Ok(moved)
}

/// Puts fields back into the data they were taken from.
pub(super) fn put_back(large: &dyn LargeFields, data: &RawValue, moved: &Moved) -> Result<Box<RawValue>, String> {
    let unreadable = |error: serde_json::Error| error.to_string();
    let mut fields: Fields = serde_json::from_str(data.get()).map_err(unreadable)?;
    for (field, name) in moved {
        let value = RawValue::from_string(large.get(name)?).map_err(unreadable)?;
        fields.insert(field.clone(), value);
    }
    serde_json::value::to_raw_value(&fields).map_err(unreadable)
}
