//! What the page shows of a run beside its rows.

use ensemble_core::conversation::{FailedWork, RunEnded};
use ensemble_core::store::RunId;
use ensemble_history::{RunState, RunTotals};
use serde_json::{Value, json};

use super::shown_request::with_shown_texts;
use super::{DriverLocation, RunView};

/// Most warnings that are shown, the last ones.
const WARNINGS: usize = 20;

impl RunView {
    /// Name, state, sums, agents, and what can be done with the run.
    pub(crate) fn head_json(&self, id: &RunId, driven: DriverLocation, state: RunState) -> Value {
        let started = self.story.start_event();
        let end_event = self.story.end_event();
        let totals = self.run_history().run_totals();
        let is_inner = id.nested_names().next().is_some();
        let is_free = driven == DriverLocation::Nowhere && !is_inner;
        let questions = self.story.pending_requests().into_iter().filter(|_| is_free);
        let questions: Vec<Value> = questions.map(|open| with_shown_texts(json!(open), &open)).collect();
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
            "latest": self.run_history().latest_at(),
            "active": self.story.active,
            "state": state,
            "process": match driven { DriverLocation::Elsewhere(process) => Some(process), _ => None },
            "outcome": end_event.map(|ended| ended.completion_reason),
            "success": end_event.map(RunEnded::is_success),
            "detail": end_event.and_then(|ended| ended.detail.as_ref()),
            "turns": totals.turns,
            "executions": totals.all.executions,
            "failed": totals.all.failed,
            "failed_work": totals.list_failed_work().iter().flat_map(FailedWork::list_sentences).collect::<Vec<_>>(),
            "usage": totals.all.usage,
            "warnings": &warnings[warnings.len().saturating_sub(WARNINGS)..],
            "agents": self.agents_json(&totals),
            "questions": questions,
            "can": {
                "cancel": driven == DriverLocation::Here && !is_inner && end_event.is_none(),
                "resume": is_free && state.is_resumable(),
                "say": is_free && end_event.is_some_and(|ended| ended.completion_reason.is_continuable()),
                "fork": !is_inner,
            },
        })
    }

    /// Returns the agents in declaration order, each with what it did.
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
                "seconds": sum.seconds,
                "turn": sum.latest_turn,
                "idle": self.run_history().idle_reason(&name),
            })
        });
        described.collect()
    }
}
