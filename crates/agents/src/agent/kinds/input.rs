//! Input agents: a question, and the sources of its answer.
//!
//! The sources in their order: answers given with the run, `--respond`, the `responses` of the ensemble, the operator,
//! `default`. If
//! no source gives an answer, the run waits. If there are `choices`, every answer must be one of them.

mod answers;
mod check;
mod part_order;
mod responder;
mod stubbed;

pub use crate::agent::kinds::input::check::check_answer;
pub use answers::{AnswerQueue, PreparedAnswers};
pub(crate) use responder::shorten_context_values;
pub use stubbed::StubbedInputQuestion;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use self::answers::PreparedAnswerLookup;
use self::responder::QuestionResponder;
use crate::agent::build_error::RunnerBuildError;
use crate::agent::kinds::generator::ResponseGenerator;
use crate::agent::kinds::scope::{build_template_scope, list_dependency_names, warn_about_missed_keys};
use crate::agent::{AttemptEnd, AttemptResult, BoxFuture, ExecutionInput, Runner};
use ensemble_core::operator::{Operator, OperatorAnswer, QuestionRequest};
use ensemble_core::request::{
    AnswerAuthor, AnswerRecord, AnswerSource, PendingRequest, RequestAddress, RequestAnswer, resolve_choice,
};
use ensemble_core::store::RunId;
use ensemble_core::thread::ThreadIteration;
use ensemble_language::data::{
    ExecutionFailure, FailureKind, JsonMap, OperatorQuestion, text_to_output, value_to_output,
};
use ensemble_language::ensemble::{Agent, QuestionSpec};
use ensemble_language::profiles::ProfileError;
use ensemble_language::template::{Template, TemplateScope};
use ensemble_models::{Model, ScriptLoader};
use ensemble_scripts::template_worker;

/// Maximum number of repeated questions after an answer that is not one of the choices.
const MAX_REPEATED_QUESTIONS: usize = 10;

/// Warning of a default answer that the journal of this run does not record.
const UNATTENDED_DEFAULT_WARNING: &str = "the answer is the default, because no person could be asked";

/// Returns whether an agent of the outermost run asks the question in its own execution, not in a part or a tool call.
fn is_top_level_question(address: &RequestAddress) -> bool {
    matches!(address.segments(), [own] if own.part.is_none() && own.calls.is_empty())
}

/// Runner of an input agent: it produces an answer to the question of the agent.
pub struct InputRunner {
    prompt: Template,
    choices: Vec<String>,
    default: Option<String>,
    timeout: Option<Duration>,
    responder: Option<QuestionResponder>,
    output_schema: Option<Box<Value>>,
    answers: Arc<AnswerQueue>,
    operator: Arc<dyn Operator>,
    listens_to: Arc<[Arc<str>]>,
}

/// Options from which an input runner is built.
pub struct InputRunnerOptions<'a> {
    /// Answers given with the run.
    pub answers: Arc<AnswerQueue>,
    /// The operator that answers questions.
    pub operator: Arc<dyn Operator>,
    /// Reads a script that `responses` names.
    pub load: &'a ScriptLoader,
    /// Connects the model of the profile that `responses` names.
    pub connect: &'a dyn Fn(&Arc<str>) -> Result<Model, ProfileError>,
    /// The names of all agents of the ensemble, for a script of `responses`.
    pub agent_names: Arc<[Arc<str>]>,
    /// The generator that answers instead of the `responses`.
    pub generator: Option<Arc<dyn ResponseGenerator>>,
}

/// Result of asking the operator: an output, a failure, or a question that stays open.
enum QuestionEnd {
    Output(JsonMap),
    Failed(ExecutionFailure),
    Waiting,
}

