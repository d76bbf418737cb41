//! LLM agents: a request with a system message, the thread and a task. The reply becomes the output.
//!
//! A [`Dialogue`] makes the requests and calls the tools of a round. This module renders the messages, converts the end
//! of the round to an attempt result, and selects the messages that the agent remembers.
//!
//! **Corrections.** With an `output_schema`, a reply that does not match is sent back to the model with the errors, up to
//! `retry.max_attempts` requests in one attempt. So after a failure of kind `schema` from this runner, the executor
//! must not make another attempt. After every other kind of failure the executor can make another attempt.
//!
//! The runner keeps no state between executions: [`ExecutionInput`] contains the thread and the number of earlier requests.

mod progress;
mod substitute;

use std::sync::Arc;

use serde_json::Value;

use self::progress::{LlmExecutionProgress, NextLlmStep};
pub(crate) use self::substitute::{ReplacedScriptAgent, compile_script_templates, script_input_json};
use crate::agent::attachments::AttachmentTemplates;
use crate::agent::build_error::{RunnerBuildError, compile_optional_template};
use crate::agent::chat::RoundEnd;
use crate::agent::chat::{Dialogue, DialogueErrorKind, MessageSelector, ModelTools, NoTools, RoundParameters};
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names, warn_about_missed_keys};
use crate::agent::output::repair::{correction_request, explain_mismatch, mismatch_text};
use crate::agent::output::schema::OutputSchema;
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner, attachments};
use ensemble_core::reply::{
    has_ignored_agent_requests, output_for_schema, parse_reply_with_schema, parse_reply_without_schema,
    unread_keys_warning,
};
use ensemble_core::thread::{Attachment, ExecutionAttemptRef, IgnoredLiveOutput, LiveOutputReceiver, StopReason};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap};
use ensemble_language::ensemble::{Agent, LlmSpec, MemoryMode, ModelChoice};
use ensemble_language::profiles::ChainedProfile;
use ensemble_language::template::{Template, TemplateError, TemplateScope};
use ensemble_models::Model;
use ensemble_process::program::ScriptFolders;
use ensemble_scripts::template_worker;

/// Runner of an LLM agent, which sends requests to a model or to an external program.
pub struct LlmAgentRunner {
    speaker: Box<dyn RoundPerformer>,
    tool_source: Option<Arc<dyn ExecutionToolSource>>,
    live_output: Arc<dyn LiveOutputReceiver>,
    prompt: Option<Template>,
    system_prompt: Option<Template>,
    attachments: AttachmentTemplates,
    /// `system_prompt` of each profile in the chain of the model.
    profile_prompts: Vec<Option<Template>>,
    memory: MemoryMode,
    schema: Option<(OutputSchema, Arc<Value>)>,
    /// Maximum number of replies in one attempt, including replies that do not match the schema.
    max_tries: u32,
    max_iterations: u32,
    /// Set if the agent may request other agents.
    triggers: bool,
    listens_to: Arc<[Arc<str>]>,
    /// Script agent that the model replaces. The task is then a question about the agent.
    substitute: Option<ReplacedScriptAgent>,
}

/// Warning about agent requests inside other text, which are ignored.
const QUOTED_REQUESTS_WARNING: &str = "`agent_requests` inside other text were ignored; a reply with requests must be one JSON object and \
     nothing else";

/// Partner of an LLM agent that performs rounds: a model, or an external program.
pub(in crate::agent) trait RoundPerformer: Send + Sync {
    /// Performs one round: requests and tool calls up to the final reply. Streams to `live_output`.
    fn perform_round<'a>(
        &'a self,
        opening: RoundParameters,
        tools: &'a dyn ModelTools,
        live_output: &'a dyn LiveOutputReceiver,
        execution: &'a ExecutionInput,
    ) -> BoxFuture<'a, RoundEnd>;

    /// Returns whether the replies come from no real model.
    fn is_simulated(&self) -> bool;

    /// Reports the end of the execution. `session` is the last recorded session, and `is_kept` tells whether a later execution can
    /// continue the session.
    fn notify_execution_ended(&self, session: Option<&str>, is_kept: bool) {
        let _ = (session, is_kept);
    }
}

