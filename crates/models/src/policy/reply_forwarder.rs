//! Live output of a reply that may still become void.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, LiveUpdate};

use crate::{ModelError, ReplyPiece};

/// Forwarder of reply pieces to the live output, which records whether any were sent.
pub(crate) struct LiveReplyForwarder<'a> {
    source: &'a ExecutionAttemptRef,
    live_output: &'a dyn LiveOutputReceiver,
    was_heard: AtomicBool,
    has_reasoned: AtomicBool,
}

impl<'a> LiveReplyForwarder<'a> {
    pub(crate) fn new(source: &'a ExecutionAttemptRef, live_output: &'a dyn LiveOutputReceiver) -> Self {
        Self {
            source,
            live_output,
            was_heard: AtomicBool::new(false),
            has_reasoned: AtomicBool::new(false),
        }
    }

    /// Sends the piece to the live output.
    pub(crate) fn forward_piece(&self, piece: ReplyPiece<'_>) {
        let (flag, update) = match piece {
            ReplyPiece::Text(text) => (&self.was_heard, LiveUpdate::Text(text)),
            ReplyPiece::Reasoning(text) => (&self.has_reasoned, LiveUpdate::Reasoning(text)),
        };
        flag.store(true, Ordering::Relaxed);
        self.live_output.receive_update(self.source, update);
    }

    /// Marks the reply so far as void in the live output. Returns whether any text was sent.
    pub(crate) fn mark_sent_reply_void(&self) -> bool {
        let was_heard = self.was_heard.swap(false, Ordering::Relaxed);
        if self.has_reasoned.swap(false, Ordering::Relaxed) || was_heard {
            self.live_output.receive_update(self.source, LiveUpdate::Restarted);
        }
        was_heard
    }

    /// Reports the start or the end of a slowdown.
    pub(crate) fn report_pace_change(&self, text: &str) {
        self.live_output
            .receive_update(self.source, LiveUpdate::PaceChanged { text });
    }

    /// Reports a repeated request, the pause before it, and the error.
    pub(crate) fn report_retry(&self, pause: Duration, error: &ModelError) {
        let error = error.to_string();
        self.live_output
            .receive_update(self.source, LiveUpdate::Retrying { pause, error: &error });
    }
}
