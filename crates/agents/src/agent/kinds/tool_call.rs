//! Agents that call one tool of an MCP server without a model: the result of the call is the output.
//!
//! **Invariant:** a call is recorded before it is made, and a recorded call is made at most once, unless the tool is
//! repeatable or the server says that it only reads. An execution that was cut short goes on with the recorded call.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use serde_json::Value;
use tokio::time::Instant;

use crate::agent::build_error::BuildError;
use crate::agent::kinds::given_values::GivenValues;
use crate::agent::kinds::scope::{listens_to, scope};
use crate::agent::mcp::{Asking, Server, ServerTool};
use crate::agent::output::schema::Schema;
use crate::agent::tools::ToolSettings;
use crate::agent::tools::gate::Gates;
use crate::agent::tools::permission::{Permitted, ToolPermissions, call_origin};
use crate::agent::tools::result::{Ended, timeout_message};
use crate::agent::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{ExecutionRef, Iteration, LiveOutput, LiveUpdate, ToolCall, ToolEnd, UNKNOWN_FATE};
use ensemble_language::data::{Failure, FailureKind, JsonMap, Usage};
use ensemble_language::diagnostic::did_you_mean;
use ensemble_language::ensemble::{Agent, Tool, ToolUse};
use ensemble_process::output;

/// The most parts of an execution that call their tool side by side; `for_each` itself limits them further.
const MOST_AT_ONCE: NonZeroU32 = NonZeroU32::MAX;

/// The most tools of a server that an error names.
const MOST_NAMED: usize = 30;

/// Performs the executions of an agent with `tool`.
pub struct CalledToolRunner {
    settings: ToolSettings,
    /// The name of the tool on its server.
    member: Arc<str>,
    /// `SERVER.TOOL`.
    name: String,
    server: Arc<Server>,
    arguments: GivenValues,
    listens_to: Arc<[Arc<str>]>,
    permissions: Arc<ToolPermissions>,
    live_output: Arc<dyn LiveOutput>,
    gates: Gates,
}

/// The services of the run that such an agent needs.
pub struct CalledToolOptions {
    /// The server.
    pub server: Arc<Server>,
    /// Decides whether the call is permitted.
    pub permissions: Arc<ToolPermissions>,
    /// Is told when the call begins and ends.
    pub live_output: Arc<dyn LiveOutput>,
}

