//! The tools of an agent during one execution.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::agent;
use super::ensemble;
use super::gate::CallGate;
use super::names::UsedToolNames;
use super::permission::{PermissionResult, call_origin};
use super::result::{
    ToolCallResult, check_result_schema, shorten_large_result, timeout_message, tool_end_from_outcome,
};
use super::summarizer::{ResultSummarizer, ResultSummaryRequest, ResultToSummarize, shown_result_text};
use super::{AgentToolset, DeclaredToolRunner, ToolCallSettings, ToolEntry, script};
use crate::agent::chat::{CallAdmission, ModelTools};
use crate::agent::mcp::{ElicitationContext, McpServerHandle, ServerTool};
use crate::agent::output::schema::OutputSchema;
use crate::agent::{AttemptEnd, BoxFuture, ExecutionInput, Runner};
use ensemble_core::request::{PendingRequest, RequestOrigin};
use ensemble_core::thread::{ResultSummary, ToolCall, ToolCallEnd};
use ensemble_language::data::{JsonMap, ModelUsage};
use ensemble_language::names::server_tool_name;
use ensemble_models::{RequestPurpose, ToolSpec};

/// Tools of one execution, with their names for the model.
pub(crate) struct ExecutionTools<'a> {
    toolset: &'a AgentToolset,
    execution: &'a ExecutionInput,
    state: Mutex<ToolSessionState<'a>>,
    gate: CallGate,
}

/// Targets of the tool names, the known server tools, and the usage and requests of calls.
#[derive(Default)]
struct ToolSessionState<'a> {
    targets: HashMap<String, ToolTarget<'a>>,
    /// The last tool list of each server, by the index of its entry. It is used if the connection to the server is
    /// lost, so that the execution can continue.
    server_tools: HashMap<usize, Arc<[Arc<ServerTool>]>>,
    /// The usage since the last call of `take_usage`.
    unreported_usage: ModelUsage,
    /// The number of summaries that are being written.
    open_summaries: u64,
    /// The requests for which calls wait, by the positions of the calls.
    waits_for: BTreeMap<u32, Vec<PendingRequest>>,
}

/// Tool that a name refers to.
#[derive(Clone)]
enum ToolTarget<'a> {
    Declared(&'a ToolCallSettings, &'a DeclaredToolRunner, Option<&'a Value>),
    Member(&'a ToolCallSettings, &'a Arc<McpServerHandle>, Arc<ServerTool>),
}

impl<'a> ToolTarget<'a> {
    /// Returns the settings of the tool.
    fn tool_settings(&self) -> &'a ToolCallSettings {
        match self {
            Self::Declared(settings, ..) | Self::Member(settings, ..) => settings,
        }
    }
}

impl<'a> ExecutionTools<'a> {
    pub(crate) fn new(toolset: &'a AgentToolset, execution: &'a ExecutionInput) -> Self {
        Self {
            toolset,
            execution,
            state: Mutex::default(),
            gate: toolset.gates.for_execution(execution, toolset.max_parallel),
        }
    }

    /// Builds the specifications of all tools with unique names. Lists the tools of MCP servers.
    async fn build_specs(&self) -> Result<Arc<[ToolSpec]>, String> {
        let mut names = UsedToolNames::default();
        let mut targets = HashMap::new();
        let mut specs: Vec<ToolSpec> = Vec::new();
        for (at, entry) in self.toolset.tools.iter().enumerate() {
            match entry {
                ToolEntry::Declared {
                    settings,
                    description,
                    parameters,
                    output_schema,
                    tool_runner,
                } => {
                    let name = names.reserve_name(&settings.name);
                    targets.insert(
                        name.clone(),
                        ToolTarget::Declared(settings, tool_runner, output_schema.as_deref()),
                    );
                    specs.push(ToolSpec {
                        name,
                        description: description.clone(),
                        parameters: parameters.clone(),
                    });
                }
                ToolEntry::Server {
                    settings,
                    member,
                    server,
                } => {
                    let offered = self.list_current_or_known_tools(at, settings, server).await?;
                    let mut matching_tools = offered
                        .iter()
                        .filter(|tool| member.as_ref().is_none_or(|one| tool.name == *one));
                    let first = matching_tools.next();
                    if let (None, Some(member)) = (first, member) {
                        let tool_names: Vec<&str> = offered.iter().map(|tool| &*tool.name).collect();
                        return Err(format!(
                            "the server of `{}` has no tool `{member}`; it has: {}",
                            settings.name,
                            tool_names.join(", ")
                        ));
                    }
                    for tool in first.into_iter().chain(matching_tools) {
                        let name = names.reserve_name(&server_tool_name(&settings.name, &tool.name));
                        targets.insert(name.clone(), ToolTarget::Member(settings, server, Arc::clone(tool)));
                        specs.push(ToolSpec {
                            name,
                            description: tool.description.clone(),
                            parameters: tool.parameters.clone(),
                        });
                    }
                }
            }
        }
        self.lock_state().targets = targets;
        Ok(specs.into())
    }

