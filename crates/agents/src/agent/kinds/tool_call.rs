//! Agents that call one tool of an MCP server without a model. The result of the call is the output.
//!
//! **Invariant:** a call is recorded before it is made, and a recorded call is made at most once, unless the tool is
//! repeatable or the server marks the tool as read-only. An interrupted execution continues with the recorded call.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::time::Instant;

use crate::agent::build_error::RunnerBuildError;
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names};
use crate::agent::kinds::value_templates::ValueTemplates;
use crate::agent::mcp::{ElicitationContext, McpServerHandle, ServerTool};
use crate::agent::output::schema::OutputSchema;
use crate::agent::tools::ToolCallSettings;
use crate::agent::tools::gate::CallGates;
use crate::agent::tools::permission::{PermissionResult, ToolPermissions, call_origin};
use crate::agent::tools::result::{ToolCallResult, timeout_message};
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{
    ExecutionAttemptRef, INTERRUPTED_CALL_ERROR, LiveOutputReceiver, LiveUpdate, ThreadIteration, ToolCall, ToolCallEnd,
};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap, ModelUsage};
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::ensemble::{Agent, ToolDefinition, ToolReference};
use ensemble_process::output;

/// Limit on the parallel tool calls of an execution: none, because `for_each` has its own limit.
const MAX_PARALLEL_CALLS: NonZeroU32 = NonZeroU32::MAX;

/// Maximum number of tools of a server that an error names.
const MAX_NAMED_TOOLS: usize = 30;

/// Runner of an agent with `tool`: it calls one tool of an MCP server, without a model.
pub struct ToolAgentRunner {
    settings: ToolCallSettings,
    /// Name of the tool on its server.
    member: Arc<str>,
    /// `SERVER.TOOL`.
    name: String,
    server: Arc<McpServerHandle>,
    arguments: ValueTemplates,
    listens_to: Arc<[Arc<str>]>,
    permissions: Arc<ToolPermissions>,
    live_output: Arc<dyn LiveOutputReceiver>,
    gates: CallGates,
}

/// Services of the run that the runner of a tool agent needs.
pub struct ToolAgentOptions {
    /// MCP server of the tool.
    pub server: Arc<McpServerHandle>,
    /// Permissions that decide about the call.
    pub permissions: Arc<ToolPermissions>,
    /// Receiver of the start and the end of the call.
    pub live_output: Arc<dyn LiveOutputReceiver>,
}

/// Reason why a tool call has no output: a failure, or an open permission request.
enum NoOutputReason {
    Failed(ExecutionFailure),
    Waits(Box<PendingRequest>),
}

impl From<ExecutionFailure> for NoOutputReason {
    fn from(failure: ExecutionFailure) -> Self {
        Self::Failed(failure)
    }
}

