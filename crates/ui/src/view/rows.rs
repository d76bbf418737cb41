//! Rows: one line each for what happened, and the whole text where it is asked for.

use serde_json::{Value, json};

use super::elapsed_time::seconds_since;
use super::{RowContentPosition, RunView};
use ensemble_core::conversation::CompletionReason;
use ensemble_history::story::{StoryAttemptEnd, StoryEvent, StoryExecution, StoryTurn};
use ensemble_history::{AgentActivity, output_text};

/// Most characters of a text in a row.
const MAX_ROW_CHARS: usize = 200;
/// Most characters of a text in the conversation.
pub(super) const MAX_WHOLE_ROW_CHARS: usize = 20_000;

impl RunView {
    /// Converts a row to JSON with a short text.
    pub(crate) fn short_row_json(&self, at: usize) -> Option<Value> {
        self.row_json(at, MAX_ROW_CHARS)
    }

    /// Converts a row to JSON with its text, up to a large limit.
    pub(crate) fn whole_row_json(&self, at: usize) -> Option<Value> {
        self.row_json(at, MAX_WHOLE_ROW_CHARS)
    }

    /// Finds the row of an execution.
    pub(crate) fn find_execution_row(&self, turn: u32, agent: &str) -> Option<usize> {
        let is_it = |at: &usize| {
            let row_execution = self.execution_at(*at);
            row_execution.is_some_and(|(one, execution)| one.turn == turn && *execution.agent == *agent)
        };
        (0..self.rows.len()).find(is_it)
    }

    /// Returns the execution in this row with its turn. Returns `None` for other rows.
    pub(super) fn execution_at(&self, at: usize) -> Option<(&StoryTurn, &StoryExecution)> {
        match *self.rows.get(at)? {
            RowContentPosition::Execution(event, index) => match &self.story.events[event] {
                StoryEvent::Turn(turn) => Some((turn, &turn.executions[index])),
                _ => None,
            },
            RowContentPosition::Event(_) => None,
        }
    }

    /// Converts a row to JSON with at most `most` characters of text.
    fn row_json(&self, at: usize, most: usize) -> Option<Value> {
        let mut row = match *self.rows.get(at)? {
            RowContentPosition::Execution(..) => {
                let (turn, execution) = self.execution_at(at)?;
                self.execution_row(turn, execution, most)
            }
            RowContentPosition::Event(event) => event_row(&self.story.events[event], most),
        };
        row["at"] = at.into();
        row["seq"] = self.next.into();
        Some(row)
    }

    /// Converts an execution to a row.
    fn execution_row(&self, turn: &StoryTurn, execution: &StoryExecution, most: usize) -> Value {
        let fired = self.fired_dependencies.get(&(turn.turn, execution.agent.clone()));
        let fired = fired.into_iter().flatten();
        let by: Vec<&str> = fired
            .filter_map(|at| self.dependency_source(&execution.agent, *at))
            .collect();
        let full_text = execution_summary_text(execution);
        let (text, is_cut) = truncate_text(&full_text, most);
        json!({
            "kind": "execution",
            "turn": turn.turn,
            "agent": execution.agent,
            "execution": execution.execution,
            "state": self.execution_state_word(turn.turn, execution),
            "elapsed": self.elapsed_seconds(execution),
            "begun": execution.attempts.first().map(|attempt| attempt.started_at),
            "seconds": execution.finish_event.is_some().then_some(execution.totals.seconds),
            "tries": execution.totals.attempts,
            "usage": execution.total_usage(),
            "by": by,
            "asked_by": execution.request.as_ref().map(|request| &request.from),
            "text": text,
            "is_cut": is_cut,
        })
    }

    /// Returns the state of an execution in one word. An open execution of an earlier turn counts as abandoned.
    pub(super) fn execution_state_word(&self, turn: u32, execution: &StoryExecution) -> &'static str {
        if execution.failure().is_some() {
            return "failed";
        }
        if execution.finish_event.is_some() {
            return "done";
        }
        let is_latest = self.story.latest_turn().is_some_and(|latest| latest.turn == turn);
        let history = self.run_history();
        let activity = history.agent_activity(&execution.agent).filter(|_| is_latest);
        let is_asking = self.liveness.asking_agents.contains(&execution.agent);
        activity
            .unwrap_or(AgentActivity::Stopped)
            .execution_state(self.liveness.is_driven, is_asking)
            .as_str()
    }

    /// Returns the seconds since the latest attempt started, if it is running.
    pub(super) fn elapsed_seconds(&self, execution: &StoryExecution) -> Option<f64> {
        let attempt = execution.attempts.last()?;
        let is_under_way = self.liveness.is_driven && attempt.end == StoryAttemptEnd::InProgress;
        is_under_way.then(|| seconds_since(attempt.started_at))
    }

    /// Returns the agent that is the source of the dependency at this position.
    fn dependency_source(&self, agent: &str, position: usize) -> Option<&str> {
        let plan = self.plan.as_ref()?;
        let dependency = plan.agent(plan.find_agent_id(agent)?).dependencies.get(position)?;
        Some(&dependency.agent_name)
    }
}

/// Converts an event to a row.
fn event_row(event: &StoryEvent, most: usize) -> Value {
    let text = |text: &str| {
        let (text, is_cut) = truncate_text(text, most);
        (json!(text), is_cut)
    };
    let (kind, at, (text, is_cut)) = match event {
        StoryEvent::Turn(turn) => return turn_row(turn),
        StoryEvent::Message { text: said, at } => ("message", at, text(said)),
        StoryEvent::ContextGiven { context, at } => ("given", at, text(&json!(context).to_string())),
        StoryEvent::Interrupted { cause, at } => ("interrupted", at, (json!(cause)["cause"].clone(), false)),
        StoryEvent::Resumed { at } => ("resumed", at, text("")),
        StoryEvent::Ended { ended, at } if ended.completion_reason == CompletionReason::WaitingForInput => {
            ("waits", at, text(ended.summary_sentence()))
        }
        StoryEvent::Ended { ended, at } => ("ended", at, text(&ended.to_outcome_sentence().0)),
    };
    json!({"kind": kind, "begun": at, "text": text, "is_cut": is_cut})
}

/// Converts the start of a turn to a row, with the agents that did not run.
fn turn_row(turn: &StoryTurn) -> Value {
    let waiting = turn.skipped_agents.iter();
    let waiting: Vec<Value> = waiting
        .map(|waiting| json!({"agent": waiting.agent, "reason": waiting.reason.to_string()}))
        .collect();
    json!({
        "kind": "turn",
        "turn": turn.turn,
        "begun": turn.started_at,
        "seconds": turn.duration_seconds(),
        "idle": waiting,
    })
}

/// Returns the text of the output, the error, or the question of the execution.
fn execution_summary_text(execution: &StoryExecution) -> String {
    if let Some(failure) = execution.failure() {
        return failure.error.clone();
    }
    if let Some(output) = execution.output() {
        return output_text(output);
    }
    let question = execution.question.as_ref();
    question.map(|question| question.prompt.clone()).unwrap_or_default()
}

/// Returns the start of the text, and whether a part is left out.
pub(super) fn truncate_text(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}
