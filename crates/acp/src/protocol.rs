//! Conversions between the types of the protocol's crate and those of this program. No other file uses the protocol's crate.
//!
//! Invariant: no other file uses the types of that crate.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1 as acp;
use ensemble_core::conversation::PermissionDecision;
use ensemble_core::operator::{PermissionRequest, QuestionRequest, escape_hidden, escape_hidden_lines};
use ensemble_history::question_text_with_refusal;
use ensemble_runs::{ClientServer, ClientServers};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::budget_use::BudgetUsageUpdate;
use crate::session_update::{MessageChunk, ProgressCard, ProgressStatus, SessionUpdate, UpdateSource};
use crate::wire::RpcError;

/// The parameters of a request that creates or opens a session.
pub(crate) struct SessionParameters {
    /// The id of the session to open. `None` means a new session.
    pub(crate) session: Option<String>,
    pub(crate) cwd: PathBuf,
    /// The MCP servers of the client.
    pub(crate) servers: ClientServers,
}

/// A choice that the client can make for a session, with its values.
pub(crate) struct SessionChoice {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) is_model: bool,
    pub(crate) current: String,
    /// The values with their names.
    pub(crate) values: Vec<(String, String)>,
}

/// Parses the parameters of a request.
fn parse_params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(RpcError::invalid_params)
}

/// Converts a message to JSON.
fn to_json(message: impl serde::Serialize) -> Value {
    serde_json::to_value(message).unwrap_or_default()
}

/// Parses the name and the capabilities of the client in `initialize`.
pub(crate) fn parse_client_capabilities(params: Value) -> Result<ClientCapabilities, RpcError> {
    let request: acp::InitializeRequest = parse_params(params)?;
    let elicitation = request.client_capabilities.elicitation;
    Ok(ClientCapabilities {
        name: request.client_info.map(|client| client.name),
        shows_forms: elicitation.is_some_and(|elicitation| elicitation.form.is_some()),
    })
}

/// The name and the capabilities of a client, as stated in `initialize`.
pub(crate) struct ClientCapabilities {
    /// The name of the client program.
    pub(crate) name: Option<String>,
    /// True if the client can show forms.
    pub(crate) shows_forms: bool,
}

/// Creates the response to `initialize` with the capabilities of the server.
pub(crate) fn initialize_response(version: &str) -> Value {
    json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "ensemble", "title": "ensemble", "version": version},
        "authMethods": [],
        "agentCapabilities": {
            "loadSession": true,
            "mcpCapabilities": {"http": true},
            "promptCapabilities": {"embeddedContext": true},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
    })
}

/// Parses the parameters of `session/new`.
pub(crate) fn parse_new_session(params: Value) -> Result<SessionParameters, RpcError> {
    let request: acp::NewSessionRequest = parse_params(params)?;
    Ok(SessionParameters {
        session: None,
        cwd: require_absolute_folder(request.cwd)?,
        servers: convert_client_servers(request.mcp_servers)?,
    })
}

/// Parses the parameters of `session/load` and `session/resume`.
pub(crate) fn parse_resumed_session(params: Value) -> Result<SessionParameters, RpcError> {
    let request: acp::ResumeSessionRequest = parse_params(params)?;
    Ok(SessionParameters {
        session: Some(request.session_id.0.to_string()),
        cwd: require_absolute_folder(request.cwd)?,
        servers: convert_client_servers(request.mcp_servers)?,
    })
}

/// Returns the folder unchanged. Fails if its path is relative.
fn require_absolute_folder(cwd: PathBuf) -> Result<PathBuf, RpcError> {
    match cwd.is_absolute() {
        true => Ok(cwd),
        false => Err(RpcError::invalid_params(format!(
            "`cwd` is not absolute: {}",
            cwd.display()
        ))),
    }
}

/// Converts the MCP servers of the client. Fails for transports that are not offered.
fn convert_client_servers(given: Vec<acp::McpServer>) -> Result<ClientServers, RpcError> {
    let mut servers = ClientServers::default();
    for server in given {
        match server {
            acp::McpServer::Stdio(server) => {
                let command = ClientServer::Command {
                    command: server.command.display().to_string(),
                    args: server.args,
                    env: server.env.into_iter().map(|one| (one.name, one.value)).collect(),
                };
                servers.insert_server(server.name, command);
            }
            acp::McpServer::Http(server) => {
                let headers = server.headers.into_iter().map(|one| (one.name, one.value));
                let http = ClientServer::Http {
                    url: server.url,
                    headers: headers.collect(),
                };
                servers.insert_server(server.name, http);
            }
            other => {
                let name = to_json(other)["name"].as_str().unwrap_or_default().to_owned();
                return Err(RpcError::invalid_params(format!(
                    "the MCP server `{name}` has a type that `initialize` does not offer"
                )));
            }
        }
    }
    Ok(servers)
}

