//! Keys of existing outputs that a rendering printed although they are not there.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::printed_paths::PrintedPath;

/// The most keys that a message lists.
const MAX_LISTED_KEYS: usize = 8;

/// A shared collector of the keys that were missing while templates of an execution were rendered.
#[derive(Debug, Clone, Default)]
pub struct MissingKeyCollector(Arc<Mutex<CollectedMissingKeys>>);

#[derive(Debug, Default)]
struct CollectedMissingKeys {
    /// The key that was looked up last, if it was not there.
    latest_lookup: Option<MissingOutputKey>,
    /// Those that were printed.
    printed_keys: Vec<MissingOutputKey>,
}

/// A key that the output of an agent does not have, with the keys that the output has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingOutputKey {
    /// The agent.
    pub agent: Arc<str>,
    /// The keys up to the missing one.
    pub keys: Vec<Arc<str>>,
    /// The keys that are there in its place.
    pub known_keys: Vec<String>,
}

impl MissingKeyCollector {
    /// Returns the missing keys that were printed, each once, and leaves none.
    pub fn take_missing_keys(&self) -> Vec<MissingOutputKey> {
        std::mem::take(&mut self.lock().printed_keys)
    }

    /// Adds missing keys of another rendering, each once.
    pub fn add_missing_keys(&self, missed: Vec<MissingOutputKey>) {
        let mut missing_keys = self.lock();
        for key in missed {
            if !missing_keys.printed_keys.contains(&key) {
                missing_keys.printed_keys.push(key);
            }
        }
    }

    /// Remembers the latest lookup that found nothing.
    pub(super) fn set_latest_lookup(&self, key: MissingOutputKey) {
        self.lock().latest_lookup = Some(key);
    }

    /// Forgets the latest lookup that found nothing, after another lookup.
    pub(super) fn clear_latest_lookup(&self) {
        self.lock().latest_lookup = None;
    }

    /// Records the latest lookup as a missing key, because the template prints an undefined value.
    pub(super) fn record_printed_lookup(&self) {
        let mut missing_keys = self.lock();
        if let Some(key) = missing_keys.latest_lookup.take()
            && !missing_keys.printed_keys.contains(&key)
        {
            missing_keys.printed_keys.push(key);
        }
    }

    /// Keeps only the keys that one of these paths prints directly. `{{ a.b if a.b }}` checks the presence itself.
    pub(super) fn retain_printed_by(&self, paths: &[PrintedPath]) {
        let is_plain = |key: &MissingOutputKey| {
            paths
                .iter()
                .any(|path| path.starts_with_output_keys(&key.agent, &key.keys))
        };
        self.lock().printed_keys.retain(is_plain);
    }

    /// Locks the collected keys, also after a panic of another thread.
    fn lock(&self) -> MutexGuard<'_, CollectedMissingKeys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for MissingOutputKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.keys.join(".");
        write!(
            f,
            "`{}.{key}` is empty, because the output of {} has no `{key}`",
            self.agent, self.agent
        )?;
        match self.known_keys.len() {
            0 => Ok(()),
            count => {
                let ellipsis = if count > MAX_LISTED_KEYS { ", …" } else { "" };
                write!(
                    f,
                    "; it has {}{ellipsis}",
                    self.known_keys[..count.min(MAX_LISTED_KEYS)].join(", ")
                )
            }
        }
    }
}
