//! LLM agents: a request with a system message, the thread and a task; the reply becomes the output.
//!
//! A [`Dialogue`] makes the requests and calls the tools of a round. This module renders the messages, converts the end
//! of the round to an observation, and selects what the agent remembers.
//!
//! **Corrections.** With an `output_schema`, a reply that does not match goes back to the model with the errors, up to
//! `retry.max_attempts` requests in one attempt. So after a failure of kind `schema` from this runner, the executor
//! must not make another attempt. After every other kind of failure it may.
//!
//! The runner keeps no state between executions: [`Execution`] carries the thread and the number of earlier requests.

mod progress;

use std::sync::Arc;

use serde_json::Value;

use self::progress::{Due, Said};
use crate::agent::attachments::Attachments;
use crate::agent::build_error::{BuildError, compile_template};
use crate::agent::chat::RoundEnd;
use crate::agent::chat::{Cause, Dialogue, NoTools, RoundRequest, Tools, Window};
use crate::agent::kinds::scope::{listens_to, scope, warn_of_missed};
use crate::agent::output::repair::{correction, mismatch};
use crate::agent::output::schema::Schema;
use crate::agent::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner, attachments};
use ensemble_core::reply::{checked, output_of, output_of_asked, quotes_requests};
use ensemble_core::thread::{Attachment, ExecutionRef, LiveOutput, NoLiveOutput, StopReason};
use ensemble_language::data::{Failure, FailureKind, JsonMap};
use ensemble_language::ensemble::{Agent, Llm, Memory};
use ensemble_language::profiles::Link;
use ensemble_language::template::{Scope, Template, TemplateError};
use ensemble_models::Model;
use ensemble_process::program::Places;
use ensemble_scripts::apart;

/// Performs the executions of an LLM agent.
pub struct LlmRunner {
    speaker: Box<dyn Converse>,
    tool_source: Option<Arc<dyn ToolSource>>,
    live_output: Arc<dyn LiveOutput>,
    prompt: Option<Template>,
    system_prompt: Option<Template>,
    attachments: Attachments,
    /// The `system_prompt` of each profile in the chain of the model.
    profile_prompts: Vec<Option<Template>>,
    memory: Memory,
    schema: Option<(Schema, Arc<Value>)>,
    /// The maximum number of replies in one attempt, including those that do not match the schema.
    max_tries: u32,
    max_iterations: u32,
    /// The agent may request other agents.
    triggers: bool,
    listens_to: Arc<[Arc<str>]>,
}

/// The warning about requests that are not taken.
const QUOTED_REQUESTS: &str = "the reply has `agent_requests` inside other text, so they are ignored; they count in a reply that is one \
     JSON object and nothing else";

/// Who is asked: a model, or an external program.
pub(in crate::agent) trait Converse: Send + Sync {
    /// Performs one round.
    fn converse<'a>(
        &'a self,
        opening: RoundRequest,
        tools: &'a dyn Tools,
        live_output: &'a dyn LiveOutput,
        execution: &'a Execution,
    ) -> BoxFuture<'a, RoundEnd>;

    /// Does it answer without a model?
    fn is_simulated(&self) -> bool;

    /// The execution has ended. `session`: the last that was noted. `is_kept`: a later execution may go on with it.
    fn ended(&self, session: Option<&str>, is_kept: bool) {
        let _ = (session, is_kept);
    }
}

impl Converse for Dialogue {
    fn converse<'a>(
        &'a self,
        opening: RoundRequest,
        tools: &'a dyn Tools,
        live_output: &'a dyn LiveOutput,
        execution: &'a Execution,
    ) -> BoxFuture<'a, RoundEnd> {
        Box::pin(self.hold(opening, tools, live_output, &execution.ledger))
    }

    fn is_simulated(&self) -> bool {
        self.model().is_simulated()
    }
}

/// Gives the tools of an agent for one execution.
pub trait ToolSource: Send + Sync {
    /// The tools for this execution.
    fn for_execution<'a>(&'a self, execution: &'a Execution) -> Box<dyn Tools + 'a>;
}

