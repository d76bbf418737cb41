//! LLM agents: a system message, the thread, a task; a reply that becomes an output.
//!
//! **Repairs.** With an `output_schema`, a reply that does not match is sent back with the errors, up to
//! `retry.max_attempts` requests in one attempt. A failure of kind `schema` from this runner therefore means that
//! repairing has been tried: the executor must not make another attempt for it. It may for every other kind.
//!
//! Nothing is remembered between executions but what [`Execution`] brings: the thread, and how many requests have
//! been made.

use std::sync::Arc;

use serde_json::Value;

use super::reply::{checked, output_of};
use super::schema::Schema;
use super::scope::{listens_to, scope};
use super::{BoxFuture, Execution, Observation, Observed, Runner};
use crate::data::{Failure, FailureKind, JsonMap, Usage};
use crate::ensemble::{Agent, Llm, Memory};
use crate::model::{Ask, Asked, Link, Model, ModelReply, ProfileError, StopReason, estimate_tokens};
use crate::template::{Template, TemplateError, task_text};
use crate::thread::{Message, Role};

/// Performs the executions of an LLM agent.
pub struct LlmRunner {
    model: Model,
    prompt: Option<Template>,
    system_prompt: Option<Template>,
    /// The instructions of each profile of the model's chain.
    profile_prompts: Vec<Option<Template>>,
    memory: Memory,
    schema: Option<(Schema, Arc<Value>)>,
    max_requests: u32,
    listens_to: Arc<[Arc<str>]>,
}

/// Why there can be no runner for an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A template is none.
    #[error("{which}: {error}")]
    Template {
        /// `prompt`, `system_prompt`, `input.prompt`, or of which profile.
        which: String,
        /// What is wrong.
        error: TemplateError,
    },
    /// `output_schema` is no JSON Schema.
    #[error("output_schema: {0}")]
    Schema(String),
    /// A script cannot be read or compiled.
    #[error("{path}: {message}")]
    Script {
        /// As the ensemble names it.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// No model can answer in a person's place.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// The messages of an attempt, rendered.
struct Task {
    systems: Vec<Option<String>>,
    user: String,
}

impl LlmRunner {
    /// Compiles what the agent and the model's profiles have written.
    pub fn new(agent: &Agent, llm: &Llm, model: Model) -> Result<Self, BuildError> {
        let profile_prompt = |link: &Link| {
            let which = format!("system_prompt of model profile `{}`", link.name);
            template(&which, link.profile.system_prompt.as_deref())
        };
        let schema = |value: &Value| Schema::compile(value).map(|schema| (schema, Arc::new(value.clone())));
        Ok(Self {
            prompt: template("prompt", llm.prompt.as_deref())?,
            system_prompt: template("system_prompt", llm.system_prompt.as_deref())?,
            profile_prompts: model.profiles().map(profile_prompt).collect::<Result<_, _>>()?,
            memory: llm.memory,
            schema: agent
                .output_schema
                .as_ref()
                .map(schema)
                .transpose()
                .map_err(BuildError::Schema)?,
            max_requests: agent.retry.max_attempts.get(),
            listens_to: listens_to(agent),
            model,
        })
    }

    /// Does a simulated model take part?
    pub fn is_simulated(&self) -> bool {
        self.model.is_simulated()
    }

    async fn attempt(&self, execution: Execution) -> Observed {
        let mut spent = Usage::default();
        let ended = match self.task(&execution) {
            Ok(task) => self.converse(&execution, task, &mut spent).await,
            Err(failure) => Err(failure),
        };
        let (result, exchange) = match ended {
            Ok((output, exchange)) => (Ok(output), exchange),
            Err(failure) => (Err(failure), Vec::new()),
        };
        Observed::Finished(Observation {
            result,
            usage: Some(spent),
            exchange,
        })
    }

    fn task(&self, execution: &Execution) -> Result<Task, Failure> {
        let scope = scope(execution, &self.listens_to);
        let failed = |which: &'static str| {
            move |error: TemplateError| Failure::new(FailureKind::Unavailable, format!("{which}: {error}"))
        };
        let render = |template: &Option<Template>| template.as_ref().map(|one| one.render(&scope)).transpose();
        let own = render(&self.system_prompt).map_err(failed("system_prompt"))?;
        let system = |of_profile: &Option<Template>| {
            let of_profile = render(of_profile).map_err(failed("system_prompt of the model profile"))?;
            let parts: Vec<String> = of_profile.into_iter().chain(own.clone()).collect();
            Ok(Some(parts.join("\n\n")).filter(|text| !text.trim().is_empty()))
        };
        Ok(Task {
            systems: self.profile_prompts.iter().map(system).collect::<Result<_, _>>()?,
            user: task_text(self.prompt.as_ref(), &scope).map_err(failed("prompt"))?,
        })
    }

    /// Asks, and asks again while the reply does not match the schema.
    async fn converse(
        &self,
        execution: &Execution,
        task: Task,
        spent: &mut Usage,
    ) -> Result<(JsonMap, Vec<Message>), Failure> {
        let mut messages = self.opening(execution, &task.user);
        let mut left = self.max_requests;
        loop {
            left -= 1;
            let reply = self.ask(execution, &task.systems, &messages, spent).await?;
            let output = output_of(&reply.text);
            let errors = match &self.schema {
                Some((schema, _)) => schema.errors(&checked(&output)),
                None => Vec::new(),
            };
            if errors.is_empty() {
                let exchange = vec![message(Role::User, task.user), message(Role::Assistant, reply.text)];
                return Ok((output, exchange));
            }
            if left == 0 {
                return Err(Failure::new(FailureKind::Schema, mismatch(&errors)));
            }
            messages.push(message(Role::Assistant, reply.text));
            messages.push(message(Role::User, correction(&mismatch(&errors))));
        }
    }

    /// The thread and the task; after a mismatch in the attempt before, what was wrong with it.
    fn opening(&self, execution: &Execution, user: &str) -> Vec<Message> {
        let mut messages = match self.memory {
            Memory::Conversation => execution.thread.to_vec(),
            Memory::None => Vec::new(),
        };
        let rejected = execution
            .last_failure
            .as_ref()
            .filter(|failure| failure.kind == FailureKind::Schema);
        let user = match rejected {
            Some(failure) => format!("{user}\n\n{}", correction(&failure.error)),
            None => user.to_owned(),
        };
        messages.push(message(Role::User, user));
        messages
    }

    async fn ask(
        &self,
        execution: &Execution,
        systems: &[Option<String>],
        messages: &[Message],
        spent: &mut Usage,
    ) -> Result<ModelReply, Failure> {
        let ask = Ask {
            systems: systems.to_vec(),
            messages: messages.to_vec(),
            agent_name: Arc::clone(&execution.agent_name),
            requests_made: execution.requests_made + spent.requests,
            execution: execution.execution,
            output_schema: self.schema.as_ref().map(|(_, value)| Arc::clone(value)),
        };
        let system = systems.first().cloned().flatten().unwrap_or_default();
        let asked = self.model.ask(ask).await;
        settle(asked, &system, messages, spent, execution)
    }
}