    /// Lists the current tools of the server. If the connection is lost, returns the last known list.
    async fn list_current_or_known_tools(
        &self,
        at: usize,
        settings: &ToolCallSettings,
        server: &McpServerHandle,
    ) -> Result<Arc<[Arc<ServerTool>]>, String> {
        let offered = server.list_tools(settings.timeout, self.execution).await;
        let mut state = self.lock_state();
        match (offered, state.server_tools.get(&at)) {
            (Ok(offered), _) => {
                state.server_tools.insert(at, Arc::clone(&offered));
                Ok(offered)
            }
            (Err(_), Some(before)) => Ok(Arc::clone(before)),
            (Err(error), None) => Err(format!("tool `{}`: {error}", settings.name)),
        }
    }

    /// Checks the permission, performs the call and limits its result.
    ///
    /// # Errors
    ///
    /// Returns the requests to the operator if the call must wait for answers.
    async fn perform_permitted_call(&self, call: &ToolCall) -> Result<ToolCallResult, Vec<PendingRequest>> {
        let target = self.lock_state().targets.get(&call.name).cloned();
        let (Some(target), Value::Object(arguments)) = (target, &call.arguments) else {
            return Ok(ToolCallEnd::Error(format!("there is no tool `{}`", call.name)).into());
        };
        let settings = target.tool_settings();
        let display_name = match &target {
            ToolTarget::Declared(..) => settings.name.to_string(),
            ToolTarget::Member(_, _, member) => format!("{}.{}", settings.name, member.name),
        };
        let permitted = self
            .toolset
            .permissions
            .decide_permission(settings.permission, &display_name, call, arguments, self.execution)
            .await;
        match permitted {
            PermissionResult::Granted => {}
            PermissionResult::Refused(refused) => return Ok(ToolCallEnd::Error(refused).into()),
            PermissionResult::Waits(request) => return Err(vec![*request]),
        }
        self.execution.records.record_call_start_and_wait(&call.id).await;
        let agent_timeout = match &target {
            ToolTarget::Declared(_, DeclaredToolRunner::Agent { timeout, .. }, _) => *timeout,
            _ => None,
        };
        let limit = agent_timeout.map_or(settings.timeout, |own| own.min(settings.timeout));
        let result: ToolCallResult = match target {
            ToolTarget::Declared(_, tool_runner, output_schema) => {
                match output_schema.map(OutputSchema::compile).transpose() {
                    Ok(schema) => {
                        let result = self
                            .run_declared_tool(tool_runner, &display_name, call, arguments, limit)
                            .await?;
                        ToolCallResult {
                            end: check_result_schema(result.end, "`output_schema`", schema.as_ref()),
                            ..result
                        }
                    }
                    Err(error) => {
                        ToolCallEnd::Error(format!("the tool's `output_schema` cannot be used: {error}")).into()
                    }
                }
            }
            ToolTarget::Member(_, server, member) => {
                let asking = ElicitationContext {
                    permissions: &self.toolset.permissions,
                    execution: self.execution,
                    origin: self.call_origin(&display_name, call),
                    question_count: AtomicUsize::new(0),
                    answers: Mutex::default(),
                    tool: &display_name,
                };
                let result = server.call_tool(&member, arguments.clone(), limit, &asking).await;
                let answers = asking.take_answer_records();
                ToolCallResult { answers, ..result }
            }
        };
        let whole_text = shown_result_text(&result.end);
        let end = shorten_large_result(result.end, settings.max_result_bytes.get());
        let summary = match (&settings.summarizer, shown_result_text(&end), &whole_text) {
            (Some(summarizer), Some(text), Some(whole_text))
                if whole_text.len() > summarizer.max_unsummarized_bytes() =>
            {
                let result = ResultToSummarize {
                    call,
                    tool: &display_name,
                    text: &text,
                    whole_text,
                    max_bytes: settings.max_result_bytes.get(),
                };
                Some(self.summarize_result(summarizer, result).await)
            }
            _ => None,
        };
        Ok(ToolCallResult { end, summary, ..result })
    }

    /// Summarizes or shortens a large result for the model. Counts the usage as usage of the agent.
    async fn summarize_result(&self, summarizer: &ResultSummarizer, result: ResultToSummarize<'_>) -> ResultSummary {
        let execution_usage = self.execution.ledger.usage_so_far();
        let (used, open_summaries) = {
            let mut state = self.lock_state();
            state.open_summaries += 1;
            (execution_usage + state.unreported_usage, state.open_summaries - 1)
        };
        let nested = self.execution.ledger.open_call_ledger(&result.call.id, result.tool);
        let written = match self.execution.remaining.subtract_usage(used).find_exhausted_limit() {
            Some(limit) => Err(format!("`{limit}` is used up")),
            None => {
                let request = ResultSummaryRequest {
                    result,
                    execution: self.execution,
                    requests_made: open_summaries
                        + match summarizer.purpose() {
                            RequestPurpose::Reply => self.execution.requests_made + used.own_requests(),
                            RequestPurpose::Summary => self.execution.summaries_made + used.summaries,
                        },
                    ledger: nested.ledger(),
                };
                summarizer.request_summary(&request).await
            }
        };
        let usage = nested.end().usage.unwrap_or_default();
        {
            let mut state = self.lock_state();
            state.unreported_usage = state.unreported_usage + usage;
            state.open_summaries -= 1;
        }
        written.unwrap_or_else(|error| {
            let shortened = summarizer.shorten_without_summary(result, error);
            shortened
                .failure_sentence(result.tool)
                .into_iter()
                .for_each(|warning| self.execution.ledger.add_warning_once(warning));
            shortened
        })
    }

