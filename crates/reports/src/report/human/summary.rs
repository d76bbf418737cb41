//! The text at the end of a run: the outcome, time and usage, and the next commands.

use super::{HumanReporter, OutputVerbosity};
use crate::report::format::{
    CAUTION, DIM, explain_many_requests, format_count, format_duration, format_executions, render_usage,
};
use crate::report::replacements::describe_replacements;
use crate::report::story::{escape_and_quote_for_shell, outcome_mark, rerun_argument};
use crate::report::wrap::indent_later_lines;
use chrono::{DateTime, Utc};
use ensemble_core::conversation::{
    CompletionReason, ConversationState, Record, RunEnded, UnfinishedExecution, UnfinishedReason,
};
use ensemble_core::request::PendingRequest;
use ensemble_language::ensemble::{AgentKind, BudgetScope};

/// Renders the number of ended executions, and the ended parts of open ones.
fn render_execution_counts(state: &ConversationState) -> String {
    let failed = state.list_executions().filter(|entry| entry.failure.is_some()).count();
    let unfinished_parts = state.unfinished_executions().filter_map(|one| Some(one.parts?.ended));
    format_executions(
        state.list_executions().count(),
        failed,
        unfinished_parts.sum::<usize>(),
        &state.count_failed_work_by_agent(),
    )
}

/// Returns whether all messages of the conversation share the budget.
fn is_budget_shared_by_messages(state: &ConversationState) -> bool {
    let budget = state.budget_status();
    budget.is_some_and(|budget| budget.scope == BudgetScope::Conversation)
}

/// Renders a line about the budget of the conversation in a chat, if little of it is left.
fn render_low_budget_note(state: &ConversationState) -> String {
    match state.budget_status() {
        Some(budget) if budget.scope == BudgetScope::Conversation && budget.is_low() => {
            format!("  {CAUTION}budget{CAUTION:#}: {budget} for this conversation\n")
        }
        _ => String::new(),
    }
}

/// Renders the open executions whose parts or replies are recorded.
fn render_unfinished_executions(state: &ConversationState) -> String {
    let mut text = String::new();
    for UnfinishedExecution {
        agent,
        reason,
        parts,
        replies,
        ..
    } in state.unfinished_executions()
    {
        let status = match reason {
            UnfinishedReason::Interrupted => "was interrupted",
            UnfinishedReason::WaitingForInput => "waits for an answer",
        };
        let plan = state.plan();
        let is_call = plan
            .find_agent_id(&agent)
            .is_some_and(|id| matches!(plan.agent(id).kind, AgentKind::Tool { .. }));
        let Some(parts) = parts else {
            if replies > 0 && is_call {
                text.push_str(&format!("  {agent} {status} during its tool call\n"));
            } else if replies > 0 {
                let (after, word) = (replies, if replies == 1 { "reply" } else { "replies" });
                text.push_str(&format!(
                    "  {agent} {status} after {after} {word} of its model; `ensemble resume` continues from there\n"
                ));
            }
            continue;
        };
        let (ended, all) = (parts.ended, format_count(parts.count as u64, "part"));
        let continuation = match parts.count.saturating_sub(ended) {
            0 => "finishes the execution".to_owned(),
            rest => format!("executes the other {rest}"),
        };
        text.push_str(&format!(
            "  {agent} {status} after {ended} of {all}; `ensemble resume` {continuation}\n"
        ));
    }
    text
}

/// Renders the pending questions and permission requests with their choices, if there are several.
fn render_pending_requests(state: &ConversationState) -> String {
    if state.pending_requests().count() < 2 {
        return String::new();
    }
    let mut text = String::new();
    for request in state.pending_requests() {
        let prompt = indent_later_lines(request.question.prompt.trim());
        text.push_str(&format!("  {} asks: {prompt}\n", request.address));
        for choice in &request.question.choices {
            text.push_str(&format!("    · {choice}\n"));
        }
    }
    text
}

impl HumanReporter {
    /// Sets the start of the time that the next summary shows.
    pub(super) fn start_segment(&mut self, at: DateTime<Utc>) {
        (self.started_at, self.first_turn_at) = (Some(at), None);
    }

    /// Returns the seconds from the start of the segment to its end. For a merged run, the time starts with its first turn, because the
    /// turns are older than the run.
    fn segment_seconds(&self, end: DateTime<Utc>) -> f64 {
        let is_earlier = |begun: &DateTime<Utc>| *begun <= end;
        let begun = self.started_at.filter(is_earlier).or(self.first_turn_at);
        begun.map_or(0.0, |begun| (end - begun).as_seconds_f64().max(0.0))
    }

    /// Renders the outcome, the counts and the usage of the run. In quiet mode and in a chat, renders problems only.
    pub(super) fn render_run_summary(&self, ended: &RunEnded, record: &Record, state: &ConversationState) -> String {
        let quiet = self.verbosity == OutputVerbosity::Quiet;
        if (quiet || self.in_chat) && ended.is_success() && ended.exhausted.is_empty() {
            return match quiet {
                true => String::new(),
                false => render_low_budget_note(state),
            };
        }
        let (style, mark) = outcome_mark(ended);
        let space = if quiet { "" } else { "\n" };
        let (sentence, outcome_end) = match self.was_failure_shown(ended) {
            true => ended.to_sentence_without_error(),
            false => ended.to_outcome_sentence(),
        };
        let (outcome, details) = sentence.split_at(outcome_end);
        let mut text = format!("{space}{style}{mark} {outcome}{style:#}{}", indent_later_lines(details));
        let seconds = self.segment_seconds(record.at);
        text.push_str(&format!(
            "\n  {} · {} · {}\n",
            format_count(u64::from(state.finished_turn_count()), "turn"),
            render_execution_counts(state),
            format_duration(seconds),
        ));
        if ended.completion_reason == CompletionReason::Completed && !ended.is_success() {
            text.push_str("  exit code 4, because of --fail-on-limit\n");
        }
        if quiet {
            return text;
        }
        text.push_str(&render_pending_requests(state));
        text.push_str(&render_unfinished_executions(state));
        for not_run in &ended.not_run {
            text.push_str(&format!(
                "  {DIM}{}{DIM:#}\n",
                indent_later_lines(&not_run.to_sentence())
            ));
        }
        text.push_str(&self.render_usage_and_cost(state));
        text
    }

