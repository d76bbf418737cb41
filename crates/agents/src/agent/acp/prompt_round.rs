//! One prompt: what the program says and does until it ends its turn, and what it is answered.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::ExternalAgent;
use super::calls::AcpToolCalls;
use super::files;
use super::program::{LiveProgram, NO_METHOD, SessionOrigin, refusal_message};
use super::prompt_text::{GO_ON, append_schema_request, first_prompt_text};
use super::protocol;
use super::protocol::{AcpCallNews, AcpCallPhase, AcpRequest, AcpUpdate, FileDiff, PermissionOptions};
use super::wire::AcpMessage;
use crate::agent::chat::external::{
    ProgramMessage, add_message, continue_iteration, end_call, note_data, open_iteration,
};
use crate::agent::chat::{DialogueErrorKind, RoundRequest};
use crate::agent::chat::{RoundEnd, record_iteration};
use crate::agent::tools::PermissionResult;
use crate::agent::{BoxFuture, ExecutionInput};
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{LiveOutput, LiveUpdate, StopReason, Thread, ToolCall};
use ensemble_language::data::{FailureKind, JsonMap, ModelUsage};
use ensemble_language::ensemble::{AcpToolKind, PermissionMode};
use ensemble_models::estimate_tokens;

/// The metadata key of an iteration for the session of the program.
pub(super) const SESSION: &str = "session";
/// The metadata key for the plan of the program.
const PLAN: &str = "plan";

/// Performs a round: one prompt.
pub(super) async fn perform_round(
    external: &ExternalAgent,
    opening: &RoundRequest,
    live_output: &dyn LiveOutput,
    execution: &ExecutionInput,
) -> RoundEnd {
    let before = match &opening.goes_on {
        Some(iteration) => (*opening.thread).clone().append_iterations(vec![iteration.clone()]),
        None => (*opening.thread).clone(),
    };
    let text = match &opening.goes_on {
        Some(iteration) => {
            continue_iteration(&execution.ledger, iteration, &opening.records).await;
            GO_ON.to_owned()
        }
        None => opening.text.clone(),
    };
    let earlier_session = find_session(&before);
    let running_program = earlier_session
        .as_deref()
        .and_then(|session| external.programs.take_program(session));
    let (live, session) = match running_program {
        Some(live) => (live, SessionOrigin::Continued),
        None => LiveProgram::start_program(external, earlier_session.as_deref(), execution).await?,
    };
    let system = opening.systems.first().and_then(Option::as_deref);
    let prompt = match session {
        SessionOrigin::Continued => text.clone(),
        SessionOrigin::New => first_prompt_text(system, &before, &text),
    };
    let prompt = append_schema_request(prompt, opening.output_schema.as_deref());
    open_iteration(
        &execution.ledger,
        opening,
        text,
        (external.now)(),
        &[(SESSION, json!(live.session))],
    );
    let mut turn = PromptRound {
        external,
        opening,
        live_output,
        execution,
        live: Some(live),
        calls: AcpToolCalls::default(),
        text: String::new(),
        thought: String::new(),
        last_text: String::new(),
        received_bytes: 0,
        waits_for: Vec::new(),
        allowed_paths: Vec::new(),
    };
    turn.run_prompt(&prompt).await
}

/// Returns the session that was noted last.
fn find_session(thread: &Thread) -> Option<String> {
    let mut iterations = thread.iterations().iter().rev();
    iterations.find_map(|iteration| Some(iteration.metadata.get(SESSION)?.as_str()?.to_owned()))
}

/// A request for permission that has been decided.
struct DecidedAcpRequest {
    /// The request of the program; `None`: it writes a file, which is done now.
    id: Value,
    then: PermittedAction,
    permitted: PermissionResult,
}

/// The action that follows a permission.
enum PermittedAction {
    Answer(String, PermissionOptions),
    Perform(String, AcpRequest),
}

