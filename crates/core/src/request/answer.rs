//! Answers of operators: their sources, their record, and the reasons why an answer is refused.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{PendingRequest, RequestAddress};
use ensemble_language::data::OperatorQuestion;
use ensemble_language::hidden_characters::{escape_hidden, is_hidden_character};

/// The decision whether a tool call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionDecision {
    /// This call may be made.
    Once,
    /// This call and all later calls of the tool in this run may be made.
    Always,
    /// This call may not be made.
    Denied,
}

impl PermissionDecision {
    /// All decisions.
    pub const ALL: [Self; 3] = [Self::Once, Self::Always, Self::Denied];

    /// Returns the word in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Always => "always",
            Self::Denied => "denied",
        }
    }

    /// Returns the decision with this word in the journal.
    pub fn from_journal_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|decision| decision.as_str() == word)
    }
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerSource {
    /// A person at the terminal.
    Terminal,
    /// An option of the command line, or of a program that uses the library.
    Option,
    /// A file of answers.
    File,
    /// The `default` of the agent.
    Default,
    /// A list of `responses`, or a model.
    Responder,
    /// A Rhai function in `responses`.
    Script,
    /// The page, or its chat endpoint.
    Page,
    /// A client of the Model Context Protocol.
    Mcp,
    /// A client of the Agent Client Protocol.
    Acp,
    /// A stub in a test or of `--stub`.
    Stub,
}

impl AnswerSource {
    /// Returns the words for the source in `answered by …`.
    pub fn author_words(self) -> &'static str {
        match self {
            Self::Terminal => "the terminal",
            Self::Option => "an option",
            Self::File => "the answers file",
            Self::Default => "the default",
            Self::Responder => "the responder",
            Self::Script => "a script",
            Self::Page => "the page",
            Self::Mcp => "an MCP client",
            Self::Acp => "an ACP client",
            Self::Stub => "a stub",
        }
    }
}

/// The source of an answer and, where known, the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerAuthor {
    /// The source.
    pub source: AnswerSource,
    /// The user, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
}

/// The maximum number of characters of a user's name.
const MAX_USER_CHARACTERS: usize = 80;

impl AnswerAuthor {
    /// Creates the author with the name of the user. Removes hidden characters and shortens the name. An empty name becomes unknown.
    pub fn with_visible_user(source: AnswerSource, user: &str) -> Self {
        let visible = user.chars().filter(|character| !is_hidden_character(*character));
        let name: String = visible.take(MAX_USER_CHARACTERS).collect();
        let name = name.trim();
        Self {
            source,
            user: (!name.is_empty()).then(|| name.into()),
        }
    }
}

/// Writes the words for people, which follow "answered by": `the terminal (alice)`.
impl fmt::Display for AnswerAuthor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source.author_words())?;
        match &self.user {
            Some(user) => write!(f, " ({user})"),
            None => Ok(()),
        }
    }
}

impl From<AnswerSource> for AnswerAuthor {
    fn from(source: AnswerSource) -> Self {
        Self { source, user: None }
    }
}

/// The record of an answered question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The address of the question.
    pub address: RequestAddress,
    /// The rendered text of the question.
    pub prompt: String,
    /// The choices; empty: any answer was allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The answer.
    pub answer: String,
    /// Who answered.
    #[serde(flatten)]
    pub by: AnswerAuthor,
    /// `true`: the answer is the `default`, because no person could be asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
}

impl AnswerRecord {
    /// Creates the record of the answer to a request.
    pub fn from_answered_request(request: &PendingRequest, answer: String, by: AnswerAuthor) -> Self {
        Self {
            address: request.address.clone(),
            prompt: request.question.prompt.clone(),
            choices: request.question.choices.clone(),
            answer,
            by,
            unattended: false,
        }
    }

    /// Returns the question as one text, with its choices in parentheses.
    pub fn question_text(&self) -> String {
        match self.choices.as_slice() {
            [] => self.prompt.clone(),
            choices => format!("{} ({})", self.prompt, choices.join(", ")),
        }
    }

