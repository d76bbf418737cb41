//! One prompt: what the program says and does until it ends its turn, and what it is answered.

use std::collections::HashSet;

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::ExternalAgent;
use super::calls::AcpToolCalls;
use super::decided_request::PendingDecisions;
use super::limits::PromptCounters;
use super::permitted_files::OneTimeFilePermissions;
use super::program::{RunningProgram, SessionOrigin, rpc_error_message};
use super::prompt_text::{INTERRUPTED_WORK_PROMPT, append_schema_request, first_prompt_text};
use super::protocol;
use super::protocol::{AcpCallPhase, AcpCallUpdate, AcpUpdate};
use super::wire::AcpMessage;
use crate::agent::ExecutionInput;
use crate::agent::chat::external::{
    ExternalReply, SESSION_PROGRAM_KEY, add_iteration_metadata, add_program_reply, open_external_iteration,
    replace_open_call, resume_interrupted_iteration,
};
use crate::agent::chat::{DialogueErrorKind, RoundParameters, SESSION_KEY};
use crate::agent::chat::{RoundEnd, complete_and_record_iteration};
use ensemble_core::request::PendingRequest;
use ensemble_core::secrets::RedactingStream;
use ensemble_core::thread::{LiveOutputReceiver, LiveUpdate, StopReason, Thread, ToolCall};
use ensemble_language::data::{FailureKind, ModelUsage};
use ensemble_language::ensemble::{AcpToolKind, PermissionMode};
use ensemble_models::estimate_tokens;

/// Metadata key for the plan of the program.
const PLAN_METADATA_KEY: &str = "plan";
/// Maximum number of bytes of the name that the program reports.
const MAX_PROGRAM_NAME_BYTES: usize = 200;

/// Performs a round: starts or reuses the program, sends one prompt, and handles messages until the program replies.
pub(super) async fn perform_prompt_round(
    external: &ExternalAgent,
    opening: &RoundParameters,
    live_output: &dyn LiveOutputReceiver,
    execution: &ExecutionInput,
) -> RoundEnd {
    let before = match &opening.goes_on {
        Some(iteration) => (*opening.thread).clone().append_iterations(vec![iteration.clone()]),
        None => (*opening.thread).clone(),
    };
    let text = match &opening.goes_on {
        Some(iteration) => {
            resume_interrupted_iteration(&execution.ledger, iteration, &opening.records).await;
            INTERRUPTED_WORK_PROMPT.to_owned()
        }
        None => opening.text.clone(),
    };
    let identity = external.program_digest();
    let earlier_session = find_resumable_session(&before, &identity);
    let running_program = earlier_session
        .as_deref()
        .and_then(|session| external.programs.take_idle_program(external.owner, session));
    let (live, session) = match running_program {
        Some(live) => (live, SessionOrigin::Continued),
        None => RunningProgram::start_program(external, earlier_session.as_deref(), execution).await?,
    };
    let system = opening.systems.first().and_then(Option::as_deref);
    let prompt = match session {
        SessionOrigin::Continued => text.clone(),
        SessionOrigin::New => first_prompt_text(system, &before, &text),
    };
    let prompt = append_schema_request(prompt, opening.output_schema.as_deref());
    open_external_iteration(
        &execution.ledger,
        opening,
        text,
        (external.now)(),
        &[
            (SESSION_KEY, json!(live.session)),
            (SESSION_PROGRAM_KEY, json!(identity)),
        ],
    );
    let mut turn = PromptRound {
        external,
        opening,
        live_output,
        execution,
        live: Some(live),
        calls: AcpToolCalls::new(external.secrets().clone(), list_used_call_ids(execution)),
        text: String::new(),
        thought: String::new(),
        text_stream: RedactingStream::new(external.secrets().clone()),
        thought_stream: RedactingStream::new(external.secrets().clone()),
        last_text: String::new(),
        limits: PromptCounters::default(),
        waits_for: Vec::new(),
        permitted_files: OneTimeFilePermissions::default(),
    };
    turn.run_prompt(&prompt).await
}

/// Finds the id of the latest session in the thread. Returns `None` if another program created the session.
fn find_resumable_session(thread: &Thread, identity: &str) -> Option<String> {
    let mut iterations = thread.iterations().iter().rev();
    let latest = iterations.find(|iteration| iteration.metadata.contains_key(SESSION_KEY))?;
    let program = latest.metadata.get(SESSION_PROGRAM_KEY).and_then(Value::as_str);
    let session = latest.metadata.get(SESSION_KEY)?.as_str()?;
    (program == Some(identity)).then(|| session.to_owned())
}

