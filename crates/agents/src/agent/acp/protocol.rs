//! The only file that uses the types of the protocol's crate: what a program says in our words, and what it is told.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::v1 as acp;
use serde_json::{Map, Value, json};

use super::{ProgramMcpServer, ProgramMcpTransport};
use ensemble_core::thread::StopReason;
use ensemble_language::ensemble::AcpToolKind;

/// Update that a program sends while it works on a prompt.
#[derive(Debug, PartialEq)]
pub(super) enum AcpUpdate {
    Text(String),
    Thought(String),
    Plan(Value),
    Tool(AcpCallUpdate),
    /// The cost of the session so far, as the program tells it.
    Cost(Value),
    /// Nothing that is recorded.
    Other,
}

/// Update of a tool call: every field that is present replaces the earlier value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct AcpCallUpdate {
    pub(super) id: String,
    /// Whether the program says that the call is new.
    pub(super) begins: bool,
    pub(super) title: Option<String>,
    pub(super) kind: Option<AcpToolKind>,
    pub(super) input: Option<Value>,
    pub(super) output: Option<Value>,
    pub(super) texts: Vec<String>,
    pub(super) diffs: Vec<FileTextChange>,
    pub(super) paths: Vec<PathBuf>,
    pub(super) phase: Option<AcpCallPhase>,
}

/// Progress of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcpCallPhase {
    Pending,
    Running,
    Completed,
    Failed,
}

/// Change of a file, with the whole text before and after.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileTextChange {
    pub(super) path: PathBuf,
    pub(super) old: String,
    pub(super) new: String,
}

/// Request that a program sends to this client: a permission, or to read or write a file.
#[derive(Debug, PartialEq)]
pub(super) enum ProgramRequest {
    /// May this tool be used? With the ids of the answers.
    Permission(Box<AcpCallUpdate>, PermissionOptionIds),
    Read {
        path: PathBuf,
        line: Option<u32>,
        limit: Option<u32>,
    },
    Write {
        path: PathBuf,
        content: String,
    },
}

/// Option ids with which the client allows or rejects a permission request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PermissionOptionIds {
    allow: Option<String>,
    reject: Option<String>,
}

impl PermissionOptionIds {
    /// Creates the reply that allows or rejects. If the program offers no such option, the reply is a cancellation.
    pub(super) fn outcome_json(&self, is_allowed: bool) -> Value {
        let option_id = if is_allowed { &self.allow } else { &self.reject };
        let outcome = match option_id {
            Some(id) => acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(id.clone())),
            None => acp::RequestPermissionOutcome::Cancelled,
        };
        json!(acp::RequestPermissionResponse::new(outcome))
    }

    /// Creates the reply to a permission request after a cancellation.
    pub(super) fn cancelled_json() -> Value {
        json!(acp::RequestPermissionResponse::new(
            acp::RequestPermissionOutcome::Cancelled
        ))
    }
}

/// Capabilities and name of a program, from its reply to `initialize`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct AcpCapabilities {
    pub(super) loads: bool,
    pub(super) resumes: bool,
    /// Reaches servers of tools over HTTP.
    pub(super) http: bool,
    pub(super) name: Option<String>,
}

/// End of a prompt: the stop reason and, if reported, the token counts.
#[derive(Debug, PartialEq)]
pub(super) struct PromptEnd {
    pub(super) reason: StopReason,
    /// Input and output tokens, if the program counts them.
    pub(super) tokens: Option<(u64, u64, u64)>,
}

/// Creates the parameters of `initialize`: the capabilities and the name of this client.
pub(super) fn initialize_params() -> Value {
    let files = acp::FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(true);
    let us = acp::Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    let request = acp::InitializeRequest::new(agent_client_protocol_schema::ProtocolVersion::V1);
    json!(
        request
            .client_capabilities(acp::ClientCapabilities::new().fs(files))
            .client_info(us)
    )
}