/// The reason why there is no output.
enum Stopped {
    Failed(Failure),
    Waits(Box<PendingRequest>),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl CalledToolRunner {
    /// Compiles the templates of the arguments.
    ///
    /// # Errors
    /// A text is not a template.
    pub fn new(
        agent: &Agent,
        used: &ToolUse,
        tool: &Tool,
        arguments: &JsonMap,
        options: CalledToolOptions,
    ) -> Result<Self, BuildError> {
        let member = used.member.clone().unwrap_or_default();
        Ok(Self {
            settings: ToolSettings::of(&used.tool, tool),
            name: format!("{}.{member}", used.tool),
            member,
            server: options.server,
            arguments: GivenValues::compile("arguments", arguments)?,
            listens_to: listens_to(agent),
            permissions: options.permissions,
            live_output: options.live_output,
            gates: Gates::default(),
        })
    }

    async fn output(&self, execution: &Execution) -> Result<JsonMap, Stopped> {
        let before = execution.records.before();
        let recorded = before.and_then(|before| before.iterations.last()?.tool_calls.last());
        let call = match recorded {
            // The run ended between the end of the call and that of the execution.
            Some(call) if let Some(end) = &call.end => {
                let decided = before.and_then(|before| before.decided.get(call.id.as_str()));
                let is_refused = decided == Some(&PermissionDecision::Denied);
                return Ok(self.judged(end.clone(), is_refused, execution)?);
            }
            Some(call) => call.clone(),
            None => self.call(execution).await?,
        };
        let tool = self.tool(execution).await?;
        let arguments = self.fitting(&tool, &call).await?;
        if recorded.is_none() {
            let iteration = Iteration {
                number: 1,
                tool_calls: vec![call.clone()],
                ..Iteration::default()
            };
            execution.records.replied(iteration, Usage::default()).await;
        }
        let begun = Instant::now();
        let was_started = before.is_some_and(|before| before.started.contains(call.id.as_str()));
        let (ended, is_refused) = if was_started && !self.settings.repeatable.unwrap_or(tool.only_reads) {
            (ToolEnd::Error(UNKNOWN_FATE.to_owned()).into(), false)
        } else {
            let _admission = self
                .gates
                .of(execution, MOST_AT_ONCE)
                .enter(self.settings.exclusive)
                .await;
            self.live(execution, LiveUpdate::ToolStarted(&call));
            let performed = self.performed(&tool, &call, arguments, execution).await;
            performed.map_err(Stopped::Waits)?
        };
        let Ended { end, attachments } = ended;
        let ended = ToolCall {
            attachments,
            ..call.ended(end, begun.elapsed().as_secs_f64())
        };
        execution.records.call_ended(&ended, Usage::default()).await;
        self.live(execution, LiveUpdate::ToolEnded(&ended));
        let end = ended.end.unwrap_or_else(|| ToolEnd::Error(UNKNOWN_FATE.to_owned()));
        Ok(self.judged(end, is_refused, execution)?)
    }

    /// A new call, with its rendered arguments.
    async fn call(&self, execution: &Execution) -> Result<ToolCall, Failure> {
        let scope = scope(execution, &self.listens_to);
        let arguments = self.arguments.render(&scope, execution).await.map_err(unavailable)?;
        let arguments: JsonMap = arguments
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect();
        Ok(ToolCall::new(call_id(execution), &*self.name, Value::Object(arguments)))
    }

    /// The tool as its server describes it.
    async fn tool(&self, execution: &Execution) -> Result<Arc<ServerTool>, Failure> {
        let offered = self.server.tools(self.settings.timeout, execution).await;
        let offered = offered.map_err(|error| unavailable(format!("tool `{}`: {error}", self.settings.name)))?;
        if let Some(tool) = offered.iter().find(|tool| tool.name == self.member) {
            return Ok(Arc::clone(tool));
        }
        let names = || offered.iter().map(|tool| &*tool.name);
        let guess = did_you_mean(&self.member, names()).map(|guess| format!("; did you mean `{guess}`?"));
        let mut known: Vec<&str> = names().take(MOST_NAMED).collect();
        if offered.len() > MOST_NAMED {
            known.push("…");
        }
        Err(unavailable(format!(
            "the server of `{}` has no tool `{}`{} it has: {}",
            self.settings.name,
            self.member,
            guess.as_deref().unwrap_or(";"),
            known.join(", ")
        )))
    }

    /// The arguments, if they match the schema of the tool.
    async fn fitting<'c>(&self, tool: &ServerTool, call: &'c ToolCall) -> Result<&'c JsonMap, Failure> {
        let Value::Object(arguments) = &call.arguments else {
            return Err(unavailable(format!("the arguments of `{}` are no map", self.name)));
        };
        let schema = Schema::compile(&tool.parameters).map_err(|error| {
            unavailable(format!(
                "the schema of `{}`, which its server gives, cannot be used: {error}",
                self.name
            ))
        })?;
        let errors = schema.errors_apart(Cow::Borrowed(arguments)).await;
        match errors.is_empty() {
            true => Ok(arguments),
            // Another attempt would have the same arguments.
            false => Err(Failure::new(
                FailureKind::Refusal,
                format!("the arguments of `{}` are wrong: {}", self.name, errors.join("; ")),
            )),
        }
    }

    /// Makes the call, if it is permitted, and says whether it was refused. An error: it waits for the answer to this request.
    async fn performed(
        &self,
        tool: &ServerTool,
        call: &ToolCall,
        arguments: &JsonMap,
        execution: &Execution,
    ) -> Result<(Ended, bool), Box<PendingRequest>> {
        let permission = self.settings.permission;
        let permitted = self
            .permissions
            .ask(permission, &self.name, call, arguments, execution)
            .await;
        match permitted {
            Permitted::Yes => {}
            Permitted::Waits(request) => return Err(request),
            Permitted::No(refused) => return Ok((ToolEnd::Error(refused).into(), true)),
        }
        execution.records.call_started(&call.id).await;
        let asking = Asking {
            permissions: &self.permissions,
            execution,
            origin: call_origin(&self.name, call, execution),
            asked: AtomicUsize::new(0),
            tool: &self.name,
        };
        let limit = self.settings.timeout;
        let ended = self.server.call(tool, arguments.clone(), limit, &asking).await;
        let ended = match self.too_large(&ended.end) {
            Some(error) => ToolEnd::Error(error).into(),
            None => ended,
        };
        Ok((ended, false))
    }

    /// A result that is cut is none, so one that is too large is an error.
    fn too_large(&self, end: &ToolEnd) -> Option<String> {
        let bytes = match end {
            ToolEnd::Result(Value::String(text)) | ToolEnd::Error(text) => text.len(),
            ToolEnd::Result(value) => value.to_string().len(),
        };
        let most = self.settings.max_result_bytes;
        (bytes > most.get()).then(|| {
            format!(
                "{TOO_LARGE}{bytes} bytes, and `max_result_bytes` of `{}` is {most}",
                self.settings.name
            )
        })
    }

    /// The output of a call that ended so.
    fn judged(&self, end: ToolEnd, is_refused: bool, execution: &Execution) -> Result<JsonMap, Failure> {
        let text = match end {
            ToolEnd::Result(Value::String(text)) => return output::from_text(&text, &execution.ledger),
            ToolEnd::Result(value) => return output::from_value(value),
            ToolEnd::Error(text) => text,
        };
        let kind = match text.as_str() {
            UNKNOWN_FATE => {
                let error = format!(
                    "the call of `{}` was under way when the run was cut short, so it was not made again: it may have taken \
                     effect (`repeatable: true` at `{}` makes such calls again)",
                    self.name, self.settings.name
                );
                return Err(Failure::new(FailureKind::Refusal, error));
            }
            _ if is_refused => FailureKind::Refusal,
            text if text == timeout_message(self.settings.timeout) => FailureKind::Timeout,
            text if text.starts_with(TOO_LARGE) => FailureKind::OutputTooLarge,
            _ => FailureKind::Reported,
        };
        Err(Failure::new(kind, text))
    }

    fn live(&self, execution: &Execution, update: LiveUpdate<'_>) {
        let source = ExecutionRef {
            run: execution.run_id.clone(),
            agent: execution.agent_name.clone(),
            execution: execution.execution,
            attempt: execution.attempt,
        };
        self.live_output.receive(&source, update);
    }
}

/// The beginning of the error about a result that is too large.
const TOO_LARGE: &str = "the tool ran, and its result has ";

/// An id that no other call of the run has.
fn call_id(execution: &Execution) -> String {
    let Execution {
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

fn unavailable(error: String) -> Failure {
    Failure::new(FailureKind::Unavailable, error)
}

impl Runner for CalledToolRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            let result = match self.output(&execution).await {
                Ok(output) => Ok(output),
                Err(Stopped::Failed(failure)) => Err(failure),
                Err(Stopped::Waits(request)) => return AttemptOutcome::NeedsInput(vec![*request]),
            };
            AttemptOutcome::Finished(AttemptResult {
                parts: Vec::new(),
                answer: None,
                result,
                usage: None,
                exchange: Vec::new(),
            })
        })
    }
}
