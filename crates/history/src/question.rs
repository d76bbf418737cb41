//! The text of questions.

use ensemble_core::operator::QuestionRequest;
use ensemble_language::data::OperatorQuestion;

/// Returns the text of a question: the refusal of the previous answer, if any, and the prompt.
pub fn question_text_with_refusal(asked: &QuestionRequest) -> String {
    match &asked.refused {
        Some(refused) => format!("{refused}\n{}", asked.request.question.prompt),
        None => asked.request.question.prompt.clone(),
    }
}

/// Returns the question as one text for a client that shows no choices: the prompt, followed by the choices in parentheses.
pub fn question_text_with_choices(question: &OperatorQuestion) -> String {
    append_choices(&question.prompt, &question.choices)
}

fn append_choices(prompt: &str, choices: &[String]) -> String {
    match choices {
        [] => prompt.to_owned(),
        choices => format!("{prompt} ({})", choices.join(", ")),
    }
}