/// Parses the reply of a program to `initialize`.
pub(super) fn parse_capabilities(answer: Value) -> Result<AcpCapabilities, String> {
    let answer: acp::InitializeResponse =
        serde_json::from_value(answer).map_err(|_| PROTOCOL_MISMATCH_ERROR.to_owned())?;
    if answer.protocol_version != agent_client_protocol_schema::ProtocolVersion::V1 {
        return Err("it does not support version 1 of the protocol".to_owned());
    }
    Ok(AcpCapabilities {
        loads: answer.agent_capabilities.load_session,
        resumes: answer.agent_capabilities.session_capabilities.resume.is_some(),
        http: answer.agent_capabilities.mcp_capabilities.http,
        name: answer.agent_info.map(|info| format!("{} {}", info.name, info.version)),
    })
}

/// Creates the parameters of `session/new`.
pub(super) fn new_session_params(folder: &Path, servers: &[ProgramMcpServer]) -> Value {
    json!(acp::NewSessionRequest::new(folder).mcp_servers(self::to_acp_servers(servers)))
}

/// Creates the parameters of `session/load`.
pub(super) fn load_session_params(session: &str, folder: &Path, servers: &[ProgramMcpServer]) -> Value {
    json!(acp::LoadSessionRequest::new(session.to_owned(), folder).mcp_servers(self::to_acp_servers(servers)))
}

/// Creates the parameters of `session/resume`.
pub(super) fn resume_session_params(session: &str, folder: &Path, servers: &[ProgramMcpServer]) -> Value {
    json!(acp::ResumeSessionRequest::new(session.to_owned(), folder).mcp_servers(self::to_acp_servers(servers)))
}

/// Converts the MCP servers to the types of the protocol.
fn to_acp_servers(servers: &[ProgramMcpServer]) -> Vec<acp::McpServer> {
    servers.iter().map(to_acp_server).collect()
}

/// Converts an MCP server to the type of the protocol.
fn to_acp_server(server: &ProgramMcpServer) -> acp::McpServer {
    let name = server.name.to_string();
    match &server.kind {
        ProgramMcpTransport::Command { invocation, env } => {
            let args = invocation.arguments.iter();
            let args = args.map(|argument| argument.to_string_lossy().into_owned());
            let env = env.iter().map(|(name, value)| acp::EnvVariable::new(name, value));
            let stdio = acp::McpServerStdio::new(name, invocation.program.clone());
            acp::McpServer::Stdio(stdio.args(args.collect::<Vec<_>>()).env(env.collect::<Vec<_>>()))
        }
        ProgramMcpTransport::Http { url, headers } => {
            let headers = headers.iter().map(|(name, value)| acp::HttpHeader::new(name, value));
            let http = acp::McpServerHttp::new(name, url.clone());
            acp::McpServer::Http(http.headers(headers.collect::<Vec<_>>()))
        }
    }
}

/// Parses the id of the session in the reply to `session/new`.
pub(super) fn parse_session_id(answer: Value) -> Result<String, String> {
    let answer: acp::NewSessionResponse =
        serde_json::from_value(answer).map_err(|_| PROTOCOL_MISMATCH_ERROR.to_owned())?;
    match answer.session_id.0.len() > MAX_SESSION_ID_BYTES {
        true => Err(format!("its session id has more than {MAX_SESSION_ID_BYTES} bytes")),
        false => Ok(answer.session_id.0.to_string()),
    }
}

/// Creates the parameters of `session/prompt`. The request number selects the reply of the simulated agent.
pub(super) fn prompt_params(session: &str, text: &str, request: u64) -> Value {
    let block = acp::ContentBlock::Text(acp::TextContent::new(text));
    let meta = Map::from_iter([("ensemble".to_owned(), json!({ "request": request }))]);
    json!(acp::PromptRequest::new(session.to_owned(), vec![block]).meta(meta))
}

/// Creates the parameters of `session/cancel`.
pub(super) fn cancel_params(session: &str) -> Value {
    json!(acp::CancelNotification::new(session.to_owned()))
}

