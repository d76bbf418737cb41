//! Answers of `responses` from a script or model instead of the operator, so that a run needs no user.
//!
//! The answer of a model is cached by question and context: the same question in the same context gets the same
//! answer.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::InputRunnerOptions;
use crate::agent::ExecutionInput;
use crate::agent::build_error::{RunnerBuildError, compile_optional_template};
use crate::agent::chat::{Dialogue, NoTools, RoundParameters};
use crate::agent::kinds::generator::{
    AgentGenerator, ResponseGenerator, count_executions_by_agent, history_entry_json,
};
use crate::agent::kinds::question_cache::{find_reply_to_same_question, render_unkeyed_lines};
use crate::agent::kinds::scope::rhai_variables;
use ensemble_core::reply::{describe_missing_object, output_for_schema, parse_reply_with_schema};
use ensemble_core::request::AnswerSource;
use ensemble_core::runner::ExecutionRecorder;
use ensemble_core::thread::{ExecutionAttemptRef, IgnoredLiveOutput, ThreadIteration};
use ensemble_language::data::{ExecutionFailure, FailureKind, OperatorQuestion, RunContext};
use ensemble_language::ensemble::{Agent, PreparedResponses};
use ensemble_language::execution_history::ExecutionHistory;
use ensemble_language::template::{Template, TemplateScope, render_output_text};
use ensemble_models::describe_script_failure;
use ensemble_scripts::{Script, ScriptFailure, ScriptVariable, template_worker};

/// Maximum number of characters of one value in the summary of the context.
const MAX_VALUE_CHARS: usize = 400;

/// Maximum number of keys in the summary of the context.
const MAX_CONTEXT_KEYS: usize = 40;

/// Source of answers that replaces the operator: a list, a script, a model or a generator.
pub(crate) enum QuestionResponder {
    List(Vec<String>),
    Script {
        /// The path in the file of the ensemble.
        path: Arc<str>,
        script: Arc<Script>,
        /// The names of all agents, for the counts of their executions.
        agent_names: Arc<[Arc<str>]>,
    },
    Model {
        dialogue: Box<Dialogue>,
        /// The `system_prompt` of each profile in the chain.
        profile_prompts: Vec<Option<Template>>,
        /// The description of the agent.
        description: Option<Arc<str>>,
    },
    /// A generator of the program that uses the library.
    Generator(AgentGenerator),
}

impl QuestionResponder {
    /// Compiles the script, or connects the model, of the prepared responses.
    pub(crate) fn new(
        agent: &Agent,
        responses: &PreparedResponses,
        options: &InputRunnerOptions<'_>,
    ) -> Result<Self, RunnerBuildError> {
        Ok(match responses {
            PreparedResponses::List(answers) => Self::List(answers.clone()),
            PreparedResponses::Script(path) => Self::Script {
                path: path.as_str().into(),
                script: load_responder_script(path, options)?,
                agent_names: options.agent_names.clone(),
            },
            PreparedResponses::Profile(name) => {
                let model = (options.connect)(name)?;
                let prompts = model.profiles().map(|link| {
                    let which = format!("system_prompt of model profile `{}`", link.name);
                    compile_optional_template(&which, link.profile.system_prompt.as_deref())
                });
                Self::Model {
                    profile_prompts: prompts.collect::<Result<_, _>>()?,
                    dialogue: Box::new(Dialogue::new(model)),
                    description: agent.description.as_deref().map(Arc::from),
                }
            }
        })
    }

    /// Creates a responder that asks a generator of the embedding program.
    pub(crate) fn from_generator(agent: &Agent, generator: Arc<dyn ResponseGenerator>) -> Self {
        Self::Generator(AgentGenerator::for_agent(agent, generator))
    }

