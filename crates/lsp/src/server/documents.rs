//! The open texts, and what of them is shared between the threads.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsp_types::Uri;

use crate::text::EditorText;

/// A version of a text that is open in the editor.
#[derive(Debug, Clone)]
pub(super) struct OpenDocument {
    pub(super) uri: Uri,
    pub(super) path: PathBuf,
    /// The number that the client gave to the text.
    pub(super) version: i32,
    /// The number of the change, counted by the server over all texts; it is never used twice.
    pub(super) change: u64,
    pub(super) text: EditorText,
}

/// The number of the newest change of each open text.
#[derive(Debug, Clone, Default)]
pub(super) struct NewestDocumentChanges(Arc<Mutex<HashMap<String, u64>>>);

impl NewestDocumentChanges {
    /// Returns whether no newer version of the text exists.
    pub(super) fn is_newest(&self, document: &OpenDocument) -> bool {
        self.lock().get(document.uri.as_str()) == Some(&document.change)
    }

    /// Calls `what` with the changes while no other thread can add a change.
    pub(super) fn with_locked_changes<T>(&self, what: impl FnOnce(&mut HashMap<String, u64>) -> T) -> T {
        what(&mut self.lock())
    }

    /// Locks the changes, also after a panic of another thread.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
