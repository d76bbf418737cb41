//! What the page shows of a run beside its rows.

use ensemble_core::conversation::{AgentWorkCounts, CompletionReason, RunEnded};
use ensemble_core::store::RunId;
use ensemble_history::{AgentActivity, RunState, RunTotals, output_text};
use ensemble_reports::report::story::first_failed_part;
use serde_json::{Value, json};

use super::elapsed_time::seconds_since;
use super::rows::{MAX_WHOLE_ROW_CHARS, truncate_text};
use super::shown_request::with_request_texts;
use super::{DriverLocation, RunView};

/// Maximum number of shown warnings, the last ones.
const MAX_SHOWN_WARNINGS: usize = 20;

impl RunView {
    /// Converts the run to JSON without rows: name, state, totals, agents and possible actions.
    pub(crate) fn json_without_rows(&self, id: &RunId, driven: DriverLocation, state: RunState) -> Value {
        let started = self.story.start_event();
        let end_event = self.story.end_event();
        let totals = self.run_history().run_totals();
        let is_inner = id.nested_names().next().is_some();
        let is_under_way = driven != DriverLocation::Nowhere && end_event.is_none();
        let is_free = driven == DriverLocation::Nowhere && !is_inner;
        let questions = self.story.pending_requests().into_iter().filter(|_| is_free);
        let questions: Vec<Value> = questions.map(|open| with_request_texts(json!(open), &open)).collect();
        let warnings = &self.story.warnings;
        json!({
            "id": id,
            "next": self.next,
            "rows": self.len(),
            "ensemble": started.map(|started| &started.ensemble),
            "file": started.map(|started| &started.ensemble_file),
            "input": started.map(|started| &started.input),
            "context": started.map(|started| &started.context),
            "forked_from": started.and_then(|started| started.forked_from.as_ref()),
            "simulated": started.map(|started| &started.simulated),
            "begun": self.run_history().started_at(),
            "latest": self.run_history().latest_record_at(),
            "active": self.story.active + self.seconds_since_latest_record(is_under_way),
            "is_under_way": is_under_way,
            "state": state,
            "process": match driven { DriverLocation::Elsewhere(process) => Some(process), _ => None },
            "outcome": end_event.map(|ended| ended.completion_reason),
            "success": end_event.map(RunEnded::is_success),
            "sentence": end_event.map(|ended| ended.to_outcome_sentence().0),
            "failure": self.failure_json(),
            "outputs": self.last_turn_outputs(),
            "has_result": end_event.is_some() && self.plan.as_ref().is_some_and(|plan| plan.ensemble().result.is_some()),
            "turns": totals.turns,
            "open_turn": self.story.latest_turn().filter(|turn| is_under_way && turn.finished_at.is_none()).map(|turn| turn.turn),
            "executions": totals.all.executions,
            "failed": totals.all.failed,
            "failed_work": totals.list_failed_work().iter().flat_map(AgentWorkCounts::list_failure_sentences).collect::<Vec<_>>(),
            "usage": totals.all.usage,
            "warnings": &warnings[warnings.len().saturating_sub(MAX_SHOWN_WARNINGS)..],
            "agents": self.agents_json(&totals),
            "questions": questions,
            "can": {
                "cancel": driven == DriverLocation::Here && !is_inner && end_event.is_none(),
                "resume": is_free && state.is_resumable(),
                "say": is_free && end_event.is_some_and(|ended| ended.completion_reason.is_continuable()),
                "fork": !is_inner,
                "retry": self.rerun_target_json().filter(|_| is_free),
                "fork_before": end_event
                    .filter(|ended| is_free && has_failed_in_turn(ended.completion_reason))
                    .map(|_| self.story.last_turn_before_failure()),
            },
        })
    }

    /// Returns the seconds since the latest record, if the run is running.
    fn seconds_since_latest_record(&self, is_under_way: bool) -> f64 {
        let latest = self.run_history().latest_record_at().filter(|_| is_under_way);
        latest.map_or(0.0, seconds_since)
    }

    /// Converts the failure that ended the run to JSON, with its execution.
    fn failure_json(&self) -> Option<Value> {
        let failed = self.story.end_event()?.failed.as_ref()?;
        let execution = self.story.find_execution(failed.turn, &failed.agent)?;
        let failure = execution.failure()?;
        Some(json!({
            "agent": failed.agent,
            "turn": failed.turn,
            "execution": execution.execution,
            "attempts": execution.totals.attempts,
            "kind": failure.kind,
            "error": failure.error,
        }))
    }

    /// Returns the execution from which `rerun` repeats what failed: `{turn, agent, part}`.
    fn rerun_target_json(&self) -> Option<Value> {
        let failed = self.story.end_event()?.failed.as_ref()?;
        let part = first_failed_part(&self.story, failed);
        Some(json!({"turn": failed.turn, "agent": failed.agent, "part": part}))
    }

    /// Returns the outputs of the last turn of a run that has ended.
    fn last_turn_outputs(&self) -> Option<Vec<Value>> {
        self.story.end_event()?;
        let turn = self.story.latest_turn()?;
        let outputs = turn.executions.iter().filter_map(|execution| {
            let full_text = output_text(execution.output()?);
            let (text, is_cut) = truncate_text(&full_text, MAX_WHOLE_ROW_CHARS);
            Some(json!({"agent": execution.agent, "turn": turn.turn, "text": text, "is_cut": is_cut}))
        });
        Some(outputs.collect())
    }

    /// Converts the agents to JSON in declaration order, each with its executions.
    fn agents_json(&self, totals: &RunTotals) -> Vec<Value> {
        let names: Vec<_> = match &self.plan {
            Some(plan) => {
                let ids = plan.agent_ids();
                ids.map(|id| (plan.agent_name(id).clone(), Some(plan.agent(id).kind_name())))
                    .collect()
            }
            None => totals.agents.keys().map(|name| (name.clone(), None)).collect(),
        };
        let described = names.into_iter().map(|(name, kind)| {
            let sum = totals.agents.get(&name).copied().unwrap_or_default();
            json!({
                "name": name,
                "kind": kind,
                "executions": sum.executions,
                "failed": sum.failed,
                "parts": sum.parts.ended_parts,
                "usage": sum.usage,
                "seconds": (sum.attempts > 0).then(|| sum.seconds + self.running_attempt_seconds(&name)),
                "activity": self.activity_word(&name),
                "turn": sum.latest_turn,
                "idle": self.run_history().idle_reason(&name),
            })
        });
        described.collect()
    }

    /// Returns the seconds since the attempt of the agent started, if it is running.
    fn running_attempt_seconds(&self, agent: &str) -> f64 {
        match self.run_history().agent_activity(agent) {
            Some(AgentActivity::Working { since }) if self.liveness.is_driven => seconds_since(since),
            _ => 0.0,
        }
    }

    /// Returns the activity of the agent in one word. Returns `None` without an open execution.
    fn activity_word(&self, agent: &str) -> Option<&'static str> {
        let turn = self.story.latest_turn()?;
        let mut executions = turn.executions.iter();
        let execution = executions.find(|execution| &*execution.agent == agent)?;
        let is_open = execution.finish_event.is_none();
        is_open.then(|| self.execution_state_word(turn.turn, execution))
    }
}

/// Returns whether the run failed in a turn, so that a fork can start before it.
fn has_failed_in_turn(outcome: CompletionReason) -> bool {
    matches!(
        outcome,
        CompletionReason::AgentFailed | CompletionReason::ConditionFailed
    )
}