/// Lists the ids of calls in earlier attempts that started, ended or were decided, so that no new call reuses them.
fn list_used_call_ids(execution: &ExecutionInput) -> HashSet<String> {
    let Some(earlier) = execution.records.earlier_exchange() else {
        return HashSet::new();
    };
    let settled = earlier.started_calls.iter().chain(earlier.decisions.keys());
    settled.map(|id| id.to_string()).collect()
}

/// State of one prompt to an external program.
pub(super) struct PromptRound<'a> {
    pub(super) external: &'a ExternalAgent,
    opening: &'a RoundParameters,
    live_output: &'a dyn LiveOutputReceiver,
    pub(super) execution: &'a ExecutionInput,
    /// The program, until it is handed on.
    pub(super) live: Option<RunningProgram>,
    pub(super) calls: AcpToolCalls,
    /// The text since the last tool call.
    text: String,
    thought: String,
    /// The text and the reasoning that arrive, without secrets.
    text_stream: RedactingStream,
    thought_stream: RedactingStream,
    /// The last text that is not blank.
    last_text: String,
    pub(super) limits: PromptCounters,
    pub(super) waits_for: Vec<PendingRequest>,
    /// The files of calls that were permitted in this prompt.
    pub(super) permitted_files: OneTimeFilePermissions,
}

/// A program that is left in the middle of a prompt is told, and ended.
impl Drop for PromptRound<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.move_stderr_to_ledger(self.execution);
            self.external.programs.shut_down_in_background(live);
        }
    }
}

impl<'a> PromptRound<'a> {
    /// Sends the prompt `told` and returns the reply with its stop reason. Counts one request.
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

    /// Sends the prompt and handles messages of the program until it replies. Returns the result or the error of the reply.
    async fn send_prompt(&mut self, told: &str) -> Result<Result<Value, Value>, PromptFailure> {
        // The ledger counts this request already.
        let request = self.opening.requests_made + self.execution.ledger.usage_so_far().own_requests();
        let mut deciding = PendingDecisions::new();
        let live = self.live_program()?;
        let prompt = protocol::prompt_params(&live.session, told, request);
        let number = live.send_request("session/prompt", &prompt)?;
        live.open = Some(number);
        // The messages that a loaded session has repeated are not those of this prompt.
        let _repeated = live.reader.take_received_counts();
        loop {
            let live = self.live_program()?;
            tokio::select! {
                biased;
                Some(decided) = deciding.next(), if !deciding.is_empty() => self.execute_decided_request(decided).await?,
                frame = live.reader.next() => match self.count_received(frame)? {
                    None => return Err(PromptFailure::ProgramLost("it exited before it answered".to_owned())),
                    Some(AcpMessage::Answer(one, answer)) if one == number => {
                        self.live_program()?.open = None;
                        return Ok(answer);
                    }
                    Some(AcpMessage::Answer(..)) => {}
                    Some(AcpMessage::Notification(method, params)) => {
                        if method == "session/update" {
                            self.apply_program_update(params).await?;
                        }
                    }
                    Some(AcpMessage::Request(id, method, params)) => self.handle_program_request(id, &method, params, &mut deciding).await?,
                },
            }
        }
    }

    /// Counts the bytes and lines that were read against the limits of the prompt, and returns the message.
    fn count_received(
        &mut self,
        frame: Result<Option<AcpMessage>, String>,
    ) -> Result<Option<AcpMessage>, PromptFailure> {
        let (lines, bytes) = self.live_program()?.reader.take_received_counts();
        self.limits.count_lines(lines, bytes)?;
        Ok(frame?)
    }

    /// Returns the running program. Fails if the program has exited.
    pub(super) fn live_program(&mut self) -> Result<&mut RunningProgram, PromptFailure> {
        self.live
            .as_mut()
            .ok_or_else(|| PromptFailure::ProgramLost("it has ended".to_owned()))
    }

