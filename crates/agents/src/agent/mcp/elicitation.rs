//! Questions that a server asks during a call (`elicitation/create`). The operator of the run answers them.
//!
//! The SDK hands a question to a task of its own, which passes it to the call that is under way; so a question is
//! withdrawn with its call. The clocks of all calls of the server stand while a person thinks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::form::{FieldAnswer, FormField};
use crate::agent::ExecutionInput;
use crate::agent::tools::ToolPermissions;
use ensemble_core::operator::{Operator, OperatorAnswer, QuestionRequest, escape_hidden};
use ensemble_core::request::{AnswerRecord, PendingRequest, RequestOrigin};
use ensemble_core::stopwatch::{PauseGuard, Stopwatch};
use ensemble_core::store::RunId;
use ensemble_language::data::OperatorQuestion;

/// Maximum number of answers to one question.
const MAX_INVALID_ANSWERS: usize = 10;

/// Running calls of a server, which can pass its questions to the operator.
#[derive(Clone, Default)]
pub(crate) struct RunningMcpCalls(Arc<Mutex<Vec<RunningMcpCall>>>);

/// Running call of a server, with a channel for questions.
struct RunningMcpCall {
    number: u64,
    /// The tool, with its server.
    tool: String,
    questions: mpsc::UnboundedSender<Box<PendingElicitation>>,
    stopwatch: Stopwatch,
}

/// Question of a server with the channel for its answer.
pub(crate) struct PendingElicitation {
    request: ElicitRequestParams,
    /// The tools that may have asked: those of all calls under way. The protocol does not say which.
    tools: Vec<String>,
    answer: oneshot::Sender<ElicitResult>,
}

/// Guard of a running call that receives questions of the server. Dropping it removes the call.
pub(crate) struct CallQuestionGuard<'a> {
    calls: &'a RunningMcpCalls,
    number: u64,
    questions: mpsc::UnboundedReceiver<Box<PendingElicitation>>,
}

/// Operator and execution that answer the questions of a server.
pub(in crate::agent) struct ElicitationContext<'a> {
    /// The permissions, which know the operator.
    pub permissions: &'a ToolPermissions,
    /// The execution that calls the tool.
    pub execution: &'a ExecutionInput,
    /// The address of the call.
    pub origin: RequestOrigin,
    /// The number of questions that were asked during the call.
    pub question_count: AtomicUsize,
    /// The questions that were answered, with their answers.
    pub answers: Mutex<Vec<AnswerRecord>>,
    /// The tool, with its server.
    pub tool: &'a str,
}

impl RunningMcpCalls {
    /// Registers a running call of this tool, and returns the receiver of its questions.
    pub(crate) fn register_call(&self, tool: &str, stopwatch: Stopwatch) -> CallQuestionGuard<'_> {
        let (sender, questions) = mpsc::unbounded_channel();
        let mut open = self.lock();
        let number = open.last().map_or(0, |last| last.number + 1);
        open.push(RunningMcpCall {
            number,
            tool: tool.to_owned(),
            questions: sender,
            stopwatch,
        });
        CallQuestionGuard {
            calls: self,
            number,
            questions,
        }
    }

    /// Forwards a question to the oldest running call and waits for the answer. Declines the question if no call is running.
    pub(crate) async fn forward_question(&self, request: ElicitRequestParams) -> ElicitResult {
        let (answer, answered) = oneshot::channel();
        let _standing: Vec<PauseGuard> = {
            let open = self.lock();
            let Some(first) = open.first() else {
                return ElicitResult::new(ElicitationAction::Decline);
            };
            let mut tools: Vec<String> = open.iter().map(|open| open.tool.clone()).collect();
            tools.sort();
            tools.dedup();
            // A call that has just ended drops the question, which is cancelled then.
            let pending = PendingElicitation { request, tools, answer };
            let _sent = first.questions.send(Box::new(pending)).is_ok();
            open.iter()
                .map(|open| open.stopwatch.pause_with_outer_stopwatches())
                .collect()
        };
        let cancelled = |_| ElicitResult::new(ElicitationAction::Cancel);
        answered.await.unwrap_or_else(cancelled)
    }

    /// Locks the list, also after a panic in another thread.
    fn lock(&self) -> MutexGuard<'_, Vec<RunningMcpCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallQuestionGuard<'_> {
    fn drop(&mut self) {
        self.calls.lock().retain(|open| open.number != self.number);
    }
}

