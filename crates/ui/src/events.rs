//! Server-sent events.

use std::sync::Arc;
use std::time::Duration;

use ensemble_runs::{LivePiece, Piece};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::app::App;
use crate::follow::Watched;
use crate::reply::{Reply, events};

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

/// The events of a run, until the client is gone.
pub(crate) async fn of_run(watched: Arc<Watched>, app: Arc<App>) -> Reply {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let (mut begin, mut news) = watched.subscribe(&app).await;
        loop {
            if sender.send(begin).await.is_err() {
                return;
            }
            begin = loop {
                let next = tokio::select! {
                    next = news.recv() => next,
                    () = tokio::time::sleep(BEAT) => Ok(Bytes::from_static(b": still here\n\n")),
                    () = sender.closed() => return,
                };
                match next {
                    Ok(bytes) => {
                        if sender.send(bytes).await.is_err() {
                            return;
                        }
                    }
                    // The client was too slow: it begins again.
                    Err(RecvError::Lagged(_)) => {
                        let (again, fresh) = watched.subscribe(&app).await;
                        news = fresh;
                        break again;
                    }
                    Err(RecvError::Closed) => return,
                }
            };
        }
    });
    events(receiver)
}
