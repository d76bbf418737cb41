//! One line of a journal: `{"seq":3,"at":"…","event":"turn_started","data":{…},"crc":"1a2b3c4d"}`.
//!
//! A large field of `data` may be stored in a file beside the journal. Then `"blobs":{"output":"<sha-256>"}` follows.
//! The checksum is CRC-32 over the line's bytes before `,"crc"`, so that it can be checked without parsing.

use std::borrow::Cow;
use std::io;

use chrono::{DateTime, Datelike, SecondsFormat, Timelike, Utc};
use ensemble_language::hidden_characters;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::large::{LargeFieldStorage, StoredFieldNames, load_large_fields, store_large_fields};
use crate::conversation::{Event, Record};

/// Number of bytes of `,"crc":"00000000"}`.
const CHECKSUM_TAIL_LENGTH: usize = 18;

/// Reason why a line is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalLineError {
    /// The line does not end like a complete line.
    #[error("the line is incomplete")]
    Incomplete,
    /// The checksum does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum matches, but the content is not valid: another version of the program wrote it.
    #[error("the record cannot be read: {0}")]
    Content(String),
    /// A field that is stored beside the journal is not available.
    #[error("a large field is not available: {0}")]
    Blob(String),
}

/// Keys of a journal line, with the data not parsed.
#[derive(Deserialize)]
struct UnparsedRecordLine<'a> {
    seq: u64,
    at: DateTime<Utc>,
    event: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    blobs: StoredFieldNames,
}

/// Appends the line of the record to `buffer`, with a line break.
pub fn append_record_line(record: &Record, buffer: &mut Vec<u8>) {
    append_record_line_with_storage(record, buffer, None).expect("events have string keys and are written to memory");
}

/// Appends the line of the record to `buffer`. Stores large fields in `large`, if there is a storage.
///
/// # Errors
/// A large field cannot be stored.
pub fn append_record_line_with_storage(
    record: &Record,
    buffer: &mut Vec<u8>,
    large: Option<&dyn LargeFieldStorage>,
) -> io::Result<()> {
    let start = buffer.len();
    buffer.extend_from_slice(b"{\"seq\":");
    write_number(buffer, record.seq);
    buffer.extend_from_slice(b",\"at\":\"");
    write_time(buffer, record.at);
    buffer.extend_from_slice(b"\",\"event\":\"");
    buffer.extend_from_slice(record.event.event_name().as_bytes());
    buffer.extend_from_slice(b"\",\"data\":");
    let data = buffer.len();
    append_event_data(&record.event, buffer);
    escape_control_characters(buffer, data);
    if let Some(large) = large {
        let moved = store_large_fields(large, record.event.event_name(), buffer, data)?;
        if !moved.is_empty() {
            buffer.extend_from_slice(b",\"blobs\":");
            serde_json::to_writer(&mut *buffer, &moved)?;
        }
    }
    let crc = crc32fast::hash(&buffer[start..]);
    let mut tail = *b",\"crc\":\"00000000\"}\n";
    for (nibble, digit) in tail[CHECKSUM_TAIL_LENGTH - 10..CHECKSUM_TAIL_LENGTH - 2]
        .iter_mut()
        .rev()
        .enumerate()
    {
        *digit = b"0123456789abcdef"[(crc >> (4 * nibble) & 0xf) as usize];
    }
    buffer.extend_from_slice(&tail);
    Ok(())
}

/// Escapes control characters in the JSON from this position, so that a terminal does not execute them.
fn escape_control_characters(buffer: &mut Vec<u8>, from: usize) {
    let Ok(text) = std::str::from_utf8(&buffer[from..]) else {
        return;
    };
    if let Cow::Owned(spelt) = hidden_characters::escape_hidden_in_json(text) {
        buffer.truncate(from);
        buffer.extend_from_slice(spelt.as_bytes());
    }
}

/// Appends a decimal number.
fn write_number(buffer: &mut Vec<u8>, number: u64) {
    serde_json::to_writer(buffer, &number).expect("memory can be written");
}

