//! Which run the messages of a chat program belong to.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ensemble_core::store::RunId;

/// Most conversations that are remembered.
const REMEMBERED: usize = 1000;

/// Which run the messages of a conversation belong to, by a digest of them.
#[derive(Default)]
pub(crate) struct Conversations(Mutex<HashMap<String, RunId>>);

impl Conversations {
    pub(crate) fn find(&self, messages: &str) -> Option<RunId> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(messages)
            .cloned()
    }

    pub(crate) fn remember(&self, messages: String, run: &RunId) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(messages, run.clone());
    }
}
