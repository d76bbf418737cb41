//! The fold of a run for the page: rows in the order of time, and sums.
//!
//! A record costs the same in a long run as in a short one: only the rows that it changes are written again.
//!
//! Invariant: it depends on records alone, and a record costs the same in a long run as in a short one.

mod detail;
mod head;
mod picture;
mod rows;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ensemble_core::conversation::{Event, Record};
use ensemble_core::store::{ReadError, StoredRun};
use ensemble_language::data::Usage;
use ensemble_language::plan::Plan;
use ensemble_reports::story::{Story, StoryEvent};
use indexmap::IndexMap;

/// Who drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driven {
    /// This process.
    Here,
    /// The process with this id.
    Elsewhere(u32),
    /// Nobody.
    Nowhere,
}

/// The fold of a run.
#[derive(Default)]
pub(crate) struct View {
    story: Story,
    /// The ensemble as it was, where it can be read.
    pub(crate) plan: Option<Arc<Plan>>,
    /// The number of the next record.
    pub(crate) next: u64,
    rows: Vec<Row>,
    /// The rows of the latest turn, its head first.
    latest: Range<usize>,
    sums: IndexMap<Arc<str>, Sum>,
    turns: usize,
    /// The dependencies that count the start of an execution, by turn and agent.
    fired: HashMap<(u32, Arc<str>), Vec<usize>>,
    /// How often each dependency of an agent started it.
    started: HashMap<(Arc<str>, usize), usize>,
    /// Why agents did not run in the latest turn in which they were examined.
    idle: HashMap<Arc<str>, String>,
}

/// Where the content of a row is.
#[derive(Debug, Clone, Copy)]
enum Row {
    /// An event of the story; for a turn its head.
    Event(usize),
    /// An execution of a turn.
    Execution(usize, usize),
}

/// What an agent did.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    executions: usize,
    failed: usize,
    parts: (usize, usize),
    usage: Usage,
    seconds: f64,
    /// The latest turn in which it ran.
    turn: Option<u32>,
}

impl View {
    /// Adds the next record, and says which rows it changed.
    pub(crate) fn take(&mut self, record: &Record) -> Vec<usize> {
        if record.seq < self.next {
            return Vec::new();
        }
        self.next = record.seq + 1;
        self.add_up(&record.event);
        let before = self.story.events.len();
        self.story.take(record);
        let mut changed: Vec<usize> = Vec::new();
        for event in before..self.story.events.len() {
            changed.extend(self.append(event));
        }
        match agent_of(&record.event) {
            Some(agent) => changed.extend(self.row_of_latest(agent)),
            None if matches!(record.event, Event::RunResumed(_) | Event::Interrupted(_)) => {
                changed.extend(self.latest.clone());
            }
            None if matches!(record.event, Event::TurnFinished(_)) => changed.extend(self.latest.clone().next()),
            None => {}
        }
        changed
    }

    /// The fold of the records up to the end of a turn.
    pub(crate) async fn until(&self, turn: u32, run: &dyn StoredRun) -> Result<Self, ReadError> {
        let mut view = Self {
            plan: self.plan.clone(),
            ..Self::default()
        };
        let mut reader = run.read().await?;
        while let Some(record) = reader.next().await? {
            if matches!(&record.event, Event::TurnStarted(started) if started.turn > turn) {
                break;
            }
            view.take(&record);
        }
        Ok(view)
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Appends the rows of an event of the story.
    fn append(&mut self, event: usize) -> Range<usize> {
        let begin = self.rows.len();
        self.rows.push(Row::Event(event));
        if let StoryEvent::Turn(turn) = &self.story.events[event] {
            self.rows
                .extend((0..turn.executions.len()).map(|at| Row::Execution(event, at)));
            self.latest = begin..self.rows.len();
        }
        begin..self.rows.len()
    }

    /// The row of the agent in the latest turn.
    fn row_of_latest(&self, agent: &str) -> Option<usize> {
        let is_its = |at: &usize| {
            self.execution_at(*at)
                .is_some_and(|(_, execution)| *execution.agent == *agent)
        };
        self.latest.clone().find(is_its)
    }

    fn add_up(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(turn) => {
                for start in &turn.starts {
                    for position in &start.counts {
                        *self.started.entry((start.agent.clone(), *position)).or_default() += 1;
                    }
                    if !start.counts.is_empty() {
                        self.fired
                            .insert((turn.turn, start.agent.clone()), start.counts.clone());
                    }
                    self.idle.remove(&start.agent);
                    self.sum(&start.agent).turn = Some(turn.turn);
                }
                for waiting in &turn.waiting {
                    self.idle.insert(waiting.agent.clone(), waiting.reason.to_string());
                }
            }
            Event::TurnFinished(_) => self.turns += 1,
            Event::AttemptFailed(failed) => self.sum(&failed.agent).spend(failed.usage),
            Event::PartEnded(part) => {
                let sum = self.sum(&part.agent);
                sum.spend(part.usage);
                if part.is_final() {
                    sum.parts.0 += 1;
                    sum.parts.1 += usize::from(part.failure().is_some());
                }
            }
            Event::ExecutionFinished(finished) => {
                let sum = self.sum(&finished.agent);
                sum.spend(finished.usage);
                sum.executions += 1;
                sum.failed += usize::from(finished.failure().is_some());
                sum.seconds += finished.execution_time;
            }
            Event::RunEnded(ended) => {
                let reasons = ended.not_run.iter();
                self.idle
                    .extend(reasons.map(|one| (one.agent.clone(), one.reason.clone())));
            }
            _ => {}
        }
    }

    fn sum(&mut self, agent: &Arc<str>) -> &mut Sum {
        self.sums.entry(agent.clone()).or_default()
    }
}

impl Sum {
    fn spend(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.usage = self.usage + usage;
        }
    }
}

/// The agent in whose execution the event happened.
fn agent_of(event: &Event) -> Option<&Arc<str>> {
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
