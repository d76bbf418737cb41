//! What comes back from a run, before it is written.

use chrono::{DateTime, Utc};
use ensemble_core::store::RunId;
use ensemble_language::data::ModelUsage;

use crate::reply::ApiFailure;

/// Item of a streamed reply: a piece of text, the end, or a failure.
pub(super) enum ChatReplyItem {
    /// The next part of the reply.
    Piece(String),
    /// The reply is complete.
    End(ChatReply),
    /// There is no reply.
    Failed(ApiFailure),
}

/// Whole reply with its end reason and usage.
pub(super) struct ChatReply {
    pub(super) text: String,
    pub(super) finish: &'static str,
    pub(super) usage: ModelUsage,
}

/// Run that replies to a chat message.
pub(super) struct AnsweringRun {
    pub(super) run: RunId,
    /// The first record that belongs to the answer.
    pub(super) from: u64,
    pub(super) begun: DateTime<Utc>,
}
