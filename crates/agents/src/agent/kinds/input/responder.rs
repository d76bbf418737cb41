//! `responses`: answers from a script or model instead of the operator, so that a run needs no person.
//!
//! The answer of a model is cached by question and context: the same question in the same context gets the same
//! answer. The cache is the thread of the agent, which contains each question word for word. So a resumed run finds
//! exactly the answers of the interrupted run. The context for the model does not contain the number of the turn; with
//! it no question would ever be repeated.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::InputOptions;
use crate::agent::Execution;
use crate::agent::build_error::{BuildError, compile_template};
use crate::agent::chat::{Cause, Dialogue, NoTools, RoundRequest};
use crate::agent::kinds::scope::variables;
use ensemble_core::request::AnswerSource;
use ensemble_core::runner::ExecutionRecords;
use ensemble_core::thread::{ExecutionRef, Iteration, NoLiveOutput, Role, Thread};
use ensemble_language::data::{Context, Failure, FailureKind, Question};
use ensemble_language::ensemble::Responses;
use ensemble_language::past::Past;
use ensemble_language::template::{Scope, Template, output_text};
use ensemble_models::describe;
use ensemble_scripts::{Script, ScriptFailure, Variable, apart};

/// The maximum number of characters of one value in the summary of the context.
const LONGEST: usize = 400;

/// The maximum number of keys in the summary of the context.
const MOST: usize = 40;

/// A source of answers that replaces the operator.
pub(crate) enum Responder {
    List(Vec<String>),
    Script(Arc<Script>),
    Model {
        dialogue: Dialogue,
        /// The `system_prompt` of each profile in the chain.
        profile_prompts: Vec<Option<Template>>,
    },
}

impl Responder {
    pub(crate) fn new(responses: &Responses, options: &InputOptions<'_>) -> Result<Self, BuildError> {
        Ok(match responses {
            Responses::List(answers) => Self::List(answers.clone()),
            Responses::Script(path) => Self::Script(compile(path, options)?),
            Responses::Profile(name) => {
                let model = (options.connect)(name)?;
                let prompts = model.profiles().map(|link| {
                    let which = format!("system_prompt of model profile `{}`", link.name);
                    compile_template(&which, link.profile.system_prompt.as_deref())
                });
                Self::Model {
                    profile_prompts: prompts.collect::<Result<_, _>>()?,
                    dialogue: Dialogue::new(model),
                }
            }
        })
    }

    pub(crate) fn is_simulated(&self) -> bool {
        matches!(self, Self::Model { dialogue, .. } if dialogue.model().is_simulated())
    }

    /// The source of its answers.
    pub(crate) fn source(&self) -> AnswerSource {
        match self {
            Self::List(_) | Self::Model { .. } => AnswerSource::Responder,
            Self::Script(_) => AnswerSource::Script,
        }
    }

    /// The answer; `None`: there is no answer this time.
    pub(crate) async fn respond(
        &self,
        question: &Question,
        execution: &Execution,
        scope: &Scope,
        exchange: &mut Vec<Iteration>,
    ) -> Result<Option<Value>, Failure> {
        match self {
            Self::List(answers) => {
                let at = usize::try_from(execution.execution.saturating_sub(1)).unwrap_or(usize::MAX);
                Ok(answers.get(at).or(answers.last()).map(|answer| json!(answer)))
            }
            Self::Script(script) => scripted(script, question, execution).await,
            Self::Model {
                dialogue,
                profile_prompts,
            } => {
                let asked = as_a_user(question, execution);
                if let Some(known) = remembered(&execution.thread, &asked) {
                    return Ok(Some(json!(known)));
                }
                let systems = systems(profile_prompts, scope).await?;
                imagined(dialogue, systems, asked, execution, exchange).await.map(Some)
            }
        }
    }
}

fn compile(path: &str, options: &InputOptions<'_>) -> Result<Arc<Script>, BuildError> {
    let failed = |message: String| BuildError::Script {
        path: path.to_owned(),
        message,
    };
    let text = (options.load)(path).map_err(failed)?;
    Script::compile(&text).map_err(|error| failed(describe(&ScriptFailure::Reported(error))))
}

