//! The building of a story from records, one record at a time.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{
    FirstModelRequest, RunStory, StoryAttempt, StoryAttemptEnd, StoryEvent, StoryExecution, StoryPermissionDecision,
    StoryTurn,
};
use crate::{AgentTotals, list_inner_answers};
use ensemble_core::conversation::{
    AgentStart, AttemptFailed, Event, ExecutionFinished, PartAttemptEnded, PermissionDecided, Record, TurnStarted,
};
use ensemble_core::thread::{StopReason, ThreadIteration, ToolCall};

impl RunStory {
    /// Creates the story from all records of a run.
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut story = Self::default();
        records.into_iter().for_each(|record| story.apply_record(record));
        story
    }

    /// Applies the next record.
    pub fn apply_record(&mut self, record: &Record) {
        let at = record.at;
        self.add_active_time(record);
        self.history.apply_record(record);
        self.add_inner_answers(record);
        match &record.event {
            Event::RunStarted(_) => {}
            Event::RunResumed(resumed) => {
                self.end_open_attempts(StoryAttemptEnd::ProcessLost, None);
                self.reset_repeated_executions(&resumed.again);
                self.events.push(StoryEvent::Resumed { at });
            }
            Event::MessageAdded(message) => {
                let text = message.text.clone();
                self.events.push(StoryEvent::Message { text, at });
            }
            Event::ContextSet(context) => {
                let context = context.clone();
                self.events.push(StoryEvent::ContextGiven { context, at });
            }
            Event::TurnStarted(turn) => {
                self.warnings
                    .extend(turn.warnings.iter().map(|warning| warning.message.clone()));
                self.events.push(StoryEvent::Turn(Box::new(new_turn(turn, at))));
            }
            Event::ExecutionStarted(started) => {
                if let Some(execution) = self.open_execution_mut(&started.agent) {
                    execution.close_requests();
                    execution.attempts.push(StoryAttempt {
                        attempt: started.attempt,
                        started_at: at,
                        ended_at: None,
                        end: StoryAttemptEnd::InProgress,
                    });
                }
            }
            Event::ReplyReceived(reply) => {
                if let (Some(execution), true) = (
                    self.open_execution_mut(&reply.within.agent),
                    reply.within.is_execution(),
                ) {
                    execution.add_iteration(&reply.iteration);
                }
            }
            Event::PermissionDecided(decided) => {
                if let Some(execution) = self.open_execution_mut(&decided.within.agent) {
                    execution.permissions.push(StoryPermissionDecision {
                        event: PermissionDecided::clone(decided),
                        at,
                    });
                }
            }
            Event::RequestStopped(request) => {
                if let (Some(execution), true) = (
                    self.open_execution_mut(&request.within.agent),
                    request.within.is_execution(),
                ) {
                    execution.stop_reason = Some(StopReason::Cancelled);
                }
            }
            Event::ToolCallStarted(_) | Event::NestedRequestAnswered(_) => {}
            Event::ToolCallEnded(ended) => {
                if let (Some(execution), true) = (
                    self.open_execution_mut(&ended.within.agent),
                    ended.within.is_execution(),
                ) {
                    execution.replace_ended_call(&ended.call);
                }
            }
            Event::AttemptFailed(failed) => self.apply_failed_attempt(failed, at),
            Event::PartEnded(part) => self.apply_ended_part(part),
            Event::ExecutionFinished(finished) => self.apply_finished_execution(finished, at),
            Event::InputRequested(asked) => {
                if let Some(execution) = self.open_execution_mut(&asked.agent) {
                    execution.end_latest_attempt(StoryAttemptEnd::AskedQuestion, Some(at));
                    execution.question.get_or_insert_with(|| asked.question.clone());
                    execution.open_requests.push(asked.pending_request());
                }
            }
            Event::Interrupted(cause) => {
                self.end_open_attempts(StoryAttemptEnd::Stopped, Some(at));
                self.events.push(StoryEvent::Interrupted {
                    cause: cause.clone(),
                    at,
                });
            }
            Event::TurnFinished(finished) => {
                self.warnings.extend(finished.warnings.iter().cloned());
                if let Some(turn) = self.open_turn_mut() {
                    turn.close_turn(finished, at);
                }
            }
            Event::RunEnded(ended) => {
                self.warnings.extend(ended.warnings.iter().cloned());
                let end_event = Box::new(ended.clone());
                self.events.push(StoryEvent::Ended { ended: end_event, at });
            }
        }
        self.update_execution_totals(&record.event);
    }

    fn add_inner_answers(&mut self, record: &Record) {
        let answers = list_inner_answers(record);
        if answers.is_empty() {
            return;
        }
        let agent = record.event.agent_name().unwrap_or_default();
        if let Some(execution) = self.open_execution_mut(agent) {
            execution.answers.extend(answers);
        }
    }

    /// Sets the totals of the open execution of the event's agent to the totals in the history.
    fn update_execution_totals(&mut self, event: &Event) {
        let Some(agent) = event.agent_name() else { return };
        if let (Some(totals), Some(execution)) = (
            self.history.open_execution_totals(agent),
            self.open_execution_mut(agent),
        ) {
            execution.totals = totals;
        }
    }

    /// Removes the results and parts of these agents' open executions, because a resume repeats the executions.
    fn reset_repeated_executions(&mut self, agents: &[Arc<str>]) {
        for agent in agents {
            if let Some(execution) = self.open_execution_mut(agent) {
                execution.finish_event = None;
                execution.parts.clear();
            }
        }
    }

    /// Adds the time since the previous record, unless no process executed the run in between: before a resume or a message.
    fn add_active_time(&mut self, record: &Record) {
        let is_pause = matches!(record.event, Event::RunResumed(_) | Event::MessageAdded(_));
        if let (Some(latest), false) = (self.history.latest_record_at(), is_pause) {
            self.active += (record.at - latest).as_seconds_f64().max(0.0);
        }
    }

    /// Ends the attempt as failed, and adds its iterations and warnings.
    fn apply_failed_attempt(&mut self, failed: &AttemptFailed, at: DateTime<Utc>) {
        self.add_warnings(&failed.agent, &failed.warnings);
        if let Some(execution) = self.open_execution_mut(&failed.agent) {
            failed
                .exchange
                .iter()
                .for_each(|iteration| execution.add_iteration(iteration));
            let end = StoryAttemptEnd::Failed {
                failure: failed.failure.clone(),
                pause: failed.pause,
                stderr: failed.stderr.clone(),
            };
            execution.end_latest_attempt(end, Some(at));
        }
    }

    /// Adds the ended part without its messages, and its warnings.
    fn apply_ended_part(&mut self, part: &PartAttemptEnded) {
        self.add_warnings(&format!("{}[{}]", part.agent, part.key), &part.warnings);
        if let Some(execution) = self.open_execution_mut(&part.agent) {
            execution.parts.push(PartAttemptEnded {
                exchange: Vec::new(),
                ..part.clone()
            });
        }
    }

    /// Ends the last attempt, and sets the result, the stop reason and the remaining iterations of the execution.
    fn apply_finished_execution(&mut self, finished: &ExecutionFinished, at: DateTime<Utc>) {
        self.add_warnings(&finished.agent, &finished.warnings);
        if let Some(execution) = self.open_execution_mut(&finished.agent) {
            execution.close_requests();
            execution.end_latest_attempt(StoryAttemptEnd::Final, Some(at));
            finished
                .exchange
                .iter()
                .for_each(|iteration| execution.add_iteration(iteration));
            let limit = finished
                .failure()
                .map(|failure| StopReason::from_failure_kind(failure.kind));
            execution.stop_reason = limit.flatten().or(execution.stop_reason);
            execution.finish_event = Some(ExecutionFinished {
                exchange: Vec::new(),
                ..finished.clone()
            });
        }
    }

    /// Adds warnings to the story, each with the name of the agent.
    fn add_warnings(&mut self, agent: &str, warnings: &[String]) {
        self.warnings
            .extend(warnings.iter().map(|warning| format!("{agent}: {warning}")));
    }

    /// Returns the last turn if the turn has not finished.
    fn open_turn_mut(&mut self) -> Option<&mut StoryTurn> {
        let turns = self.events.iter_mut().rev().filter_map(|event| match event {
            StoryEvent::Turn(turn) => Some(&mut **turn),
            _ => None,
        });
        turns.take(1).find(|turn| turn.finished_at.is_none())
    }

    /// Returns the execution of the agent in the open turn.
    fn open_execution_mut(&mut self, agent: &str) -> Option<&mut StoryExecution> {
        self.open_turn_mut()?.execution_mut(agent)
    }

    /// Ends the running attempt of every execution in the open turn.
    fn end_open_attempts(&mut self, end: StoryAttemptEnd, at: Option<DateTime<Utc>>) {
        for execution in self.open_turn_mut().into_iter().flat_map(|turn| &mut turn.executions) {
            execution.end_latest_attempt(end.clone(), at);
        }
    }
}

