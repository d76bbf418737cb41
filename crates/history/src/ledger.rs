//! The account of one execution of the open turn.
//!
//! A reply, a stopped request and a tool call record their usage when they happen. The end of the attempt records the usage of the whole
//! attempt, which replaces the usage recorded inside the attempt. An interrupted attempt has no end, so the usage recorded inside the
//! attempt is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::{
    AttemptFailed, AttemptScope, Event, ExecutionFinished, FailureCounts, InputRequested, PartAttemptEnded,
    ToolCallEnded,
};
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::ThreadIteration;
use ensemble_language::data::ModelUsage;

use crate::totals::AgentTotals;

/// The key of usage inside an attempt: the part, and the ids of the tool calls that contain the agent.
type InnerUsageKey = (Option<Arc<str>>, Vec<Arc<str>>);

/// The activity of an agent whose execution has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentActivity {
    /// An attempt is under way.
    Working {
        /// The time at which the attempt started.
        since: DateTime<Utc>,
    },
    /// The agent waits for an answer or a permission.
    Waiting,
    /// No attempt has started since the start of the turn, or since the run was resumed.
    NotStarted,
    /// The last attempt failed, and the next one follows after a pause.
    Retrying,
    /// The run was stopped during the last attempt.
    Stopped,
}

impl AgentActivity {
    /// Returns the state of the execution. `is_driven` is true if a process drives the run. `is_asking` is true if a request of the agent
    /// is open in that process but not recorded yet.
    pub fn execution_state(self, is_driven: bool, is_asking: bool) -> UnfinishedExecutionState {
        match self {
            Self::Waiting => UnfinishedExecutionState::Asking,
            _ if is_driven && is_asking => UnfinishedExecutionState::Asking,
            Self::Stopped => UnfinishedExecutionState::Stopped,
            Self::NotStarted if is_driven => UnfinishedExecutionState::AboutToStart,
            Self::NotStarted => UnfinishedExecutionState::NotStarted,
            Self::Working { .. } if is_driven => UnfinishedExecutionState::Working,
            Self::Retrying if is_driven => UnfinishedExecutionState::Retrying,
            Self::Working { .. } | Self::Retrying => UnfinishedExecutionState::Lost,
        }
    }
}

/// The state of an execution that has not ended, as reports and the web page show the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedExecutionState {
    /// No attempt has started, and no process drives the run.
    NotStarted,
    /// The first attempt is about to start.
    AboutToStart,
    /// An attempt is under way.
    Working,
    /// The next attempt is about to start.
    Retrying,
    /// The agent waits for an answer or a permission.
    Asking,
    /// The run was stopped during the execution.
    Stopped,
    /// The process that executed the agent has ended.
    Lost,
}

impl UnfinishedExecutionState {
    /// Returns the state as a word of the JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::AboutToStart => "ready",
            Self::Working => "runs",
            Self::Retrying => "retries",
            Self::Asking => "asks",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// The account of an execution of the open turn: pending requests, attempts, tool calls and usage.
#[derive(Debug, Clone)]
pub struct ExecutionAccount {
    /// The agent.
    pub agent: Arc<str>,
    /// The requests without an answer.
    pub requests: Vec<PendingRequest>,
    /// The totals of what ended. `executions` is 1 if the execution has ended.
    ended: AgentTotals,
    /// The usage recorded inside the attempt that has not ended.
    inside: BTreeMap<InnerUsageKey, ModelUsage>,
    /// The usage in the records of parts, which `ended` contains.
    of_parts: ModelUsage,
    /// The start of the running attempt.
    attempt_started: Option<DateTime<Utc>>,
    /// The activity while no attempt is under way.
    activity_between_attempts: AgentActivity,
    /// True after a reply of a model. Calls of an agent with `tool` are not calls of a model.
    has_model: bool,
}

impl ExecutionAccount {
    /// Opens the account of an execution that starts in this turn.
    pub fn new(agent: Arc<str>, turn: u32) -> Self {
        Self {
            agent,
            requests: Vec::new(),
            ended: AgentTotals {
                latest_turn: Some(turn),
                ..AgentTotals::default()
            },
            inside: BTreeMap::new(),
            of_parts: ModelUsage::default(),
            attempt_started: None,
            activity_between_attempts: AgentActivity::NotStarted,
            has_model: false,
        }
    }

    /// Returns whether the execution has ended.
    pub fn is_finished(&self) -> bool {
        self.ended.executions > 0
    }