impl RoundPerformer for Dialogue {
    fn perform_round<'a>(
        &'a self,
        opening: RoundParameters,
        tools: &'a dyn ModelTools,
        live_output: &'a dyn LiveOutputReceiver,
        execution: &'a ExecutionInput,
    ) -> BoxFuture<'a, RoundEnd> {
        Box::pin(self.run_round(opening, tools, live_output, &execution.ledger))
    }

    fn is_simulated(&self) -> bool {
        self.model().is_simulated()
    }
}

/// Source of the tools of an agent, for each execution.
pub trait ExecutionToolSource: Send + Sync {
    /// Returns the tools for this execution.
    fn tools_for_execution<'a>(&'a self, execution: &'a ExecutionInput) -> Box<dyn ModelTools + 'a>;
}

/// Options from which an LLM runner is built.
pub struct LlmRunnerOptions {
    /// Model that answers.
    pub model: Model,
    /// Source of the tools that the model may call.
    pub tool_source: Option<Arc<dyn ExecutionToolSource>>,
    /// Selector that keeps the thread within the context window of the model.
    pub window: Option<Arc<dyn MessageSelector>>,
    /// Receiver of the live output of the model and its tools.
    pub live_output: Arc<dyn LiveOutputReceiver>,
    /// Folders that contain attachments.
    pub places: Option<ScriptFolders>,
}

impl LlmRunnerOptions {
    /// Creates options for the model without tools, context window and live output.
    pub fn for_model(model: Model) -> Self {
        Self {
            model,
            tool_source: None,
            window: None,
            live_output: Arc::new(IgnoredLiveOutput),
            places: None,
        }
    }
}

/// Rendered messages of an attempt.
struct RenderedLlmTask {
    systems: Vec<Option<String>>,
    user: String,
    attachments: Vec<Attachment>,
}

impl LlmAgentRunner {
    /// Compiles the templates and the schema of the agent and the templates of the model profiles.
    ///
    /// # Errors
    /// A text is not a template, or the schema is not valid.
    pub fn new(agent: &Agent, llm: &LlmSpec, options: LlmRunnerOptions) -> Result<Self, RunnerBuildError> {
        let LlmRunnerOptions {
            model,
            tool_source,
            window,
            live_output,
            places,
        } = options;
        let profile_prompt = |link: &ChainedProfile| {
            let which = format!("system_prompt of model profile `{}`", link.name);
            compile_optional_template(&which, link.profile.system_prompt.as_deref())
        };
        let profile_prompts = model.profiles().map(profile_prompt).collect::<Result<_, _>>()?;
        let attachments = AttachmentTemplates::compile_paths(&llm.attachments, places)?;
        let speaker = Box::new(Dialogue::new(model).with_window(window));
        Self::new_with_speaker(agent, llm, speaker, live_output, |runner| Self {
            profile_prompts,
            attachments,
            tool_source,
            ..runner
        })
    }

    /// Creates the runner of an agent whose rounds the speaker performs. `completed` sets the other parts of the runner.
    pub(in crate::agent) fn new_with_speaker(
        agent: &Agent,
        llm: &LlmSpec,
        speaker: Box<dyn RoundPerformer>,
        live_output: Arc<dyn LiveOutputReceiver>,
        completed: impl FnOnce(Self) -> Self,
    ) -> Result<Self, RunnerBuildError> {
        let schema = |value: &Value| OutputSchema::compile(value).map(|schema| (schema, Arc::new(value.clone())));
        Ok(completed(Self {
            prompt: compile_optional_template("prompt", llm.prompt.as_deref())?,
            system_prompt: compile_optional_template("system_prompt", llm.system_prompt.as_deref())?,
            attachments: AttachmentTemplates::compile_paths(&[], None)?,
            // An external program has one message with instructions.
            profile_prompts: vec![None],
            memory: llm.memory,
            schema: agent
                .output_schema
                .as_ref()
                .map(schema)
                .transpose()
                .map_err(RunnerBuildError::Schema)?,
            max_tries: agent.retry.max_attempts.get(),
            max_iterations: llm.max_iterations.get(),
            triggers: agent.conversation.triggers_conversation,
            listens_to: list_dependency_names(agent),
            tool_source: None,
            live_output,
            speaker,
            substitute: None,
        }))
    }