/// Parses the parameters of a prompt. Returns the session id and the text.
pub(crate) fn parse_prompt(params: Value) -> Result<(String, String), RpcError> {
    let request: acp::PromptRequest = parse_params(params)?;
    let texts: Result<Vec<String>, RpcError> = request.prompt.into_iter().map(prompt_block_text).collect();
    Ok((request.session_id.0.to_string(), texts?.join("\n\n")))
}

/// Converts a block of a prompt to text. Fails for images and audio.
fn prompt_block_text(block: acp::ContentBlock) -> Result<String, RpcError> {
    match block {
        acp::ContentBlock::Text(text) => Ok(text.text),
        acp::ContentBlock::ResourceLink(link) => Ok(format!("[{}]({})", link.name, link.uri)),
        acp::ContentBlock::Resource(resource) => match resource.resource {
            acp::EmbeddedResourceResource::TextResourceContents(contents) => {
                Ok(format!("{}:\n{}", contents.uri, contents.text))
            }
            _ => Err(RpcError::invalid_params(
                "a prompt can contain only resources that are texts",
            )),
        },
        _ => Err(RpcError::invalid_params("a prompt cannot contain images or audio")),
    }
}

/// Parses the parameters of a choice. Returns the session id, the id of the choice, and the chosen value.
pub(crate) fn parse_set_option(params: Value) -> Result<(String, String, String), RpcError> {
    let request: acp::SetSessionConfigOptionRequest = parse_params(params)?;
    let Some(value_id) = request.value.as_value_id() else {
        return Err(RpcError::invalid_params("a value must be one of the offered values"));
    };
    let (session, id) = (request.session_id.0.to_string(), request.config_id.0.to_string());
    Ok((session, id, value_id.0.to_string()))
}

/// Converts the choices to JSON.
pub(crate) fn config_options_json(choices: &[SessionChoice]) -> Value {
    let options: Vec<acp::SessionConfigOption> = choices.iter().map(choice_to_config_option).collect();
    to_json(options)
}

/// Converts a choice to the type of the protocol.
fn choice_to_config_option(choice: &SessionChoice) -> acp::SessionConfigOption {
    let values = choice.values.iter();
    let values: Vec<acp::SessionConfigSelectOption> = values
        .map(|(id, name)| acp::SessionConfigSelectOption::new(id.clone(), name.clone()))
        .collect();
    let option =
        acp::SessionConfigOption::select(choice.id.clone(), choice.name.clone(), choice.current.clone(), values);
    match choice.is_model {
        true => option.category(acp::SessionConfigOptionCategory::Model),
        false => option,
    }
}

/// Creates the JSON entry of a session in a list.
pub(crate) fn session_list_entry(id: &str, cwd: &Path, title: &str, updated_at: String) -> Value {
    to_json(
        acp::SessionInfo::new(id.to_owned(), cwd)
            .title(title.to_owned())
            .updated_at(updated_at),
    )
}

/// Creates the parameters of a `session/update` notification.
pub(crate) fn update_notification(session: &str, update: SessionUpdate) -> Value {
    let update = match update {
        SessionUpdate::Prompt(chunk) | SessionUpdate::User(chunk) => {
            acp::SessionUpdate::UserMessageChunk(to_content_chunk(chunk))
        }
        SessionUpdate::AgentMessage(chunk) => acp::SessionUpdate::AgentMessageChunk(to_content_chunk(chunk)),
        SessionUpdate::Thought(chunk) => acp::SessionUpdate::AgentThoughtChunk(to_content_chunk(chunk)),
        SessionUpdate::Plan(agents) => {
            let entries = agents.into_iter().map(|(agent, status)| {
                acp::PlanEntry::new(agent, acp::PlanEntryPriority::Medium, to_plan_status(status))
            });
            acp::SessionUpdate::Plan(acp::Plan::new(entries.collect()))
        }
        SessionUpdate::Title(title) => {
            acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().title(title))
        }
        SessionUpdate::Usage(BudgetUsageUpdate { used, most, budget }) => {
            let meta = Map::from_iter([("ensemble".to_owned(), json!({"budget": budget}))]);
            acp::SessionUpdate::UsageUpdate(acp::UsageUpdate::new(used, most).meta(meta))
        }
        SessionUpdate::Card(card) => return json!({"sessionId": session, "update": card_to_tool_call_json(card)}),
    };
    to_json(acp::SessionNotification::new(session.to_owned(), update))
}

/// Converts a piece of a message to the type of the protocol.
fn to_content_chunk(chunk: MessageChunk) -> acp::ContentChunk {
    let text = acp::ContentBlock::Text(acp::TextContent::new(chunk.text));
    let content = acp::ContentChunk::new(text).message_id(acp::MessageId::new(chunk.id));
    match chunk.source {
        Some(source) => content.meta(update_source_metadata(&source)),
        None => content,
    }
}