    /// Returns whether the responder is a simulated model.
    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Model { dialogue, .. } if dialogue.model().is_simulated())
    }

    /// Returns the source that records name for the answers of the responder.
    pub(crate) fn answer_source(&self) -> AnswerSource {
        match self {
            Self::List(_) | Self::Model { .. } | Self::Generator(_) => AnswerSource::Responder,
            Self::Script { .. } => AnswerSource::Script,
        }
    }

    /// Answers the question. Returns `None` if the responder has no answer for this execution. Puts the messages of a model into
    /// `exchange`.
    pub(crate) async fn respond_to_question(
        &self,
        question: &OperatorQuestion,
        execution: &ExecutionInput,
        scope: &TemplateScope,
        exchange: &mut Vec<ThreadIteration>,
    ) -> Result<Option<Value>, ExecutionFailure> {
        match self {
            Self::List(answers) => {
                let at = usize::try_from(execution.execution.saturating_sub(1)).unwrap_or(usize::MAX);
                Ok(answers.get(at).or(answers.last()).map(|answer| json!(answer)))
            }
            Self::Script {
                path,
                script,
                agent_names,
            } => answer_by_script((path, script), agent_names, question, execution).await,
            Self::Generator(generator) => {
                let answer = generator.respond_to(question.prompt.clone(), &question.choices, execution);
                answer.await.map(Some)
            }
            Self::Model {
                dialogue,
                profile_prompts,
                description,
            } => {
                let question_text = render_model_question(question, description.as_deref(), execution);
                if let Some(remembered_answer) = find_reply_to_same_question(&execution.thread, &question_text) {
                    return Ok(Some(reply_to_answer(remembered_answer, question)));
                }
                let systems = render_system_prompts(profile_prompts, scope).await?;
                let reply = request_model_answer(dialogue, systems, question_text, execution, exchange).await?;
                Ok(Some(reply_to_answer(reply.trim(), question)))
            }
        }
    }
}

/// Loads and compiles the script at the path.
fn load_responder_script(path: &str, options: &InputRunnerOptions<'_>) -> Result<Arc<Script>, RunnerBuildError> {
    let failed = |message: String| RunnerBuildError::Script {
        path: path.to_owned(),
        message,
    };
    let text = (options.load)(path).map_err(failed)?;
    Script::compile(&text).map_err(|error| RunnerBuildError::from_script_error(path, error))
}

/// Runs the script and returns its value as the answer. Returns `None` if the value is null.
async fn answer_by_script(
    (path, script): (&str, &Arc<Script>),
    agent_names: &[Arc<str>],
    question: &OperatorQuestion,
    execution: &ExecutionInput,
) -> Result<Option<Value>, ExecutionFailure> {
    let mut variables = rhai_variables(execution, |name| script.may_read_variable(name));
    // Only the question reads the whole history.
    variables.retain(|(name, _)| name != "history");
    variables.push(("history".into(), ScriptVariable::Past(ExecutionHistory::default())));
    variables.push(("prompt".into(), ScriptVariable::Text(question.prompt.as_str().into())));
    variables.extend(conversation_variables(script, agent_names, execution));
    match script.run(variables).await {
        Ok(Value::Null) => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(failure) => {
            let kind = match failure {
                ScriptFailure::Reported(_) => FailureKind::Reported,
                ScriptFailure::Limit(_) | ScriptFailure::Stopped => FailureKind::Exit,
            };
            Err(ExecutionFailure::new(kind, describe_script_failure(path, &failure)))
        }
    }
}

/// Returns the state of the conversation as script variables with the field names of ADR-005, and all of them in `conversation_state`.
///
/// Variables that the script does not read are empty.
fn conversation_variables(
    script: &Script,
    agent_names: &[Arc<str>],
    execution: &ExecutionInput,
) -> Vec<(Cow<'static, str>, ScriptVariable)> {
    const STATE: &str = "conversation_state";
    const COUNTS: &str = "agent_execution_count";
    const HISTORY: &str = "conversation_history";
    let is_read = |name: &str| script.may_read_variable(name) || script.may_read_variable(STATE);
    let counts = match is_read(COUNTS) {
        true => count_executions_by_agent(agent_names, &execution.history),
        false => Map::new(),
    };
    let history = match is_read(HISTORY) {
        true => {
            let history = &execution.history;
            (0..history.len()).map(|at| history_entry_json(history, at)).collect()
        }
        false => Value::Null,
    };
    let state = match script.may_read_variable(STATE) {
        true => json!({
            "turn_count": execution.turn_count,
            COUNTS: counts,
            "accumulated_context": *execution.context,
            HISTORY: history,
        }),
        false => Value::Null,
    };
    let context = ScriptVariable::Context(Arc::clone(&execution.context));
    vec![
        (COUNTS.into(), ScriptVariable::Map(Arc::new(counts))),
        ("accumulated_context".into(), context),
        (HISTORY.into(), ScriptVariable::Json(Arc::new(history))),
        (STATE.into(), ScriptVariable::Json(Arc::new(state))),
    ]
}