    /// Creates the runner of a script agent that a model replaces.
    pub fn for_script_agent(
        agent: &Agent,
        model: Model,
        live_output: Arc<dyn LiveOutputReceiver>,
    ) -> Result<Self, RunnerBuildError> {
        let spec = LlmSpec {
            // The model is connected already.
            model: ModelChoice::Profile("".into()),
            prompt: None,
            system_prompt: None,
            attachments: Vec::new(),
            memory: MemoryMode::None,
            context_window: None,
            tools: Vec::new(),
            max_iterations: LlmSpec::MAX_ITERATIONS,
            max_parallel_tools: LlmSpec::MAX_PARALLEL_TOOLS,
        };
        let options = LlmRunnerOptions {
            live_output,
            ..LlmRunnerOptions::for_model(model)
        };
        Ok(Self {
            // Another attempt of the script agent corrects the reply.
            max_tries: 1,
            substitute: Some(ReplacedScriptAgent::for_agent(agent)?),
            ..Self::new(agent, &spec, options)?
        })
    }

    /// Returns whether the model is simulated.
    pub fn is_simulated(&self) -> bool {
        self.speaker.is_simulated()
    }

    /// Renders the task, gets a valid output, and returns the outcome of the attempt. Uses a remembered output if possible.
    async fn run_attempt(&self, execution: ExecutionInput) -> AttemptEnd {
        let mut execution_messages = LlmExecutionProgress::from_records(&execution.records);
        let result = match self.render_task_with_attachments(&execution, &execution_messages).await {
            Ok(task) => match self.find_remembered_output(&execution, &task).await {
                Some(output) => Ok(output),
                None => {
                    self.request_valid_output(&execution, &task, &mut execution_messages)
                        .await
                }
            },
            Err(failure) => Err(failure),
        };
        let result = match &self.substitute {
            Some(_) => result.map(ReplacedScriptAgent::remove_reply_text),
            None => result,
        };
        execution.ledger.end_round();
        let is_kept = self.memory == MemoryMode::Conversation && execution.part.is_none() && result.is_ok();
        self.speaker
            .notify_execution_ended(execution_messages.latest_session_id(), is_kept);
        if !execution_messages.waits_for.is_empty() {
            return AttemptEnd::NeedsInput(execution_messages.waits_for);
        }
        if execution.records.is_in_tool_call() {
            // The call that contains the agent has only its output.
            execution_messages.record_new_iterations(&execution).await;
        }
        AttemptEnd::Finished(AttemptResult {
            parts: Vec::new(),
            nested_answers: Vec::new(),
            answer: None,
            result,
            usage: Some(execution.ledger.usage_so_far()),
            exchange: execution_messages.into_unrecorded_iterations(),
        })
    }

    /// Finds the output of an earlier execution of a replaced script agent, if the model answered the same question.
    async fn find_remembered_output(&self, execution: &ExecutionInput, task: &RenderedLlmTask) -> Option<JsonMap> {
        self.substitute.as_ref()?;
        let reply = ReplacedScriptAgent::find_remembered_reply(execution, &task.user)?;
        let (output, errors) = self.parse_and_check_reply(reply).await;
        errors.is_empty().then_some(output)
    }

