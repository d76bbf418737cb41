//! The states of runs that a worker keeps between two executions, and the turns that it performs from them at once.

use std::sync::Arc;

use ensemble_core::conversation::ConversationState;
use ensemble_project::PreparedEnsemble;
use ensemble_remote::protocol::{ExecutionRequest, RecordsReply, RunStartRequest};
use ensemble_runs::RunOptions;
use ensemble_runs::local_turns::{LocalTurns, LocalTurnsEnd, PerformedTurns};

use super::{RestateWorker, lock_mutex};
use crate::run_snapshot::{FoldedRun, RunSnapshot};

/// The most runs whose states are kept between two executions.
const KEPT: usize = 256;

impl RestateWorker {
    /// Performs the next turns of a run, whose agents are all scripts that run inside this process.
    pub async fn perform_local_turns(
        &self,
        start: &RunStartRequest,
        prepared: Arc<PreparedEnsemble>,
        state: ConversationState,
    ) -> PerformedTurns {
        let options = RunOptions {
            models: start.inside.as_ref().unwrap_or(&start.started.models).clone(),
            ..RunOptions::default()
        };
        let turns = LocalTurns {
            prepared,
            state,
            options,
        };
        let performed = self.0.runs.perform_local_turns(turns).await;
        // An execution that is called has the error as its result.
        performed.unwrap_or_else(|_error| PerformedTurns {
            lines: String::new(),
            end: LocalTurnsEnd::TooLarge,
        })
    }

    /// Lets executions use the state of a run whose workflow this worker drives.
    pub fn offer_snapshot(&self, run: &Arc<str>, snapshot: &RunSnapshot) {
        lock_mutex(&self.0.snapshots).insert(run.clone(), snapshot.clone());
    }

    /// Forgets the state of a run whose workflow this worker does not drive any more.
    pub fn forget_snapshot(&self, run: &Arc<str>) {
        lock_mutex(&self.0.snapshots).remove(run);
    }

    /// Returns the run, and its state in which the execution is pending.
    pub(super) async fn load_state(&self, work: &ExecutionRequest) -> Result<(FoldedRun, ConversationState), String> {
        let snapshot = lock_mutex(&self.0.snapshots).get(&work.run).cloned();
        if let Some(snapshot) = snapshot.filter(|snapshot| snapshot.has_state_after(work.records)) {
            let known = snapshot.state_for_agent(&work.agent, work.records);
            return known.map_err(|error| error.to_string());
        }
        let before = lock_mutex(&self.0.folded_runs).get(&work.run).cloned();
        let next = before.as_ref().map_or(0, |known| known.state.next_seq());
        let reply = self.0.engine.fetch_records(&work.run, next).await;
        let RecordsReply { start, lines, .. } = reply.map_err(|error| error.to_string())?;
        let mut records = self
            .0
            .engine
            .decode_records(&lines)
            .map_err(|error| error.to_string())?;
        // What was recorded since the execution was called belongs to others.
        records.retain(|record| record.seq < work.records);
        let folded_run = match (before, start) {
            (Some(cached_run), _) => cached_run,
            (None, Some(start)) => {
                let prepared = self.prepare_ensemble(&start)?;
                FoldedRun::new(start, prepared)
            }
            (None, None) => return Err(format!("there is no run {}", work.run)),
        };
        let mut snapshot = RunSnapshot::new(folded_run);
        snapshot.push_records(records).map_err(|error| error.to_string())?;
        self.cache_run(&work.run, snapshot.folded_run());
        let known = snapshot.state_for_agent(&work.agent, work.records);
        known.map_err(|error| error.to_string())
    }

    fn cache_run(&self, run: &Arc<str>, known: &FoldedRun) {
        let mut all = lock_mutex(&self.0.folded_runs);
        if all.len() >= KEPT && !all.contains_key(run) {
            // The records of whichever run is dropped are read again.
            let evicted_run = all.keys().next().cloned();
            evicted_run.and_then(|other| all.remove(&other));
        }
        all.insert(run.clone(), known.clone());
    }
}