impl StoryExecution {
    /// Creates an execution without attempts.
    fn from_start(start: &AgentStart) -> Self {
        Self {
            agent: start.agent.clone(),
            execution: start.execution,
            reads: start.reads.clone(),
            request: start.request.clone(),
            handles: start.handles.clone(),
            attempts: Vec::new(),
            question: None,
            open_requests: Vec::new(),
            answers: Vec::new(),
            finish_event: None,
            tool_calls: Vec::new(),
            beside_calls: Vec::new(),
            permissions: Vec::new(),
            dropped_messages: None,
            stop_reason: None,
            first_request: None,
            totals: AgentTotals::default(),
            parts: Vec::new(),
        }
    }

    /// Adds the tool calls, texts, stop reason and omitted messages of an iteration. The first iteration sets the first request.
    fn close_requests(&mut self) {
        self.question = None;
        self.open_requests.clear();
    }

    fn add_iteration(&mut self, iteration: &ThreadIteration) {
        self.stop_reason = iteration.stop_reason().or(self.stop_reason);
        if let Some(text) = iteration.text_beside_tool_calls() {
            self.beside_calls.push((self.tool_calls.len(), text.to_owned()));
        }
        self.tool_calls.extend(iteration.tool_calls.iter().cloned());
        if self.first_request.is_none() {
            self.first_request = FirstModelRequest::from_iteration(iteration);
        }
        if let Some(dropped) = iteration.metadata.get("dropped") {
            self.dropped_messages = Some(dropped.clone());
        }
    }