    /// Renders the task. Loads the attachments only if the task was not sent before.
    async fn render_task_with_attachments(
        &self,
        execution: &ExecutionInput,
        said: &LlmExecutionProgress,
    ) -> Result<RenderedLlmTask, ExecutionFailure> {
        let task = self.render_task(execution).await?;
        if self.attachments.is_empty() || said.next_step() != NextLlmStep::Task {
            return Ok(task);
        }
        let failed = |error| ExecutionFailure::new(FailureKind::Unavailable, error);
        let scope = build_template_scope(execution, &self.listens_to);
        let files = self.attachments.resolve_files(&scope).await.map_err(failed)?;
        warn_about_missed_keys(&scope, "attachments", execution);
        drop(scope);
        Ok(RenderedLlmTask {
            attachments: attachments::load_attachments(files).await.map_err(failed)?,
            ..task
        })
    }

    /// Renders the system messages and the task, without attachments. Warns about missing keys.
    async fn render_task(&self, execution: &ExecutionInput) -> Result<RenderedLlmTask, ExecutionFailure> {
        let scope = build_template_scope(execution, &self.listens_to);
        let failed = |which: &'static str| {
            move |error: TemplateError| ExecutionFailure::new(FailureKind::Unavailable, format!("{which}: {error}"))
        };
        let agent_prompt = render_optional_template(self.system_prompt.as_ref(), &scope).await;
        let agent_prompt = agent_prompt.map_err(failed("system_prompt"))?;
        warn_about_missed_keys(&scope, "system_prompt", execution);
        let mut systems = Vec::with_capacity(self.profile_prompts.len());
        for of_profile in &self.profile_prompts {
            let of_profile = render_optional_template(of_profile.as_ref(), &scope).await;
            let of_profile = of_profile.map_err(failed("system_prompt of the model profile"))?;
            let parts: Vec<String> = of_profile.into_iter().chain(agent_prompt.clone()).collect();
            systems.push(Some(parts.join("\n\n")).filter(|text| !text.trim().is_empty()));
        }
        warn_about_missed_keys(&scope, "system_prompt of the model profile", execution);
        let user = match &self.substitute {
            Some(substitute) => substitute
                .render_question(execution)
                .await
                .map_err(|error| ExecutionFailure::new(FailureKind::Unavailable, error))?,
            None => template_worker::render_agent_task_async(self.prompt.as_ref(), &scope)
                .await
                .map_err(failed("prompt"))?,
        };
        warn_about_missed_keys(&scope, "prompt", execution);
        Ok(RenderedLlmTask {
            systems,
            user,
            attachments: Vec::new(),
        })
    }

    /// Requests a reply, and requests corrections until the reply matches the schema. An interrupted execution continues
    /// where its records end.
    async fn request_valid_output(
        &self,
        execution: &ExecutionInput,
        task: &RenderedLlmTask,
        said: &mut LlmExecutionProgress,
    ) -> Result<JsonMap, ExecutionFailure> {
        let tools: Box<dyn ModelTools + '_> = match &self.tool_source {
            Some(tool_source) => tool_source.tools_for_execution(execution),
            None => Box::new(NoTools),
        };
        loop {
            let (reply, stop_reason) = match said.next_step() {
                NextLlmStep::Judgement(reply, stop_reason) => (reply, stop_reason),
                NextLlmStep::Task | NextLlmStep::Correction(_) if self.count_requests_left(said, execution) == 0 => {
                    return Err(self.no_requests_left_failure(execution));
                }
                due => {
                    let opening = self.build_round_parameters(execution, task, said, due);
                    self.run_round_and_collect(opening, &*tools, execution, said).await?
                }
            };
            let (output, errors) = self.parse_and_check_reply(&reply).await;
            if errors.is_empty() {
                if self.triggers && has_ignored_agent_requests(&reply) {
                    execution.ledger.add_warning(QUOTED_REQUESTS_WARNING);
                } else if self.schema.is_none()
                    && let Some(warning) = unread_keys_warning(&reply)
                {
                    execution.ledger.add_warning(warning);
                }
                return Ok(output);
            }
            let errors = match stop_reason {
                StopReason::MaxTokens => {
                    format!("the reply was cut off at its token limit; {}", mismatch_text(&errors))
                }
                _ => mismatch_text(&errors),
            };
            said.mark_reply_rejected(&errors);
            if said.count_rejected_replies() >= self.max_tries
                || execution
                    .remaining
                    .subtract_usage(execution.ledger.usage_so_far())
                    .find_exhausted_limit()
                    .is_some()
            {
                let kind = match stop_reason {
                    StopReason::MaxTokens => FailureKind::MaxTokens,
                    _ => FailureKind::Schema,
                };
                return Err(ExecutionFailure::new(kind, errors));
            }
            if self.count_requests_left(said, execution) == 0 {
                let limit = self.max_iterations;
                let error = format!("{errors} (no request is left for a correction: `max_iterations` is {limit})");
                return Err(ExecutionFailure::new(FailureKind::MaxIterations, error));
            }
            said.record_new_iterations(execution).await;
        }
    }

    /// Renders the message that sends a reply back with its errors, and with the schema if there is one.
    fn correction_text(&self, errors: &str) -> String {
        let text = correction_request(errors);
        match &self.schema {
            // A server may have ignored the schema that was sent with the request.
            Some((_, schema)) => format!("{text}\n\nThe schema is:\n{schema}"),
            None => text,
        }
    }

    /// Parses the reply. Returns the output, and its differences from the schema.
    async fn parse_and_check_reply(&self, reply: &str) -> (JsonMap, Vec<String>) {
        let Some((schema, _)) = &self.schema else {
            return (parse_reply_without_schema(reply), Vec::new());
        };
        let output = parse_reply_with_schema(reply);
        let errors = schema.list_errors_async(output_for_schema(&output)).await;
        (output, explain_mismatch(reply, errors))
    }

    /// Returns the number of requests of `max_iterations` that the execution has left.
    fn count_requests_left(&self, said: &LlmExecutionProgress, execution: &ExecutionInput) -> u32 {
        let requests_made = u32::try_from(said.iterations.len()).unwrap_or(u32::MAX);
        let of_attempts = requests_made.saturating_add(execution.ended_requests);
        self.max_iterations.saturating_sub(of_attempts)
    }

    /// Creates the failure of an attempt for which earlier attempts have left no request.
    fn no_requests_left_failure(&self, execution: &ExecutionInput) -> ExecutionFailure {
        let limit = self.max_iterations;
        let before = execution.last_failure.as_ref();
        let before = before.map_or_else(String::new, |failure| {
            format!("; the last attempt failed: {}", failure.error)
        });
        let error = format!("the attempts of this execution have made {limit} requests (`max_iterations`){before}");
        ExecutionFailure::new(FailureKind::MaxIterations, error)
    }

    /// Builds the parameters of the next round. Takes an unfinished iteration from `said` if tool calls continue.
    fn build_round_parameters(
        &self,
        execution: &ExecutionInput,
        task: &RenderedLlmTask,
        said: &mut LlmExecutionProgress,
        due: NextLlmStep,
    ) -> RoundParameters {
        let attachments = match due {
            NextLlmStep::Task => task.attachments.clone(),
            _ => Vec::new(),
        };
        let (text, remembered_text, goes_on) = match due {
            NextLlmStep::Task => {
                let text = add_rejection_errors(&task.user, execution);
                let remembered = (text != task.user).then(|| task.user.clone());
                (text, remembered, None)
            }
            NextLlmStep::Correction(errors) => (self.correction_text(&errors), None, None),
            NextLlmStep::Calls => (String::new(), None, said.iterations.pop()),
            NextLlmStep::Judgement(..) => unreachable!("a reply that is judged needs no round"),
        };
        let remembered = match self.memory {
            MemoryMode::Conversation => Arc::clone(&execution.thread),
            MemoryMode::None => Arc::default(),
        };
        // What was sent back is part of this exchange, although it is not remembered later.
        let thread = match said.iterations.is_empty() {
            // A long thread is not copied for each execution.
            true => Arc::clone(&remembered),
            false => Arc::new((*remembered).clone().append_iterations(said.iterations.clone())),
        };
        RoundParameters {
            earlier: remembered.message_count(),
            attachments,
            thread,
            text,
            remembered_text,
            goes_on,
            options: None,
            records: execution.records.clone(),
            systems: task.systems.clone(),
            source: ExecutionAttemptRef {
                run: execution.run_id.clone(),
                agent: Arc::clone(&execution.agent_name),
                execution: execution.execution,
                attempt: execution.attempt,
            },
            requests_made: execution.requests_made,
            summaries_made: execution.summaries_made,
            max_requests: self.count_requests_left(said, execution),
            remaining: execution.remaining,
            output_schema: self.schema.as_ref().map(|(_, value)| Arc::clone(value)),
            clock: execution.stopwatch.clone(),
        }
    }

    /// Performs one round, adds the iterations to `said`, and warns about an incomplete reply.
    async fn run_round_and_collect(
        &self,
        opening: RoundParameters,
        tools: &dyn ModelTools,
        execution: &ExecutionInput,
        said: &mut LlmExecutionProgress,
    ) -> Result<(String, StopReason), ExecutionFailure> {
        let round = self
            .speaker
            .perform_round(opening, tools, &*self.live_output, execution);
        let end = round.await;
        let exchange = execution
            .ledger
            .read_exchange(|exchange| exchange.iterations().to_vec());
        said.append_iterations(exchange, execution.ledger.recorded_iteration_count());
        if let Err(DialogueErrorKind::Waits(requests)) = &end {
            said.waits_for.clone_from(requests);
        }
        if let Some(warning) = incomplete_reply_warning(&end) {
            execution.ledger.add_warning(warning);
        }
        end.map_err(|cause| self.failure_with_own_limit(cause))
    }

    /// Converts the error of a round to a failure. An exhausted limit is reported with `max_iterations` of the agent.
    fn failure_with_own_limit(&self, cause: DialogueErrorKind) -> ExecutionFailure {
        match cause {
            // The round had what the rounds before it had left.
            DialogueErrorKind::MaxTurnRequests(_) => {
                dialogue_failure(DialogueErrorKind::MaxTurnRequests(self.max_iterations))
            }
            other => dialogue_failure(other),
        }
    }
}

