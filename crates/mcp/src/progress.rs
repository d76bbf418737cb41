//! The progress messages about a run, for clients that request them.
//!
//! Invariant: a client that stops reading does not block the run.

use std::time::Duration;

use ensemble_core::conversation::{Event, Record};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};

/// The maximum time for a client to receive a message. A slower client gets no further progress.
const MAX_SEND_TIME: Duration = Duration::from_secs(5);

/// A sender of progress messages for one request.
pub(crate) struct ProgressSender {
    /// The client with its progress token. `None` means that the client wants no progress.
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    sent_count: u32,
}

impl ProgressSender {
    /// Creates a sender, which sends nothing if the request has no progress token.
    pub(crate) fn new(context: &RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            to: token.map(|token| (context.peer.clone(), token)),
            sent_count: 0,
        }
    }

    /// Sends a progress message for the record, if the record matters to clients. `failure_effect` describes the effect of a failure on the
    /// run.
    pub(crate) async fn send_progress(&mut self, record: &Record, failure_effect: Option<&'static str>) {
        let (Some((peer, token)), Some(message)) = (&self.to, progress_message(&record.event)) else {
            return;
        };
        let message = match failure_effect {
            Some(effect) => format!("{message}; {effect}"),
            None => message,
        };
        self.sent_count += 1;
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(self.sent_count)).with_message(message);
        let send_result = tokio::time::timeout(MAX_SEND_TIME, peer.notify_progress(progress)).await;
        if !matches!(send_result, Ok(Ok(()))) {
            self.to = None;
        }
    }
}

/// Renders the event in a few words. Returns `None` for events that are not reported.
fn progress_message(event: &Event) -> Option<String> {
    Some(match event {
        Event::TurnStarted(turn) => {
            let agents: Vec<&str> = turn.starts.iter().map(|start| &*start.agent).collect();
            format!("turn {}: {}", turn.turn, agents.join(", "))
        }
        Event::ExecutionFinished(finished) => match finished.failure() {
            None => format!("{} has finished", finished.agent),
            Some(failure) => format!("{} has failed: {}", finished.agent, failure.error),
        },
        Event::AttemptFailed(failed) => format!("{} is retried: {}", failed.agent, failed.failure.error),
        Event::ToolCallEnded(ended) => format!("{} has called {}", ended.within.agent, ended.call.name),
        Event::RunEnded(ended) => format!("ended: {}", ended.to_outcome_sentence().0),
        _ => return None,
    })
}
