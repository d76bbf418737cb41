//! Server-sent events.
//!
//! Invariant: an event is written once, for all who follow.

use std::time::Duration;

use ensemble_runs::{LiveEvent, LiveEventKind};
use hyper::body::Bytes;
use serde_json::{Value, json};

/// How often a client hears that the server is there.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Renders a named server-sent event.
pub(crate) fn event_frame(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// Converts a live event of an execution to JSON for the page.
pub(crate) fn live_event_json(live: &LiveEvent) -> Value {
    let (kind, text) = match &live.kind {
        LiveEventKind::Text(text) => ("text", text.clone()),
        LiveEventKind::Reasoning(text) => ("reasoning", text.clone()),
        LiveEventKind::ToolStarted(call) => ("tool_started", call.name.to_string()),
        LiveEventKind::ToolEnded(call) => ("tool_ended", call.name.to_string()),
        LiveEventKind::ReplyRestarted => ("restarted", String::new()),
        LiveEventKind::Retrying { pause, error } => {
            ("retrying", format!("again in {:.1} s: {error}", pause.as_secs_f64()))
        }
        LiveEventKind::PaceChanged(text) => ("pace_changed", text.clone()),
    };
    json!({"agent": live.agent, "execution": live.execution, "attempt": live.attempt, "kind": kind, "text": text})
}