    /// Applies an update of the program: shows text, records calls, stores plan and cost in the metadata.
    async fn apply_program_update(&mut self, params: Value) -> Result<(), PromptFailure> {
        let session = self.live_program()?.session.clone();
        match protocol::parse_update(params, &session) {
            Some(AcpUpdate::Text(text)) => {
                self.limits.count_text(&text)?;
                let text = self.text_stream.push_piece(&text);
                self.append_shown_text(&text);
            }
            Some(AcpUpdate::Thought(text)) => {
                self.limits.count_text(&text)?;
                let text = self.thought_stream.push_piece(&text);
                self.append_shown_thought(&text);
            }
            Some(AcpUpdate::Plan(mut plan)) => {
                self.limits.count_plan(plan.to_string().len())?;
                self.external.secrets().redact_value(&mut plan);
                add_iteration_metadata(&self.execution.ledger, PLAN_METADATA_KEY, plan);
            }
            Some(AcpUpdate::Cost(mut cost)) => {
                self.external.secrets().redact_value(&mut cost);
                add_iteration_metadata(&self.execution.ledger, "session_cost", cost);
            }
            Some(AcpUpdate::Tool(news)) => {
                self.record_call_update(news, false).await?;
            }
            Some(AcpUpdate::Other) | None => {}
        }
        Ok(())
    }