/// Appends the time as RFC 3339 in UTC with microseconds. Formats by hand, because every event has a time and chrono is slower.
fn write_time(buffer: &mut Vec<u8>, at: DateTime<Utc>) {
    // Each part of a `DateTime` is converted on its own, so the conversion comes first.
    let naive = at.naive_utc();
    let (date, time) = (naive.date(), naive.time());
    let (year, nanos) = (u32::try_from(date.year()).unwrap_or(u32::MAX), time.nanosecond());
    if year > 9_999 || nanos >= 1_000_000_000 {
        let text = at.to_rfc3339_opts(SecondsFormat::Micros, true);
        return buffer.extend_from_slice(text.as_bytes());
    }
    let micros = nanos / 1_000;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    let pairs = [
        (0, year / 100),
        (2, year % 100),
        (5, date.month()),
        (8, date.day()),
        (11, time.hour()),
        (14, time.minute()),
        (17, time.second()),
        (20, micros / 10_000),
        (22, micros / 100 % 100),
        (24, micros % 100),
    ];
    for (place, number) in pairs {
        text[place] += (number / 10) as u8;
        text[place + 1] += (number % 10) as u8;
    }
    buffer.extend_from_slice(&text);
}

/// Appends the data of the event as JSON.
fn append_event_data(event: &Event, buffer: &mut Vec<u8>) {
    let result = match event {
        Event::RunStarted(data) => serde_json::to_writer(buffer, data),
        Event::RunResumed(data) => serde_json::to_writer(buffer, data),
        Event::MessageAdded(data) => serde_json::to_writer(buffer, data),
        Event::ContextSet(data) => serde_json::to_writer(buffer, data),
        Event::TurnStarted(data) => serde_json::to_writer(buffer, data),
        Event::ExecutionStarted(data) => serde_json::to_writer(buffer, data),
        Event::ReplyReceived(data) => serde_json::to_writer(buffer, data),
        Event::RequestStopped(data) => serde_json::to_writer(buffer, data),
        Event::PermissionDecided(data) => serde_json::to_writer(buffer, data),
        Event::ToolCallStarted(data) => serde_json::to_writer(buffer, data),
        Event::ToolCallEnded(data) => serde_json::to_writer(buffer, data),
        Event::NestedRequestAnswered(data) => serde_json::to_writer(buffer, data),
        Event::AttemptFailed(data) => serde_json::to_writer(buffer, data),
        Event::PartEnded(data) => serde_json::to_writer(buffer, data),
        Event::ExecutionFinished(data) => serde_json::to_writer(buffer, data),
        Event::InputRequested(data) => serde_json::to_writer(buffer, data),
        Event::Interrupted(data) => serde_json::to_writer(buffer, data),
        Event::TurnFinished(data) => serde_json::to_writer(buffer, data),
        Event::RunEnded(data) => serde_json::to_writer(buffer, data),
    };
    result.expect("events have string keys and are written to memory");
}

/// Parses a line without its line break. A line with separately stored fields is an error.
pub fn parse_record_line(line: &[u8]) -> Result<Record, JournalLineError> {
    parse_record_line_with_storage(line, None)
}

/// Parses a line without its line break. Loads the separately stored fields from `large`.
pub fn parse_record_line_with_storage(
    line: &[u8],
    large: Option<&dyn LargeFieldStorage>,
) -> Result<Record, JournalLineError> {
    let body_end = line
        .len()
        .checked_sub(CHECKSUM_TAIL_LENGTH)
        .ok_or(JournalLineError::Incomplete)?;
    let (body, tail) = line.split_at(body_end);
    let crc = tail
        .strip_prefix(b",\"crc\":\"")
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or(JournalLineError::Incomplete)?;
    if crc32fast::hash(body) != crc {
        return Err(JournalLineError::Checksum);
    }
    let head: UnparsedRecordLine = serde_json::from_slice(line).map_err(content_error)?;
    let event = match (head.blobs.is_empty(), large) {
        (true, _) => parse_event(head.event, head.data)?,
        (false, Some(large)) => {
            let full_data = load_large_fields(large, head.data, &head.blobs).map_err(JournalLineError::Blob)?;
            parse_event(head.event, &full_data)?
        }
        (false, None) => {
            return Err(JournalLineError::Blob(
                "the line was read without its journal".to_owned(),
            ));
        }
    };
    Ok(Record {
        seq: head.seq,
        at: head.at,
        event,
    })
}

