//! Keys of existing outputs that a rendering printed although they are not there.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::paths::Path;

/// The most keys that a message lists.
const MOST: usize = 8;

/// The values that were missing while templates of an execution were rendered.
#[derive(Debug, Clone, Default)]
pub struct Missed(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    /// The key that was looked up last, if it was not there.
    latest: Option<MissingKey>,
    /// Those that were printed.
    printed: Vec<MissingKey>,
}

/// A key that the output of an agent does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    /// The agent.
    pub agent: Arc<str>,
    /// The keys up to the missing one.
    pub keys: Vec<Arc<str>>,
    /// The keys that are there in its place.
    pub known: Vec<String>,
}

impl Missed {
    /// Takes what was missed, each key once.
    pub fn take(&self) -> Vec<MissingKey> {
        std::mem::take(&mut self.lock().printed)
    }

    /// Adds what was missed in another rendering.
    pub fn add(&self, missed: Vec<MissingKey>) {
        let mut noted = self.lock();
        for key in missed {
            if !noted.printed.contains(&key) {
                noted.printed.push(key);
            }
        }
    }

    /// A lookup that found nothing.
    pub(super) fn looked_up(&self, key: MissingKey) {
        self.lock().latest = Some(key);
    }

    /// A lookup of something else.
    pub(super) fn forget(&self) {
        self.lock().latest = None;
    }

    /// Something undefined is printed: it is what was looked up last, if the template prints that plainly.
    pub(super) fn print(&self) {
        let mut noted = self.lock();
        if let Some(key) = noted.latest.take()
            && !noted.printed.contains(&key)
        {
            noted.printed.push(key);
        }
    }

    /// Drops those that none of these paths prints plainly: `{{ a.b if a.b }}` asks whether there is one.
    pub(super) fn keep_printed_by(&self, paths: &[Path]) {
        let is_plain = |key: &MissingKey| paths.iter().any(|path| path.reads(&key.agent, &key.keys));
        self.lock().printed.retain(is_plain);
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.keys.join(".");
        write!(
            f,
            "`{}.{key}` is empty, because the output of {} has no `{key}`",
            self.agent, self.agent
        )?;
        match self.known.len() {
            0 => Ok(()),
            count => {
                let rest = if count > MOST { ", …" } else { "" };
                write!(f, "; it has {}{rest}", self.known[..count.min(MOST)].join(", "))
            }
        }
    }
}