/// The parts from which an LLM runner is built.
pub struct LlmOptions {
    /// The model.
    pub model: Model,
    /// The tools that the model may call.
    pub tool_source: Option<Arc<dyn ToolSource>>,
    /// Keeps the thread within the context window of the model.
    pub window: Option<Arc<dyn Window>>,
    /// Receives the live output of the model and its tools.
    pub live_output: Arc<dyn LiveOutput>,
    /// The folders in which attachments are.
    pub places: Option<Places>,
}

impl LlmOptions {
    /// A model without tools, context window and live output.
    pub fn of(model: Model) -> Self {
        Self {
            model,
            tool_source: None,
            window: None,
            live_output: Arc::new(NoLiveOutput),
            places: None,
        }
    }
}

/// The rendered messages of an attempt.
struct Task {
    systems: Vec<Option<String>>,
    user: String,
    attachments: Vec<Attachment>,
}

impl LlmRunner {
    /// Compiles the templates and the schema of the agent and the templates of the model profiles.
    pub fn new(agent: &Agent, llm: &Llm, options: LlmOptions) -> Result<Self, BuildError> {
        let LlmOptions {
            model,
            tool_source,
            window,
            live_output,
            places,
        } = options;
        let profile_prompt = |link: &Link| {
            let which = format!("system_prompt of model profile `{}`", link.name);
            compile_template(&which, link.profile.system_prompt.as_deref())
        };
        let profile_prompts = model.profiles().map(profile_prompt).collect::<Result<_, _>>()?;
        let attachments = Attachments::compile(&llm.attachments, places)?;
        let speaker = Box::new(Dialogue::new(model).with_window(window));
        Self::of(agent, llm, speaker, live_output, |runner| Self {
            profile_prompts,
            attachments,
            tool_source,
            ..runner
        })
    }

    /// An agent whose task goes to this speaker.
    pub(in crate::agent) fn of(
        agent: &Agent,
        llm: &Llm,
        speaker: Box<dyn Converse>,
        live_output: Arc<dyn LiveOutput>,
        completed: impl FnOnce(Self) -> Self,
    ) -> Result<Self, BuildError> {
        let schema = |value: &Value| Schema::compile(value).map(|schema| (schema, Arc::new(value.clone())));
        Ok(completed(Self {
            prompt: compile_template("prompt", llm.prompt.as_deref())?,
            system_prompt: compile_template("system_prompt", llm.system_prompt.as_deref())?,
            attachments: Attachments::compile(&[], None)?,
            // An external program has one message with instructions.
            profile_prompts: vec![None],
            memory: llm.memory,
            schema: agent
                .output_schema
                .as_ref()
                .map(schema)
                .transpose()
                .map_err(BuildError::Schema)?,
            max_tries: agent.retry.max_attempts.get(),
            max_iterations: llm.max_iterations.get(),
            triggers: agent.conversation.triggers_conversation,
            listens_to: listens_to(agent),
            tool_source: None,
            live_output,
            speaker,
        }))
    }

    /// Returns whether the model is simulated.
    pub fn is_simulated(&self) -> bool {
        self.speaker.is_simulated()
    }

    async fn attempt(&self, execution: Execution) -> AttemptOutcome {
        let mut said = Said::before(&execution.records);
        let result = match self.task_with_attachments(&execution, &said).await {
            Ok(task) => self.converse(&execution, &task, &mut said).await,
            Err(failure) => Err(failure),
        };
        execution.ledger.close_round();
        let is_kept = self.memory == Memory::Conversation && execution.part.is_none() && result.is_ok();
        self.speaker.ended(said.session(), is_kept);
        if !said.waits_for.is_empty() {
            return AttemptOutcome::NeedsInput(said.waits_for);
        }
        if execution.records.is_inside_a_call() {
            // The call that contains the agent has only its output.
            said.record(&execution).await;
        }
        AttemptOutcome::Finished(AttemptResult {
            parts: Vec::new(),
            answer: None,
            result,
            usage: Some(execution.ledger.usage()),
            exchange: said.unrecorded(),
        })
    }

    /// The task; its files are read only where it has not been sent yet.
    async fn task_with_attachments(&self, execution: &Execution, said: &Said) -> Result<Task, Failure> {
        let task = self.task(execution).await?;
        if self.attachments.is_empty() || said.due() != Due::Task {
            return Ok(task);
        }
        let failed = |error| Failure::new(FailureKind::Unavailable, error);
        let scope = scope(execution, &self.listens_to);
        let files = self.attachments.located(&scope).await.map_err(failed)?;
        warn_of_missed(&scope, "attachments", execution);
        drop(scope);
        Ok(Task {
            attachments: attachments::of_execution(files).await.map_err(failed)?,
            ..task
        })
    }

