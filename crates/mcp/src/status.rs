//! The status document of a run, which is the same for every tool.
//!
//! Invariant: the document matches the schema in the tool definitions.

use ensemble_core::conversation::{CompletionReason, Event};
use ensemble_core::operator::OperatorRequest;
use ensemble_core::request::PendingRequest;
use ensemble_core::store::RunId;
use ensemble_history::{RunState, RunSummary};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{RecordedRun, RunError};
use serde_json::{Map, Value, json};

/// Builds the JSON Schema of a status document, with the schema of the result.
pub(crate) fn status_document_schema(result: Value) -> Map<String, Value> {
    let mut statuses: Vec<&str> = RunState::list_state_names().collect();
    statuses.sort_unstable();
    let schema = json!({
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "The id of the run."},
            "ensemble": {"type": "string"},
            "status": {
                "type": "string",
                "description": "`completed`, `unsuccessful` and the statuses of limits have a result. `running`: call await_run. \
                                `waiting`: call answer_run. `interrupted`: call await_run, which resumes the run.",
            },
            "process": {"type": "integer", "description": "The process that executes the run, if it is not this server."},
            "success": {"type": "boolean", "description": "Whether the run reached its goal (exit code 0), if it has ended."},
            "result": result,
            "detail": {"type": "string", "description": "The limit, agent, condition or goal that decided the outcome."},
            "error": {"type": "string", "description": "The error of the failed agent."},
            "turns": {"type": "integer", "description": "The number of turns."},
            "executions": {"type": "integer", "description": "The number of finished executions."},
            "failed": {"type": "integer", "description": "The number of failed executions."},
            "failed_work": {
                "type": "array",
                "description": "By agent: how many parts of `for_each` and how many tool calls of models failed.",
                "items": {"type": "object"},
            },
            "started_at": {"type": "string"},
            "requests": {
                "type": "array",
                "description": "The questions of agents, and the calls of tools that need `permission`, in the order of the file.",
                "items": {"type": "object"},
            },
            "refused": {"type": "string", "description": "Why an answer was not used."},
            "next": {"type": "string", "description": "The next tool to call."},
        },
        "required": ["run", "ensemble", "status"],
    });
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema["properties"]["status"]["enum"] = json!(statuses);
    schema
}

/// The state of a run as JSON. `is_error` is true if the run has ended with a failure.
pub(crate) struct StatusDocument {
    pub(crate) document: Value,
    pub(crate) is_error: bool,
}

/// Loads the status document of the run.
///
/// # Errors
///
/// The run does not exist or cannot be read.
pub(crate) async fn load_run_status(service: &RunService, id: &RunId) -> Result<StatusDocument, RunError> {
    // Before the log is read: what is asked now is open in any case.
    let open = service.live_open_requests(id);
    let is_driven = service.is_driven_here(id);
    let summary = service.load_summary(id).await?;
    let mut document = run_summary_json(&summary);
    let requests: Vec<Value> = match is_driven {
        true => open.iter().map(open_request_json).collect(),
        false => summary.questions.iter().map(pending_request_json).collect(),
    };
    // Asked or answered while the log was read.
    if service.is_driven_here(id) {
        let state = if requests.is_empty() {
            RunState::Running
        } else {
            RunState::Waiting
        };
        document["status"] = json!(state);
    }
    if !requests.is_empty() {
        document["requests"] = json!(requests);
    }
    let mut is_error = false;
    if let RunState::Ended(outcome) = summary.state {
        let has_result =
            matches!(outcome, CompletionReason::Completed | CompletionReason::Unsuccessful) || outcome.is_limit();
        is_error = summary.success != Some(true);
        let recorded = service.load_recorded_run(id).await?;
        if has_result {
            document["result"] = run_result_json(&recorded);
        }
        if let Some(error) = find_last_execution_error(&recorded).filter(|_| is_error) {
            document["error"] = json!(error);
        }
    }
    if let Some(next) = suggest_next_call(id, document["status"].as_str().unwrap_or_default()) {
        document["next"] = json!(next);
    }
    Ok(StatusDocument { document, is_error })
}

/// Converts the summary of a run to JSON.
pub(crate) fn run_summary_json(summary: &RunSummary) -> Value {
    let mut document = json!({
        "run": summary.id,
        "ensemble": summary.ensemble,
        "status": summary.state,
        "started_at": summary.started_at,
        "turns": summary.turns,
        "executions": summary.executions,
    });
    if summary.failed > 0 {
        document["failed"] = json!(summary.failed);
    }
    if !summary.failed_work.is_empty() {
        document["failed_work"] = json!(summary.failed_work);
    }
    if let Some(process) = summary.process.filter(|process| *process != std::process::id()) {
        document["process"] = json!(process);
    }
    if let Some(success) = summary.success.filter(|_| summary.state.is_ended()) {
        document["success"] = json!(success);
    }
    if let Some(detail) = &summary.detail {
        document["detail"] = json!(detail);
    }
    document
}

/// Returns the declared result of a run, or its final context.
fn run_result_json(recorded: &RecordedRun) -> Value {
    match recorded.state.evaluate_declared_result() {
        Some(result) => Value::clone(&result.value),
        None => json!(**recorded.state.context()),
    }
}

/// Finds the error of the last failed execution.
fn find_last_execution_error(recorded: &RecordedRun) -> Option<String> {
    let mut records = recorded.journal.records.iter().rev();
    records.find_map(|record| match &record.event {
        Event::ExecutionFinished(finished) => {
            let failure = finished.failure()?;
            Some(format!("{}: {}", finished.agent, failure.error))
        }
        _ => None,
    })
}

/// Converts an open request of a run in this process to JSON.
fn open_request_json(open: &OperatorRequest) -> Value {
    let mut document = pending_request_json(open.pending_request());
    match open {
        OperatorRequest::Question(asked) => {
            if let Some(default) = &asked.default {
                document["default"] = json!(default);
            }
            if let Some(refused) = &asked.refused {
                document["refused"] = json!(refused);
            }
        }
        OperatorRequest::Permission(requested) => document["call"] = json!(requested.call),
    }
    document
}

/// Converts a pending request to JSON.
fn pending_request_json(request: &PendingRequest) -> Value {
    json!(request)
}

/// Suggests the next call for a run with this status. Returns `None` for ended runs.
fn suggest_next_call(id: &RunId, status: &str) -> Option<String> {
    let run = json!({"run": id});
    match status {
        "running" => Some(format!("call await_run with {run}")),
        "interrupted" => Some(format!("call await_run with {run}, which resumes the run")),
        "waiting" => Some(format!(
            "ask the user, then call answer_run with {}",
            json!({"run": id, "address": "…", "digest": "…", "answer": "…"})
        )),
        "cancelled" | "timeout" => Some(format!("call resume_run with {run} to resume the run")),
        _ => None,
    }
}
