//! Turns of a run that another engine drives, performed at once.
//!
//! A durable engine stores each execution before the run continues, because an execution can cost money and have effects. A script
//! that runs inside this process has no effects, so turns of such scripts are performed together and stored together. If they are
//! lost before, they are repeated.
//!
//! Invariant: a turn that has not ended leaves no record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::{ConversationState, Event, Record};
use ensemble_core::log::{CommitError, LogFuture, RunLog, SyncPoint};
use ensemble_core::records::append_record_line;
use ensemble_core::runner::BoxFuture;
use ensemble_language::ensemble::AgentKind;
use ensemble_language::names::is_rhai_script;
use ensemble_language::plan::Plan;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::prepare::PreparedEnsemble;
use crate::start::runs::Runs;
use crate::steps::ExecutionDrive;

/// The time after which no further turn is started.
const STARTED_WITHIN: Duration = Duration::from_millis(100);
/// The time within which all turns must have ended.
const ENDED_WITHIN: Duration = Duration::from_secs(1);
/// The number of bytes of records after which no further turn is started.
const ENOUGH_BYTES: usize = 1 << 20;
/// The maximum number of bytes of the records.
const MOST_BYTES: usize = 8 << 20;

/// The next turns of a run, to be performed at once.
pub struct LocalTurns {
    /// The ensemble.
    pub prepared: Arc<PreparedEnsemble>,
    /// The state, in which no turn is open.
    pub state: ConversationState,
    /// The options. Names of agents and tools that are not here are no errors.
    pub options: RunOptions,
}

/// The result of turns that were performed at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerformedTurns {
    /// The records of the turns that ended, as lines of a journal.
    pub lines: String,
    /// The reason why no further turn was started.
    pub end: LocalTurnsEnd,
}

/// The reason why no further turn was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalTurnsEnd {
    /// The run ends here, or other agents are next.
    OtherAgents,
    /// The time or the number of bytes is used up, and the next turn can be performed in the same way.
    Pause,
    /// A turn took too long, or its records are too large: it must be performed in another way.
    TooLarge,
}

/// Returns the agents whose executions have no effects and cost nothing: scripts that run inside this process.
pub fn list_local_agents(plan: &Plan) -> HashSet<Arc<str>> {
    let agents = plan.ensemble().agents.iter();
    let local_agents = agents.filter(|agent| match &agent.kind {
        AgentKind::Script {
            script,
            args,
            stdin,
            env,
        } => is_path_of_rhai_script(script) && args.is_empty() && stdin.is_none() && env.is_empty(),
        _ => false,
    });
    // A pause before the next attempt is longer than turns may take.
    local_agents
        .filter(|agent| agent.retry.max_attempts.get() == 1)
        .map(|agent| agent.name.clone())
        .collect()
}

/// Returns whether the text can only be the path of a Rhai script. A line for a shell can end in the same way, and has effects.
fn is_path_of_rhai_script(script: &str) -> bool {
    let is_path_character = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    is_rhai_script(script) && script.chars().all(is_path_character)
}

impl Runs {
    /// Performs the next turns of a run, as long as all their agents are local.
    ///
    /// # Errors
    /// An agent cannot run here.
    pub fn perform_local_turns(&self, turns: LocalTurns) -> BoxFuture<'_, Result<PerformedTurns, RunError>> {
        Box::pin(async move {
            let mut state = turns.state;
            let mut log = LocalTurnsLog {
                agents: list_local_agents(&turns.prepared.plan),
                begun: Instant::now(),
                lines: Vec::new(),
                ended: 0,
                end: LocalTurnsEnd::TooLarge,
            };
            let (_kept, interruptions) = mpsc::unbounded_channel();
            let drive = ExecutionDrive {
                prepared: turns.prepared,
                options: turns.options,
                inner_run_driver: None,
                turn_ends_in: None,
                interruptions,
            };
            let driving = self.drive_executions(drive, &mut state, &mut log);
            let is_in_time = match tokio::time::timeout(ENDED_WITHIN, driving).await {
                Ok(driven) => driven.map(|_inner_runs| true)?,
                Err(_late) => false,
            };
            // Whatever began after the last end is dropped.
            log.lines.truncate(log.ended);
            let lines = String::from_utf8(log.lines).unwrap_or_default();
            let end = match is_in_time && !lines.is_empty() {
                true => log.end,
                false => LocalTurnsEnd::TooLarge,
            };
            Ok(PerformedTurns { lines, end })
        })
    }
}

/// Takes records as long as turns are local and small.
struct LocalTurnsLog {
    agents: HashSet<Arc<str>>,
    begun: Instant,
    lines: Vec<u8>,
    /// The number of bytes of the turns that have ended.
    ended: usize,
    end: LocalTurnsEnd,
}

impl LocalTurnsLog {
    /// Returns the reason why this record ends the turns, if it does.
    fn find_end(&self, record: &Record) -> Option<LocalTurnsEnd> {
        let is_used_up = self.ended > 0 && (self.begun.elapsed() > STARTED_WITHIN || self.lines.len() > ENOUGH_BYTES);
        match &record.event {
            Event::TurnStarted(turn) if !turn.starts.iter().all(|start| self.agents.contains(&start.agent)) => {
                Some(LocalTurnsEnd::OtherAgents)
            }
            Event::TurnStarted(_) if is_used_up => Some(LocalTurnsEnd::Pause),
            Event::RunEnded(_) => Some(LocalTurnsEnd::OtherAgents),
            // The engine measures the time of the run.
            Event::Interrupted(_) => Some(LocalTurnsEnd::Pause),
            _ if self.lines.len() > MOST_BYTES => Some(LocalTurnsEnd::TooLarge),
            _ => None,
        }
    }
}

impl RunLog for LocalTurnsLog {
    fn append<'a>(&'a mut self, record: &'a Record) -> LogFuture<'a> {
        if let Some(end) = self.find_end(record) {
            self.end = end;
            return LogFuture::ready(Err(CommitError::EndOfRecord { turn: 0 }));
        }
        append_record_line(record, &mut self.lines);
        if matches!(record.event, Event::TurnFinished(_)) {
            self.ended = self.lines.len();
        }
        LogFuture::ready(Ok(()))
    }

    fn sync(&mut self, _point: SyncPoint) -> LogFuture<'_> {
        LogFuture::ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_a_shell_is_not_the_path_of_a_rhai_script() {
        for (script, is_path) in [
            ("count.rhai", true),
            ("../scripts/größe-2.rhai", true),
            ("count.sh", false),
            ("echo x>y.rhai", false),
            ("touch${IFS}made;echo${IFS}1>x.rhai", false),
            ("`true`x.rhai", false),
        ] {
            assert_eq!(is_path_of_rhai_script(script), is_path, "{script}");
        }
    }
}