impl Runner for LlmRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        Box::pin(self.attempt(execution))
    }
}

/// Books what an answer has cost, passes on its warnings, and tells a reply from a failure.
pub(super) fn settle(
    asked: Asked,
    system: &str,
    messages: &[Message],
    spent: &mut Usage,
    execution: &Execution,
) -> Result<ModelReply, Failure> {
    spent.requests += asked.requests;
    for warning in asked.warnings {
        execution.notes.warn(warning);
    }
    let failed = |error: String| Failure::new(FailureKind::Model, error);
    let reply = asked.result.map_err(|error| failed(error.message))?;
    count(&reply, system, messages, spent);
    match reply.stop_reason {
        StopReason::EndTurn => Ok(reply),
        StopReason::MaxTokens => {
            execution.notes.warn("the model's reply was cut off at its token limit");
            Ok(reply)
        }
        StopReason::Refusal => Err(failed(format!("the model refused: {}", reply.text))),
    }
}

/// What the provider counted, else an estimate.
fn count(reply: &ModelReply, system: &str, messages: &[Message], spent: &mut Usage) {
    if let Some(tokens) = reply.tokens {
        spent.input_tokens += tokens.input;
        spent.output_tokens += tokens.output;
        return;
    }
    let texts = messages.iter().map(|message| message.content.as_str());
    spent.input_tokens += texts.chain([system]).map(estimate_tokens).sum::<u64>();
    spent.output_tokens += estimate_tokens(&reply.text);
    spent.estimated = true;
}

/// A template of the agent, if there is one.
pub(super) fn template(which: &str, text: Option<&str>) -> Result<Option<Template>, BuildError> {
    let compiled = text.map(Template::compile).transpose();
    compiled.map_err(|error| BuildError::Template {
        which: which.to_owned(),
        error,
    })
}

pub(super) fn message(role: Role, content: String) -> Message {
    Message { role, content }
}

fn mismatch(errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("\n- {error}")).collect();
    format!("the reply does not match the output schema:{}", lines.concat())
}

fn correction(errors: &str) -> String {
    format!(
        "Your previous reply was rejected: {errors}\n\nAnswer again with one JSON object that matches the schema, \
         and nothing else."
    )
}

#[cfg(test)]
mod tests;
