//! The events of a run as lines of JSON: the lines of its journal, and live events between them.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value, json};

use super::Reporter;
use super::sanitized_writer::SanitizedWriter;
use ensemble_core::conversation::{ConversationState, Record};
use ensemble_core::records::append_record_line;
use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, LiveUpdate};

/// A printer of every event as one line of JSON. Clones print to the same stream.
///
/// As live output, the printer prints a line with the key `live` for each piece, also of nested runs.
#[derive(Clone)]
pub struct JsonEventPrinter(Arc<Mutex<EventLineBuffer>>);

/// The stream of an event printer, with a reused buffer for one line.
struct EventLineBuffer {
    out: SanitizedWriter,
    line: Vec<u8>,
}

impl JsonEventPrinter {
    /// Creates a printer that writes to this stream.
    pub fn new(out: SanitizedWriter) -> Self {
        Self(Arc::new(Mutex::new(EventLineBuffer { out, line: Vec::new() })))
    }

    /// Clears the buffer, lets `write` fill the buffer, and prints the line. Ignores a closed stream.
    fn print_built_line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let EventLineBuffer { out, line } = &mut *lines;
        line.clear();
        write(line);
        // A closed pipe must not stop the run; the journal contains everything.
        let _ = out.write_all(line);
        let _ = out.flush();
    }
}

impl Reporter for JsonEventPrinter {
    fn report_event(&mut self, record: &Record, _state: &ConversationState) {
        self.print_built_line(|line| append_record_line(record, line));
    }
}

impl LiveOutputReceiver for JsonEventPrinter {
    fn receive_update(&self, source: &ExecutionAttemptRef, update: LiveUpdate<'_>) {
        let text = live_event_to_json(source, update).to_string();
        self.print_built_line(|line| {
            line.extend_from_slice(text.as_bytes());
            line.push(b'\n');
        });
    }

    fn wants_nested_runs(&self) -> bool {
        true
    }
}

/// Converts a live event to JSON: `{"live":"text","run":…,"agent":…,"execution":1,"attempt":1,"text":…}`.
fn live_event_to_json(source: &ExecutionAttemptRef, update: LiveUpdate<'_>) -> Value {
    let (kind, data) = match update {
        LiveUpdate::Text(text) => ("text", json!({ "text": text })),
        LiveUpdate::Reasoning(text) => ("reasoning", json!({ "text": text })),
        LiveUpdate::ToolStarted(call) => ("tool_started", json!({ "call": call })),
        LiveUpdate::ToolEnded(call) => ("tool_ended", json!({ "call": call.to_json_without_bytes() })),
        LiveUpdate::Restarted => ("restarted", json!({})),
        LiveUpdate::Retrying { pause, error } => {
            let seconds = pause.as_secs_f64();
            ("retrying", json!({ "pause": seconds, "error": error }))
        }
        LiveUpdate::PaceChanged { text } => ("pace_changed", json!({ "text": text })),
    };
    let mut line = Map::new();
    line.insert("live".into(), kind.into());
    line.insert("run".into(), json!(source.run));
    line.insert("agent".into(), json!(source.agent));
    line.insert("execution".into(), source.execution.into());
    line.insert("attempt".into(), source.attempt.into());
    line.extend(data.as_object().cloned().unwrap_or_default());
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ensemble_core::thread::{ToolCall, ToolCallEnd};

    #[test]
    fn each_piece_is_one_line() {
        let source = ExecutionAttemptRef {
            run: "r/sub-1-1".into(),
            agent: "a".into(),
            execution: 2,
            attempt: 3,
        };
        let call = ToolCall::new("c", "look", json!({"x": 1}));
        let ended = call.clone().with_end(ToolCallEnd::Error("no".into()), 0.5);
        let pause = Duration::from_millis(1500);
        let table = [
            (LiveUpdate::Text("a\nb"), r#""live":"text",@,"text":"a\nb""#),
            (
                LiveUpdate::ToolStarted(&call),
                r#""live":"tool_started",@,"call":{"id":"c","name":"look","arguments":{"x":1}}"#,
            ),
            (
                LiveUpdate::ToolEnded(&ended),
                r#""live":"tool_ended",@,"call":{"id":"c","name":"look","arguments":{"x":1},"error":"no","duration":0.5}"#,
            ),
            (LiveUpdate::Restarted, r#""live":"restarted",@"#),
            (
                LiveUpdate::Retrying { pause, error: "busy" },
                r#""live":"retrying",@,"pause":1.5,"error":"busy""#,
            ),
            (
                LiveUpdate::PaceChanged { text: "slowed" },
                r#""live":"pace_changed",@,"text":"slowed""#,
            ),
        ];
        for (update, expected) in table {
            let place = r#""run":"r/sub-1-1","agent":"a","execution":2,"attempt":3"#;
            let expected = format!("{{{}}}", expected.replace('@', place));
            assert_eq!(live_event_to_json(&source, update).to_string(), expected);
        }
    }
}
