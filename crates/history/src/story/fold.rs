//! Adds records to a story.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Asked, Attempt, AttemptEnd, Execution, Story, StoryEvent, Turn};
use crate::AgentTotals;
use ensemble_core::conversation::{
    AttemptFailed, Event, ExecutionFinished, PartEnded, PermissionDecided, Record, Start, TurnStarted, Within,
};
use ensemble_core::thread::{Iteration, ToolCall};

impl Story {
    /// Folds the records of a run.
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut story = Self::default();
        records.into_iter().for_each(|record| story.apply(record));
        story
    }

    /// Applies the next record.
    pub fn apply(&mut self, record: &Record) {
        let at = record.at;
        self.pass_time(record);
        self.history.apply(record);
        match &record.event {
            Event::RunStarted(_) => {}
            Event::RunResumed(resumed) => {
                self.end_attempts(AttemptEnd::Lost, None);
                self.repeat(&resumed.again);
                self.events.push(StoryEvent::Resumed { at });
            }
            Event::MessageAdded(message) => {
                let text = message.text.clone();
                self.events.push(StoryEvent::Message { text, at });
            }
            Event::ContextSet(context) => {
                let context = context.clone();
                self.events.push(StoryEvent::Given { context, at });
            }
            Event::TurnStarted(turn) => self.events.push(StoryEvent::Turn(Box::new(opened(turn, at)))),
            Event::ExecutionStarted(started) => {
                if let Some(execution) = self.execution(&started.agent) {
                    execution.question = None;
                    execution.attempts.push(Attempt {
                        attempt: started.attempt,
                        started_at: at,
                        ended_at: None,
                        end: AttemptEnd::UnderWay,
                    });
                }
            }
            Event::ReplyReceived(reply) => {
                if let (Some(execution), true) = (self.execution(&reply.within.agent), is_own(&reply.within)) {
                    execution.add_iteration(&reply.iteration);
                }
            }
            Event::PermissionDecided(decided) => {
                if let Some(execution) = self.execution(&decided.within.agent) {
                    execution.permissions.push(PermissionDecided::clone(decided));
                }
            }
            Event::RequestStopped(_) | Event::ToolCallStarted(_) => {}
            Event::ToolCallEnded(ended) => {
                if let (Some(execution), true) = (self.execution(&ended.within.agent), is_own(&ended.within)) {
                    execution.end_call(&ended.call);
                }
            }
            Event::AttemptFailed(failed) => self.attempt_failed(failed, at),
            Event::PartEnded(part) => self.part_ended(part),
            Event::ExecutionFinished(finished) => self.execution_finished(finished, at),
            Event::InputRequested(asked) => {
                if let Some(execution) = self.execution(&asked.agent) {
                    execution.end_attempt(AttemptEnd::Asked, Some(at));
                    execution.question = Some(asked.question.clone());
                }
            }
            Event::Interrupted(cause) => {
                self.end_attempts(AttemptEnd::Stopped, Some(at));
                self.events.push(StoryEvent::Interrupted {
                    cause: cause.clone(),
                    at,
                });
            }
            Event::TurnFinished(finished) => {
                self.warnings.extend(finished.warnings.iter().cloned());
                if let Some(turn) = self.open_turn() {
                    turn.close(finished, at);
                }
            }
            Event::RunEnded(ended) => {
                self.warnings.extend(ended.warnings.iter().cloned());
                let ended = Box::new(ended.clone());
                self.events.push(StoryEvent::Ended { ended, at });
            }
        }
        self.copy_totals(&record.event);
    }

    /// Copies the totals of the execution that the event concerns.
    fn copy_totals(&mut self, event: &Event) {
        let Some(agent) = event.agent() else { return };
        if let (Some(totals), Some(execution)) = (self.history.open_totals(agent), self.execution(agent)) {
            execution.totals = totals;
        }
    }

    /// Resumes executions whose results a resume discards: they start again.
    fn repeat(&mut self, agents: &[Arc<str>]) {
        for agent in agents {
            if let Some(execution) = self.execution(agent) {
                execution.finished = None;
                execution.parts.clear();
            }
        }
    }

    /// Before a resume or a message, no process executed the run. The records that a fork has taken over are older than its
    /// start, and their time is that of the other run.
    fn pass_time(&mut self, record: &Record) {
        let is_pause = matches!(record.event, Event::RunResumed(_) | Event::MessageAdded(_));
        if let (Some(latest), false) = (self.history.latest_at(), is_pause) {
            self.active += (record.at - latest).as_seconds_f64().max(0.0);
        }
    }

    fn attempt_failed(&mut self, failed: &AttemptFailed, at: DateTime<Utc>) {
        self.warn(&failed.agent, &failed.warnings);
        if let Some(execution) = self.execution(&failed.agent) {
            failed
                .exchange
                .iter()
                .for_each(|iteration| execution.add_iteration(iteration));
            let end = AttemptEnd::Failed {
                failure: failed.failure.clone(),
                pause: failed.pause,
                stderr: failed.stderr.clone(),
            };
            execution.end_attempt(end, Some(at));
        }
    }

    fn part_ended(&mut self, part: &PartEnded) {
        self.warn(&format!("{}[{}]", part.agent, part.key), &part.warnings);
        if let Some(execution) = self.execution(&part.agent) {
            execution.parts.push(PartEnded {
                exchange: Vec::new(),
                ..part.clone()
            });
        }
    }

    fn execution_finished(&mut self, finished: &ExecutionFinished, at: DateTime<Utc>) {
        self.warn(&finished.agent, &finished.warnings);
        if let Some(execution) = self.execution(&finished.agent) {
            execution.question = None;
            execution.end_attempt(AttemptEnd::Final, Some(at));
            finished
                .exchange
                .iter()
                .for_each(|iteration| execution.add_iteration(iteration));
            execution.finished = Some(ExecutionFinished {
                exchange: Vec::new(),
                ..finished.clone()
            });
        }
    }

    fn warn(&mut self, agent: &str, warnings: &[String]) {
        self.warnings
            .extend(warnings.iter().map(|warning| format!("{agent}: {warning}")));
    }

    /// The turn that has not finished.
    fn open_turn(&mut self) -> Option<&mut Turn> {
        let turns = self.events.iter_mut().rev().filter_map(|event| match event {
            StoryEvent::Turn(turn) => Some(&mut **turn),
            _ => None,
        });
        turns.take(1).find(|turn| turn.finished_at.is_none())
    }

    fn execution(&mut self, agent: &str) -> Option<&mut Execution> {
        self.open_turn()?.execution_mut(agent)
    }

    /// Ends all open attempts with this result.
    fn end_attempts(&mut self, end: AttemptEnd, at: Option<DateTime<Utc>>) {
        for execution in self.open_turn().into_iter().flat_map(|turn| &mut turn.executions) {
            execution.end_attempt(end.clone(), at);
        }
    }
}