/// Parses the reply to `session/prompt`.
pub(super) fn parse_prompt_end(answer: Value) -> Result<PromptEnd, String> {
    let count = |key: &str| answer["usage"][key].as_u64();
    let tokens = match (count("inputTokens"), count("outputTokens")) {
        (Some(input), Some(output)) => Some((
            input + count("cachedReadTokens").unwrap_or(0) + count("cachedWriteTokens").unwrap_or(0),
            count("cachedReadTokens").unwrap_or(0),
            output + count("thoughtTokens").unwrap_or(0),
        )),
        _ => None,
    };
    let answer: acp::PromptResponse = serde_json::from_value(answer).map_err(|_| PROTOCOL_MISMATCH_ERROR.to_owned())?;
    let reason = match answer.stop_reason {
        acp::StopReason::EndTurn => StopReason::EndTurn,
        acp::StopReason::MaxTokens => StopReason::MaxTokens,
        acp::StopReason::MaxTurnRequests => StopReason::MaxTurnRequests,
        acp::StopReason::Refusal => StopReason::Refusal,
        acp::StopReason::Cancelled => StopReason::Cancelled,
        _ => return Err(PROTOCOL_MISMATCH_ERROR.to_owned()),
    };
    Ok(PromptEnd { reason, tokens })
}

/// Creates the reply with the content of a file.
pub(super) fn file_content_json(content: String) -> Value {
    json!(acp::ReadTextFileResponse::new(content))
}

/// Parses an update of this session. Returns `None` for other sessions and unknown updates.
pub(super) fn parse_update(params: Value, session: &str) -> Option<AcpUpdate> {
    let notification: acp::SessionNotification = serde_json::from_value(params).ok()?;
    if &*notification.session_id.0 != session {
        return None;
    }
    Some(match notification.update {
        acp::SessionUpdate::AgentMessageChunk(chunk) => AcpUpdate::Text(content_block_text(&chunk.content)),
        acp::SessionUpdate::AgentThoughtChunk(chunk) => AcpUpdate::Thought(content_block_text(&chunk.content)),
        acp::SessionUpdate::Plan(plan) => AcpUpdate::Plan(json!(plan.entries)),
        acp::SessionUpdate::ToolCall(call) => AcpUpdate::Tool(AcpCallUpdate {
            begins: true,
            title: Some(call.title),
            kind: Some(convert_tool_kind(call.kind)),
            phase: Some(convert_call_status(call.status)),
            input: call.raw_input,
            output: call.raw_output,
            ..convert_call_content(&call.tool_call_id, call.content, call.locations)
        }),
        acp::SessionUpdate::ToolCallUpdate(call) => AcpUpdate::Tool(convert_call_update(call)),
        acp::SessionUpdate::UsageUpdate(usage) => {
            usage.cost.map_or(AcpUpdate::Other, |cost| AcpUpdate::Cost(json!(cost)))
        }
        _ => AcpUpdate::Other,
    })
}

/// Parses a request of a program. Returns `None` if this client does not support the method.
pub(super) fn parse_program_request(method: &str, params: Value) -> Result<Option<ProgramRequest>, String> {
    let wrong = |_| "the parameters do not match the protocol".to_owned();
    Ok(Some(match method {
        "session/request_permission" => {
            let request: acp::RequestPermissionRequest = serde_json::from_value(params).map_err(wrong)?;
            ProgramRequest::Permission(
                Box::new(convert_call_update(request.tool_call)),
                find_permission_options(&request.options),
            )
        }
        "fs/read_text_file" => {
            let request: acp::ReadTextFileRequest = serde_json::from_value(params).map_err(wrong)?;
            ProgramRequest::Read {
                path: request.path,
                line: request.line,
                limit: request.limit,
            }
        }
        "fs/write_text_file" => {
            let request: acp::WriteTextFileRequest = serde_json::from_value(params).map_err(wrong)?;
            ProgramRequest::Write {
                path: request.path,
                content: request.content,
            }
        }
        _ => return Ok(None),
    }))
}

