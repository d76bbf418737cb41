//! The text of a question.

use ensemble_core::operator::QuestionRequest;
use ensemble_language::data::OperatorQuestion;

/// Returns the text of a question: why the previous answer was refused, if it was, and the prompt.
pub fn question_request_text(asked: &QuestionRequest) -> String {
    match &asked.refused {
        Some(refused) => format!("{refused}\n{}", asked.request.question.prompt),
        None => asked.request.question.prompt.clone(),
    }
}

/// Returns the question as one text for a client that shows no choices: the prompt, and the choices in parentheses.
pub fn question_text(question: &OperatorQuestion) -> String {
    add_choices(&question.prompt, &question.choices)
}

fn add_choices(prompt: &str, choices: &[String]) -> String {
    match choices {
        [] => prompt.to_owned(),
        choices => format!("{prompt} ({})", choices.join(", ")),
    }
}
