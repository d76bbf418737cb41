//! The parts of an execution: what an agent with `for_each` has from the run, and what each of its parts is.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::conversation::PartEnded;
use crate::thread::Thread;
use ensemble_language::condition::Facts;
use ensemble_language::data::{Failure, Usage};

/// One part of an execution, as its runner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The name of the item in templates and scripts.
    pub item_name: Arc<str>,
    /// The item.
    pub item: Arc<Value>,
    /// The position of the item in the list, from 0.
    pub index: u32,
    /// The name of the part.
    pub key: Arc<str>,
    /// The variable `part`: a map with `index`, `key` and `count`.
    pub variable: Arc<Value>,
}

/// The threads of an agent whose parts remember, by key.
pub type ThreadsByKey = HashMap<Arc<str>, Arc<Thread>>;

/// The parts of an open execution that have ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndedParts {
    /// The parts that have ended, in the order of their ends.
    pub ended: Vec<Arc<PartEnded>>,
    /// The parts of which only attempts have failed, by key.
    pub failed: HashMap<Arc<str>, FailedAttempts>,
}

/// The failed attempts of a part that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedAttempts {
    /// Their number.
    pub count: u32,
    /// The failure of the last one.
    pub last: Failure,
    /// What they used.
    pub usage: Option<Usage>,
}

impl EndedParts {
    /// Adds the end of an attempt of a part.
    pub fn add(&mut self, event: &PartEnded) {
        match event.failure() {
            Some(failure) if !event.is_final() => {
                let before = self.failed.remove(&event.key);
                let failed = FailedAttempts {
                    count: before.as_ref().map_or(0, |before| before.count) + 1,
                    last: failure.clone(),
                    usage: Usage::sum(before.and_then(|before| before.usage), event.usage),
                };
                self.failed.insert(event.key.clone(), failed);
            }
            _ => self.ended.push(Arc::new(event.clone())),
        }
    }
}

/// What an execution with parts has from the run, beside the data of every execution.
#[derive(Clone)]
pub struct Parts {
    /// The values that the expressions of `for_each` read: the state at the start of the turn.
    pub facts: Facts,
    /// The parts that ended before this attempt.
    pub before: EndedParts,
    /// Results that may be taken over from another run where the item of the key is the same.
    pub known: Arc<HashMap<Arc<str>, Arc<PartEnded>>>,
    /// The threads by key.
    pub threads: Arc<ThreadsByKey>,
    /// Takes each part that ended, to be written into the log; `None`: nobody keeps them.
    pub log: Option<mpsc::UnboundedSender<PartEnded>>,
    /// Becomes true when the time of the turn is up: parts that have not ended have failed.
    pub time_is_up: watch::Receiver<bool>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("before", &self.before)
            .finish_non_exhaustive()
    }
}
