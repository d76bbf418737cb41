//! When the calls of a reply begin: at most so many side by side, and calls of exclusive tools alone.
//!
//! Both locks are fair, so calls begin in the order in which the model made them, also around an exclusive call.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{RwLock, Semaphore};

use crate::agent::ExecutionInput;
use crate::agent::chat::CallAdmission;

/// Locks of the running executions. All parts of an execution share a lock.
#[derive(Default)]
pub(crate) struct CallGates(Mutex<HashMap<GateKey, Weak<RwLock<()>>>>);

/// Identity of one execution: the run, the agent and the execution number.
type GateKey = (Arc<str>, Arc<str>, u32);

/// Limit for parallel calls of one execution or part, with a lock for exclusive calls.
pub(crate) struct CallGate {
    places: Arc<Semaphore>,
    alone: Arc<RwLock<()>>,
}

impl CallGates {
    /// Returns the gate of this execution, for at most `most` parallel calls.
    pub(crate) fn for_execution(&self, execution: &ExecutionInput, most: NonZeroU32) -> CallGate {
        let key = (
            execution.run_id.clone(),
            execution.agent_name.clone(),
            execution.execution,
        );
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        let alone = locks.get(&key).and_then(Weak::upgrade).unwrap_or_default();
        locks.insert(key, Arc::downgrade(&alone));
        CallGate {
            places: Arc::new(Semaphore::new((most.get() as usize).min(Semaphore::MAX_PERMITS))),
            alone,
        }
    }
}

impl CallGate {
    /// Waits until a call can start. An exclusive call waits until no other call of the execution runs.
    pub(crate) async fn wait_to_enter(&self, exclusive: bool) -> CallAdmission {
        // The semaphore is never closed, so there is always a permit.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let alone = Arc::clone(&self.alone);
        match exclusive {
            true => CallAdmission::from_guard((place, alone.write_owned().await)),
            false => CallAdmission::from_guard((place, alone.read_owned().await)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::agent::fixtures;

    fn gate(gates: &CallGates, execution: u32, most: u32) -> CallGate {
        let execution = fixtures::execution("a", execution);
        gates.for_execution(&execution, NonZeroU32::new(most).expect("is not 0"))
    }

    #[tokio::test]
    async fn so_many_calls_run_side_by_side() {
        let gate = gate(&CallGates::default(), 1, 2);
        let first = gate.wait_to_enter(false).await;
        let _second = gate.wait_to_enter(false).await;
        let mut third = Box::pin(gate.wait_to_enter(false));
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_exclusive_call_runs_alone_and_keeps_its_place() {
        let gate = gate(&CallGates::default(), 1, 16);
        let before = gate.wait_to_enter(false).await;
        let mut alone = Box::pin(gate.wait_to_enter(true));
        assert!((&mut alone).now_or_never().is_none(), "one runs");
        let mut after = Box::pin(gate.wait_to_enter(false));
        assert!(
            (&mut after).now_or_never().is_none(),
            "it waits behind the exclusive one"
        );
        drop(before);
        assert!((&mut after).now_or_never().is_none());
        let alone = alone.now_or_never().expect("it is its turn");
        assert!((&mut after).now_or_never().is_none(), "the exclusive one runs");
        drop(alone);
        assert!(after.now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_parts_of_an_execution_wait_for_each_other_and_other_executions_do_not() {
        let gates = CallGates::default();
        let (part, other_part, other) = (gate(&gates, 1, 1), gate(&gates, 1, 1), gate(&gates, 2, 1));
        let _held = part.wait_to_enter(true).await;
        assert!(other_part.wait_to_enter(false).now_or_never().is_none());
        assert!(other.wait_to_enter(true).now_or_never().is_some());
    }
}