/// Sends one request to the model and returns the text of its reply. Puts the messages into `exchange`.
async fn request_model_answer(
    dialogue: &Dialogue,
    systems: Vec<Option<String>>,
    asked: String,
    execution: &ExecutionInput,
    exchange: &mut Vec<ThreadIteration>,
) -> Result<String, ExecutionFailure> {
    let opening = RoundParameters {
        thread: Arc::default(),
        earlier: 0,
        attachments: Vec::new(),
        text: asked,
        systems,
        source: ExecutionAttemptRef {
            run: execution.run_id.clone(),
            agent: Arc::clone(&execution.agent_name),
            execution: execution.execution,
            attempt: execution.attempt,
        },
        requests_made: execution.requests_made,
        summaries_made: execution.summaries_made,
        max_requests: 1,
        remaining: execution.remaining,
        output_schema: None,
        remembered_text: None,
        records: ExecutionRecorder::default(),
        options: None,
        goes_on: None,
        clock: execution.stopwatch.clone(),
    };
    let end = dialogue
        .run_round(opening, &NoTools, &IgnoredLiveOutput, &execution.ledger)
        .await;
    let iterations = execution.ledger.end_round().into_iterations();
    let (text, _) = end.map_err(|cause| ExecutionFailure::new(cause.failure_kind(), cause.to_string()))?;
    *exchange = iterations;
    Ok(text)
}

/// Converts a reply to an answer. If the agent has an `output_schema`, the only JSON object in the reply is the answer.
fn reply_to_answer(reply: &str, question: &OperatorQuestion) -> Value {
    let is_text = question.output_schema.is_none() || !question.choices.is_empty();
    if is_text || describe_missing_object(reply).is_some() {
        return json!(reply);
    }
    Value::Object(output_for_schema(&parse_reply_with_schema(reply)).into_owned())
}

/// Renders the system prompt of each model profile.
async fn render_system_prompts(
    profile_prompts: &[Option<Template>],
    scope: &TemplateScope,
) -> Result<Vec<Option<String>>, ExecutionFailure> {
    let mut systems = Vec::with_capacity(profile_prompts.len());
    for prompt in profile_prompts {
        let Some(template) = prompt else {
            systems.push(None);
            continue;
        };
        let rendered = template_worker::render_template_async(template, scope)
            .await
            .map_err(|error| {
                let error = format!("system_prompt of the model profile: {error}");
                ExecutionFailure::new(FailureKind::Unavailable, error)
            });
        systems.push(Some(rendered?));
    }
    Ok(systems)
}

/// Renders the question for a model that replaces the operator, with a short summary of the context.
fn render_model_question(question: &OperatorQuestion, description: Option<&str>, execution: &ExecutionInput) -> String {
    let outputs = execution.dependencies.iter();
    let outputs: Map<_, _> = outputs
        .map(|(name, output)| (name.to_string(), shorten_text(&render_output_text(output))))
        .collect();
    let summary = json!({
        "input": shorten_text(&execution.input),
        "recent_outputs": outputs,
        "key_context": shorten_context_values(&execution.context),
    });
    let mut text = render_unkeyed_lines(execution, false);
    text.push_str(&format!(
        "You answer for the person whom the agent `{}` asks.\n",
        execution.agent_name
    ));
    if let Some(description) = description {
        text.push_str(&format!("Description of the agent: {description}\n"));
    }
    text.push_str(&format!(
        "Conversation context: {summary}\nCurrent prompt: {}\n\nRespond as a user would in this conversation context. \
         Be realistic and contextually appropriate.",
        question.prompt
    ));
    if !question.choices.is_empty() {
        text.push_str(&format!(
            "\nAnswer with exactly one of: {}",
            question.choices.join(", ")
        ));
    }
    if let Some(schema) = &question.output_schema {
        text.push_str(&format!(
            "\nThe answer is one JSON object that matches this JSON Schema: {schema}"
        ));
    }
    text
}

/// Returns the texts, numbers and booleans of the context, shortened, up to a maximum number of keys.
pub(crate) fn shorten_context_values(context: &RunContext) -> Map<String, Value> {
    let plain = context.iter().filter_map(|(key, value)| match &**value {
        Value::String(text) => Some((key.to_string(), shorten_text(text))),
        Value::Number(_) | Value::Bool(_) => Some((key.to_string(), Value::clone(value))),
        _ => None,
    });
    plain.take(MAX_CONTEXT_KEYS).collect()
}

/// Returns the text as JSON, shortened to the maximum number of characters.
fn shorten_text(text: &str) -> Value {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => json!(format!("{}…", &text[..end])),
        None => json!(text),
    }
}
