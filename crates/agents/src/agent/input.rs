//! Input agents: a question, and the sources of its answer.
//!
//! The sources in their order: answers given with the run, the `responses` of the ensemble, the operator, `default`. If
//! no source gives an answer, the run waits. If there are `choices`, every answer must be one of them.

mod answers;
mod responder;

pub use answers::Answers;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::answers::Injected;
use self::responder::Responder;
use super::build_error::BuildError;
use super::scope::{listens_to, scope, warn_of_missed};
use super::{AttemptOutcome, AttemptResult, BoxFuture, Execution, Runner};
use ensemble_core::operator::{Answer, Asked, Operator};
use ensemble_core::store::RunId;
use ensemble_core::thread::Iteration;
use ensemble_language::data::{Failure, FailureKind, JsonMap, Question, Usage, output_from_text, output_from_value};
use ensemble_language::ensemble::{Agent, InputSpec};
use ensemble_language::template::{Scope, Template};
use ensemble_models::{LoadScript, Model, ProfileError};
use ensemble_scripts::apart;

/// The maximum number of repeated questions after an answer that is not one of the choices.
const ASKED_AT_MOST: usize = 10;

/// Performs the executions of an input agent.
pub struct InputRunner {
    prompt: Template,
    choices: Vec<String>,
    default: Option<String>,
    timeout: Option<Duration>,
    responder: Option<Responder>,
    answers: Arc<Answers>,
    operator: Arc<dyn Operator>,
    listens_to: Arc<[Arc<str>]>,
}

/// The parts from which an input runner is built.
pub struct InputOptions<'a> {
    /// Answers given with the run.
    pub answers: Arc<Answers>,
    /// The operator that answers questions.
    pub operator: Arc<dyn Operator>,
    /// Reads a script that `responses` names.
    pub load: &'a LoadScript,
    /// Connects the model of the profile that `responses` names.
    pub connect: &'a dyn Fn(&Arc<str>) -> Result<Model, ProfileError>,
}

/// The source of an answer; only the operator may answer with the number of a choice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Person,
    Other,
}

/// The result of asking the operator.
enum End {
    Output(JsonMap),
    Failed(Failure),
    Waiting,
}

impl InputRunner {
    /// Compiles the question and prepares the `responses`.
    pub fn new(agent: &Agent, spec: &InputSpec, options: InputOptions<'_>) -> Result<Self, BuildError> {
        let prompt = Template::compile(&spec.prompt).map_err(|error| BuildError::Template {
            which: "input.prompt".to_owned(),
            error,
        })?;
        let responder = spec.responses.as_ref();
        Ok(Self {
            prompt,
            choices: spec.choices.clone(),
            default: spec.default.clone(),
            timeout: spec.timeout,
            responder: responder
                .map(|responses| Responder::new(responses, &options))
                .transpose()?,
            answers: options.answers,
            operator: options.operator,
            listens_to: listens_to(agent),
        })
    }

    /// Is the model that answers simulated?
    pub fn is_simulated(&self) -> bool {
        self.responder.as_ref().is_some_and(Responder::is_simulated)
    }

    async fn attempt(&self, execution: Execution) -> AttemptOutcome {
        let scope = scope(&execution, &self.listens_to);
        let prompt = match apart::rendered(&self.prompt, &scope).await {
            Ok(prompt) => prompt,
            Err(error) => return AttemptOutcome::failure(FailureKind::Unavailable, format!("input.prompt: {error}")),
        };
        warn_of_missed(&scope, "input.prompt", &execution);
        let question = Question {
            prompt,
            choices: self.choices.clone(),
            asked_by: None,
            permission: None,
        };
        let mut booked = Booked::default();
        let result = match self.ask(&question, &execution, &scope, &mut booked).await {
            End::Output(output) => Ok(output),
            End::Failed(failure) => Err(failure),
            End::Waiting => return AttemptOutcome::NeedsInput(question),
        };
        let exchange = if result.is_ok() { booked.exchange } else { Vec::new() };
        AttemptOutcome::Finished(AttemptResult {
            parts: Vec::new(),
            result,
            usage: (booked.usage.requests > 0).then_some(booked.usage),
            exchange,
        })
    }

