//! A run that is followed.

use std::sync::Arc;

use ensemble_runs::service::run_service::RunService;
use hyper::body::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::events::HEARTBEAT_INTERVAL;
use crate::reply::{UiReply, events_reply};
use crate::watched_run::WatchedRun;

/// Streams the events of a run until the client disconnects.
pub(super) async fn stream_run(watched: Arc<WatchedRun>, runs: RunService) -> UiReply {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        let (mut begin, mut news) = watched.subscribe_and_start_pump(&runs).await;
        loop {
            if sender.send(begin).await.is_err() {
                return;
            }
            begin = loop {
                let next = tokio::select! {
                    next = news.recv() => next,
                    () = tokio::time::sleep(HEARTBEAT_INTERVAL) => Ok(Bytes::from_static(b": still here\n\n")),
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
                        let (again, fresh) = watched.subscribe_and_start_pump(&runs).await;
                        news = fresh;
                        break again;
                    }
                    Err(RecvError::Closed) => return,
                }
            };
        }
    });
    events_reply(receiver)
}