    /// Runs a declared tool as nested execution with a time limit. The result has the answer of a person whom the tool asks.
    /// Returns open requests if the call must wait for answers.
    async fn run_declared_tool(
        &self,
        tool_runner: &DeclaredToolRunner,
        shown: &str,
        call: &ToolCall,
        arguments: &JsonMap,
        limit: Duration,
    ) -> Result<ToolCallResult, Vec<PendingRequest>> {
        let nested = self.execution.ledger.open_call_ledger(&call.id, shown);
        let stopwatch = self.execution.stopwatch.nested_stopwatch();
        let caller = ExecutionInput {
            origin: self.call_origin(shown, call),
            stopwatch: stopwatch.clone(),
            ledger: nested.ledger().clone(),
            remaining: self
                .execution
                .remaining
                .subtract_usage(self.execution.ledger.usage_so_far()),
            ..self.execution.clone()
        };
        let (runner, execution): (&Arc<dyn Runner>, ExecutionInput) = match tool_runner {
            DeclaredToolRunner::Script(runner) => (runner, script::script_tool_execution(caller, arguments)),
            DeclaredToolRunner::Agent {
                runner, name, config, ..
            } => (
                runner,
                agent::agent_tool_execution(caller, name, config, &call.id, arguments),
            ),
            DeclaredToolRunner::Ensemble(runner) => (
                runner,
                ensemble::ensemble_tool_execution(caller, shown, &call.id, arguments),
            ),
        };
        let observed = stopwatch
            .run_with_timeout(Some(limit), runner.execute_attempt(execution))
            .await;
        // A tool that starts afresh would ask once more.
        if let Ok(AttemptEnd::NeedsInput(requests)) = &observed
            && (tool_runner.can_resume() || requests.iter().all(PendingRequest::is_permission))
        {
            return Err(requests.clone());
        }
        let entries = nested.end();
        let reported_usage = match &observed {
            Ok(AttemptEnd::Finished(observation)) => observation.usage,
            _ => None,
        };
        self.add_tool_usage(reported_usage.or(entries.usage).unwrap_or_default());
        let end = observed.map_or_else(|_| ToolCallEnd::Error(timeout_message(limit)), tool_end_from_outcome);
        Ok(ToolCallResult {
            answers: entries.answer.into_iter().collect(),
            ..end.into()
        })
    }

    /// Returns the origin of the requests inside of this call.
    fn call_origin(&self, shown: &str, call: &ToolCall) -> RequestOrigin {
        let origin = call_origin(shown, call, self.execution);
        origin.with_exclusive_tools(self.toolset.has_exclusive_tools())
    }

    /// Adds usage inside of a tool to the usage of the agent.
    fn add_tool_usage(&self, usage: ModelUsage) {
        let mut state = self.lock_state();
        state.unreported_usage = state.unreported_usage + usage.as_tool_usage();
    }

    /// Locks the state, also after a panic in another thread.
    fn lock_state(&self) -> MutexGuard<'_, ToolSessionState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelTools for ExecutionTools<'_> {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(self.build_specs())
    }

    fn wait_for_admission<'c>(&'c self, call: &'c ToolCall) -> BoxFuture<'c, CallAdmission> {
        let exclusive = self.lock_state().targets.get(&call.name).map(ToolTarget::tool_settings);
        Box::pin(
            self.gate
                .wait_to_enter(exclusive.is_some_and(|settings| settings.exclusive)),
        )
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async move {
            match self.perform_permitted_call(&call).await {
                Ok(ToolCallResult {
                    end,
                    attachments,
                    answers,
                    summary,
                }) => ToolCall {
                    attachments,
                    answers,
                    summary: summary.map(Box::new),
                    ..call.with_end(end, 0.0)
                },
                Err(requests) => {
                    let at = self
                        .execution
                        .records
                        .find_or_add_call_position(&call.name, &call.id)
                        .index;
                    self.lock_state().waits_for.insert(at, requests);
                    call
                }
            }
        })
    }

    fn may_repeat_interrupted_call(&self, call: &ToolCall) -> bool {
        let state = self.lock_state();
        match state.targets.get(&call.name) {
            Some(ToolTarget::Declared(settings, tool_runner, _)) => {
                settings.repeatable == Some(true) || tool_runner.can_resume()
            }
            Some(ToolTarget::Member(settings, _, member)) => settings.repeatable.unwrap_or(member.only_reads),
            None => true,
        }
    }

    fn pending_requests(&self) -> Vec<PendingRequest> {
        self.lock_state().waits_for.values().flatten().cloned().collect()
    }

    fn take_usage(&self) -> ModelUsage {
        std::mem::take(&mut self.lock_state().unreported_usage)
    }
}