    /// Returns the activity of the execution. Returns `None` if the execution has ended.
    pub fn current_activity(&self) -> Option<AgentActivity> {
        if self.is_finished() {
            return None;
        }
        Some(match self.attempt_started {
            _ if !self.requests.is_empty() => AgentActivity::Waiting,
            Some(since) => AgentActivity::Working { since },
            None => self.activity_between_attempts,
        })
    }

    /// Returns the totals until now, including the usage of the running attempt.
    pub fn current_totals(&self) -> AgentTotals {
        AgentTotals {
            usage: self.ended.usage + self.total_inner_usage(),
            ..self.ended
        }
    }

    /// Returns the usage until now, without the usage that the records of parts contain.
    pub fn usage_without_parts(&self) -> ModelUsage {
        self.current_totals().usage.subtract_earlier(self.of_parts)
    }

    /// Applies an event of this execution.
    pub fn apply_event(&mut self, event: &Event, at: DateTime<Utc>) {
        match event {
            Event::ExecutionStarted(_) => self.start_attempt(at),
            Event::ReplyReceived(event) => {
                self.has_model |= !event.iteration.messages.is_empty();
                self.add_inner_usage(&event.within, event.usage);
            }
            Event::RequestStopped(event) => self.add_inner_usage(&event.within, event.usage),
            Event::ToolCallEnded(event) => self.add_ended_call(event),
            Event::AttemptFailed(event) => self.fail_attempt(event, at),
            Event::PartEnded(event) => self.add_ended_part(event),
            Event::ExecutionFinished(event) => self.finish_execution(event),
            Event::InputRequested(event) => self.add_question(event, at),
            _ => {}
        }
    }

    /// Records that the running attempt or the pause before a retry was stopped together with the run.
    pub fn interrupt_attempt(&mut self, at: DateTime<Utc>) {
        if self.attempt_started.is_some() || self.activity_between_attempts == AgentActivity::Retrying {
            self.activity_between_attempts = AgentActivity::Stopped;
        }
        self.stop_attempt(at);
    }

    /// Adds the time of the running attempt to the totals, and marks the attempt as stopped.
    fn stop_attempt(&mut self, at: DateTime<Utc>) {
        if let Some(started) = self.attempt_started.take() {
            // In a merge, the next message can be older.
            self.ended.seconds += (at - started).as_seconds_f64().max(0.0);
        }
    }

    /// Clears the running attempt and the pending requests, because another process resumes the execution. With `repeats`, a finished
    /// execution starts again.
    pub fn resume_execution(&mut self, repeats: bool) {
        self.attempt_started = None;
        self.activity_between_attempts = AgentActivity::NotStarted;
        self.requests.clear();
        if repeats && self.is_finished() {
            self.ended = AgentTotals {
                attempts: self.ended.attempts,
                usage: self.ended.usage,
                seconds: self.ended.seconds,
                latest_turn: self.ended.latest_turn,
                ..AgentTotals::default()
            };
            self.inside.clear();
        }
    }

    /// Counts a new attempt. Adds the usage of an earlier attempt without an end to the totals.
    fn start_attempt(&mut self, at: DateTime<Utc>) {
        self.merge_inner_usage();
        self.requests.clear();
        self.ended.attempts += 1;
        self.attempt_started = Some(at);
    }

    /// Applies a failed attempt, whose recorded usage replaces the usage inside the attempt.
    fn fail_attempt(&mut self, event: &AttemptFailed, at: DateTime<Utc>) {
        self.stop_attempt(at);
        self.activity_between_attempts = AgentActivity::Retrying;
        self.add_tool_calls(&event.exchange);
        self.inside.clear();
        self.add_ended_usage(event.usage);
    }

    /// Applies an ended attempt of a part, whose recorded usage replaces the usage inside the attempt.
    fn add_ended_part(&mut self, event: &PartAttemptEnded) {
        self.inside.retain(|(part, _), _| part.as_ref() != Some(&event.key));
        self.of_parts = self.of_parts + event.usage.unwrap_or_default();
        self.add_tool_calls(&event.exchange);
        self.add_ended_usage(event.usage);
        if event.is_final() {
            self.ended.parts.ended_parts += 1;
            self.ended.parts.listed_parts = event.count as usize;
            self.ended.parts.failed_parts += usize::from(event.failure().is_some());
        }
    }