/// Finds the options that allow or reject this call only, because the run itself remembers decisions.
fn find_permission_options(options: &[acp::PermissionOption]) -> PermissionOptionIds {
    let first = |kinds: [acp::PermissionOptionKind; 2]| {
        let mut matching_options = kinds
            .iter()
            .filter_map(|kind| options.iter().find(|option| option.kind == *kind));
        matching_options.next().map(|option| option.option_id.0.to_string())
    };
    use acp::PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    PermissionOptionIds {
        allow: first([AllowOnce, AllowAlways]),
        reject: first([RejectOnce, RejectAlways]),
    }
}

/// Converts a tool-call update of the protocol.
fn convert_call_update(call: acp::ToolCallUpdate) -> AcpCallUpdate {
    let fields = call.fields;
    AcpCallUpdate {
        title: fields.title,
        kind: fields.kind.map(convert_tool_kind),
        phase: fields.status.map(convert_call_status),
        input: fields.raw_input,
        output: fields.raw_output,
        ..convert_call_content(
            &call.tool_call_id,
            fields.content.unwrap_or_default(),
            fields.locations.unwrap_or_default(),
        )
    }
}

/// Converts the content and locations of a tool call. Leaves the other fields empty.
fn convert_call_content(
    id: &acp::ToolCallId,
    content: Vec<acp::ToolCallContent>,
    locations: Vec<acp::ToolCallLocation>,
) -> AcpCallUpdate {
    let mut call_update = AcpCallUpdate {
        id: id.0.to_string(),
        paths: locations.into_iter().map(|location| location.path).collect(),
        ..AcpCallUpdate::default()
    };
    for part in content {
        match part {
            acp::ToolCallContent::Content(part) => call_update.texts.push(content_block_text(&part.content)),
            acp::ToolCallContent::Diff(diff) => call_update.diffs.push(FileTextChange {
                path: diff.path,
                old: diff.old_text.unwrap_or_default(),
                new: diff.new_text,
            }),
            _ => {}
        }
    }
    call_update
}

/// Converts a content block to text: a note for images and other content that cannot be shown.
fn content_block_text(block: &acp::ContentBlock) -> String {
    match block {
        acp::ContentBlock::Text(text) => text.text.clone(),
        acp::ContentBlock::ResourceLink(link) => link.uri.clone(),
        acp::ContentBlock::Resource(resource) => match &resource.resource {
            acp::EmbeddedResourceResource::TextResourceContents(contents) => contents.text.clone(),
            _ => "[a resource, which cannot be shown here]".to_owned(),
        },
        acp::ContentBlock::Image(_) => "[an image, which cannot be shown here]".to_owned(),
        _ => "[content that cannot be shown here]".to_owned(),
    }
}

/// Converts a tool kind of the protocol. Unknown kinds become `Other`.
fn convert_tool_kind(kind: acp::ToolKind) -> AcpToolKind {
    match kind {
        acp::ToolKind::Read => AcpToolKind::Read,
        acp::ToolKind::Edit => AcpToolKind::Edit,
        acp::ToolKind::Delete => AcpToolKind::Delete,
        acp::ToolKind::Move => AcpToolKind::Move,
        acp::ToolKind::Search => AcpToolKind::Search,
        acp::ToolKind::Execute => AcpToolKind::Execute,
        acp::ToolKind::Think => AcpToolKind::Think,
        acp::ToolKind::Fetch => AcpToolKind::Fetch,
        acp::ToolKind::SwitchMode => AcpToolKind::SwitchMode,
        _ => AcpToolKind::Other,
    }
}

/// Converts a call status of the protocol. Unknown statuses become `Pending`.
fn convert_call_status(status: acp::ToolCallStatus) -> AcpCallPhase {
    match status {
        acp::ToolCallStatus::InProgress => AcpCallPhase::Running,
        acp::ToolCallStatus::Completed => AcpCallPhase::Completed,
        acp::ToolCallStatus::Failed => AcpCallPhase::Failed,
        _ => AcpCallPhase::Pending,
    }
}

/// The maximum number of bytes of the id of a session.
const MAX_SESSION_ID_BYTES: usize = 4096;

/// The error for an answer that cannot be understood.
pub(super) const PROTOCOL_MISMATCH_ERROR: &str = "its answer does not match the protocol";