impl Execution {
    fn decided(start: &Start) -> Self {
        Self {
            agent: start.agent.clone(),
            execution: start.execution,
            reads: start.reads.clone(),
            request: start.request.clone(),
            handles: start.handles.clone(),
            attempts: Vec::new(),
            question: None,
            finished: None,
            tool_calls: Vec::new(),
            beside_calls: Vec::new(),
            permissions: Vec::new(),
            dropped: None,
            stop_reason: None,
            asked: None,
            totals: AgentTotals::default(),
            parts: Vec::new(),
        }
    }

    fn add_iteration(&mut self, iteration: &Iteration) {
        self.stop_reason = iteration.stop_reason().or(self.stop_reason);
        if let Some(said) = iteration.beside_calls() {
            self.beside_calls.push((self.tool_calls.len(), said.to_owned()));
        }
        self.tool_calls.extend(iteration.tool_calls.iter().cloned());
        if self.asked.is_none() {
            self.asked = Asked::of(iteration);
        }
        if let Some(dropped) = iteration.metadata.get("dropped") {
            self.dropped = Some(dropped.clone());
        }
    }

    fn end_call(&mut self, ended: &ToolCall) {
        let mut calls = self.tool_calls.iter_mut().rev();
        if let Some(call) = calls.find(|call| call.end.is_none() && call.id == ended.id) {
            *call = ended.clone();
        }
    }

    fn end_attempt(&mut self, end: AttemptEnd, at: Option<DateTime<Utc>>) {
        let last = self.attempts.last_mut();
        if let Some(attempt) = last.filter(|attempt| attempt.end == AttemptEnd::UnderWay) {
            attempt.end = end;
            attempt.ended_at = at;
        }
    }
}

/// Returns whether it belongs to the execution itself, and not to a part or to an agent that is used as a tool.
fn is_own(within: &Within) -> bool {
    within.part.is_none() && within.inside.is_empty()
}

fn opened(event: &TurnStarted, at: DateTime<Utc>) -> Turn {
    Turn {
        turn: event.turn,
        started_at: at,
        finished_at: None,
        executions: event.starts.iter().map(Execution::decided).collect(),
        waiting: event.waiting.clone(),
        requests: indexmap::IndexMap::new(),
        warnings: Vec::new(),
    }
}