async fn scripted(script: &Arc<Script>, question: &Question, execution: &Execution) -> Result<Option<Value>, Failure> {
    let mut variables = variables(execution);
    // Only the question reads the whole history.
    variables.retain(|(name, _)| name != "history");
    variables.push(("history".into(), Variable::Past(Past::default())));
    variables.push(("prompt".into(), Variable::Text(question.prompt.as_str().into())));
    match script.run(variables).await {
        Ok(Value::Null) => Ok(None),
        Ok(answer) => Ok(Some(answer)),
        Err(failure) => {
            let kind = match failure {
                ScriptFailure::Reported(_) => FailureKind::Reported,
                ScriptFailure::Limit(_) | ScriptFailure::Stopped => FailureKind::Exit,
            };
            Err(Failure::new(kind, describe(&failure)))
        }
    }
}

async fn imagined(
    dialogue: &Dialogue,
    systems: Vec<Option<String>>,
    asked: String,
    execution: &Execution,
    exchange: &mut Vec<Iteration>,
) -> Result<Value, Failure> {
    let opening = RoundRequest {
        thread: Arc::default(),
        earlier: 0,
        attachments: Vec::new(),
        text: asked,
        systems,
        source: ExecutionRef {
            run: execution.run_id.clone(),
            agent: Arc::clone(&execution.agent_name),
            execution: execution.execution,
            attempt: execution.attempt,
        },
        requests_made: execution.requests_made,
        max_requests: 1,
        remaining: execution.remaining,
        output_schema: None,
        remembered_text: None,
        records: ExecutionRecords::default(),
        goes_on: None,
    };
    let end = dialogue.hold(opening, &NoTools, &NoLiveOutput, &execution.ledger).await;
    let iterations = execution.ledger.close_round().into_iterations();
    let (text, _) = end.map_err(|cause| Failure::new(cause.failure_kind(), cause.to_string()))?;
    *exchange = iterations;
    Ok(json!(text.trim()))
}

async fn systems(profile_prompts: &[Option<Template>], scope: &Scope) -> Result<Vec<Option<String>>, Failure> {
    let mut systems = Vec::with_capacity(profile_prompts.len());
    for prompt in profile_prompts {
        let Some(template) = prompt else {
            systems.push(None);
            continue;
        };
        let rendered = apart::rendered(template, scope).await.map_err(|error| {
            let error = format!("system_prompt of the model profile: {error}");
            Failure::new(FailureKind::Unavailable, error)
        });
        systems.push(Some(rendered?));
    }
    Ok(systems)
}

/// The earlier answer of the model to the same question.
fn remembered<'a>(thread: &'a Thread, asked: &str) -> Option<&'a str> {
    let mut iterations = thread.iterations().iter();
    iterations.find_map(|iteration| match iteration.messages.as_slice() {
        [question, answer] => {
            let known = question.role == Role::User && answer.role == Role::Assistant && question.content == asked;
            known.then_some(answer.content.trim())
        }
        _ => None,
    })
}

/// The question for the model, with a summary of limited size instead of the whole context.
fn as_a_user(question: &Question, execution: &Execution) -> String {
    let outputs = execution.dependencies.iter();
    let outputs: Map<_, _> = outputs
        .map(|(name, output)| (name.to_string(), shortened(&output_text(output))))
        .collect();
    let summary = json!({
        "input": shortened(&execution.input),
        "recent_outputs": outputs,
        "key_context": key_context(&execution.context),
    });
    let choices = match question.choices.as_slice() {
        [] => String::new(),
        choices => format!("\nAnswer with exactly one of: {}", choices.join(", ")),
    };
    format!(
        "Conversation context: {summary}\nCurrent prompt: {}\n\nRespond as a user would in this conversation context. \
         Be realistic and contextually appropriate.{choices}",
        question.prompt
    )
}

/// The texts, numbers and booleans of the context.
fn key_context(context: &Context) -> Map<String, Value> {
    let plain = context.iter().filter_map(|(key, value)| match &**value {
        Value::String(text) => Some((key.to_string(), shortened(text))),
        Value::Number(_) | Value::Bool(_) => Some((key.to_string(), Value::clone(value))),
        _ => None,
    });
    plain.take(MOST).collect()
}

fn shortened(text: &str) -> Value {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => json!(format!("{}…", &text[..end])),
        None => json!(text),
    }
}
