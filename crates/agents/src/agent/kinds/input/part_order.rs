//! Order in which parallel parts take answers that are for every part.
//!
//! Invariant: parts get these answers as if the parts ran one after another, in the order of the list.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensemble_core::stopwatch::Stopwatch;
use tokio::sync::watch;

/// The parts that are performed now: the position of each among the requests of the run, with the stopwatch of the execution
/// that has the list.
#[derive(Debug, Default)]
pub(super) struct OpenParts(Arc<watch::Sender<BTreeMap<Vec<u32>, Stopwatch>>>);

/// Drop guard that marks a part as running.
#[must_use]
pub(crate) struct OpenPartGuard {
    open_parts: Arc<watch::Sender<BTreeMap<Vec<u32>, Stopwatch>>>,
    position: Vec<u32>,
}

impl OpenParts {
    /// Marks the part at this position as performed. Parts are opened in the order of their list. `stopwatch`: of the execution
    /// that has the list.
    pub(super) fn guard_open_part(&self, position: Vec<u32>, stopwatch: Stopwatch) -> OpenPartGuard {
        self.0.send_modify(|open| {
            open.insert(position.clone(), stopwatch);
        });
        OpenPartGuard {
            open_parts: Arc::clone(&self.0),
            position,
        }
    }

    /// Waits until the earlier parts of each list that leads to this position have ended, or wait for answers. The time does
    /// not count for the limits inside of the outermost list.
    pub(super) async fn wait_until_earlier_parts_pass(&self, position: &[u32], stopwatch: &Stopwatch) {
        let own_list = self.0.borrow().iter().find_map(|(part, of_list)| {
            let leads_here = position.starts_with(part);
            leads_here.then(|| of_list.clone())
        });
        let _standing = own_list.map(|of_list| stopwatch.pause_parents_inside(&of_list));
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
        let _ended = parts.wait_for(|open| !open.keys().any(is_earlier)).await;
    }
}

impl Drop for OpenPartGuard {
    fn drop(&mut self) {
        self.open_parts.send_modify(|open| {
            open.remove(&self.position);
        });
    }
}