    /// Returns the words for people that say who answered.
    pub fn describe_authorship(&self) -> String {
        match self.unattended {
            true => format!("answered by {}, because no person could be asked", self.by),
            false => format!("answered by {}", self.by),
        }
    }
}

/// Answer of a client to a pending request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestAnswer {
    /// The answer to a question.
    Text(String),
    /// The answer to a permission request.
    Permission(PermissionDecision),
}

impl RequestAnswer {
    /// Returns the text of the answer, or the word of the decision.
    pub fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Permission(decision) => decision.as_str(),
        }
    }
}

/// Reason why an answer of an operator was not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerRefusal {
    /// The request is decided.
    #[error(
        "`{address}` was answered `{answer}` by {by} at {}{}; your answer was not used",
        at.format("%Y-%m-%d %H:%M:%S UTC"),
        render_still_pending(pending)
    )]
    Decided {
        /// The address.
        address: RequestAddress,
        /// The answer that was used.
        answer: String,
        /// Who gave it.
        by: AnswerAuthor,
        /// When it was recorded.
        at: DateTime<Utc>,
        /// The addresses of the requests that still wait.
        pending: Vec<RequestAddress>,
    },
    /// The request is not the one that was shown.
    #[error(
        "`{address}` now asks a different question: {}; your answer was not used",
        render_question_line(question)
    )]
    Changed {
        /// The address.
        address: RequestAddress,
        /// The question that waits now.
        question: Box<OperatorQuestion>,
    },
    /// Nothing waits at the address.
    #[error("`{given}` asks nothing{}", render_pending(pending))]
    NotPending {
        /// The address.
        given: String,
        /// The addresses of the requests that wait.
        pending: Vec<RequestAddress>,
    },
    /// Several requests have the name.
    #[error("`{given}` is not unique{}", render_pending(pending))]
    Ambiguous {
        /// The name.
        given: String,
        /// The addresses of the requests with the name.
        pending: Vec<RequestAddress>,
    },
    /// The answer is not one of the choices.
    #[error("`{}` is not one of the choices of `{address}`: {}", answer.trim(), choices.join(", "))]
    NotAChoice {
        /// The address.
        address: RequestAddress,
        /// The answer.
        answer: String,
        /// The choices.
        choices: Vec<String>,
    },
    /// The answer does not match the `output_schema` of the agent.
    #[error("the answer to `{address}` does not match its `output_schema`: {errors}")]
    Schema {
        /// The address.
        address: RequestAddress,
        /// What does not match.
        errors: String,
    },
    /// A question was answered like a permission request, or the other way round.
    #[error("`{address}` {}", if *is_permission { "asks for permission: the answer is `once`, `always` or `denied`" } else { "asks a question: the answer is a text" })]
    WrongKind {
        /// The address.
        address: RequestAddress,
        /// Whether the request asks for permission.
        is_permission: bool,
    },
}

/// The maximum number of characters of a question in an error.
const MAX_QUESTION_CHARACTERS: usize = 500;

