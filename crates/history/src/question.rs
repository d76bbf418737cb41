//! The text of a question.

use ensemble_core::operator::QuestionRequest;
use ensemble_core::request::AnswerRecord;
use ensemble_language::data::OperatorQuestion;

/// Returns the text of a question: why the previous answer was refused, if it was, and the prompt.
pub fn question_text_with_refusal(asked: &QuestionRequest) -> String {
    match &asked.refused {
        Some(refused) => format!("{refused}\n{}", asked.request.question.prompt),
        None => asked.request.question.prompt.clone(),
    }
}

/// Returns the question as one text for a client that shows no choices: the prompt, and the choices in parentheses.
pub fn question_text_with_choices(question: &OperatorQuestion) -> String {
    append_choices(&question.prompt, &question.choices)
}

/// Returns the question that was answered as one text, like [`question_text`].
pub(crate) fn answered_question_text(answer: &AnswerRecord) -> String {
    append_choices(&answer.prompt, &answer.choices)
}

fn append_choices(prompt: &str, choices: &[String]) -> String {
    match choices {
        [] => prompt.to_owned(),
        choices => format!("{prompt} ({})", choices.join(", ")),
    }
}