/// The state of a prompt.
struct PromptRound<'a> {
    external: &'a ExternalAgent,
    opening: &'a RoundRequest,
    live_output: &'a dyn LiveOutput,
    execution: &'a ExecutionInput,
    /// The program, until it is handed on.
    live: Option<LiveProgram>,
    calls: AcpToolCalls,
    /// The text since the last tool call.
    text: String,
    thought: String,
    /// The last text that is not blank.
    last_text: String,
    /// All that the program said, in bytes.
    received_bytes: u64,
    waits_for: Vec<PendingRequest>,
    /// Paths of calls that were permitted in this prompt.
    allowed_paths: Vec<std::path::PathBuf>,
}

/// A program that is left in the middle of a prompt is told, and ended.
impl Drop for PromptRound<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.pass_stderr_on(self.execution);
            self.external.programs.shut_down_in_background(live);
        }
    }
}

type Deciding<'a> = FuturesUnordered<BoxFuture<'a, DecidedAcpRequest>>;

impl<'a> PromptRound<'a> {
    async fn run_prompt(&mut self, told: &str) -> Result<(String, StopReason), DialogueErrorKind> {
        self.execution.ledger.add_usage(ModelUsage {
            requests: 1,
            ..ModelUsage::default()
        });
        match self.send_prompt(told).await {
            Ok(answer) => self.finish_prompt(answer, told).await,
            Err(failure) => {
                let cause = match failure {
                    PromptFailure::ProgramLost(error) => {
                        let error = match &self.live {
                            Some(live) => live.add_stderr_tail(error).await,
                            None => error,
                        };
                        DialogueErrorKind::External(FailureKind::Model, error)
                    }
                    PromptFailure::Refused(error) => DialogueErrorKind::External(FailureKind::Sandbox, error),
                };
                self.record_trailing_text();
                Err(cause)
            }
        }
    }

    /// Sends the prompt and attends to the program until it has answered.
    async fn send_prompt(&mut self, told: &str) -> Result<Result<Value, Value>, PromptFailure> {
        // The ledger counts this request already.
        let request = self.opening.requests_made + self.execution.ledger.usage().own_requests();
        let mut deciding = Deciding::new();
        let live = self.live_program()?;
        let prompt = protocol::prompt_params(&live.session, told, request);
        let number = live.send_request("session/prompt", &prompt)?;
        live.open = Some(number);
        loop {
            let live = self.live_program()?;
            tokio::select! {
                biased;
                Some(decided) = deciding.next(), if !deciding.is_empty() => self.answer_decided_request(decided).await?,
                frame = live.reader.next() => match frame? {
                    None => return Err(PromptFailure::ProgramLost("it exited before it answered".to_owned())),
                    Some(AcpMessage::Answer(one, answer)) if one == number => {
                        self.live_program()?.open = None;
                        return Ok(answer);
                    }
                    Some(AcpMessage::Answer(..)) => {}
                    Some(AcpMessage::Notification(method, params)) => {
                        if method == "session/update" {
                            self.apply_update(params).await?;
                        }
                    }
                    Some(AcpMessage::Request(id, method, params)) => self.handle_request(id, &method, params, &mut deciding).await?,
                },
            }
        }
    }

    fn live_program(&mut self) -> Result<&mut LiveProgram, PromptFailure> {
        self.live
            .as_mut()
            .ok_or_else(|| PromptFailure::ProgramLost("it has ended".to_owned()))
    }

    async fn apply_update(&mut self, params: Value) -> Result<(), PromptFailure> {
        let session = self.live_program()?.session.clone();
        match protocol::parse_update(params, &session) {
            Some(AcpUpdate::Text(text)) => {
                self.received_bytes += text.len() as u64;
                self.live_output
                    .receive_update(&self.opening.source, LiveUpdate::Text(&text));
                self.text.push_str(&text);
            }
            Some(AcpUpdate::Thought(text)) => {
                self.received_bytes += text.len() as u64;
                self.live_output
                    .receive_update(&self.opening.source, LiveUpdate::Reasoning(&text));
                self.thought.push_str(&text);
            }
            Some(AcpUpdate::Plan(plan)) => note_data(&self.execution.ledger, PLAN, plan),
            Some(AcpUpdate::Cost(cost)) => note_data(&self.execution.ledger, "session_cost", cost),
            Some(AcpUpdate::Tool(news)) => self.record_call_news(news, false).await?,
            Some(AcpUpdate::Other) | None => {}
        }
        if self.received_bytes > super::wire::LONGEST_MESSAGE as u64 {
            return Err(PromptFailure::ProgramLost(
                "it sent more than 16 MiB of text".to_owned(),
            ));
        }
        Ok(())
    }