    /// Sends text to the live output, and appends it to the collected text.
    fn append_shown_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::Text(text));
            self.text.push_str(text);
        }
    }

    /// Sends reasoning to the live output, and appends it to the collected reasoning.
    fn append_shown_thought(&mut self, text: &str) {
        if !text.is_empty() {
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::Reasoning(text));
            self.thought.push_str(text);
        }
    }

    /// Shows the delayed text, and takes the text and the reasoning since the last tool call.
    fn flush_and_take_texts(&mut self) -> (String, String) {
        let (thought, text) = (self.thought_stream.finish(), self.text_stream.finish());
        self.append_shown_thought(&thought);
        self.append_shown_text(&text);
        let (text, thought) = (std::mem::take(&mut self.text), std::mem::take(&mut self.thought));
        if !text.trim().is_empty() {
            self.last_text.clone_from(&text);
        }
        (text, thought)
    }

    /// Records an update of a tool call, and returns the id of the call. `is_asked` means that the program waits for permission.
    pub(super) async fn record_call_update(
        &mut self,
        news: AcpCallUpdate,
        is_asked: bool,
    ) -> Result<String, PromptFailure> {
        let phase = news.phase;
        let (is_new, id) = self.calls.apply_call_update(news, is_asked)?;
        if is_new {
            self.record_new_call(&id).await?;
        }
        if !is_asked {
            self.check_denied_use(&id, phase)?;
            if let Some(AcpCallPhase::Running | AcpCallPhase::Completed | AcpCallPhase::Failed) = phase {
                self.record_call_start(&id).await;
            }
        }
        if let Some(AcpCallPhase::Completed | AcpCallPhase::Failed) = phase {
            self.record_call_end(&id, phase == Some(AcpCallPhase::Failed)).await?;
        }
        Ok(id)
    }

    /// Records the collected text, then a new call.
    pub(super) async fn record_new_call(&mut self, id: &str) -> Result<(), PromptFailure> {
        let (text, thought) = self.flush_and_take_texts();
        let call = self.calls.open_call_record(id);
        self.limits.count_record(call.arguments.to_string().len())?;
        self.add_reply_to_exchange(text, thought, vec![call]);
        complete_and_record_iteration(&self.execution.ledger, &self.opening.records, (self.external.now)()).await;
        Ok(())
    }

    /// Fails if the program uses a tool of a denied kind without asking, or after asking about another kind.
    fn check_denied_use(&self, id: &str, phase: Option<AcpCallPhase>) -> Result<(), PromptFailure> {
        let is_used = match phase {
            Some(AcpCallPhase::Running | AcpCallPhase::Completed) => true,
            _ => self.calls.has_started(id),
        };
        let kinds = self.calls.needed_permission_kinds(id).into_iter();
        // A program that was refused may report the end of its call.
        let is_reported_end = |kind| phase != Some(AcpCallPhase::Running) && self.calls.is_kind_refused(id, kind);
        let mut denied = kinds.filter(|kind| self.is_kind_denied(*kind) && !is_reported_end(*kind));
        match denied.next().filter(|_| is_used) {
            Some(kind) => Err(PromptFailure::Refused(format!(
                "the external agent used a tool without asking, and `permissions` denies `{}`: {}",
                kind.as_str(),
                self.calls.call_title(id)
            ))),
            None => Ok(()),
        }
    }

    /// Returns whether the ensemble or an option of the run denies this kind of tool.
    fn is_kind_denied(&self, kind: AcpToolKind) -> bool {
        let external = self.external;
        external.acp.permission_for(kind) == PermissionMode::Deny
            || external.permissions.denies_tool(&self.permission_tool_name(kind))
    }

    /// Returns the tool name in permission requests for this kind.
    pub(super) fn permission_tool_name(&self, kind: AcpToolKind) -> String {
        format!("{}.{}", self.execution.agent_name, kind.as_str())
    }

    /// Records and shows the start of a call, once.
    pub(super) async fn record_call_start(&mut self, id: &str) {
        if self.calls.mark_started(id) {
            self.opening.records.record_call_start_and_wait(id).await;
            let call = self.calls.open_call_record(id);
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::ToolStarted(&call));
        }
    }

    /// Records and shows the end of a call, once, and removes its file permissions.
    pub(super) async fn record_call_end(&mut self, id: &str, is_failed: bool) -> Result<(), PromptFailure> {
        self.permitted_files.remove_call_permissions(id);
        if let Some(call) = self.calls.end_call_once(id, is_failed) {
            let end = call.end.as_ref().map_or(0, |end| format!("{end:?}").len());
            self.limits.count_record(call.arguments.to_string().len() + end)?;
            replace_open_call(&self.execution.ledger, &call);
            self.opening
                .records
                .record_call_end_and_wait(&call, ModelUsage::default())
                .await;
            self.live_output
                .receive_update(&self.opening.source, LiveUpdate::ToolEnded(&call));
        }
        Ok(())
    }

    /// Ends the prompt: ends open calls, records the trailing text and the token usage, and returns the reply or an error.
    async fn finish_prompt(
        &mut self,
        answer: Result<Value, Value>,
        told: &str,
    ) -> Result<(String, StopReason), DialogueErrorKind> {
        self.record_trailing_text();
        for call in self.calls.list_open_ids() {
            if let Err(PromptFailure::ProgramLost(error) | PromptFailure::Refused(error)) =
                self.record_call_end(&call, false).await
            {
                return Err(DialogueErrorKind::External(
                    FailureKind::Model,
                    format!("the external agent: {error}"),
                ));
            }
        }
        let end = answer
            .map_err(|error| format!("the external agent refused the prompt: {}", rpc_error_message(&error)))
            .and_then(protocol::parse_prompt_end);
        let tokens = end.as_ref().ok().and_then(|end| end.tokens);
        let (input, cached, output) =
            tokens.unwrap_or((estimate_tokens(told), 0, self.limits.text_bytes().div_ceil(4)));
        self.execution.ledger.add_usage(ModelUsage {
            input_tokens: input,
            cached_tokens: cached,
            output_tokens: output,
            estimated: tokens.is_none(),
            ..ModelUsage::default()
        });
        if let Some(live) = self.live.take() {
            live.move_stderr_to_ledger(self.execution);
            self.external.programs.store_idle_program(self.external.owner, live);
        }
        let requests = std::mem::take(&mut self.waits_for);
        if !requests.is_empty() {
            return Err(DialogueErrorKind::Waits(requests));
        }
        let end = end.map_err(|error| DialogueErrorKind::External(FailureKind::Model, error))?;
        add_iteration_metadata(&self.execution.ledger, "stop_reason", json!(end.reason));
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
        let (text, thought) = self.flush_and_take_texts();
        if !text.is_empty() || !self.calls.has_calls() {
            self.add_reply_to_exchange(text, thought, Vec::new());
        }
    }

    /// Adds text, reasoning and calls of the program to the exchange.
    fn add_reply_to_exchange(&self, text: String, thought: String, calls: Vec<ToolCall>) {
        let message = ExternalReply {
            text,
            thought,
            from: self.program_name(),
            calls,
        };
        add_program_reply(&self.execution.ledger, message, (self.external.now)());
    }

    /// Returns the name that the program reports, or the name in the ensemble file.
    fn program_name(&self) -> String {
        let reported_name = self.live.as_ref().and_then(|live| live.abilities.name.clone());
        let Some(name) = reported_name else {
            return self.external.acp.program.display_name().to_owned();
        };
        let mut name = self.external.secrets().redact(name).into_owned();
        name.truncate(name.floor_char_boundary(MAX_PROGRAM_NAME_BYTES));
        name
    }
}

/// Error that leaves a prompt without a reply.
pub(super) enum PromptFailure {
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