    async fn task(&self, execution: &Execution) -> Result<Task, Failure> {
        let scope = scope(execution, &self.listens_to);
        let failed = |which: &'static str| {
            move |error: TemplateError| Failure::new(FailureKind::Unavailable, format!("{which}: {error}"))
        };
        let own = rendered(self.system_prompt.as_ref(), &scope).await;
        let own = own.map_err(failed("system_prompt"))?;
        warn_of_missed(&scope, "system_prompt", execution);
        let mut systems = Vec::with_capacity(self.profile_prompts.len());
        for of_profile in &self.profile_prompts {
            let of_profile = rendered(of_profile.as_ref(), &scope).await;
            let of_profile = of_profile.map_err(failed("system_prompt of the model profile"))?;
            let parts: Vec<String> = of_profile.into_iter().chain(own.clone()).collect();
            systems.push(Some(parts.join("\n\n")).filter(|text| !text.trim().is_empty()));
        }
        warn_of_missed(&scope, "system_prompt of the model profile", execution);
        let user = apart::task(self.prompt.as_ref(), &scope)
            .await
            .map_err(failed("prompt"))?;
        warn_of_missed(&scope, "prompt", execution);
        Ok(Task {
            systems,
            user,
            attachments: Vec::new(),
        })
    }

    /// Requests a reply, and requests corrections until the reply matches the schema. An execution that was cut short
    /// goes on where its records end.
    async fn converse(&self, execution: &Execution, task: &Task, said: &mut Said) -> Result<JsonMap, Failure> {
        let tools: Box<dyn Tools + '_> = match &self.tool_source {
            Some(tool_source) => tool_source.for_execution(execution),
            None => Box::new(NoTools),
        };
        loop {
            let (reply, stop_reason) = match said.due() {
                Due::Judgement(reply, stop_reason) => (reply, stop_reason),
                due => {
                    let opening = self.opening(execution, task, said, due);
                    self.round(opening, &*tools, execution, said).await?
                }
            };
            let (output, errors) = self.judged(&reply).await;
            if errors.is_empty() {
                if self.triggers && quotes_requests(&reply) {
                    execution.ledger.warn(QUOTED_REQUESTS);
                }
                return Ok(output);
            }
            let errors = match stop_reason {
                StopReason::MaxTokens => format!("the reply was cut off at its token limit; {}", mismatch(&errors)),
                _ => mismatch(&errors),
            };
            said.reject(&errors);
            if said.rejected() >= self.max_tries
                || execution
                    .remaining
                    .without(execution.ledger.usage())
                    .used_up()
                    .is_some()
            {
                let kind = match stop_reason {
                    StopReason::MaxTokens => FailureKind::MaxTokens,
                    _ => FailureKind::Schema,
                };
                return Err(Failure::new(kind, errors));
            }
            if self.requests_left(said) == 0 {
                let limit = self.max_iterations;
                let error = format!("{errors} (`max_iterations` {limit} leaves no request for a correction)");
                return Err(Failure::new(FailureKind::MaxIterations, error));
            }
            said.record(execution).await;
        }
    }

    /// The message with which a reply is sent back.
    fn correction(&self, errors: &str) -> String {
        let text = correction(errors);
        match &self.schema {
            // A server may have ignored the schema that was sent with the request.
            Some((_, schema)) => format!("{text}\n\nThe schema is:\n{schema}"),
            None => text,
        }
    }

    /// The output of a reply, and how it differs from the schema.
    async fn judged(&self, reply: &str) -> (JsonMap, Vec<String>) {
        let Some((schema, _)) = &self.schema else {
            return (output_of(reply), Vec::new());
        };
        let output = output_of_asked(reply);
        let errors = schema.errors_apart(checked(&output)).await;
        (output, errors)
    }

    /// Returns how many requests of `max_iterations` the execution has left.
    fn requests_left(&self, said: &Said) -> u32 {
        let made = u32::try_from(said.iterations.len()).unwrap_or(u32::MAX);
        self.max_iterations.saturating_sub(made)
    }

    fn opening(&self, execution: &Execution, task: &Task, said: &mut Said, due: Due) -> RoundRequest {
        let attachments = match due {
            Due::Task => task.attachments.clone(),
            _ => Vec::new(),
        };
        let (text, remembered_text, goes_on) = match due {
            Due::Task => {
                let text = with_rejection(&task.user, execution);
                let remembered = (text != task.user).then(|| task.user.clone());
                (text, remembered, None)
            }
            Due::Correction(errors) => (self.correction(&errors), None, None),
            Due::Calls => (String::new(), None, said.iterations.pop()),
            Due::Judgement(..) => unreachable!("a reply that is judged needs no round"),
        };
        let remembered = match self.memory {
            Memory::Conversation => Arc::clone(&execution.thread),
            Memory::None => Arc::default(),
        };
        // What was sent back is part of this exchange, although it is not remembered later.
        let thread = (*remembered).clone().followed_by(said.iterations.clone());
        RoundRequest {
            earlier: remembered.message_count(),
            attachments,
            thread: Arc::new(thread),
            text,
            remembered_text,
            goes_on,
            records: execution.records.clone(),
            systems: task.systems.clone(),
            source: ExecutionRef {
                run: execution.run_id.clone(),
                agent: Arc::clone(&execution.agent_name),
                execution: execution.execution,
                attempt: execution.attempt,
            },
            requests_made: execution.requests_made,
            max_requests: self.requests_left(said),
            remaining: execution.remaining,
            output_schema: self.schema.as_ref().map(|(_, value)| Arc::clone(value)),
        }
    }

    /// Runs one round, and adds the iterations to `said`.
    async fn round(
        &self,
        opening: RoundRequest,
        tools: &dyn Tools,
        execution: &Execution,
        said: &mut Said,
    ) -> Result<(String, StopReason), Failure> {
        let held = self.speaker.converse(opening, tools, &*self.live_output, execution);
        let end = held.await;
        let exchange = execution
            .ledger
            .with_exchange(|exchange| exchange.iterations().to_vec());
        said.add(exchange, execution.ledger.recorded_iterations());
        if let Err(Cause::Waits(requests)) = &end {
            said.waits_for.clone_from(requests);
        }
        if let Some(warning) = incomplete(&end) {
            execution.ledger.warn(warning);
        }
        end.map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: Cause) -> Failure {
        match cause {
            // The round had what the rounds before it had left.
            Cause::MaxTurnRequests(_) => failed(Cause::MaxTurnRequests(self.max_iterations)),
            other => failed(other),
        }
    }
}

