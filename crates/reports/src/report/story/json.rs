//! A recorded run as one JSON document.

use ensemble_core::conversation::RunEnded;
use serde_json::{Value, json};

use super::next_commands::suggest_next_commands;
use ensemble_core::thread::ToolCall;
use ensemble_history::DriverProcess;
use ensemble_history::story::{RunStory, StoryAttempt, StoryAttemptEnd, StoryEvent, StoryExecution, StoryTurn};

/// The version of the JSON document. Version 1 is the first one.
const VERSION: u32 = 1;

/// Converts the run to a JSON document.
pub fn story_to_json(story: &RunStory, driver: DriverProcess) -> Value {
    let started = story.start_event();
    let end_event = story.end_event();
    let history = &story.history;
    let totals = history.run_totals();
    let questions: Vec<Value> = story
        .pending_requests()
        .into_iter()
        .map(|open| json!({"address": open.address, "digest": open.digest, "agent": open.agent, "permission": open.question.permission, "prompt": open.question.prompt, "choices": open.question.choices}))
        .collect();
    json!({
        "version": VERSION,
        "run_id": started.map(|started| &started.run_id),
        "ensemble": started.map(|started| &started.ensemble),
        "ensemble_file": started.map(|started| &started.ensemble_file),
        "forked_from": started.and_then(|started| started.forked_from.as_ref()),
        "input": started.map(|started| &started.input),
        "initial_context": started.map(|started| &started.context),
        "started_at": history.started_at(),
        "latest_at": history.latest_record_at(),
        "active_seconds": story.active,
        "state": history.run_state(driver),
        "driver_pid": driver.process_id(),
        "completion_reason": end_event.map(|ended| ended.completion_reason),
        "success": end_event.map(RunEnded::is_success),
        "detail": end_event.and_then(|ended| ended.detail.as_ref()),
        "not_run": end_event.map(|ended| &ended.not_run),
        "exhausted": end_event.map(|ended| &ended.exhausted),
        "questions": questions,
        "turn_count": totals.turns,
        "executions": totals.all.executions,
        "failed": totals.all.failed,
        "failed_work": totals.list_failed_work(),
        "usage": totals.all.usage,
        "budget": story.budget_status(),
        "simulated": started.map(|started| &started.simulated),
        "stubs": started.map(|started| &started.stubs),
        "responders": started.map(|started| &started.responders),
        "warnings": story.warnings,
        "story": story.events.iter().map(event_to_json).collect::<Vec<_>>(),
        "next": suggest_next_commands(story, driver),
    })
}

/// Converts an event of the run to JSON.
fn event_to_json(event: &StoryEvent) -> Value {
    match event {
        StoryEvent::Turn(turn) => turn_to_json(turn),
        StoryEvent::Message { text, at } => json!({"what": "message", "at": at, "text": text}),
        StoryEvent::ContextGiven { context, at } => json!({"what": "given", "at": at, "context": context}),
        StoryEvent::Interrupted { cause, at } => {
            json!({"what": "interrupted", "at": at, "cause": interruption_to_json(cause)})
        }
        StoryEvent::Resumed { at } => json!({"what": "resumed", "at": at}),
        StoryEvent::Ended { ended, at } => json!({
            "what": "ended",
            "at": at,
            "completion_reason": ended.completion_reason,
            "success": ended.is_success(),
            "detail": ended.detail,
        }),
    }
}

/// Converts the cause of an interruption to JSON.
fn interruption_to_json(cause: &ensemble_core::conversation::RunInterruption) -> Value {
    serde_json::to_value(cause)
        .ok()
        .and_then(|mut value| value.get_mut("cause").map(Value::take))
        .unwrap_or_default()
}

/// Converts a turn to JSON.
fn turn_to_json(turn: &StoryTurn) -> Value {
    let waiting: Vec<Value> = turn
        .skipped_agents
        .iter()
        .map(|waiting| json!({"agent": waiting.agent, "reason": waiting.reason.to_string(), "why": waiting.reason}))
        .collect();
    json!({
        "what": "turn",
        "turn": turn.turn,
        "started_at": turn.started_at,
        "finished_at": turn.finished_at,
        "seconds": turn.duration_seconds(),
        "executions": turn.executions.iter().map(execution_to_json).collect::<Vec<_>>(),
        "did_not_run": waiting,
        "requests": turn.requests,
        "warnings": turn.warnings,
    })
}

/// Converts an execution to JSON.
pub fn execution_to_json(execution: &StoryExecution) -> Value {
    let finished = execution.finish_event.as_ref();
    json!({
        "agent": execution.agent,
        "execution": execution.execution,
        "reads": execution.reads,
        "request": execution.request,
        "handles": execution.handles,
        "attempts": execution.attempts.iter().map(attempt_to_json).collect::<Vec<_>>(),
        "tool_calls": execution.tool_calls.iter().map(ToolCall::to_json_without_bytes).collect::<Vec<_>>(),
        "permissions": execution.permissions,
        "answer": answer_to_json(execution),
        "answers": execution.answers,
        "dropped": execution.dropped_messages,
        "asked": execution.first_request,
        "output": execution.output(),
        "failure": execution.failure(),
        "question": execution.question,
        "questions": execution.open_requests,
        "seconds": execution.totals.seconds,
        "usage": execution.total_usage(),
        "stop_reason": execution.stop_reason,
        "parts": execution.parts,
        "stderr": finished.map(|finished| &finished.stderr),
        "warnings": finished.map(|finished| &finished.warnings),
        "sandboxes": finished.map(|finished| &finished.sandboxes),
    })
}

/// Converts the answered question of an input agent to JSON: question, choices, answer, author and time.
fn answer_to_json(execution: &StoryExecution) -> Value {
    let answer = execution
        .finish_event
        .as_ref()
        .and_then(|finished| finished.answer.as_ref());
    let mut document = json!(answer);
    if let (Value::Object(document), Some(at)) = (&mut document, execution.ended_at()) {
        document.insert("at".into(), json!(at));
    }
    document
}

/// Converts an attempt to JSON.
fn attempt_to_json(attempt: &StoryAttempt) -> Value {
    let mut document = json!({
        "attempt": attempt.attempt,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "end": attempt_end_word(&attempt.end),
    });
    if let (StoryAttemptEnd::Failed { failure, pause, stderr }, Value::Object(document)) = (&attempt.end, &mut document)
    {
        document.insert("failure".into(), json!(failure));
        document.insert("pause".into(), json!(pause));
        document.insert("stderr".into(), json!(stderr));
    }
    document
}

/// Returns the result of an attempt as one word.
pub(super) fn attempt_end_word(end: &StoryAttemptEnd) -> &'static str {
    match end {
        StoryAttemptEnd::InProgress => "under_way",
        StoryAttemptEnd::Final => "final",
        StoryAttemptEnd::Failed { .. } => "failed",
        StoryAttemptEnd::AskedQuestion => "asked",
        StoryAttemptEnd::Stopped => "stopped",
        StoryAttemptEnd::ProcessLost => "lost",
    }
}
