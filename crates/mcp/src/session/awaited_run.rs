//! Calls that start a run or wait for a run, and ask the user meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::Event;
use ensemble_core::operator::OperatorRequest;
use ensemble_core::request::{AddressError, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_history::RunState;
use ensemble_language::data::RunContext;
use ensemble_runs::{EnsembleRef, RunError, RunEventKind, RunOptions};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CancelledNotificationParam, ClientResult, ElicitRequest, ElicitResult, ErrorData,
    InputRequest, InputRequiredResult, JsonObject, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde_json::json;
use tokio::time::Instant;

use super::{CANCELLING_CLIENT, McpCallError, McpSession, McpToolReply, RunningToolCall, document_response};
use crate::catalog::{EnsembleToolCatalog, EnsembleToolEntry};
use crate::progress::ProgressSender;
use crate::request_form::{ClientRequestForm, QuestionMethod, client_answer_author, parse_decision_word};
use crate::status::load_run_status;
use crate::tools::ToolArguments;

/// The maximum time for a resumed run to repeat a request that was shown before.
const MAX_WAIT_FOR_REPEATED_REQUEST: Duration = Duration::from_secs(20);

impl McpSession {
    /// Starts a run of an ensemble and waits for its end or its questions.
    pub(super) async fn start_and_await_run(
        &self,
        entry: &EnsembleToolEntry,
        mut arguments: ToolArguments,
        context: &RequestContext<RoleServer>,
    ) -> McpToolReply {
        let ensemble = &entry.ensemble;
        let input = match ensemble.find_input("input") {
            Some(_) => None,
            None => arguments.take_text_argument("input")?,
        };
        let values = match ensemble.inputs {
            Some(_) => arguments.into_rest(),
            None => {
                let values = arguments.take_map_argument("context")?;
                arguments.require_no_rest()?;
                values
            }
        };
        let options = RunOptions {
            input: input.map(Into::into),
            context: values
                .into_iter()
                .map(|(key, value)| (key.into(), Arc::new(value)))
                .collect::<RunContext>(),
            models: self.services.models.clone(),
            ..RunOptions::default()
        };
        self.lock_calls().insert(context.id.clone(), RunningToolCall::Starting);
        let started = self
            .run_service()
            .start_run(
                EnsembleRef::from_file_or_name(entry.file.display().to_string()),
                options,
            )
            .await;
        let id = match started {
            Ok(id) => id,
            Err(error) => {
                self.lock_calls().remove(&context.id);
                return Err(error.into());
            }
        };
        self.await_cancellable_run(id, 0, self.services.wait, context, &entry.tool)
            .await
    }

    /// Waits for a run that this request has started. A cancellation of the request cancels the run. `tool` is the called tool.
    pub(super) async fn await_cancellable_run(
        &self,
        id: RunId,
        from: u64,
        wait: Duration,
        context: &RequestContext<RoleServer>,
        tool: &str,
    ) -> McpToolReply {
        let before = self
            .lock_calls()
            .insert(context.id.clone(), RunningToolCall::Started(id.clone()));
        if let Some(RunningToolCall::Cancelled) = before {
            self.run_service().cancel_run(&id, CANCELLING_CLIENT).await?;
        }
        let reply = self.await_and_ask(&id, from, wait, context, tool).await;
        // The notification of a cancellation comes after the cancellation, and looks for the run.
        if !context.ct.is_cancelled() {
            self.lock_calls().remove(&context.id);
        }
        reply
    }

    /// Describes the effect of a failure of the agent on the run. Returns `None` if the failure has no special effect or the run cannot be
    /// loaded.
    async fn describe_failure_effect(&self, id: &RunId, agent: &str) -> Option<&'static str> {
        let recorded = self.run_service().load_recorded_run(id).await.ok()?;
        recorded.prepared.plan.ensemble().failure_effect(agent).sentence()
    }

    /// Waits until the run ends, at most for `wait`, and sends progress. Asks the client the questions of the run, or returns with the
    /// questions if the client cannot ask. `from` is the first record for the progress.
    pub(super) async fn await_and_ask(
        &self,
        id: &RunId,
        from: u64,
        wait: Duration,
        context: &RequestContext<RoleServer>,
        tool: &str,
    ) -> McpToolReply {
        let mut follow = self.run_service().follow_run(id, from).await.map_err(RunError::from)?;
        let mut progress = ProgressSender::new(context);
        let mut deadline = Instant::now() + wait;
        loop {
            let event = tokio::select! {
                biased;
                () = context.ct.cancelled() => return Err(cancelled_call_error()),
                event = follow.next() => event.map_err(RunError::from)?,
                () = tokio::time::sleep_until(deadline) => break,
            };
            let Some(event) = event else { break };
            let request_form = match event.kind {
                RunEventKind::Committed(record) => {
                    let is_over = event.run == *id && matches!(record.event, Event::RunEnded(_));
                    let failed = match &record.event {
                        Event::ExecutionFinished(finished) if event.run == *id => {
                            finished.failure().map(|_| &finished.agent)
                        }
                        _ => None,
                    };
                    let effect = match failed {
                        Some(agent) => self.describe_failure_effect(id, agent).await,
                        None => None,
                    };
                    progress.send_progress(&record, effect).await;
                    if is_over {
                        self.run_service().wait_until_closed(id).await;
                        break;
                    }
                    continue;
                }
                RunEventKind::QuestionAsked(asked) => ClientRequestForm(OperatorRequest::Question(asked)),
                RunEventKind::PermissionRequested(call) => ClientRequestForm(OperatorRequest::Permission(call)),
                RunEventKind::Live(_) => continue,
            };
            if !self.is_request_open(id, &request_form) {
                continue;
            }
            match QuestionMethod::for_client(context) {
                QuestionMethod::None => break,
                QuestionMethod::ByRepeatedCall => return self.reply_with_questions(id, tool),
                QuestionMethod::DuringCall => {
                    let start_time = Instant::now();
                    if !self.ask_client(id, &request_form, context).await? {
                        break;
                    }
                    // The wait is for the run, and not for people.
                    deadline += start_time.elapsed();
                }
            }
        }
        self.run_state_reply(id).await
    }

    /// Returns whether the request of the form is still pending.
    pub(super) fn is_request_open(&self, id: &RunId, wanted: &ClientRequestForm) -> bool {
        let open = self.run_service().live_open_requests(id);
        open.iter()
            .any(|open| open.pending_request().digest.as_str() == wanted.request_digest())
    }

    /// Asks the user of the client, and sends the answer to the run. Returns whether the run continues. Withdraws the question if another
    /// client answers it.
    pub(super) async fn ask_client(
        &self,
        id: &RunId,
        wanted: &ClientRequestForm,
        context: &RequestContext<RoleServer>,
    ) -> Result<bool, McpCallError> {
        let Ok(form) = wanted.to_elicitation() else {
            return Ok(false);
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let sent_request = context
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await;
        let Ok(sent_request) = sent_request else {
            return Ok(false);
        };
        let number = sent_request.id.clone();
        let answered_elsewhere = self
            .run_service()
            .wait_until_request_closed(id, &wanted.0.pending_request().digest);
        let (why, goes_on) = tokio::select! {
            biased;
            response = sent_request.await_response() => {
                return match response {
                    Ok(ClientResult::ElicitResult(said)) => Ok(wanted.send_elicitation_answer(self.run_service(), id, &said, client_answer_author(context)).await?),
                    _ => Ok(false),
                };
            }
            () = context.ct.cancelled() => ("the call was cancelled", Err(cancelled_call_error())),
            () = answered_elsewhere => ("the question was answered elsewhere", Ok(true)),
        };
        let withdrawn = CancelledNotificationParam::new(Some(number), Some(why.to_owned()));
        let _the_client_may_be_gone = context.peer.notify_cancelled(withdrawn).await;
        goes_on
    }

    /// Ends the call with the pending questions, so that the client repeats the call with answers. `tool` is the called tool.
    pub(super) fn reply_with_questions(&self, id: &RunId, tool: &str) -> McpToolReply {
        let mut requests = std::collections::BTreeMap::new();
        for request_form in self
            .run_service()
            .live_open_requests(id)
            .into_iter()
            .map(ClientRequestForm)
        {
            if let Ok(form) = request_form.to_elicitation() {
                requests.insert(
                    format_response_key(tool, request_form.request_digest()),
                    InputRequest::Elicitation(ElicitRequest::new(form)),
                );
            }
        }
        // A client can name each run of the folder anyway, so the state need not be signed.
        Ok(InputRequiredResult::new(Some(requests), Some(id.to_string())).into())
    }

    /// Handles a repeated call with answers. Accepts only answers to questions that a call of the same tool has shown.
    pub(super) async fn continue_repeated_call(
        &self,
        request: CallToolRequestParams,
        state: &str,
        context: &RequestContext<RoleServer>,
    ) -> McpToolReply {
        let id = self.resolve_served_run(state).await?;
        self.check_repeated_tool(&request.name, request.arguments, &id).await?;
        // The record of a run that was interrupted does not contain what it asked, so it is asked again.
        let summary = self.run_service().load_summary(&id).await?;
        let is_interrupted = summary.process.is_none() && summary.state == RunState::Interrupted;
        let (mut shown_digests, mut unused_count) = (Vec::new(), 0);
        for (key, response) in request.input_responses.unwrap_or_default() {
            let digest = parse_response_key(&key, &request.name);
            match digest {
                Some(digest) if is_interrupted || self.run_service().is_request_pending(&id, &digest).await? => {
                    shown_digests.push((digest, response));
                }
                _ => unused_count += 1,
            }
        }
        if shown_digests.is_empty() && unused_count > 0 {
            return self.unused_answers_reply(&id, unused_count).await;
        }
        let from = self.resume_if_stopped(&id, true).await?;
        for (digest, response) in shown_digests {
            let Some(request_form) = self.wait_for_repeated_request(&id, &digest, is_interrupted).await else {
                unused_count += 1;
                continue;
            };
            let elicit_result: ElicitResult = serde_json::from_value(response).map_err(|error| error.to_string())?;
            if !request_form
                .send_elicitation_answer(self.run_service(), &id, &elicit_result, client_answer_author(context))
                .await?
            {
                return self.run_state_reply(&id).await;
            }
        }
        if unused_count > 0 {
            return self.unused_answers_reply(&id, unused_count).await;
        }
        self.await_cancellable_run(id, from, self.services.wait, context, &request.name)
            .await
    }

    /// Checks that a call of this tool can have shown the questions of the run.
    ///
    /// # Errors
    ///
    /// The tool neither starts runs of the ensemble nor waits for this run.
    async fn check_repeated_tool(
        &self,
        tool: &str,
        arguments: Option<JsonObject>,
        id: &RunId,
    ) -> Result<(), McpCallError> {
        let can_ask = match tool {
            "await_run" | "answer_run" | "resume_run" => {
                let run = ToolArguments::new(arguments).take_required_text("run")?;
                self.resolve_served_run(&run).await? == *id
            }
            _ => {
                let summary = self.run_service().load_summary(id).await?;
                let folder = &self.project().folder;
                let entry = EnsembleToolCatalog::load_catalog(self.project()).into_tool_entry(tool);
                let file = entry.and_then(|entry| folder.join(entry.file).canonicalize().ok());
                file.is_some() && file == Path::new(&summary.ensemble_file).canonicalize().ok()
            }
        };
        match can_ask {
            true => Ok(()),
            false => Err(McpCallError::ToolError(format!(
                "`{tool}` did not ask what this run asks\nrepeat the call that asked, with its arguments"
            ))),
        }
    }

    /// Returns the current state of a run that no longer asks the shown questions. `count` is the number of unused answers.
    async fn unused_answers_reply(&self, id: &RunId, count: usize) -> McpToolReply {
        let mut status = load_run_status(self.run_service(), id).await?;
        let was_used = if count == 1 { "answer was" } else { "answers were" };
        status.document["refused"] = json!(format!(
            "{count} {was_used} not used: the run no longer asks what was shown; `requests` lists what waits now"
        ));
        Ok(document_response(status.document, true))
    }

    /// Waits for a limited time until the run, which can have been resumed, asks the request with this digest. `is_interrupted` is true if
    /// the run was interrupted and might not expect the request any more. Returns `None` if the run does not ask.
    async fn wait_for_repeated_request(
        &self,
        id: &RunId,
        digest: &RequestDigest,
        is_interrupted: bool,
    ) -> Option<ClientRequestForm> {
        let service = self.run_service();
        let is_shown = |open: &OperatorRequest| open.pending_request().digest == *digest;
        let request_wait = async {
            match is_interrupted {
                true => service.wait_for_open_request(id, is_shown).await,
                false => service.wait_for_request_again(id, digest).await,
            }
        };
        tokio::time::timeout(MAX_WAIT_FOR_REPEATED_REQUEST, request_wait)
            .await
            .ok()?
            .map(ClientRequestForm)
    }

    /// Answers a request of the run, and returns its state (tool `answer_run`).
    pub(super) async fn answer_run(
        &self,
        mut arguments: ToolArguments,
        context: &RequestContext<RoleServer>,
    ) -> McpToolReply {
        let id = self.resolve_served_run(&arguments.take_required_text("run")?).await?;
        let answer = arguments.take_required_text("answer")?;
        let address: RequestAddress = match arguments.take_required_text("address")?.parse() {
            Ok(address) => address,
            Err(error) => return Err(McpCallError::ToolError(AddressError::to_string(&error))),
        };
        let digest = RequestDigest::new(arguments.take_required_text("digest")?);
        let wait = self.take_wait_argument(&mut arguments)?;
        arguments.require_no_rest()?;
        let pending = self.run_service().load_pending_requests(&id).await?;
        let is_permission = pending
            .iter()
            .any(|request| request.address == address && request.is_permission());
        let answer = match is_permission {
            false => RequestAnswer::Text(answer),
            true => match parse_decision_word(&answer) {
                Some(decision) => RequestAnswer::Permission(decision),
                None => {
                    return Err(McpCallError::ToolError(format!(
                        "`{answer}` is not one of the choices: once, always, deny"
                    )));
                }
            },
        };
        let from = self.run_service().load_summary(&id).await?.records;
        let shown_request = (&address, &digest);
        self.run_service()
            .answer_or_resume(
                &id,
                shown_request,
                answer,
                client_answer_author(context),
                RunOptions::default(),
            )
            .await?;
        self.await_and_ask(&id, from, wait, context, "answer_run").await
    }

    /// Resumes the run, and waits for its end or its questions (tool `resume_run`).
    pub(super) async fn resume_and_await_run(
        &self,
        mut arguments: ToolArguments,
        context: &RequestContext<RoleServer>,
    ) -> McpToolReply {
        let id = self.resolve_served_run(&arguments.take_required_text("run")?).await?;
        let message = arguments.take_text_argument("message")?;
        let wait = self.take_wait_argument(&mut arguments)?;
        arguments.require_no_rest()?;
        let from = self.run_service().load_summary(&id).await?.records;
        let options = RunOptions::default();
        match message {
            Some(message) => {
                let context = RunContext::default();
                self.run_service()
                    .continue_with_message(&id, message, context, options)
                    .await?;
            }
            None => self.run_service().resume_run(&id, options).await?,
        }
        self.await_cancellable_run(id, from, wait, context, "resume_run").await
    }
}

/// Renders the key of the answer to a request that a call of this tool has shown.
fn format_response_key(tool: &str, digest: &str) -> String {
    format!("{tool} {digest}")
}

/// Parses the digest in the key of an answer. Returns `None` if another tool has shown the request.
fn parse_response_key(key: &str, tool: &str) -> Option<RequestDigest> {
    let digest = key.strip_prefix(tool)?.strip_prefix(' ')?;
    Some(RequestDigest::new(digest))
}

/// Creates the reply to a cancelled call, which no client receives.
fn cancelled_call_error() -> McpCallError {
    McpCallError::Error(ErrorData::internal_error("the call was cancelled", None))
}