/// Returns the warning about a reply that is cut off or empty.
fn incomplete_reply_warning(end: &Result<(String, StopReason), DialogueErrorKind>) -> Option<&'static str> {
    match end {
        Ok((text, StopReason::MaxTokens)) if text.trim().is_empty() => {
            Some("the model's reply is empty: its token limit was reached before the first word")
        }
        Ok((_, StopReason::MaxTokens)) => Some("the model's reply was cut off at its token limit"),
        Ok((text, _)) if text.trim().is_empty() => Some("the model's reply is empty"),
        _ => None,
    }
}

/// Converts the error of a dialogue to a failure.
fn dialogue_failure(error: DialogueErrorKind) -> ExecutionFailure {
    let kind = error.failure_kind();
    let error = match error {
        DialogueErrorKind::MaxTurnRequests(count) => {
            format!("the model still calls tools after {count} requests (`max_iterations`), so there is no answer")
        }
        other => other.to_string(),
    };
    ExecutionFailure::new(kind, error)
}

/// Renders the template, if there is one.
async fn render_optional_template(
    template: Option<&Template>,
    scope: &TemplateScope,
) -> Result<Option<String>, TemplateError> {
    match template {
        Some(template) => template_worker::render_template_async(template, scope).await.map(Some),
        None => Ok(None),
    }
}

impl Runner for LlmAgentRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(self.run_attempt(execution))
    }
}

/// Returns the task, with the schema errors of the last attempt if its output did not match the schema.
fn add_rejection_errors(task: &str, execution: &ExecutionInput) -> String {
    let rejected = execution.last_failure.as_ref();
    match rejected.filter(|failure| failure.kind == FailureKind::Schema) {
        Some(failure) => format!("{task}\n\n{}", correction_request(&failure.error)),
        None => task.to_owned(),
    }
}

#[cfg(test)]
mod tests;
