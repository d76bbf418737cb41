//! Large fields of events, which a store may keep in files beside the lines of a journal.

use std::io;

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// Largest number of bytes of a field in a journal line. Longer fields are stored in separate files.
pub const MAX_INLINE_FIELD: usize = 64 << 10;

/// Fields that can be stored in separate files, by event name.
const MOVABLE_FIELDS: [(&str, &[&str]); 9] = [
    ("run_started", &["input", "context"]),
    ("message_added", &["text"]),
    ("reply_received", &["iteration"]),
    ("request_stopped", &["iteration"]),
    ("tool_call_ended", &["call"]),
    ("nested_request_answered", &["answer"]),
    ("attempt_failed", &["exchange"]),
    ("part_ended", &["output", "exchange"]),
    ("execution_finished", &["output", "exchange"]),
];

/// Storage for the large fields of a journal.
pub trait LargeFieldStorage {
    /// Stores the bytes and returns their name, the SHA-256 in hex. Storing equal bytes twice is not an error.
    ///
    /// # Errors
    /// The bytes cannot be stored.
    fn store_field(&self, bytes: &[u8]) -> io::Result<String>;

    /// Loads the text with this name, and checks that the name is its digest.
    ///
    /// # Errors
    /// The reason why the text is not available.
    fn load_field(&self, name: &str) -> Result<String, String>;
}

/// Names in the storage, by the name of the stored field.
pub(super) type StoredFieldNames = IndexMap<String, String>;

/// Unparsed fields of the data of an event.
type RawEventFields = IndexMap<String, Box<RawValue>>;

/// Stores the large fields of the event in `large`, and removes them from the data that starts at `start` in `buffer`.
pub(super) fn store_large_fields(
    large: &dyn LargeFieldStorage,
    event: &str,
    buffer: &mut Vec<u8>,
    start: usize,
) -> io::Result<StoredFieldNames> {
    let mut moved = StoredFieldNames::new();
    let movable = MOVABLE_FIELDS.iter().find(|(name, _)| *name == event);
    let (Some((_, movable)), true) = (movable, buffer.len() - start > MAX_INLINE_FIELD) else {
        return Ok(moved);
    };
    let mut fields: RawEventFields = serde_json::from_slice(&buffer[start..])?;
    for field in *movable {
        if fields
            .get(*field)
            .is_some_and(|value| value.get().len() > MAX_INLINE_FIELD)
            && let Some(value) = fields.shift_remove(*field)
        {
            moved.insert((*field).to_owned(), large.store_field(value.get().as_bytes())?);
        }
    }
    if !moved.is_empty() {
        buffer.truncate(start);
        serde_json::to_writer(buffer, &fields)?;
    }
    Ok(moved)
}

/// Loads the stored fields and inserts them into the data.
pub(super) fn load_large_fields(
    large: &dyn LargeFieldStorage,
    data: &RawValue,
    moved: &StoredFieldNames,
) -> Result<Box<RawValue>, String> {
    let unreadable = |error: serde_json::Error| error.to_string();
    let mut fields: RawEventFields = serde_json::from_str(data.get()).map_err(unreadable)?;
    for (field, name) in moved {
        let value = RawValue::from_string(large.load_field(name)?).map_err(unreadable)?;
        fields.insert(field.clone(), value);
    }
    serde_json::value::to_raw_value(&fields).map_err(unreadable)
}
