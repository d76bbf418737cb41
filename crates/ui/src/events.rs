//! Server-sent events.
//!
//! Invariant: an event is written once, for all who follow.

use std::time::Duration;

use ensemble_runs::{LivePiece, Piece};
use hyper::body::Bytes;
use serde_json::{Value, json};

/// How often a client hears that the server is there.
pub(crate) const BEAT: Duration = Duration::from_secs(15);

/// An event with a name.
pub(crate) fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// A piece of an execution that no record holds yet.
pub(crate) fn piece(live: &LivePiece) -> Value {
    let (kind, text) = match &live.piece {
        Piece::Text(text) => ("text", text.clone()),
        Piece::Reasoning(text) => ("reasoning", text.clone()),
        Piece::ToolStarted(call) => ("tool_started", call.name.to_string()),
        Piece::ToolEnded(call) => ("tool_ended", call.name.to_string()),
        Piece::Restarted => ("restarted", String::new()),
        Piece::Retrying { pause, error } => ("retrying", format!("again in {:.1} s: {error}", pause.as_secs_f64())),
    };
    json!({"agent": live.agent, "execution": live.execution, "attempt": live.attempt, "kind": kind, "text": text})
}
