//! The sizes of the beginnings of threads, so that a message is counted once and not for each request.
//!
//! Invariant: the cache changes no result. A beginning is known by its last iteration, because a thread only grows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ensemble_core::thread::window::ThreadSize;
use ensemble_core::thread::{Message, Thread, ThreadIteration};

use super::TokenCounter;
use crate::agent::chat::UnsentIterations;

/// Maximum number of threads whose sizes are cached.
const MAX_THREADS: usize = 64;

/// Cache of the measured sizes of the oldest iterations, by thread.
#[derive(Debug, Default)]
pub(super) struct ThreadSizeCache(Mutex<HashMap<String, MeasuredBeginning>>);

/// Measured oldest iterations of a thread, with the last of them to detect changes.
#[derive(Debug, Clone)]
struct MeasuredBeginning {
    /// The last iteration of the beginning.
    last: ThreadIteration,
    unsent: UnsentIterations,
}

impl ThreadSizeCache {
    /// Lists the messages among the oldest iterations whose size is not cached.
    pub(super) fn list_unmeasured_messages(&self, thread: &Thread, iterations: usize) -> Vec<Message> {
        let all = thread.iterations();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let measured = find_longest_beginning(&known, &thread_key(&all[0]), &all[..iterations]);
        let unmeasured = &all[measured.iterations..iterations];
        unmeasured.iter().flat_map(ThreadIteration::to_messages).collect()
    }

    /// Measures this number of the oldest iterations, more than 0, and caches the size.
    pub(super) fn measure_beginning(
        &self,
        thread: &Thread,
        iterations: usize,
        counter: &TokenCounter,
    ) -> UnsentIterations {
        let all = thread.iterations();
        let key = thread_key(&all[0]);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unsent = find_longest_beginning(&known, &key, &all[..iterations]);
        for iteration in &all[unsent.iterations..iterations] {
            let messages = iteration.to_messages();
            let tokens = counter.count_each_message(&messages);
            let sizes = messages.iter().zip(tokens);
            let size = sizes.map(|(message, tokens)| ThreadSize::from_message(message, tokens));
            unsent.size = unsent.size + size.sum::<ThreadSize>();
            unsent.messages += messages.len();
        }
        unsent.iterations = iterations;
        if known.len() >= MAX_THREADS && !known.contains_key(&key) {
            known.clear();
        }
        let last = all[iterations - 1].clone();
        known.insert(key, MeasuredBeginning { last, unsent });
        unsent
    }
}

/// Finds the cached size of the longest beginning of these iterations. Returns an empty size if none is cached.
fn find_longest_beginning(
    known: &HashMap<String, MeasuredBeginning>,
    key: &str,
    iterations: &[ThreadIteration],
) -> UnsentIterations {
    let is_beginning = |known: &&MeasuredBeginning| {
        let last = iterations.get(known.unsent.iterations - 1);
        last.is_some_and(|last| *last == known.last)
    };
    let found = known.get(key).filter(is_beginning);
    found.map_or_else(UnsentIterations::default, |known| known.unsent)
}

/// Returns a key that distinguishes the thread from other threads of the agent.
fn thread_key(first: &ThreadIteration) -> String {
    let text = first.messages.first().map(|message| message.content.as_str());
    format!("{:?} {}", first.started_at, text.unwrap_or_default())
}