/// Creates the metadata of an update: the agent and its execution, with the names of the outer runs.
fn update_source_metadata(source: &UpdateSource) -> Map<String, Value> {
    let mut names = json!({"agent": source.agent, "execution": source.execution});
    if !source.nested.is_empty() {
        names["nested"] = json!(source.nested);
    }
    Map::from_iter([("ensemble".to_owned(), names)])
}

/// Converts a status to the type of the protocol, where failed counts as completed.
fn to_plan_status(status: ProgressStatus) -> acp::PlanEntryStatus {
    match status {
        ProgressStatus::Pending => acp::PlanEntryStatus::Pending,
        ProgressStatus::Running => acp::PlanEntryStatus::InProgress,
        // A plan knows no failure; the card tells it.
        ProgressStatus::Completed | ProgressStatus::Failed => acp::PlanEntryStatus::Completed,
    }
}

/// Converts a card to a tool call of the protocol.
fn card_to_tool_call_json(card: ProgressCard) -> Value {
    let status = match card.status {
        ProgressStatus::Pending => "pending",
        ProgressStatus::Running => "in_progress",
        ProgressStatus::Completed => "completed",
        ProgressStatus::Failed => "failed",
    };
    let update_kind = if card.is_new { "tool_call" } else { "tool_call_update" };
    let mut json = json!({"sessionUpdate": update_kind, "toolCallId": card.id, "title": card.title, "status": status});
    json["_meta"] = update_source_metadata(&card.source).into();
    json["kind"] = if card.is_tool { "other" } else { "think" }.into();
    if let Some(input) = card.input {
        json["rawInput"] = input;
    }
    if let Some(output) = card.output {
        json["rawOutput"] = output;
    }
    if let Some(text) = card.text {
        json["content"] = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    }
    json
}

/// Creates a request for permission to call a tool.
pub(crate) fn permission_request(session: &str, card: &str, wanted: &PermissionRequest) -> Value {
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": card,
            "title": escape_hidden(&format!("{}: {}", wanted.request.address, wanted.tool)),
            "status": "pending",
            "rawInput": wanted.arguments,
        },
        "options": [
            {"optionId": "once", "name": "Allow", "kind": "allow_once"},
            {"optionId": "always", "name": "Allow always in this run", "kind": "allow_always"},
            {"optionId": "denied", "name": "Deny", "kind": "reject_once"},
        ],
    })
}

/// Parses the decision about a call. Returns `None` if the client has cancelled the question.
pub(crate) fn parse_permission_decision(answer: &Value) -> Option<PermissionDecision> {
    let decision = PermissionDecision::from_journal_word(selected_option_id(answer)?);
    Some(decision.unwrap_or(PermissionDecision::Denied))
}

/// Returns the id of the selected option.
pub(crate) fn selected_option_id(answer: &Value) -> Option<&str> {
    answer["outcome"]["optionId"].as_str()
}

/// Creates a request that shows the choices of a question as options.
pub(crate) fn question_options_request(session: &str, card: &str, asked: &QuestionRequest) -> Value {
    let choices = asked.request.escaped_choices().into_iter().enumerate();
    let options: Vec<Value> = choices
        .map(|(at, choice)| json!({"optionId": at.to_string(), "name": choice, "kind": "allow_once"}))
        .collect();
    let tool_call = json!({"toolCallId": card, "title": question_message(asked), "status": "pending"});
    json!({"sessionId": session, "toolCall": tool_call, "options": options})
}

/// Creates a request that shows a question as a form.
pub(crate) fn question_form_request(session: &str, asked: &QuestionRequest) -> Value {
    let mut answer = json!({"type": "string", "title": escape_hidden(&asked.request.address.to_string())});
    if !asked.request.question.choices.is_empty() {
        answer["enum"] = json!(asked.request.escaped_choices());
    }
    if let Some(default) = asked.escaped_default() {
        answer["default"] = default.into();
    }
    json!({
        "mode": "form",
        "sessionId": session,
        "message": question_message(asked),
        "requestedSchema": {"type": "object", "properties": {"answer": answer}, "required": ["answer"]},
    })
}

/// Parses the answer in the form of a question. Returns `None` if the user did not answer.
pub(crate) fn parse_form_answer(asked: &QuestionRequest, answer: &Value) -> Option<String> {
    (answer["action"] == "accept").then_some(())?;
    let shown = answer["content"]["answer"].as_str()?;
    Some(asked.unescape_answer(shown).to_owned())
}

/// Renders a question with escaped hidden characters, line by line.
pub(crate) fn question_message(asked: &QuestionRequest) -> String {
    escape_hidden_lines(&question_text_with_refusal(asked))
}