impl CallQuestionGuard<'_> {
    /// Waits for the result of the call, and answers the questions that arrive before.
    pub(crate) async fn answer_questions_during<T>(
        mut self,
        call: impl Future<Output = T>,
        asking: &ElicitationContext<'_>,
    ) -> T {
        tokio::pin!(call);
        loop {
            let pending = tokio::select! {
                biased;
                ended = &mut call => return ended,
                Some(pending) = self.questions.recv() => pending,
            };
            tokio::select! {
                biased;
                ended = &mut call => return ended,
                result = asking.answer_elicitation(pending.request, &pending.tools) => {
                    // Nobody receives it if the server has withdrawn the question.
                    let _sent = pending.answer.send(result);
                }
            }
        }
    }
}

/// Reason why a form was not filled in.
enum UnfilledReason {
    Declined,
    Cancelled,
    Nobody,
}

impl ElicitationContext<'_> {
    /// Takes the answered questions with their answers.
    pub(in crate::agent) fn take_answer_records(&self) -> Vec<AnswerRecord> {
        std::mem::take(&mut *self.lock_answers())
    }

    /// Locks the answers, also after a panic in another thread.
    fn lock_answers(&self) -> MutexGuard<'_, Vec<AnswerRecord>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the operator to fill in the form of the question. Declines other questions, and warns if no operator is available.
    async fn answer_elicitation(&self, request: ElicitRequestParams, tools: &[String]) -> ElicitResult {
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema: schema,
            ..
        } = request
        else {
            // Pages in a browser are not offered to the server.
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let required = schema.required.unwrap_or_default();
        let names = schema
            .property_order
            .unwrap_or_else(|| schema.properties.keys().cloned().collect());
        let field = |name: &String| {
            let property = serde_json::to_value(schema.properties.get(name)?).ok()?;
            Some(FormField::new(name, property, required.contains(name)))
        };
        let fields: Vec<FormField> = names.iter().filter_map(field).collect();
        match self.ask_form_fields(&message, &fields, &describe_tools(tools)).await {
            Ok(content) => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)),
            Err(UnfilledReason::Declined) => ElicitResult::new(ElicitationAction::Decline),
            Err(UnfilledReason::Cancelled) => ElicitResult::new(ElicitationAction::Cancel),
            Err(UnfilledReason::Nobody) => {
                self.execution.ledger.add_warning(format!(
                    "{} asked a question, which was declined because no operator is available: {}",
                    describe_tools(tools),
                    escape_hidden(message.trim())
                ));
                ElicitResult::new(ElicitationAction::Decline)
            }
        }
    }

    /// Asks the operator whether to answer, then for each field. `asker` describes the tools that can have asked.
    async fn ask_form_fields(
        &self,
        message: &str,
        fields: &[FormField],
        asker: &str,
    ) -> Result<Map<String, Value>, UnfilledReason> {
        let names: Vec<String> = fields
            .iter()
            .map(|field| format!("`{}`", escape_hidden(field.name())))
            .collect();
        let quoted: Vec<String> = message
            .trim()
            .lines()
            .map(|line| format!("  | {}", escape_hidden(line)))
            .collect();
        let accept = if fields.is_empty() { "accept" } else { "answer" };
        let asks_for = match names.as_slice() {
            [] => String::new(),
            names => format!("\nIt asks for {}.", names.join(", ")),
        };
        let prompt = format!("{asker} asks a question:\n{}{asks_for}", quoted.join("\n"));
        let choices: Vec<String> = [accept, "decline", "cancel"].map(str::to_owned).into();
        let (_one_at_a_time, operator) = self.permissions.lock_operator().await;
        let decided = self.ask_until_valid(operator, &prompt, &choices, None, |answer| {
            let answer = answer.trim().to_lowercase();
            let at = choices.iter().position(|choice| *choice == answer);
            let number = answer.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match at.or(number) {
                Some(0) => Ok(Ok(())),
                Some(1) => Ok(Err(UnfilledReason::Declined)),
                Some(2) => Ok(Err(UnfilledReason::Cancelled)),
                _ => Err(format!("`{}` is not one of the choices", escape_hidden(&answer))),
            }
        });
        decided.await??;
        let mut content = Map::new();
        for field in fields {
            let read = |answer: &str| match field.parse_field_answer(answer) {
                FieldAnswer::Value(value) => Ok(Some(value)),
                FieldAnswer::Nothing => Ok(None),
                FieldAnswer::Refused(reason) => Err(reason),
            };
            let prompt = format!("{asker} asks for {}", field.field_question_text());
            let value = self
                .ask_until_valid(
                    operator,
                    &prompt,
                    &field.list_choices(),
                    field.default_answer_text(),
                    read,
                )
                .await?;
            if let Some(value) = value {
                content.insert(field.name().to_owned(), value);
            }
        }
        Ok(content)
    }

    /// Asks until the answer can be parsed, up to the maximum number of answers. Stops the clock of the execution meanwhile.
    async fn ask_until_valid<T>(
        &self,
        operator: &dyn Operator,
        prompt: &str,
        choices: &[String],
        default: Option<String>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, UnfilledReason> {
        let question = OperatorQuestion::new(prompt, choices.to_vec());
        // A tool may ask the same twice in one call.
        let number = self.question_count.fetch_add(1, Ordering::Relaxed);
        let origin = self.origin.clone();
        let mut question_request = QuestionRequest {
            run: RunId::new(self.execution.run_id.clone()),
            request: PendingRequest::for_tool_question(self.execution, origin, number, question),
            default: default.map(Arc::from),
            timeout: None,
            refused: None,
        };
        for _ in 0..MAX_INVALID_ANSWERS {
            match operator.ask_question(question_request.clone()).await {
                OperatorAnswer::Text { text, by } => match read(&text) {
                    Ok(value) => {
                        let record = AnswerRecord::from_answered_request(&question_request.request, text, by);
                        self.lock_answers().push(record);
                        return Ok(value);
                    }
                    Err(reason) => question_request.refused = Some(reason),
                },
                OperatorAnswer::TimedOut => return Err(UnfilledReason::Cancelled),
                OperatorAnswer::Nobody | OperatorAnswer::Postponed => return Err(UnfilledReason::Nobody),
            }
        }
        Err(UnfilledReason::Cancelled)
    }
}