/// The warning for a reply that is cut off or empty.
fn incomplete(end: &Result<(String, StopReason), Cause>) -> Option<&'static str> {
    match end {
        Ok((text, StopReason::MaxTokens)) if text.trim().is_empty() => {
            Some("the model's reply is empty: its token limit was reached before the first word; raise `max_tokens`")
        }
        Ok((_, StopReason::MaxTokens)) => Some("the model's reply was cut off at its token limit"),
        Ok((text, _)) if text.trim().is_empty() => Some("the model's reply is empty"),
        _ => None,
    }
}

fn failed(error: Cause) -> Failure {
    let kind = error.failure_kind();
    let error = match error {
        Cause::MaxTurnRequests(count) => {
            format!("the model still calls tools after {count} requests (`max_iterations`), so there is no answer")
        }
        other => other.to_string(),
    };
    Failure::new(kind, error)
}

async fn rendered(template: Option<&Template>, scope: &Scope) -> Result<Option<String>, TemplateError> {
    match template {
        Some(template) => apart::rendered(template, scope).await.map(Some),
        None => Ok(None),
    }
}

impl Runner for LlmRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(self.attempt(execution))
    }
}

/// The task; if the output of the last attempt did not match the schema, with the errors.
fn with_rejection(task: &str, execution: &Execution) -> String {
    let rejected = execution.last_failure.as_ref();
    match rejected.filter(|failure| failure.kind == FailureKind::Schema) {
        Some(failure) => format!("{task}\n\n{}", correction(&failure.error)),
        None => task.to_owned(),
    }
}

#[cfg(test)]
mod tests;
