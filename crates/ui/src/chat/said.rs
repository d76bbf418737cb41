//! What comes back from a run, before it is written.

use chrono::{DateTime, Utc};
use ensemble_core::store::RunId;
use ensemble_language::data::Usage;

use crate::reply::Failure;

/// The reply to a message.
pub(super) enum Said {
    /// The next part of the reply.
    Piece(String),
    /// The reply is complete.
    End(End),
    /// There is no reply.
    Failed(Failure),
}

/// The whole reply.
pub(super) struct End {
    pub(super) text: String,
    pub(super) finish: &'static str,
    pub(super) usage: Usage,
}

/// The run that answers.
pub(super) struct Talking {
    pub(super) run: RunId,
    /// The first record that belongs to the answer.
    pub(super) from: u64,
    pub(super) begun: DateTime<Utc>,
}