    /// Applies the end of the execution, whose recorded usage replaces the usage inside the last attempt.
    fn finish_execution(&mut self, event: &ExecutionFinished) {
        self.inside.clear();
        self.add_tool_calls(&event.exchange);
        self.add_ended_usage(event.usage);
        self.requests.clear();
        self.attempt_started = None;
        self.ended.executions = 1;
        self.ended.failed = usize::from(event.failure().is_some());
        self.ended.seconds += event.execution_time;
    }

    /// Adds a pending request. An attempt that only asks a question is not counted, because the answer starts the attempt again.
    fn add_question(&mut self, event: &InputRequested, at: DateTime<Utc>) {
        if self.attempt_started.is_some() {
            self.stop_attempt(at);
            self.ended.attempts = self.ended.attempts.saturating_sub(1);
        }
        self.requests.push(event.pending_request());
    }

    /// Adds the ended tool calls of iterations that no earlier record contains.
    fn add_tool_calls(&mut self, iterations: &[ThreadIteration]) {
        self.ended.tool_calls = self.ended.tool_calls + FailureCounts::from_tool_calls(iterations);
    }

    /// Applies an ended tool call, whose usage replaces the usage of the agents inside the call.
    fn add_ended_call(&mut self, event: &ToolCallEnded) {
        if let Some(end) = event
            .call
            .end
            .as_ref()
            .filter(|_| self.has_model && event.within.outer_calls.is_empty())
        {
            self.ended.tool_calls = self.ended.tool_calls + FailureCounts::from_tool_end(end);
        }
        let mut path = event.within.outer_calls.clone();
        path.push(event.call.id.as_str().into());
        let part = &event.within.part;
        self.inside
            .retain(|(other, inside), _| other != part || !inside.starts_with(&path));
        self.add_inner_usage(&event.within, event.usage.unwrap_or_default());
    }

    /// Adds usage to the totals of ended attempts.
    fn add_ended_usage(&mut self, usage: Option<ModelUsage>) {
        self.ended.usage = self.ended.usage + usage.unwrap_or_default();
    }

    /// Adds usage inside the running attempt, under the part and the outer calls of its scope.
    fn add_inner_usage(&mut self, within: &AttemptScope, usage: ModelUsage) {
        let key = (within.part.clone(), within.outer_calls.clone());
        let total = self.inside.entry(key).or_default();
        *total = *total + usage;
    }

    /// Moves the usage inside the attempt to the totals, because the attempt has no recorded end.
    fn merge_inner_usage(&mut self) {
        self.ended.usage = self.ended.usage + self.total_inner_usage();
        self.inside.clear();
    }

    /// Sums the usage inside the running attempt. Usage inside tool calls counts as usage of tools.
    fn total_inner_usage(&self) -> ModelUsage {
        let used = self.inside.iter().map(|((_, inside), usage)| match inside.is_empty() {
            true => *usage,
            false => usage.as_tool_usage(),
        });
        used.fold(ModelUsage::default(), |sum, one| sum + one)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).expect("a time")
    }

    fn event(name: &str, data: serde_json::Value) -> Event {
        serde_json::from_value(json!({"event": name, "data": data})).expect("an event")
    }

    /// Returns the seconds of an attempt that starts at 100 s and is stopped at this second, in each way.
    fn seconds_of_attempt(stopped_at: i64) -> [f64; 3] {
        let place = json!({"turn": 1, "agent": "a", "execution": 1, "attempt": 1});
        let with = |more: serde_json::Value| {
            let mut data = place.clone();
            let more = more.as_object().cloned().unwrap_or_default();
            data.as_object_mut().expect("a map").extend(more);
            data
        };
        let failure = json!({"failure": {"kind": "exit", "error": "no"}, "pause": 0.0});
        let stops: [&dyn Fn(&mut ExecutionAccount); 3] = [
            &|account| account.interrupt_attempt(at(stopped_at)),
            &|account| account.apply_event(&event("attempt_failed", with(failure.clone())), at(stopped_at)),
            &|account| {
                let question = json!({"prompt": "Well?", "choices": []});
                account.apply_event(&event("input_requested", with(question)), at(stopped_at));
            },
        ];
        stops.map(|stop| {
            let mut account = ExecutionAccount::new("a".into(), 1);
            account.apply_event(&event("execution_started", place.clone()), at(100));
            stop(&mut account);
            account.current_totals().seconds
        })
    }

    #[test]
    fn an_attempt_that_an_older_record_of_a_merge_ends_took_no_time() {
        assert_eq!(seconds_of_attempt(103), [3.0; 3]);
        assert_eq!(seconds_of_attempt(40), [0.0; 3]);
    }
}