    /// Records what is new of a tool call. `is_asked`: the program waits for permission.
    async fn record_call_news(&mut self, news: AcpCallNews, is_asked: bool) -> Result<(), PromptFailure> {
        let phase = news.phase;
        let (text, thought) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thought));
        if !text.trim().is_empty() {
            self.last_text.clone_from(&text);
        }
        let (is_new, id, kind) = self.calls.add_news(news);
        if is_new {
            let call = self.calls.call_record(&id);
            self.add_message(text, thought, vec![call]);
            record_iteration(&self.execution.ledger, &self.opening.records, (self.external.now)()).await;
        } else {
            self.text = text;
            self.thought = thought;
        }
        let is_under_way = matches!(
            phase,
            Some(AcpCallPhase::Running | AcpCallPhase::Completed | AcpCallPhase::Failed)
        );
        if is_under_way && !is_asked {
            let is_denied = self.external.acp.permission_for(kind) == PermissionMode::Deny;
            if is_denied && !self.calls.is_decided(&id) && phase != Some(AcpCallPhase::Failed) {
                return Err(PromptFailure::Refused(format!(
                    "the external agent used a tool without asking, and `permissions` denies `{}`: {}",
                    kind.as_str(),
                    self.calls.call_title(&id)
                )));
            }
            self.start_call(&id).await;
        }
        if let Some(AcpCallPhase::Completed | AcpCallPhase::Failed) = phase {
            self.end_call(&id, phase == Some(AcpCallPhase::Failed)).await;
        }
        Ok(())
    }

    async fn start_call(&mut self, id: &str) {
        if self.calls.mark_started(id) {
            self.opening.records.record_call_start(id).await;
            let call = self.calls.call_record(id);
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::ToolStarted(&call));
        }
    }

    async fn end_call(&mut self, id: &str, is_failed: bool) {
        if let Some(call) = self.calls.finish_call(id, is_failed) {
            end_call(&self.execution.ledger, &call);
            self.opening.records.record_call_end(&call, ModelUsage::default()).await;
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::ToolEnded(&call));
        }
    }

    /// The program asks for something.
    async fn handle_request(
        &mut self,
        id: Value,
        method: &str,
        params: Value,
        deciding: &mut Deciding<'a>,
    ) -> Result<(), PromptFailure> {
        let request = match protocol::parse_request(method, params) {
            Ok(Some(request)) => request,
            Ok(None) => {
                let refused = format!("`{method}` is not supported");
                return Ok(self.live_program()?.writer.send_error(&id, NO_METHOD, &refused)?);
            }
            Err(wrong) => return Ok(self.live_program()?.writer.send_error(&id, -32602, &wrong)?),
        };
        let (news, then) = match request {
            AcpRequest::Permission(mut news, answers) => {
                news.phase = None;
                let call = news.id.clone();
                (*news, PermittedAction::Answer(call, answers))
            }
            file => match self.file_call_news(&file) {
                Ok(news) => {
                    let call = news.id.clone();
                    (news, PermittedAction::Perform(call, file))
                }
                Err(refused) => return Ok(self.live_program()?.writer.send_error(&id, -32602, &refused)?),
            },
        };
        let call_id = news.id.clone();
        let paths: Vec<_> = news
            .diffs
            .iter()
            .map(|diff| diff.path.clone())
            .chain(news.paths.clone())
            .collect();
        self.record_call_news(news, true).await?;
        let kind = self.calls.call_kind(&call_id);
        // A file of a call that was permitted a moment ago is not asked about once more.
        let is_allowed =
            matches!(then, PermittedAction::Perform(..)) && paths.iter().any(|path| self.allowed_paths.contains(path));
        let permission = match (self.external.acp.permission_for(kind), is_allowed) {
            (PermissionMode::Ask, true) => PermissionMode::Allow,
            (permission, _) => permission,
        };
        let call = self.calls.call_record(&call_id);
        let (external, execution) = (self.external, self.execution);
        deciding.push(Box::pin(async move {
            let tool = format!("{}.{}", execution.agent_name, kind.as_str());
            let arguments = call.arguments.as_object().cloned().unwrap_or_else(JsonMap::new);
            let permitted = external
                .permissions
                .check_permission(permission, &tool, &call, &arguments, execution);
            let permitted = permitted.await;
            DecidedAcpRequest { id, then, permitted }
        }));
        Ok(())
    }

    /// Returns a file that the program reads or writes, as a call of its own.
    fn file_call_news(&mut self, request: &AcpRequest) -> Result<AcpCallNews, String> {
        let root = &self.external.root;
        let (kind, title, path, diffs) = match request {
            AcpRequest::Read { path, .. } => (
                AcpToolKind::Read,
                "Read",
                files::resolve_relative_path(path, root)?,
                Vec::new(),
            ),
            AcpRequest::Write { path, content } => {
                let path = files::resolve_relative_path(path, root)?;
                let old = files::read_lines(root, &path, None, None).unwrap_or_default();
                let diff = FileDiff {
                    path: path.clone(),
                    old,
                    new: content.clone(),
                };
                (AcpToolKind::Edit, "Write", path, vec![diff])
            }
            AcpRequest::Permission(..) => return Err("it is not a file".to_owned()),
        };
        Ok(AcpCallNews {
            id: self.calls.assign_id(),
            title: Some(format!("{title} {}", path.display())),
            kind: Some(kind),
            paths: vec![root.join(path)],
            diffs,
            ..AcpCallNews::default()
        })
    }

    /// Answers the program, and does what it asked for.
    async fn answer_decided_request(&mut self, decided: DecidedAcpRequest) -> Result<(), PromptFailure> {
        let call = match &decided.then {
            PermittedAction::Answer(call, _) | PermittedAction::Perform(call, _) => call.clone(),
        };
        self.calls.mark_decided(&call);
        let refused = match decided.permitted {
            PermissionResult::Granted => None,
            PermissionResult::Refused(refused) => Some(refused),
            PermissionResult::Waits(request) => {
                self.waits_for.push(*request);
                let cancel = protocol::cancel_params(&self.live_program()?.session);
                self.live_program()?
                    .writer
                    .send_notification("session/cancel", &cancel)?;
                return Ok(self
                    .live_program()?
                    .writer
                    .send_answer(&decided.id, &PermissionOptions::cancelled_json())?);
            }
        };
        match (decided.then, refused) {
            (PermittedAction::Answer(_, answers), refused) => {
                if refused.is_none() {
                    self.allowed_paths.extend(self.calls.call_paths(&call));
                    self.start_call(&call).await;
                }
                let outcome = answers.outcome_json(refused.is_none());
                self.live_program()?.writer.send_answer(&decided.id, &outcome)?;
                if let Some(refused) = refused {
                    self.calls.mark_refused(&call, refused);
                    self.end_call(&call, true).await;
                }
            }
            (PermittedAction::Perform(_, request), None) => {
                self.start_call(&call).await;
                let performed = self.perform_file_request(request);
                let writer = &self.live_program()?.writer;
                let is_failed = performed.is_err();
                match performed {
                    Ok(answer) => writer.send_answer(&decided.id, &answer)?,
                    Err(error) => {
                        writer.send_error(&decided.id, -32603, &error)?;
                        self.calls.mark_refused(&call, error);
                    }
                }
                self.end_call(&call, is_failed).await;
            }
            (PermittedAction::Perform(..), Some(refused)) => {
                self.live_program()?.writer.send_error(&decided.id, -32603, &refused)?;
                self.calls.mark_refused(&call, refused);
                self.end_call(&call, true).await;
            }
        }
        Ok(())
    }

    fn perform_file_request(&self, request: AcpRequest) -> Result<Value, String> {
        let root = &self.external.root;
        match request {
            AcpRequest::Read { path, line, limit } => {
                files::read_lines(root, &files::resolve_relative_path(&path, root)?, line, limit)
                    .map(protocol::read_answer_json)
            }
            AcpRequest::Write { path, content } => {
                files::write_file(root, &files::resolve_relative_path(&path, root)?, &content).map(|_before| json!({}))
            }
            AcpRequest::Permission(..) => Err("it is not a file".to_owned()),
        }
    }

    /// Returns the end of the prompt.
    async fn finish_prompt(
        &mut self,
        answer: Result<Value, Value>,
        told: &str,
    ) -> Result<(String, StopReason), DialogueErrorKind> {
        self.record_trailing_text();
        for call in self.calls.list_open_ids() {
            self.end_call(&call, false).await;
        }
        let end = answer
            .map_err(|error| format!("the external agent refused the prompt: {}", refusal_message(&error)))
            .and_then(protocol::parse_prompt_end);
        let tokens = end.as_ref().ok().and_then(|end| end.tokens);
        let (input, cached, output) = tokens.unwrap_or((estimate_tokens(told), 0, self.received_bytes.div_ceil(4)));
        self.execution.ledger.add_usage(ModelUsage {
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            estimated: tokens.is_none(),
            ..ModelUsage::default()
        });
        if let Some(live) = self.live.take() {
            live.pass_stderr_on(self.execution);
            self.external.programs.keep_program(live);
        }
        let requests = std::mem::take(&mut self.waits_for);
        if !requests.is_empty() {
            return Err(DialogueErrorKind::Waits(requests));
        }
        let end = end.map_err(|error| DialogueErrorKind::External(FailureKind::Model, error))?;
        note_data(&self.execution.ledger, "stop_reason", json!(end.reason));
        let reply = std::mem::take(&mut self.last_text);
        match end.reason {
            StopReason::EndTurn | StopReason::MaxTokens => Ok((reply, end.reason)),
            StopReason::Refusal if reply.trim().is_empty() => {
                Err(DialogueErrorKind::Refused("it gave no reason".to_owned()))
            }
            StopReason::Refusal => Err(DialogueErrorKind::Refused(reply)),
            StopReason::MaxTurnRequests => Err(DialogueErrorKind::External(
                FailureKind::MaxIterations,
                "the external agent stopped at its own limit of requests in a turn".to_owned(),
            )),
            StopReason::Cancelled => Err(DialogueErrorKind::External(
                FailureKind::Cancelled,
                "the external agent reported a cancelled turn, but this program did not cancel it".to_owned(),
            )),
        }
    }

    /// Adds the text after the last tool call to the exchange.
    fn record_trailing_text(&mut self) {
        let (text, thought) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thought));
        if !text.trim().is_empty() {
            self.last_text.clone_from(&text);
        }
        if !text.is_empty() || !self.calls.has_calls() {
            self.add_message(text, thought, Vec::new());
        }
    }

    fn add_message(&self, text: String, thought: String, calls: Vec<ToolCall>) {
        let message = ProgramMessage {
            text,
            thought,
            from: self.agent_name(),
            calls,
        };
        add_message(&self.execution.ledger, message, (self.external.now)());
    }

    /// Returns the program's own name, else that in the file.
    fn agent_name(&self) -> String {
        let reported_name = self.live.as_ref().and_then(|live| live.abilities.name.clone());
        reported_name.unwrap_or_else(|| self.external.acp.program.display_name().to_owned())
    }
}

/// An error that leaves a prompt without a reply.
enum PromptFailure {
    /// The program ended, or does not keep to the protocol.
    ProgramLost(String),
    /// It did what it may not do.
    Refused(String),
}

impl From<String> for PromptFailure {
    fn from(error: String) -> Self {
        Self::ProgramLost(error)
    }
}