/// Renders the question on one line, with its choices, shortened and with hidden characters escaped.
pub fn render_question_line(question: &OperatorQuestion) -> String {
    let prompt = question.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = match question.choices.as_slice() {
        [] => prompt,
        choices => format!("{prompt} ({})", choices.join(", ")),
    };
    let mut shown: String = text.chars().take(MAX_QUESTION_CHARACTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    escape_hidden(&shown)
}

/// Renders the end of the sentence about a decided request: the requests that still wait.
fn render_still_pending(pending: &[RequestAddress]) -> String {
    match pending {
        [] => String::new(),
        pending => render_pending(pending),
    }
}

impl AnswerRefusal {
    /// Adds the addresses of the requests that still wait, if the refusal is about a decided request.
    #[must_use]
    pub fn with_pending_addresses(self, still_pending: impl IntoIterator<Item = RequestAddress>) -> Self {
        match self {
            Self::Decided {
                address,
                answer,
                by,
                at,
                ..
            } => Self::Decided {
                pending: still_pending.into_iter().filter(|open| *open != address).collect(),
                address,
                answer,
                by,
                at,
            },
            refusal => refusal,
        }
    }

    /// Creates the refusal of an answer to a request that is different from the request that waits now at the address.
    pub fn for_changed_request(request: &PendingRequest) -> Self {
        Self::Changed {
            address: request.address.clone(),
            question: Box::new(request.question.clone()),
        }
    }
}

/// Renders the addresses of pending requests as the end of a sentence.
fn render_pending(pending: &[RequestAddress]) -> String {
    match pending {
        [] => ", and nothing else waits for an answer".to_owned(),
        addresses => {
            let addresses: Vec<String> = addresses.iter().map(|address| format!("`{address}`")).collect();
            format!("; what waits for an answer: {}", addresses.join(", "))
        }
    }
}

/// Returns the pending requests that the name `given` matches most precisely: by address, by path, or by the bare agent name.
pub fn list_best_matches<'p>(given: &str, pending: &'p [PendingRequest]) -> Vec<&'p PendingRequest> {
    let precision = |request: &PendingRequest| request.address.match_precision(given);
    let Some(best) = pending.iter().filter_map(precision).max() else {
        return Vec::new();
    };
    let named = pending.iter().filter(|request| precision(request) == Some(best));
    named.collect()
}

/// Returns the only pending request that the name `given` matches most precisely.
///
/// # Errors
/// [`AnswerRefusal::NotPending`] or [`AnswerRefusal::Ambiguous`].
pub fn resolve_pending_request<'p>(
    given: &str,
    pending: &'p [PendingRequest],
) -> Result<&'p PendingRequest, AnswerRefusal> {
    let addresses = |requests: &mut dyn Iterator<Item = &PendingRequest>| -> Vec<RequestAddress> {
        requests.map(|request| request.address.clone()).collect()
    };
    match list_best_matches(given, pending).as_slice() {
        [request] => Ok(request),
        [] => Err(AnswerRefusal::NotPending {
            given: given.to_owned(),
            pending: addresses(&mut pending.iter()),
        }),
        several => Err(AnswerRefusal::Ambiguous {
            given: given.to_owned(),
            pending: addresses(&mut several.iter().copied()),
        }),
    }
}

/// Returns the choice for an answer: by its text in any case, or by its number from 1 if `by_number`.
/// Without choices, returns the answer. Returns `None` if the answer is none of the choices.
pub fn resolve_choice(answer: &str, choices: &[String], by_number: bool) -> Option<String> {
    if choices.is_empty() {
        return Some(answer.to_owned());
    }
    let answer = answer.trim();
    let is_same = |choice: &&String| choice.trim().to_lowercase() == answer.to_lowercase();
    let exact = choices.iter().find(|choice| choice.trim() == answer);
    let matching_choice = exact.or_else(|| choices.iter().find(is_same));
    let numbered = || {
        let number: usize = answer.parse().ok()?;
        choices.get(number.checked_sub(1)?)
    };
    matching_choice.or_else(|| by_number.then(numbered).flatten()).cloned()
}

impl PendingRequest {
    /// Checks that the answer fits the kind and the choices of the request. An empty answer for a default is checked by the caller.
    ///
    /// # Errors
    /// [`AnswerRefusal::WrongKind`] or [`AnswerRefusal::NotAChoice`].
    pub fn check_answer(&self, answer: &RequestAnswer, by_number: bool) -> Result<(), AnswerRefusal> {
        let OperatorQuestion { choices, .. } = &self.question;
        match (answer, self.is_permission()) {
            (RequestAnswer::Permission(_), true) => Ok(()),
            (RequestAnswer::Text(text), false) if resolve_choice(text, choices, by_number).is_some() => Ok(()),
            (RequestAnswer::Text(text), false) => Err(AnswerRefusal::NotAChoice {
                address: self.address.clone(),
                answer: text.clone(),
                choices: choices.clone(),
            }),
            (_, is_permission) => Err(AnswerRefusal::WrongKind {
                address: self.address.clone(),
                is_permission,
            }),
        }
    }
}