    async fn ask(&self, question: &Question, execution: &Execution, scope: &Scope, booked: &mut Booked) -> End {
        let injected = self.answers.find(&execution.agent_name, execution.execution);
        if let Injected::Answer(answer) = injected {
            return self.take(answer.clone(), By::Other);
        }
        if let Some(responder) = &self.responder {
            match responder.respond(question, execution, scope, booked).await {
                Ok(Some(answer)) => return self.take(answer, By::Other),
                Ok(None) => {}
                Err(failure) => return End::Failed(failure),
            }
        }
        let answered = match injected {
            Injected::Exhausted => Answer::Nobody,
            _ => self.ask_operator(question, execution).await,
        };
        match (answered, &self.default) {
            (Answer::Text(text), Some(default)) if text.trim().is_empty() => self.take(json!(default), By::Other),
            (Answer::Text(text), _) => self.take(json!(text), By::Person),
            (_, Some(default)) => self.take(json!(default), By::Other),
            (Answer::TimedOut, None) => End::Failed(Failure::new(FailureKind::Timeout, self.too_late())),
            (Answer::Nobody, None) => End::Waiting,
        }
    }

    /// Asks the operator until the answer is one of the choices; the time limit applies to all questions together.
    async fn ask_operator(&self, question: &Question, execution: &Execution) -> Answer {
        let _standing = execution.stopwatch.stand_outside();
        let started = tokio::time::Instant::now();
        let mut asked = Asked {
            run: RunId::new(execution.run_id.clone()),
            agent: execution.agent_name.clone(),
            execution: execution.execution,
            question: question.clone(),
            default: self.default.as_deref().map(Arc::from),
            timeout: self.timeout,
            refused: None,
        };
        let mut answer = Answer::Nobody;
        for _ in 0..ASKED_AT_MOST {
            asked.timeout = self.timeout.map(|limit| limit.saturating_sub(started.elapsed()));
            answer = self.operator.ask(asked.clone()).await;
            let Answer::Text(text) = &answer else { break };
            let defaults = text.trim().is_empty() && self.default.is_some();
            if defaults || choice(text, &self.choices, By::Person).is_some() {
                break;
            }
            asked.refused = Some(self.beside(text));
        }
        answer
    }

    /// The output for an answer, if the answer is valid.
    fn take(&self, answer: Value, by: By) -> End {
        let answer = match answer {
            Value::Number(_) | Value::Bool(_) => Value::String(answer.to_string()),
            other => other,
        };
        let chosen = match &answer {
            Value::String(text) => choice(text, &self.choices, by).map(|text| output_from_text(&text)),
            _ if !self.choices.is_empty() => None,
            other => Some(output_from_value(other.clone())),
        };
        match chosen {
            Some(output) => End::Output(output),
            None => {
                let told = self.beside(answer.as_str().unwrap_or(&answer.to_string()));
                End::Failed(Failure::new(FailureKind::Schema, told))
            }
        }
    }

    fn beside(&self, answer: &str) -> String {
        format!(
            "`{}` is none of the choices: {}",
            answer.trim(),
            self.choices.join(", ")
        )
    }

    fn too_late(&self) -> String {
        let limit = self.timeout.unwrap_or_default().as_secs_f64();
        format!("there was no answer within {limit} s")
    }
}

impl Runner for InputRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(self.attempt(execution))
    }
}

/// The usage and the exchange of a model that answered instead of the operator.
#[derive(Default)]
struct Booked {
    usage: Usage,
    exchange: Vec<Iteration>,
}

/// The answer in the spelling of the choices; without choices, any answer is valid.
fn choice(answer: &str, choices: &[String], by: By) -> Option<String> {
    if choices.is_empty() {
        return Some(answer.to_owned());
    }
    let answer = answer.trim();
    let same = |choice: &&String| choice.trim().to_lowercase() == answer.to_lowercase();
    let exact = choices.iter().find(|choice| choice.trim() == answer);
    let named = exact.or_else(|| choices.iter().find(same));
    let number = || {
        answer
            .parse::<usize>()
            .ok()?
            .checked_sub(1)
            .and_then(|at| choices.get(at))
    };
    let numbered = if by == By::Person { number() } else { None };
    named.or(numbered).cloned()
}

#[cfg(test)]
mod tests;