/// Parses the data of the event with this name.
fn parse_event(name: &str, data: &RawValue) -> Result<Event, JournalLineError> {
    Ok(match name {
        "run_started" => Event::RunStarted(parse_event_data(data)?),
        "run_resumed" => Event::RunResumed(parse_event_data(data)?),
        "message_added" => Event::MessageAdded(parse_event_data(data)?),
        "context_set" => Event::ContextSet(parse_event_data(data)?),
        "turn_started" => Event::TurnStarted(parse_event_data(data)?),
        "execution_started" => Event::ExecutionStarted(parse_event_data(data)?),
        "reply_received" => Event::ReplyReceived(parse_event_data(data)?),
        "request_stopped" => Event::RequestStopped(parse_event_data(data)?),
        "permission_decided" => Event::PermissionDecided(parse_event_data(data)?),
        "tool_call_started" => Event::ToolCallStarted(parse_event_data(data)?),
        "tool_call_ended" => Event::ToolCallEnded(parse_event_data(data)?),
        "nested_request_answered" => Event::NestedRequestAnswered(parse_event_data(data)?),
        "attempt_failed" => Event::AttemptFailed(parse_event_data(data)?),
        "part_ended" => Event::PartEnded(parse_event_data(data)?),
        "execution_finished" => Event::ExecutionFinished(parse_event_data(data)?),
        "input_requested" => Event::InputRequested(parse_event_data(data)?),
        "interrupted" => Event::Interrupted(parse_event_data(data)?),
        "turn_finished" => Event::TurnFinished(parse_event_data(data)?),
        "run_ended" => Event::RunEnded(parse_event_data(data)?),
        other => return Err(JournalLineError::Content(format!("unknown event `{other}`"))),
    })
}

/// Parses the data of an event as this type.
fn parse_event_data<T: DeserializeOwned>(data: &RawValue) -> Result<T, JournalLineError> {
    serde_json::from_str(data.get()).map_err(content_error)
}

/// Creates the error of content that is not valid.
fn content_error(error: serde_json::Error) -> JournalLineError {
    JournalLineError::Content(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{RunCanceller, RunInterruption};

    #[test]
    fn times_are_written_as_the_general_way_writes_them() {
        let texts = [
            "1970-01-01T00:00:00Z",
            "2026-11-21T09:08:07.000001999Z",
            "2024-02-29T23:59:59.999999999Z",
            "2016-12-31T23:59:60.5Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59.1Z",
            "+10000-01-01T00:00:00Z",
            "-0001-12-31T12:00:00Z",
        ];
        for text in texts {
            let at: DateTime<Utc> = text.parse().expect("a time");
            let mut buffer = Vec::new();
            write_time(&mut buffer, at);
            let general = at.to_rfc3339_opts(SecondsFormat::Micros, true);
            assert_eq!(String::from_utf8_lossy(&buffer), general, "{text}");
        }
    }

    #[test]
    fn a_line_has_its_documented_shape() {
        let record = Record {
            seq: 3,
            at: "2026-11-21T09:08:07.5Z".parse().expect("a time"),
            event: Event::Interrupted(RunInterruption::Cancelled {
                by: RunCanceller::Keyboard,
            }),
        };
        let mut buffer = b"before".to_vec();
        append_record_line(&record, &mut buffer);
        let line = String::from_utf8(buffer.split_off(6)).expect("text");
        let body = r#"{"seq":3,"at":"2026-11-21T09:08:07.500000Z","event":"interrupted","data":{"cause":"ctrl_c"}"#;
        let crc = crc32fast::hash(body.as_bytes());
        assert_eq!(line, format!("{body},\"crc\":\"{crc:08x}\"}}\n"));
        assert_eq!(parse_record_line(line.trim_end().as_bytes()), Ok(record));
    }
}