impl InputRunner {
    /// Compiles the question and prepares the `responses`.
    pub fn new(agent: &Agent, spec: &QuestionSpec, options: InputRunnerOptions<'_>) -> Result<Self, RunnerBuildError> {
        let prompt = Template::compile(&spec.prompt).map_err(|error| RunnerBuildError::Template {
            which: "input.prompt".to_owned(),
            error,
        })?;
        let responder = match (&options.generator, &spec.responses) {
            (Some(generator), _) => Some(QuestionResponder::from_generator(agent, generator.clone())),
            (None, Some(responses)) => Some(QuestionResponder::new(agent, responses, &options)?),
            (None, None) => None,
        };
        Ok(Self {
            prompt,
            choices: spec.choices.clone(),
            default: spec.default.clone(),
            timeout: spec.timeout,
            responder,
            output_schema: agent.output_schema.clone().map(Box::new),
            answers: options.answers,
            operator: options.operator,
            listens_to: list_dependency_names(agent),
        })
    }

    /// Returns whether the model that answers is simulated.
    pub fn is_simulated(&self) -> bool {
        self.responder.as_ref().is_some_and(QuestionResponder::is_simulated)
    }

    /// Renders the question, gets an answer, and returns the answer as the outcome of the attempt.
    async fn run_attempt(&self, execution: ExecutionInput) -> AttemptEnd {
        let scope = build_template_scope(&execution, &self.listens_to);
        let prompt = match template_worker::render_template_async(&self.prompt, &scope).await {
            Ok(prompt) => prompt,
            Err(error) => {
                return AttemptEnd::from_failure(FailureKind::Unavailable, format!("input.prompt: {error}"));
            }
        };
        warn_about_missed_keys(&scope, "input.prompt", &execution);
        let question = OperatorQuestion {
            output_schema: self.output_schema.clone(),
            ..OperatorQuestion::new(prompt, self.choices.clone())
        };
        let request = PendingRequest::for_question(&execution, question);
        let mut exchange = Vec::new();
        let result = match self.resolve_answer(&request, &execution, &scope, &mut exchange).await {
            QuestionEnd::Output(output) => Ok(output),
            QuestionEnd::Failed(failure) => Err(failure),
            QuestionEnd::Waiting => return AttemptEnd::NeedsInput(vec![request]),
        };
        if result.is_err() {
            exchange.clear();
        }
        let usage = execution.ledger.usage_so_far();
        AttemptEnd::Finished(AttemptResult {
            parts: Vec::new(),
            nested_answers: Vec::new(),
            answer: None,
            result,
            usage: (usage.requests > 0).then_some(usage),
            exchange,
        })
    }

    /// Resolves the answer from the queued answers, the responder, the operator or the default, in this order.
    async fn resolve_answer(
        &self,
        request: &PendingRequest,
        execution: &ExecutionInput,
        scope: &TemplateScope,
        exchange: &mut Vec<ThreadIteration>,
    ) -> QuestionEnd {
        let question = &request.question;
        self.answers.wait_for_answer_order(request, execution).await;
        let injected = self.answers.take_prepared_answer(&request.address, execution.execution);
        let is_exhausted = injected == PreparedAnswerLookup::Exhausted;
        if let PreparedAnswerLookup::Answer(answer, by) = injected {
            return self.record_valid_answer(answer, &by, request, execution);
        }
        if let Some(responder) = &self.responder {
            match responder
                .respond_to_question(question, execution, scope, exchange)
                .await
            {
                Ok(Some(answer)) => {
                    return self.record_valid_answer(answer, &responder.answer_source().into(), request, execution);
                }
                Ok(None) => {}
                Err(failure) => return QuestionEnd::Failed(failure),
            }
        }
        let answered = match is_exhausted {
            true => OperatorAnswer::Nobody,
            false => self.ask_until_valid(request, execution).await,
        };
        let is_unattended = answered == OperatorAnswer::Nobody;
        let default = |default: &String| {
            let end = self.record_valid_answer(json!(default), &AnswerSource::Default.into(), request, execution);
            if is_unattended {
                execution.ledger.mark_answer_unattended();
                // The record of the answer is in the journal of the nested run, or in no journal for a part.
                if !is_top_level_question(&request.address) {
                    execution.ledger.add_warning(UNATTENDED_DEFAULT_WARNING);
                }
            }
            end
        };
        match (answered, &self.default) {
            (OperatorAnswer::Postponed, _) => QuestionEnd::Waiting,
            (OperatorAnswer::Text { text, .. }, Some(value)) if text.trim().is_empty() => default(value),
            (OperatorAnswer::Text { text, by }, _) => {
                // Only the operator may answer with the number of a choice.
                let text = resolve_choice(&text, &self.choices, true).unwrap_or(text);
                self.record_valid_answer(json!(text), &by, request, execution)
            }
            (_, Some(value)) => default(value),
            (OperatorAnswer::TimedOut, None) => {
                QuestionEnd::Failed(ExecutionFailure::new(FailureKind::Timeout, self.timeout_message()))
            }
            (OperatorAnswer::Nobody, None) => QuestionEnd::Waiting,
        }
    }

