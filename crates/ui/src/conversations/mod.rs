//! The runs to which the messages of chat programs belong.
//!
//! A request can name the run (`metadata.run`). Otherwise it is the run, among those that chat programs have begun here, whose
//! input, messages, answers and replies are those of the client. `transcript.rs` folds a run into what a chat program has heard of
//! it, and compares.
//!
//! Invariant: what is remembered can be lost at any time.

mod messages;
mod remembered_runs;
mod reply;
mod transcript;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ensemble_core::operator::escape_hidden;
use ensemble_core::request::{PendingRequest, RequestAddress, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_language::data::sha256_of_text;
use ensemble_runs::service::run_service::RunService;

use crate::reply::ApiFailure;
use remembered_runs::{ChatProgramRuns, canonical_or_same_path};

pub(crate) use messages::ChatProgramMessages;
pub(crate) use remembered_runs::MatchingRun;
pub(crate) use reply::{gives_reply, is_yes_message, successful_reply_text};
pub(crate) use transcript::TranscriptPosition;

/// Name in the journal of the page that cancels a run.
pub(crate) const CANCELLED_BY_PAGE: &str = "the page";
/// Most conversations that are remembered.
const MAX_REMEMBERED_REPLIES: usize = 1000;

/// The last reply of a run to a chat program.
#[derive(Debug, Clone)]
pub(crate) struct LastChatReply {
    /// The run.
    pub(crate) run: RunId,
    /// The request that the reply has shown. The next message answers it.
    pub(crate) shown: Option<ShownRequestKey>,
}

/// Key of a request that a chat program was shown.
#[derive(Debug, Clone)]
pub(crate) struct ShownRequestKey {
    pub(crate) address: RequestAddress,
    pub(crate) digest: RequestDigest,
    pub(crate) is_permission: bool,
}

impl ShownRequestKey {
    /// Creates the key by which the next message of the chat is matched to this request.
    pub(crate) fn new(request: &PendingRequest) -> Self {
        Self {
            address: request.address.clone(),
            digest: request.digest.clone(),
            is_permission: request.is_permission(),
        }
    }

    /// Renders a line that identifies the request, if another conversation saw the same text after the same messages.
    pub(crate) fn identity_line(&self, run: &RunId) -> String {
        format!("\n\n(`{}` of run {run})", escape_hidden(&self.address.to_string()))
    }
}

/// Runs of chat programs, found by the messages of their conversations.
#[derive(Default)]
pub(crate) struct ChatConversations {
    /// What was replied last in each run, by the ensemble and a digest of all messages.
    replied: Mutex<HashMap<(String, String), LastChatReply>>,
    recorded: tokio::sync::Mutex<ChatProgramRuns>,
}

impl ChatConversations {
    /// Finds the remembered last reply in these messages.
    pub(crate) fn find_remembered_reply(&self, model: &str, messages: &ChatProgramMessages) -> Option<LastChatReply> {
        let before = messages.digest_before_last()?;
        self.lock_replies().get(&(model.to_owned(), before)).cloned()
    }

    /// Remembers a run that a chat program has started.
    pub(crate) async fn remember_run(&self, runs: &RunService, run: &RunId) -> Result<(), ApiFailure> {
        let stored = runs.runs().resolve_run(run).await;
        let stored = stored.map_err(|error| ApiFailure::not_found(error.to_string()))?;
        self.recorded.lock().await.remember_run(&*stored).await
    }

    /// Finds the run of the ensemble `file` whose records match the messages: the run with this id, or a remembered one.
    pub(crate) async fn find_recorded_run(
        &self,
        runs: &RunService,
        model: &str,
        file: &str,
        messages: &ChatProgramMessages,
        id: Option<&str>,
    ) -> Result<Option<MatchingRun>, ApiFailure> {
        let file = canonical_or_same_path(&runs.runs().project().folder.join(Path::new(file)));
        let was_given = |reply: &str| {
            let key = (model.to_owned(), messages.digest_with_reply(reply));
            self.lock_replies().contains_key(&key)
        };
        let mut recorded = self.recorded.lock().await;
        recorded.find_matching_run(runs, &file, messages, id, was_given).await
    }

    /// Remembers the reply of a run, and returns its text.
    ///
    /// If another run replied with the same request after the same messages, the text names the run.
    pub(crate) fn remember_reply_with_unique_text(
        &self,
        model: &str,
        messages: &ChatProgramMessages,
        reply: String,
        last: LastChatReply,
    ) -> String {
        let key_for = |reply: &str| (model.to_owned(), messages.digest_with_reply(&sha256_of_text(reply)));
        let mut replied = self.lock_replies();
        replied.retain(|_, known| known.run != last.run);
        if replied.len() >= MAX_REMEMBERED_REPLIES {
            replied.clear();
        }
        let other = replied.get(&key_for(&reply)).and_then(|other| other.shown.as_ref());
        let reply = match (other, &last.shown) {
            (Some(_), Some(shown)) => format!("{reply}{}", shown.identity_line(&last.run)),
            _ => reply,
        };
        replied.insert(key_for(&reply), last);
        reply
    }

    /// Locks the replies, also after a panic in another thread.
    fn lock_replies(&self) -> MutexGuard<'_, HashMap<(String, String), LastChatReply>> {
        self.replied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
