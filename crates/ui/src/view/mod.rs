//! The fold of a run for the page: rows in the order of time, and sums.
//!
//! A record costs the same in a long run as in a short one: only the rows that it changes are written again.
//!
//! Invariant: it depends on records and on [`LiveRunState`], and a record costs the same in a long run as in a short one.

mod detail;
mod elapsed_time;
mod head;
mod picture;
mod rows;
mod shown_request;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::store::{LogReadError, StoredRun};
use ensemble_history::RunHistory;
use ensemble_history::story::{RunStory, StoryEvent};
use ensemble_language::plan::Plan;

pub(crate) use picture::draw_for_page;
pub(crate) use shown_request::with_request_texts;

/// Location of the process that drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverLocation {
    /// This process.
    Here,
    /// The process with this id.
    Elsewhere(u32),
    /// Nobody.
    Nowhere,
}

/// Facts of a run that no record contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LiveRunState {
    /// Whether a process drives the run.
    pub(crate) is_driven: bool,
    /// The agents whose questions and permission requests are open in this process.
    pub(crate) asking_agents: Vec<Arc<str>>,
}

/// State of a run for the page, built from its records.
#[derive(Default)]
pub(crate) struct RunView {
    story: RunStory,
    liveness: LiveRunState,
    /// The ensemble as it was, where it can be read.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The number of the next record.
    pub(crate) next: u64,
    rows: Vec<RowContentPosition>,
    /// The rows of the latest turn, its head first.
    latest: Range<usize>,
    /// The dependencies that count the start of an execution, by turn and agent.
    fired_dependencies: HashMap<(u32, Arc<str>), Vec<usize>>,
}

/// The position of the content of a row.
#[derive(Debug, Clone, Copy)]
enum RowContentPosition {
    /// An event of the story; for a turn its head.
    Event(usize),
    /// An execution of a turn.
    Execution(usize, usize),
}

impl RunView {
    /// Adds the next record, and returns the changed rows.
    pub(crate) fn apply_record(&mut self, record: &Record) -> Vec<usize> {
        if record.seq < self.next {
            return Vec::new();
        }
        self.next = record.seq + 1;
        self.record_fired_dependencies(&record.event);
        let before = self.story.events.len();
        self.story.apply_record(record);
        let mut changed: Vec<usize> = Vec::new();
        for event in before..self.story.events.len() {
            changed.extend(self.append_rows(event));
        }
        match find_changed_agent(&record.event) {
            Some(agent) => changed.extend(self.find_row_in_latest_turn(agent)),
            None if matches!(record.event, Event::RunResumed(_) | Event::Interrupted(_)) => {
                changed.extend(self.latest.clone());
            }
            None if matches!(record.event, Event::TurnFinished(_)) => changed.extend(self.latest.clone().next()),
            None => {}
        }
        changed
    }

    /// Sets the facts that no record contains, and returns the changed rows.
    pub(crate) fn set_live_state(&mut self, liveness: LiveRunState) -> Range<usize> {
        if self.liveness == liveness {
            return 0..0;
        }
        self.liveness = liveness;
        self.latest.clone()
    }

    /// Loads a view of the records up to the end of a turn.
    pub(crate) async fn load_view_until_turn(&self, turn: u32, run: &dyn StoredRun) -> Result<Self, LogReadError> {
        let mut view = Self {
            plan: self.plan.clone(),
            ..Self::default()
        };
        let mut reader = run.open_reader().await?;
        while let Some(record) = reader.next_record().await? {
            if matches!(&record.event, Event::TurnStarted(started) if started.turn > turn) {
                break;
            }
            view.apply_record(&record);
        }
        Ok(view)
    }

    /// Returns the history of the run.
    pub(crate) fn run_history(&self) -> &RunHistory {
        &self.story.history
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Appends the rows of an event of the story.
    fn append_rows(&mut self, event: usize) -> Range<usize> {
        let begin = self.rows.len();
        self.rows.push(RowContentPosition::Event(event));
        if let StoryEvent::Turn(turn) = &self.story.events[event] {
            self.rows
                .extend((0..turn.executions.len()).map(|at| RowContentPosition::Execution(event, at)));
            self.latest = begin..self.rows.len();
        }
        begin..self.rows.len()
    }

    /// Finds the row of the agent in the latest turn.
    fn find_row_in_latest_turn(&self, agent: &str) -> Option<usize> {
        let is_its = |at: &usize| {
            self.execution_at(*at)
                .is_some_and(|(_, execution)| *execution.agent == *agent)
        };
        self.latest.clone().find(is_its)
    }

    /// Stores the dependencies that started executions in a turn.
    fn record_fired_dependencies(&mut self, event: &Event) {
        let Event::TurnStarted(turn) = event else { return };
        for start in turn.starts.iter().filter(|start| !start.counts.is_empty()) {
            let key = (turn.turn, start.agent.clone());
            self.fired_dependencies.insert(key, start.counts.clone());
        }
    }
}

/// Finds the agent whose row the event changes. Returns `None` for events that change no row of an agent.
fn find_changed_agent(event: &Event) -> Option<&Arc<str>> {
    match event {
        Event::ExecutionStarted(started) => Some(&started.agent),
        Event::ReplyReceived(reply) => Some(&reply.within.agent),
        Event::PermissionDecided(decided) => Some(&decided.within.agent),
        Event::ToolCallEnded(ended) => Some(&ended.within.agent),
        Event::AttemptFailed(failed) => Some(&failed.agent),
        Event::PartEnded(part) => Some(&part.agent),
        Event::ExecutionFinished(finished) => Some(&finished.agent),
        Event::InputRequested(asked) => Some(&asked.agent),
        _ => None,
    }
}
