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

use super::large::{LargeFields, Moved, extract_large_fields, insert_large_fields};
use crate::conversation::{Event, Record};

/// Number of bytes of `,"crc":"00000000"}`.
const TAIL: usize = 18;

/// Reason why a line is not a valid record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
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
struct RecordHead<'a> {
    seq: u64,
    at: DateTime<Utc>,
    event: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    blobs: Moved,
}

/// Appends the line of the record to `buffer`, with a line break.
pub fn encode_record(record: &Record, buffer: &mut Vec<u8>) {
    encode_with_storage(record, buffer, None).expect("events have string keys and are written to memory");
}

/// Appends the line of the record to `buffer`. Stores large fields in `large`, if there is a storage.
///
/// # Errors
/// A large field cannot be stored.
pub fn encode_with_storage(record: &Record, buffer: &mut Vec<u8>, large: Option<&dyn LargeFields>) -> io::Result<()> {
    let start = buffer.len();
    buffer.extend_from_slice(b"{\"seq\":");
    write_number(buffer, record.seq);
    buffer.extend_from_slice(b",\"at\":\"");
    write_time(buffer, record.at);
    buffer.extend_from_slice(b"\",\"event\":\"");
    buffer.extend_from_slice(record.event.event_name().as_bytes());
    buffer.extend_from_slice(b"\",\"data\":");
    let data = buffer.len();
    encode_data(&record.event, buffer);
    escape_controls(buffer, data);
    if let Some(large) = large {
        let moved = extract_large_fields(large, record.event.event_name(), buffer, data)?;
        if !moved.is_empty() {
            buffer.extend_from_slice(b",\"blobs\":");
            serde_json::to_writer(&mut *buffer, &moved)?;
        }
    }
    let crc = crc32fast::hash(&buffer[start..]);
    let mut tail = *b",\"crc\":\"00000000\"}\n";
    for (nibble, digit) in tail[TAIL - 10..TAIL - 2].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(crc >> (4 * nibble) & 0xf) as usize];
    }
    buffer.extend_from_slice(&tail);
    Ok(())
}

/// Escapes control characters in the JSON from this position, so that a terminal does not execute them.
fn escape_controls(buffer: &mut Vec<u8>, from: usize) {
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
fn encode_data(event: &Event, buffer: &mut Vec<u8>) {
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
pub fn decode_record(line: &[u8]) -> Result<Record, LineError> {
    decode_with_storage(line, None)
}

/// Parses a line without its line break. Loads the separately stored fields from `large`.
pub fn decode_with_storage(line: &[u8], large: Option<&dyn LargeFields>) -> Result<Record, LineError> {
    let body_end = line.len().checked_sub(TAIL).ok_or(LineError::Incomplete)?;
    let (body, tail) = line.split_at(body_end);
    let crc = tail
        .strip_prefix(b",\"crc\":\"")
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or(LineError::Incomplete)?;
    if crc32fast::hash(body) != crc {
        return Err(LineError::Checksum);
    }
    let head: RecordHead = serde_json::from_slice(line).map_err(content_error)?;
    let event = match (head.blobs.is_empty(), large) {
        (true, _) => decode_event(head.event, head.data)?,
        (false, Some(large)) => {
            let full_data = insert_large_fields(large, head.data, &head.blobs).map_err(LineError::Blob)?;
            decode_event(head.event, &full_data)?
        }
        (false, None) => return Err(LineError::Blob("the line was read without its journal".to_owned())),
    };
    Ok(Record {
        seq: head.seq,
        at: head.at,
        event,
    })
}

/// Parses the data of the event with this name.
fn decode_event(name: &str, data: &RawValue) -> Result<Event, LineError> {
    Ok(match name {
        "run_started" => Event::RunStarted(parse_data(data)?),
        "run_resumed" => Event::RunResumed(parse_data(data)?),
        "message_added" => Event::MessageAdded(parse_data(data)?),
        "context_set" => Event::ContextSet(parse_data(data)?),
        "turn_started" => Event::TurnStarted(parse_data(data)?),
        "execution_started" => Event::ExecutionStarted(parse_data(data)?),
        "reply_received" => Event::ReplyReceived(parse_data(data)?),
        "request_stopped" => Event::RequestStopped(parse_data(data)?),
        "permission_decided" => Event::PermissionDecided(parse_data(data)?),
        "tool_call_started" => Event::ToolCallStarted(parse_data(data)?),
        "tool_call_ended" => Event::ToolCallEnded(parse_data(data)?),
        "attempt_failed" => Event::AttemptFailed(parse_data(data)?),
        "part_ended" => Event::PartEnded(parse_data(data)?),
        "execution_finished" => Event::ExecutionFinished(parse_data(data)?),
        "input_requested" => Event::InputRequested(parse_data(data)?),
        "interrupted" => Event::Interrupted(parse_data(data)?),
        "turn_finished" => Event::TurnFinished(parse_data(data)?),
        "run_ended" => Event::RunEnded(parse_data(data)?),
        other => return Err(LineError::Content(format!("unknown event `{other}`"))),
    })
}

/// Parses the data of an event as this type.
fn parse_data<T: DeserializeOwned>(data: &RawValue) -> Result<T, LineError> {
    serde_json::from_str(data.get()).map_err(content_error)
}

/// Creates the error of content that is not valid.
fn content_error(error: serde_json::Error) -> LineError {
    LineError::Content(error.to_string())
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
        encode_record(&record, &mut buffer);
        let line = String::from_utf8(buffer.split_off(6)).expect("text");
        let body = r#"{"seq":3,"at":"2026-11-21T09:08:07.500000Z","event":"interrupted","data":{"cause":"ctrl_c"}"#;
        let crc = crc32fast::hash(body.as_bytes());
        assert_eq!(line, format!("{body},\"crc\":\"{crc:08x}\"}}\n"));
        assert_eq!(decode_record(line.trim_end().as_bytes()), Ok(record));
    }
}
