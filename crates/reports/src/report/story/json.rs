//! A run as one JSON document, for programs.

use serde_json::{Value, json};

use super::next::next;
use ensemble_core::thread::ToolCall;
use ensemble_history::Driver;
use ensemble_history::story::{Attempt, AttemptEnd, Execution, Story, StoryEvent, Turn};

/// Version of the document.
///
/// - 1: the first version.
const VERSION: u32 = 1;

/// Creates the document.
pub fn document(story: &Story, driver: Driver) -> Value {
    let started = story.started();
    let ended = story.ended();
    let history = &story.history;
    let totals = history.totals();
    let questions: Vec<Value> = story
        .questions()
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
        "latest_at": history.latest_at(),
        "active_seconds": story.active,
        "state": history.state(driver),
        "driver_pid": driver.process(),
        "completion_reason": ended.map(|ended| ended.completion_reason),
        "detail": ended.and_then(|ended| ended.detail.as_ref()),
        "not_run": ended.map(|ended| &ended.not_run),
        "questions": questions,
        "turn_count": totals.turns,
        "executions": totals.all.executions,
        "failed": totals.all.failed,
        "usage": totals.all.usage,
        "simulated": started.map(|started| &started.simulated),
        "stubs": started.map(|started| &started.stubs),
        "responders": started.map(|started| &started.responders),
        "warnings": story.warnings,
        "story": story.events.iter().map(event).collect::<Vec<_>>(),
        "next": next(story, driver),
    })
}

fn event(event: &StoryEvent) -> Value {
    match event {
        StoryEvent::Turn(turn) => of_turn(turn),
        StoryEvent::Message { text, at } => json!({"what": "message", "at": at, "text": text}),
        StoryEvent::Given { context, at } => json!({"what": "given", "at": at, "context": context}),
        StoryEvent::Interrupted { cause, at } => json!({"what": "interrupted", "at": at, "cause": of_cause(cause)}),
        StoryEvent::Resumed { at } => json!({"what": "resumed", "at": at}),
        StoryEvent::Ended { ended, at } => json!({
            "what": "ended",
            "at": at,
            "completion_reason": ended.completion_reason,
            "detail": ended.detail,
        }),
    }
}

fn of_cause(cause: &ensemble_core::conversation::Interruption) -> Value {
    serde_json::to_value(cause)
        .ok()
        .and_then(|mut value| value.get_mut("cause").map(Value::take))
        .unwrap_or_default()
}

fn of_turn(turn: &Turn) -> Value {
    let waiting: Vec<Value> = turn
        .waiting
        .iter()
        .map(|waiting| json!({"agent": waiting.agent, "reason": waiting.reason.to_string(), "why": waiting.reason}))
        .collect();
    json!({
        "what": "turn",
        "turn": turn.turn,
        "started_at": turn.started_at,
        "finished_at": turn.finished_at,
        "seconds": turn.seconds(),
        "executions": turn.executions.iter().map(execution).collect::<Vec<_>>(),
        "did_not_run": waiting,
        "requests": turn.requests,
        "warnings": turn.warnings,
    })
}

/// An execution as JSON.
pub fn execution(execution: &Execution) -> Value {
    let finished = execution.finished.as_ref();
    json!({
        "agent": execution.agent,
        "execution": execution.execution,
        "reads": execution.reads,
        "request": execution.request,
        "handles": execution.handles,
        "attempts": execution.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "tool_calls": execution.tool_calls.iter().map(ToolCall::described).collect::<Vec<_>>(),
        "permissions": execution.permissions,
        "dropped": execution.dropped,
        "asked": execution.asked,
        "output": execution.output(),
        "failure": execution.failure(),
        "question": execution.question,
        "seconds": execution.totals.seconds,
        "usage": execution.usage(),
        "stop_reason": execution.stop_reason,
        "parts": execution.parts,
        "stderr": finished.map(|finished| &finished.stderr),
        "warnings": finished.map(|finished| &finished.warnings),
        "sandboxes": finished.map(|finished| &finished.sandboxes),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    let mut document = json!({
        "attempt": attempt.attempt,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "end": word(&attempt.end),
    });
    if let (AttemptEnd::Failed { failure, pause, stderr }, Value::Object(document)) = (&attempt.end, &mut document) {
        document.insert("failure".into(), json!(failure));
        document.insert("pause".into(), json!(pause));
        document.insert("stderr".into(), json!(stderr));
    }
    document
}

/// The result of an attempt, as one word.
pub(super) fn word(end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::UnderWay => "under_way",
        AttemptEnd::Final => "final",
        AttemptEnd::Failed { .. } => "failed",
        AttemptEnd::Asked => "asked",
        AttemptEnd::Stopped => "stopped",
        AttemptEnd::Lost => "lost",
    }
}
