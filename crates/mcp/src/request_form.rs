//! Questions and permission requests as forms that a client shows to its user.
//!
//! Invariant: a form contains no characters that control a terminal.

use ensemble_core::conversation::PermissionDecision;
use ensemble_core::operator::{OperatorRequest, escape_hidden, escape_hidden_lines};
use ensemble_core::request::{AnswerAuthor, AnswerSource, RequestAnswer};
use ensemble_core::store::RunId;
use ensemble_history::question_text_with_refusal;
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{RunError, RunOptions};
use hyper::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

/// The permission decisions with their names for clients.
pub(crate) const DECISION_WORDS: [(&str, PermissionDecision); 3] = [
    ("once", PermissionDecision::Once),
    ("always", PermissionDecision::Always),
    ("deny", PermissionDecision::Denied),
];

/// The maximum number of characters of a client's name before its session.
const MAX_CLIENT_NAME_CHARS: usize = 30;

/// The method by which a client asks the user a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuestionMethod {
    /// The server asks during the call.
    DuringCall,
    /// The call ends with the question, and is repeated with its answer (since 2026-07-28).
    ByRepeatedCall,
    /// The client cannot ask the user.
    None,
}

impl QuestionMethod {
    /// Determines the method from the capabilities of the client.
    pub(crate) fn for_client(context: &RequestContext<RoleServer>) -> Self {
        let has_forms = |client: ClientCapabilities| {
            client
                .elicitation
                .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
        };
        if !context.client_capabilities().is_some_and(has_forms) {
            return Self::None;
        }
        let version = context.protocol_version();
        let repeats = version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if repeats {
            Self::ByRepeatedCall
        } else {
            Self::DuringCall
        }
    }
}

/// Creates the author of answers from this client, with its name and session.
pub(crate) fn client_answer_author(context: &RequestContext<RoleServer>) -> AnswerAuthor {
    let client = context.peer.peer_info();
    let name = client.as_ref().map_or("", |client| client.client_info.name.as_str());
    let mut user: String = name.chars().take(MAX_CLIENT_NAME_CHARS).collect();
    if let Some(session) = http_session_id(context) {
        let separator = if user.is_empty() { "" } else { ", " };
        user.push_str(&format!("{separator}session {session}"));
    }
    AnswerAuthor::with_visible_user(AnswerSource::Mcp, &user)
}

/// Returns the session id of an HTTP client.
fn http_session_id(context: &RequestContext<RoleServer>) -> Option<&str> {
    let request = context.extensions.get::<Parts>()?;
    request.headers.get("mcp-session-id")?.to_str().ok()
}

/// A question or permission request as a form for the client.
pub(crate) struct ClientRequestForm(pub(crate) OperatorRequest);

impl ClientRequestForm {
    /// Returns the digest of the request, which distinguishes it from other requests.
    pub(crate) fn request_digest(&self) -> &str {
        self.0.pending_request().digest.as_str()
    }

    /// Converts the request to an elicitation of the protocol.
    ///
    /// # Errors
    ///
    /// The form cannot be expressed in the protocol.
    pub(crate) fn to_elicitation(&self) -> Result<ElicitRequestParams, serde_json::Error> {
        let request = self.0.pending_request();
        let (message, property, schema) = match &self.0 {
            OperatorRequest::Question(asked) => {
                let mut schema = json!({"type": "string", "title": "Answer"});
                if !request.question.choices.is_empty() {
                    schema["enum"] = json!(request.escaped_choices());
                }
                if let Some(default) = asked.escaped_default() {
                    schema["default"] = default.into();
                }
                let text = escape_hidden_lines(question_text_with_refusal(asked).trim());
                (
                    format!("{} asks: {text}", escape_hidden(&request.address.to_string())),
                    "answer",
                    schema,
                )
            }
            OperatorRequest::Permission(call) => {
                let words = DECISION_WORDS.map(|(word, _)| word);
                let arguments = escape_hidden(&json!(call.arguments).to_string());
                let message = format!(
                    "May {} call the tool {} with {arguments}?",
                    escape_hidden(&request.address.to_string()),
                    escape_hidden(&call.tool)
                );
                (
                    message,
                    "decision",
                    json!({"type": "string", "title": "Decision", "enum": words}),
                )
            }
        };
        let schema = json!({"type": "object", "properties": {property: schema}, "required": [property]});
        let schema = ElicitationSchema::from_json_schema(schema.as_object().cloned().unwrap_or_default())?;
        Ok(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema: schema,
        })
    }

    /// Sends the answer in an elicitation result to the run. Returns `false` if the user did not answer.
    ///
    /// # Errors
    ///
    /// The run does not accept the answer.
    pub(crate) async fn send_elicitation_answer(
        &self,
        service: &RunService,
        run: &RunId,
        said: &ElicitResult,
        by: AnswerAuthor,
    ) -> Result<bool, RunError> {
        if said.action != ElicitationAction::Accept {
            return Ok(false);
        }
        let text_field = |key: &str| {
            said.content
                .as_ref()
                .and_then(|content| content.get(key))
                .and_then(Value::as_str)
        };
        let answer = match &self.0 {
            OperatorRequest::Question(asked) => {
                let answer = text_field("answer").map(|text| asked.unescape_answer(text));
                RequestAnswer::Text(answer.or(asked.default.as_deref()).unwrap_or_default().to_owned())
            }
            OperatorRequest::Permission(_) => {
                let decision = text_field("decision").and_then(parse_decision_word);
                RequestAnswer::Permission(decision.unwrap_or(PermissionDecision::Denied))
            }
        };
        let request = self.0.pending_request();
        let shown_request = (&request.address, &request.digest);
        service
            .answer_or_resume(run, shown_request, answer, by, RunOptions::default())
            .await?;
        Ok(true)
    }
}

/// Parses the name of a decision, in any case.
pub(crate) fn parse_decision_word(word: &str) -> Option<PermissionDecision> {
    let known_decision = DECISION_WORDS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
    known_decision.map(|(_, decision)| *decision)
}