/// Renders the names of the tools that can have asked.
fn describe_tools(tools: &[String]) -> String {
    let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", escape_hidden(tool))).collect();
    match names.as_slice() {
        [name] => format!("the tool {name}"),
        names => format!("one of the tools {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ElicitationSchema;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_question_names_all_tools_that_may_have_asked() {
        let calls = RunningMcpCalls::default();
        let schema = || -> ElicitationSchema {
            serde_json::from_value(json!({"type": "object", "properties": {}})).expect("a schema")
        };
        let request = || ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Delete everything?".to_owned(),
            requested_schema: schema(),
        };
        let mut first = calls.register_call("files.read", Stopwatch::default());
        let second = calls.register_call("files.delete", Stopwatch::default());
        let third = calls.register_call("files.read", Stopwatch::default());
        for (tools, described) in [
            (
                &["files.delete", "files.read"][..],
                "one of the tools `files.delete`, `files.read`",
            ),
            (&["files.read"], "the tool `files.read`"),
        ] {
            let asked = calls.forward_question(request());
            let answered = async {
                let pending = first.questions.recv().await.expect("a question");
                assert_eq!(pending.tools, tools);
                assert_eq!(describe_tools(&pending.tools), described);
                let _sent = pending.answer.send(ElicitResult::new(ElicitationAction::Decline));
            };
            tokio::join!(asked, answered);
            if tools.len() > 1 {
                calls.lock().retain(|open| open.number != second.number);
            }
        }
        drop(third);
    }
}