impl ToolAgentRunner {
    /// Compiles the templates of the arguments.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn new(
        agent: &Agent,
        used: &ToolReference,
        tool: &ToolDefinition,
        arguments: &JsonMap,
        options: ToolAgentOptions,
    ) -> Result<Self, RunnerBuildError> {
        let member = used.member.clone().unwrap_or_default();
        Ok(Self {
            settings: ToolCallSettings::from_tool(&used.tool, tool),
            name: format!("{}.{member}", used.tool),
            member,
            server: options.server,
            arguments: ValueTemplates::compile_values("arguments", arguments)?,
            listens_to: list_dependency_names(agent),
            permissions: options.permissions,
            live_output: options.live_output,
            gates: CallGates::default(),
        })
    }

    /// Calls the tool, or uses its recorded result, and returns the output. An interrupted call is repeated only if that is safe.
    async fn call_or_reuse_output(&self, execution: &ExecutionInput) -> Result<JsonMap, NoOutputReason> {
        let before = execution.records.earlier_exchange();
        let recorded = before.and_then(|before| before.iterations.last()?.tool_calls.last());
        let call = match recorded {
            // The run ended between the end of the call and that of the execution.
            Some(call) if let Some(end) = &call.end => {
                let decided = before.and_then(|before| before.decisions.get(call.id.as_str()));
                let is_refused = decided.is_some_and(|decided| decided.decision == PermissionDecision::Denied);
                return Ok(self.output_from_call_end(end.clone(), is_refused, execution)?);
            }
            Some(call) => call.clone(),
            None => self.render_new_call(execution).await?,
        };
        let tool = self.find_tool_on_server(execution).await?;
        let arguments = self.check_call_arguments(&tool, &call).await?;
        if recorded.is_none() {
            let iteration = ThreadIteration {
                number: 1,
                tool_calls: vec![call.clone()],
                ..ThreadIteration::default()
            };
            execution
                .records
                .record_reply_and_wait(iteration, ModelUsage::default())
                .await;
        }
        let started_at = Instant::now();
        let was_started = before.is_some_and(|before| before.started_calls.contains(call.id.as_str()));
        let (ended, is_refused) = if was_started && !self.settings.repeatable.unwrap_or(tool.only_reads) {
            (ToolCallEnd::Error(INTERRUPTED_CALL_ERROR.to_owned()).into(), false)
        } else {
            let _admission = self
                .gates
                .for_execution(execution, MAX_PARALLEL_CALLS)
                .wait_to_enter(self.settings.exclusive)
                .await;
            self.send_live_update(execution, LiveUpdate::ToolStarted(&call));
            let performed = self.perform_permitted_call(&tool, &call, arguments, execution).await;
            performed.map_err(NoOutputReason::Waits)?
        };
        let ToolCallResult {
            end,
            attachments,
            answers,
            ..
        } = ended;
        let finished_call = ToolCall {
            attachments,
            answers,
            ..call.with_end(end, started_at.elapsed().as_secs_f64())
        };
        execution
            .records
            .record_call_end_and_wait(&finished_call, ModelUsage::default())
            .await;
        self.send_live_update(execution, LiveUpdate::ToolEnded(&finished_call));
        let end = finished_call
            .end
            .unwrap_or_else(|| ToolCallEnd::Error(INTERRUPTED_CALL_ERROR.to_owned()));
        Ok(self.output_from_call_end(end, is_refused, execution)?)
    }

    /// Renders the arguments and creates a call with a new id.
    async fn render_new_call(&self, execution: &ExecutionInput) -> Result<ToolCall, ExecutionFailure> {
        let scope = build_template_scope(execution, &self.listens_to);
        let arguments = self
            .arguments
            .render_values(&scope, execution)
            .await
            .map_err(unavailable_failure)?;
        let arguments: JsonMap = arguments
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect();
        Ok(ToolCall::new(
            unique_call_id(execution),
            &*self.name,
            Value::Object(arguments),
        ))
    }

    /// Finds the description of the tool at its MCP server. Starts the server if necessary.
    async fn find_tool_on_server(&self, execution: &ExecutionInput) -> Result<Arc<ServerTool>, ExecutionFailure> {
        let offered = self.server.list_tools(self.settings.timeout, execution).await;
        let offered =
            offered.map_err(|error| unavailable_failure(format!("tool `{}`: {error}", self.settings.name)))?;
        if let Some(tool) = offered.iter().find(|tool| tool.name == self.member) {
            return Ok(Arc::clone(tool));
        }
        let names = || offered.iter().map(|tool| &*tool.name);
        let guess = find_similar_word(&self.member, names()).map(|guess| format!("; did you mean `{guess}`?"));
        let mut tool_names: Vec<&str> = names().take(MAX_NAMED_TOOLS).collect();
        if offered.len() > MAX_NAMED_TOOLS {
            tool_names.push("…");
        }
        Err(unavailable_failure(format!(
            "the server of `{}` has no tool `{}`{} it has: {}",
            self.settings.name,
            self.member,
            guess.as_deref().unwrap_or(";"),
            tool_names.join(", ")
        )))
    }

    /// Checks the arguments against the schema of the tool, and returns them.
    async fn check_call_arguments<'c>(
        &self,
        tool: &ServerTool,
        call: &'c ToolCall,
    ) -> Result<&'c JsonMap, ExecutionFailure> {
        let Value::Object(arguments) = &call.arguments else {
            return Err(unavailable_failure(format!(
                "the arguments of `{}` are not a map",
                self.name
            )));
        };
        let schema = OutputSchema::compile(&tool.parameters).map_err(|error| {
            unavailable_failure(format!(
                "the schema of `{}` from its server cannot be used: {error}",
                self.name
            ))
        })?;
        let errors = schema.list_errors_async(Cow::Borrowed(arguments)).await;
        match errors.is_empty() {
            true => Ok(arguments),
            // Another attempt would have the same arguments.
            false => Err(ExecutionFailure::new(
                FailureKind::Refusal,
                format!("the arguments of `{}` are wrong: {}", self.name, errors.join("; ")),
            )),
        }
    }

    /// Performs the call if it is permitted. Returns the result and whether the call was refused.
    ///
    /// # Errors
    ///
    /// Returns the permission request if an answer is pending.
    async fn perform_permitted_call(
        &self,
        tool: &ServerTool,
        call: &ToolCall,
        arguments: &JsonMap,
        execution: &ExecutionInput,
    ) -> Result<(ToolCallResult, bool), Box<PendingRequest>> {
        let permission = self.settings.permission;
        let permitted = self
            .permissions
            .decide_permission(permission, &self.name, call, arguments, execution)
            .await;
        match permitted {
            PermissionResult::Granted => {}
            PermissionResult::Waits(request) => return Err(request),
            PermissionResult::Refused(refused) => return Ok((ToolCallEnd::Error(refused).into(), true)),
        }
        execution.records.record_call_start_and_wait(&call.id).await;
        let asking = ElicitationContext {
            permissions: &self.permissions,
            execution,
            origin: call_origin(&self.name, call, execution),
            question_count: AtomicUsize::new(0),
            answers: Mutex::default(),
            tool: &self.name,
        };
        let limit = self.settings.timeout;
        let result = self.server.call_tool(tool, arguments.clone(), limit, &asking).await;
        let result = match self.oversized_result_error(&result.end) {
            Some(error) => ToolCallEnd::Error(error).into(),
            None => result,
        };
        let answers = asking.take_answer_records();
        Ok((ToolCallResult { answers, ..result }, false))
    }

    /// Returns the error message for a result that is too large, because the agent cannot use a shortened result.
    fn oversized_result_error(&self, end: &ToolCallEnd) -> Option<String> {
        let bytes = match end {
            ToolCallEnd::Result(Value::String(text)) | ToolCallEnd::Error(text) => text.len(),
            ToolCallEnd::Result(value) => value.to_string().len(),
        };
        let max_bytes = self.settings.max_result_bytes;
        (bytes > max_bytes.get()).then(|| {
            format!(
                "{TOO_LARGE_ERROR_START}{bytes} bytes; `max_result_bytes` of `{}` is {max_bytes}",
                self.settings.name
            )
        })
    }

    /// Converts the end of a call to the output of the agent, or to a failure.
    fn output_from_call_end(
        &self,
        end: ToolCallEnd,
        is_refused: bool,
        execution: &ExecutionInput,
    ) -> Result<JsonMap, ExecutionFailure> {
        let text = match end {
            ToolCallEnd::Result(Value::String(text)) => return output::output_from_text(&text, &execution.ledger),
            ToolCallEnd::Result(value) => return output::output_from_value(value),
            ToolCallEnd::Error(text) => text,
        };
        let kind = match text.as_str() {
            INTERRUPTED_CALL_ERROR => {
                let error = format!(
                    "the interrupted call of `{}` was not repeated: the call might have taken effect (set `repeatable: true` \
                     at `{}` to repeat such calls)",
                    self.name, self.settings.name
                );
                return Err(ExecutionFailure::new(FailureKind::Refusal, error));
            }
            _ if is_refused => FailureKind::Refusal,
            text if text == timeout_message(self.settings.timeout) => FailureKind::Timeout,
            text if text.starts_with(TOO_LARGE_ERROR_START) => FailureKind::OutputTooLarge,
            _ => FailureKind::Reported,
        };
        Err(ExecutionFailure::new(kind, text))
    }

    /// Sends an update of the call to the live output of the run.
    fn send_live_update(&self, execution: &ExecutionInput, update: LiveUpdate<'_>) {
        let source = ExecutionAttemptRef {
            run: execution.run_id.clone(),
            agent: execution.agent_name.clone(),
            execution: execution.execution,
            attempt: execution.attempt,
        };
        self.live_output.receive_update(&source, update);
    }
}

/// The beginning of the error about a result that is too large.
const TOO_LARGE_ERROR_START: &str = "the tool ran, but its result has ";

/// Returns a call id that is unique in the run.
fn unique_call_id(execution: &ExecutionInput) -> String {
    let ExecutionInput {
        agent_name,
        execution: number,
        attempt,
        part,
        ..
    } = execution;
    match part {
        Some(part) => format!("{agent_name}-{number}-{attempt}-{}", part.index + 1),
        None => format!("{agent_name}-{number}-{attempt}"),
    }
}

/// Creates a failure of kind `unavailable`.
fn unavailable_failure(error: String) -> ExecutionFailure {
    ExecutionFailure::new(FailureKind::Unavailable, error)
}

impl Runner for ToolAgentRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(async move {
            let result = match self.call_or_reuse_output(&execution).await {
                Ok(output) => Ok(output),
                Err(NoOutputReason::Failed(failure)) => Err(failure),
                Err(NoOutputReason::Waits(request)) => return AttemptEnd::NeedsInput(vec![*request]),
            };
            AttemptEnd::Finished(AttemptResult {
                parts: Vec::new(),
                nested_answers: Vec::new(),
                answer: None,
                result,
                usage: None,
                exchange: Vec::new(),
            })
        })
    }
}
