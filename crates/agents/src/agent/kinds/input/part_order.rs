//! Order in which parallel parts take answers that are for every part.
//!
//! Invariant: parts get these answers as if the parts ran one after another, in the order of the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;

/// Parts that are running, by their positions among the requests of the run.
#[derive(Debug, Default)]
pub(super) struct OpenParts(Arc<watch::Sender<BTreeSet<Vec<u32>>>>);

/// Drop guard that marks a part as running.
#[must_use]
pub(crate) struct OpenPartGuard {
    open_parts: Arc<watch::Sender<BTreeSet<Vec<u32>>>>,
    position: Vec<u32>,
}

impl OpenParts {
    /// Marks the part at this position as running, until the guard is dropped. Parts are opened in the order of their list.
    pub(super) fn guard_open_part(&self, position: Vec<u32>) -> OpenPartGuard {
        self.0.send_modify(|open| {
            open.insert(position.clone());
        });
        OpenPartGuard {
            open_parts: Arc::clone(&self.0),
            position,
        }
    }

    /// Waits until the earlier parts of each list that leads to this position have ended, or wait for answers.
    pub(super) async fn wait_until_earlier_parts_pass(&self, position: &[u32]) {
        let is_earlier = |part: &Vec<u32>| {
            let Some((index, list)) = part.split_last() else {
                return false;
            };
            position
                .strip_prefix(list)
                .and_then(<[u32]>::first)
                .is_some_and(|own| index < own)
        };
        let mut parts = self.0.subscribe();
        // The sender lives as long as this value.
        let _ended = parts.wait_for(|open| !open.iter().any(is_earlier)).await;
    }
}

impl Drop for OpenPartGuard {
    fn drop(&mut self) {
        self.open_parts.send_modify(|open| {
            open.remove(&self.position);
        });
    }
}