    /// Replaces the unfinished tool call with the same id by the ended call.
    fn replace_ended_call(&mut self, ended: &ToolCall) {
        let mut calls = self.tool_calls.iter_mut().rev();
        if let Some(call) = calls.find(|call| call.end.is_none() && call.id == ended.id) {
            *call = ended.clone();
        }
    }

    /// Ends the last attempt if it is in progress, and adjusts the stop reason.
    fn end_latest_attempt(&mut self, end: StoryAttemptEnd, at: Option<DateTime<Utc>>) {
        let last = self.attempts.last_mut();
        if let Some(attempt) = last.filter(|attempt| attempt.end == StoryAttemptEnd::InProgress) {
            // The last reply called tools: that was not the end of the turn.
            self.stop_reason = match end {
                StoryAttemptEnd::Stopped => self.stop_reason.map(|_| StopReason::Cancelled),
                StoryAttemptEnd::ProcessLost => None,
                _ => self.stop_reason,
            };
            attempt.end = end;
            attempt.ended_at = at;
        }
    }
}

/// Creates a turn with its executions, which have no attempts yet.
fn new_turn(event: &TurnStarted, at: DateTime<Utc>) -> StoryTurn {
    StoryTurn {
        turn: event.turn,
        started_at: at,
        finished_at: None,
        executions: event.starts.iter().map(StoryExecution::from_start).collect(),
        skipped_agents: event.waiting.clone(),
        requests: indexmap::IndexMap::new(),
        warnings: event.warnings.iter().map(|warning| warning.message.clone()).collect(),
    }
}