    /// Asks the operator until the answer is valid, at most ten times. One time limit applies to all questions together.
    async fn ask_until_valid(&self, request: &PendingRequest, execution: &ExecutionInput) -> OperatorAnswer {
        let _standing = execution.stopwatch.pause_outer_stopwatches();
        let started = tokio::time::Instant::now();
        let mut question_request = QuestionRequest {
            run: RunId::new(execution.run_id.clone()),
            request: request.clone(),
            default: self.default.as_deref().map(Arc::from),
            timeout: self.timeout,
            refused: None,
        };
        let mut answer = OperatorAnswer::Nobody;
        for _ in 0..MAX_REPEATED_QUESTIONS {
            question_request.timeout = self.timeout.map(|limit| limit.saturating_sub(started.elapsed()));
            answer = self.operator.ask_question(question_request.clone()).await;
            let OperatorAnswer::Text { text, .. } = &answer else {
                break;
            };
            let is_default = text.trim().is_empty() && self.default.is_some();
            match check_answer(request, &RequestAnswer::Text(text.clone()), true) {
                Err(refused) if !is_default => question_request.refused = Some(refused.to_string()),
                _ => break,
            }
        }
        answer
    }

    /// Records the answer if it is valid, and returns the output. Returns a failure if the answer is not valid.
    fn record_valid_answer(
        &self,
        answer: Value,
        by: &AnswerAuthor,
        request: &PendingRequest,
        execution: &ExecutionInput,
    ) -> QuestionEnd {
        let answer = match answer {
            Value::Number(_) | Value::Bool(_) => Value::String(answer.to_string()),
            other => other,
        };
        let accepted_output = match &answer {
            Value::String(text) => resolve_choice(text, &self.choices, false).map(|text| text_to_output(&text)),
            _ if !self.choices.is_empty() => None,
            other => Some(value_to_output(other.clone())),
        };
        let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
        match accepted_output {
            Some(output) => {
                execution
                    .ledger
                    .set_answer(AnswerRecord::from_answered_request(request, text, by.clone()));
                QuestionEnd::Output(output)
            }
            None => QuestionEnd::Failed(ExecutionFailure::new(
                FailureKind::Schema,
                self.wrong_choice_message(&text),
            )),
        }
    }

    /// Returns the message that lists the allowed choices.
    fn wrong_choice_message(&self, answer: &str) -> String {
        format!(
            "`{}` is not one of the choices: {}",
            answer.trim(),
            self.choices.join(", ")
        )
    }

    /// Returns the message for a question without an answer within the time limit.
    fn timeout_message(&self) -> String {
        let limit = self.timeout.unwrap_or_default().as_secs_f64();
        format!("there was no answer within {limit} s")
    }
}

impl Runner for InputRunner {
    fn execute_attempt(&self, execution: ExecutionInput) -> BoxFuture<'_, AttemptEnd> {
        Box::pin(self.run_attempt(execution))
    }
}

#[cfg(test)]
mod tests;
