//! One line of a journal: `{"seq":3,"at":"…","event":"turn_started","data":{…},"crc":"1a2b3c4d"}`.
//!
//! The checksum is CRC-32 over the line's bytes before `,"crc"`, so that it can be checked without parsing.

use std::io::Write;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::conversation::{Event, Record};

/// Length of `,"crc":"00000000"}`.
const TAIL: usize = 18;

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It does not end as lines end.
    #[error("the line is incomplete")]
    Incomplete,
    /// The checksum does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// The checksum matches, and still it cannot be understood: another version wrote it.
    #[error("the record cannot be read: {0}")]
    Content(String),
}

#[derive(Deserialize)]
struct Head<'a> {
    seq: u64,
    at: DateTime<Utc>,
    event: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Appends the record's line, with its line break, to `buffer`.
pub fn encode(record: &Record, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    let at = record.at.to_rfc3339_opts(SecondsFormat::Micros, true);
    let name = record.event.name();
    let seq = record.seq;
    write_infallibly(
        buffer,
        format_args!(r#"{{"seq":{seq},"at":"{at}","event":"{name}","data":"#),
    );
    encode_data(&record.event, buffer);
    let crc = crc32fast::hash(&buffer[start..]);
    write_infallibly(buffer, format_args!(",\"crc\":\"{crc:08x}\"}}\n"));
}

fn encode_data(event: &Event, buffer: &mut Vec<u8>) {
    let result = match event {
        Event::RunStarted(data) => serde_json::to_writer(buffer, data),
        Event::RunResumed(data) => serde_json::to_writer(buffer, data),
        Event::MessageAdded(data) => serde_json::to_writer(buffer, data),
        Event::TurnStarted(data) => serde_json::to_writer(buffer, data),
        Event::ExecutionStarted(data) => serde_json::to_writer(buffer, data),
        Event::AttemptFailed(data) => serde_json::to_writer(buffer, data),
        Event::ExecutionFinished(data) => serde_json::to_writer(buffer, data),
        Event::InputRequested(data) => serde_json::to_writer(buffer, data),
        Event::Interrupted(data) => serde_json::to_writer(buffer, data),
        Event::TurnFinished(data) => serde_json::to_writer(buffer, data),
        Event::RunEnded(data) => serde_json::to_writer(buffer, data),
    };
    result.expect("events have string keys and are written to memory");
}

fn write_infallibly(buffer: &mut Vec<u8>, text: std::fmt::Arguments) {
    buffer.write_fmt(text).expect("memory can be written");
}

/// Reads one line, without its line break.
pub fn decode(line: &[u8]) -> Result<Record, LineError> {
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
    let head: Head = serde_json::from_slice(line).map_err(content)?;
    Ok(Record {
        seq: head.seq,
        at: head.at,
        event: decode_event(head.event, head.data)?,
    })
}

fn decode_event(name: &str, data: &RawValue) -> Result<Event, LineError> {
    Ok(match name {
        "run_started" => Event::RunStarted(parse(data)?),
        "run_resumed" => Event::RunResumed(parse(data)?),
        "message_added" => Event::MessageAdded(parse(data)?),
        "turn_started" => Event::TurnStarted(parse(data)?),
        "execution_started" => Event::ExecutionStarted(parse(data)?),
        "attempt_failed" => Event::AttemptFailed(parse(data)?),
        "execution_finished" => Event::ExecutionFinished(parse(data)?),
        "input_requested" => Event::InputRequested(parse(data)?),
        "interrupted" => Event::Interrupted(parse(data)?),
        "turn_finished" => Event::TurnFinished(parse(data)?),
        "run_ended" => Event::RunEnded(parse(data)?),
        other => return Err(LineError::Content(format!("unknown event `{other}`"))),
    })
}

fn parse<T: DeserializeOwned>(data: &RawValue) -> Result<T, LineError> {
    serde_json::from_str(data.get()).map_err(content)
}

fn content(error: serde_json::Error) -> LineError {
    LineError::Content(error.to_string())
}