    /// Returns whether the failure of the run was already printed on a stream that the reader of the summary sees.
    fn was_failure_shown(&self, ended: &RunEnded) -> bool {
        let is_same_reader = self.verbosity == OutputVerbosity::Quiet || self.console.streams_have_same_reader();
        let failed = ended.failed.as_ref();
        is_same_reader
            && failed.is_some_and(|failed| self.shown_failures.contains(&(failed.agent.clone(), failed.turn)))
    }

    /// Renders the suggested commands.
    pub(super) fn render_next_commands(&self, reason: CompletionReason, state: &ConversationState) -> String {
        if self.verbosity == OutputVerbosity::Quiet {
            return String::new();
        }
        let id = state.run_start().map_or("", |started| &*started.run_id);
        // A run inside another run is executed with that run.
        if id.contains('/') || id.is_empty() {
            return String::new();
        }
        let on = self
            .engine_url
            .as_ref()
            .map_or_else(String::new, |url| format!(" --on {}", escape_and_quote_for_shell(url)));
        let mut text = match reason {
            reason if self.engine_url.is_some() && !reason.is_resumable() => {
                format!("  {DIM}copy the run here with: ensemble runs fetch {id}{on}{DIM:#}\n")
            }
            CompletionReason::WaitingForInput => {
                let answer = |request: &PendingRequest| match (
                    escape_and_quote_for_shell(&request.address.to_string()),
                    request.is_permission(),
                ) {
                    (address, true) => format!(" --allow-tool {address}"),
                    (address, false) => format!(" --answer {address}=…"),
                };
                let answers: String = state.pending_requests().map(answer).collect();
                let can_be_denied = state.pending_requests().any(PendingRequest::is_permission);
                let or = if can_be_denied { " (or --deny-tool)" } else { "" };
                format!("  answer with: ensemble resume {id}{answers}{on}{or}\n")
            }
            reason if reason.is_resumable() => format!("  resume with: ensemble resume {id}{on}\n"),
            CompletionReason::AgentFailed => {
                let failed = state.run_end().and_then(|ended| ended.failed.as_ref());
                let from = failed.map_or_else(String::new, |failed| {
                    let part = self.failed_parts.get(&(failed.agent.clone(), failed.turn));
                    format!(" --from {}", rerun_argument(failed, part.map(|key| &**key)))
                });
                format!("  run it again with: ensemble rerun {id}{from}\n")
            }
            CompletionReason::TokenBudget if is_budget_shared_by_messages(state) => {
                format!("  continue with a higher limit in FILE: ensemble continue {id} \"…\" --ensemble FILE\n")
            }
            CompletionReason::Unsuccessful if !self.in_chat => {
                format!("  continue with a message: ensemble continue {id} \"…\"\n")
            }
            CompletionReason::Completed if self.in_chat => String::new(),
            _ => format!("  {DIM}recorded; replay with: ensemble replay {id}{DIM:#}\n"),
        };
        if self.has_cut {
            text.push_str(&format!(
                "  {DIM}shortened; show everything with: ensemble runs show {id} -v{DIM:#}\n"
            ));
        }
        text
    }

    /// Renders the usage, the budget, the usage by agent in verbose mode, and the replacements.
    fn render_usage_and_cost(&self, state: &ConversationState) -> String {
        let usage = state.usage_with_open_turn();
        let mut text = String::new();
        if usage.requests > 0 {
            text.push_str(&format!("  {}\n", render_usage(&usage)));
        }
        if let Some(budget) = state.budget_status() {
            text.push_str(&format!("  budget: {budget}{}\n", budget.scope_words()));
        }
        let failed = state.run_end().and_then(|ended| ended.failed.as_ref());
        let is_failed = |agent: &str, turn| failed.is_some_and(|failed| *failed.agent == *agent && failed.turn == turn);
        let entry = state
            .list_executions()
            .find(|entry| is_failed(&entry.agent_name, entry.turn_number));
        let explanation = entry.and_then(|entry| {
            explain_many_requests(&entry.agent_name, entry.attempt, entry.usage, entry.failure.as_ref()?)
        });
        if let Some(explanation) = explanation {
            text.push_str(&format!("  {}\n", indent_later_lines(&explanation)));
        }
        let by_agent = ensemble_core::conversation::list_usage_by_agent(state);
        if self.verbosity == OutputVerbosity::Verbose && by_agent.len() > 1 {
            for (name, usage) in &by_agent {
                text.push_str(&format!("    {DIM}{name}: {}{DIM:#}\n", render_usage(usage)));
            }
        }
        for (what, told) in state.run_start().map(describe_replacements).unwrap_or_default() {
            text.push_str(&format!("  {CAUTION}{what}{CAUTION:#}: {told}\n"));
        }
        text
    }
}
