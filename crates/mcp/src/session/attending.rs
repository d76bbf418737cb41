//! Calls that begin a run or wait for one, and ask people meanwhile.

use std::sync::Arc;
use std::time::Duration;

use ensemble_core::conversation::Event;
use ensemble_core::operator::OperatorRequest;
use ensemble_core::request::{AddressError, RequestAddress, RequestAnswer, RequestDigest};
use ensemble_core::store::RunId;
use ensemble_language::data::Context;
use ensemble_runs::{EnsembleRef, RunError, RunEventKind, RunOptions};
use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitResult, ErrorData, InputRequest,
    InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use tokio::time::Instant;

use super::{CLIENT, Call, Refusal, Reply, Session};
use crate::catalog::Entry;
use crate::people::{RequestForm, Way, answerer_of, decision};
use crate::progress::Progress;
use crate::tools::Arguments;

/// How long a run may take to ask again what it asked before it was resumed.
const ASKS_AGAIN: Duration = Duration::from_secs(20);

impl Session {
    /// Runs an ensemble.
    pub(super) async fn start(
        &self,
        entry: &Entry,
        mut arguments: Arguments,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let ensemble = &entry.ensemble;
        let input = match ensemble.input("input") {
            Some(_) => None,
            None => arguments.text("input")?,
        };
        let values = match ensemble.inputs {
            Some(_) => arguments.rest(),
            None => {
                let values = arguments.map("context")?;
                arguments.end()?;
                values
            }
        };
        let options = RunOptions {
            input: input.map(Into::into),
            context: values
                .into_iter()
                .map(|(key, value)| (key.into(), Arc::new(value)))
                .collect::<Context>(),
            models: self.services.models.clone(),
            ..RunOptions::default()
        };
        self.calls().insert(context.id.clone(), Call::Starting);
        let started = self
            .service()
            .start(EnsembleRef::file(entry.file.display().to_string()), options)
            .await;
        let id = match started {
            Ok(id) => id,
            Err(error) => {
                self.calls().remove(&context.id);
                return Err(error.into());
            }
        };
        self.owned(id, 0, self.services.wait, context).await
    }

    /// Attends a run that this request has begun: the cancellation of the request is that of the run.
    pub(super) async fn owned(
        &self,
        id: RunId,
        from: u64,
        wait: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let before = self.calls().insert(context.id.clone(), Call::Started(id.clone()));
        if let Some(Call::Cancelled) = before {
            self.service().cancel(&id, CLIENT).await?;
        }
        let reply = self.attend(&id, from, wait, context).await;
        // The notification of a cancellation comes after the cancellation, and looks for the run.
        if !context.ct.is_cancelled() {
            self.calls().remove(&context.id);
        }
        reply
    }

    /// Waits until the run has ended or asks something that nobody can be asked here, and for `wait` at most.
    pub(super) async fn attend(
        &self,
        id: &RunId,
        from: u64,
        wait: Duration,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let mut follow = self.service().follow(id, from).await.map_err(RunError::from)?;
        let mut progress = Progress::new(context);
        let mut deadline = Instant::now() + wait;
        loop {
            let event = tokio::select! {
                biased;
                () = context.ct.cancelled() => return Err(cancelled()),
                event = follow.next() => event.map_err(RunError::from)?,
                () = tokio::time::sleep_until(deadline) => break,
            };
            let Some(event) = event else { break };
            let wanted = match event.kind {
                RunEventKind::Committed(record) => {
                    let is_over = event.run == *id && matches!(record.event, Event::RunEnded(_));
                    progress.tell(&record).await;
                    if is_over {
                        self.service().ended(id).await;
                        break;
                    }
                    continue;
                }
                RunEventKind::QuestionAsked(asked) => RequestForm(OperatorRequest::Question(asked)),
                RunEventKind::PermissionRequested(call) => RequestForm(OperatorRequest::Permission(call)),
                RunEventKind::Live(_) => continue,
            };
            if !self.is_open(id, &wanted) {
                continue;
            }
            match Way::of(context) {
                Way::None => break,
                Way::Repeated => return self.ask_by_repetition(id),
                Way::Asked => {
                    let begun = Instant::now();
                    if !self.ask(id, &wanted, context).await? {
                        break;
                    }
                    // The wait is for the run, and not for people.
                    deadline += begun.elapsed();
                }
            }
        }
        self.state(id).await
    }

    pub(super) fn is_open(&self, id: &RunId, wanted: &RequestForm) -> bool {
        let open = self.service().open_requests(id);
        open.iter().any(|open| open.request().digest.as_str() == wanted.key())
    }

    /// Asks a person: whether the run goes on. A question that somebody else answers is withdrawn.
    pub(super) async fn ask(
        &self,
        id: &RunId,
        wanted: &RequestForm,
        context: &RequestContext<RoleServer>,
    ) -> Result<bool, Refusal> {
        let Ok(form) = wanted.form() else { return Ok(false) };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let asked = context
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await;
        let Ok(asked) = asked else { return Ok(false) };
        let number = asked.id.clone();
        let answered_elsewhere = self.service().wait_until_decided(id, &wanted.0.request().digest);
        let (why, goes_on) = tokio::select! {
            biased;
            response = asked.await_response() => {
                return match response {
                    Ok(ClientResult::ElicitResult(said)) => Ok(wanted.take(self.service(), id, &said, answerer_of(context)).await?),
                    _ => Ok(false),
                };
            }
            () = context.ct.cancelled() => ("the call was cancelled", Err(cancelled())),
            () = answered_elsewhere => ("the question is answered", Ok(true)),
        };
        let withdrawn = CancelledNotificationParam::new(Some(number), Some(why.to_owned()));
        let _the_client_may_be_gone = context.peer.notify_cancelled(withdrawn).await;
        goes_on
    }

    /// Ends the call with the questions, which the client repeats with their answers.
    pub(super) fn ask_by_repetition(&self, id: &RunId) -> Reply {
        let mut requests = std::collections::BTreeMap::new();
        for wanted in self.service().open_requests(id).into_iter().map(RequestForm) {
            if let Ok(form) = wanted.form() {
                requests.insert(
                    wanted.key().to_owned(),
                    InputRequest::Elicitation(ElicitRequest::new(form)),
                );
            }
        }
        // A client can name each run of the folder anyway, so the state need not be signed.
        Ok(InputRequiredResult::new(Some(requests), Some(id.to_string())).into())
    }

    /// A call that is repeated with answers.
    pub(super) async fn repeated(
        &self,
        state: &str,
        responses: InputResponses,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        let id = self.run(state).await?;
        let from = self.go_on(&id, true).await?;
        for (key, response) in responses {
            let Some(wanted) = self.wait_for_request(&id, &key).await else {
                continue;
            };
            let said: ElicitResult = serde_json::from_value(response).map_err(|error| error.to_string())?;
            if !wanted.take(self.service(), &id, &said, answerer_of(context)).await? {
                return self.state(&id).await;
            }
        }
        self.owned(id, from, self.services.wait, context).await
    }

    /// Waits until the run asks what was shown with this digest, as long as the run continues.
    async fn wait_for_request(&self, id: &RunId, digest: &str) -> Option<RequestForm> {
        let is_shown = |open: &OperatorRequest| open.request().digest.as_str() == digest;
        let asked = self.service().wait_for_request(id, is_shown);
        tokio::time::timeout(ASKS_AGAIN, asked).await.ok()?.map(RequestForm)
    }

    /// `answer_run`.
    pub(super) async fn answer(&self, mut arguments: Arguments, context: &RequestContext<RoleServer>) -> Reply {
        let id = self.run(&arguments.required("run")?).await?;
        let answer = arguments.required("answer")?;
        let address: RequestAddress = match arguments.required("address")?.parse() {
            Ok(address) => address,
            Err(error) => return Err(Refusal::Told(AddressError::to_string(&error))),
        };
        let digest = RequestDigest::new(arguments.required("digest")?);
        let wait = self.wait(&mut arguments)?;
        arguments.end()?;
        let pending = self.service().pending(&id).await?;
        let is_permission = pending
            .iter()
            .any(|request| request.address == address && request.is_permission());
        let answer = match is_permission {
            false => RequestAnswer::Text(answer),
            true => match decision(&answer) {
                Some(decision) => RequestAnswer::Permission(decision),
                None => return Err(Refusal::Told(format!("`{answer}` is none of once, always, deny"))),
            },
        };
        let from = self.service().summary(&id).await?.records;
        let shown = (&address, &digest);
        self.service()
            .answer(&id, shown, answer, answerer_of(context), RunOptions::default())
            .await?;
        self.attend(&id, from, wait, context).await
    }

    /// `resume_run`.
    pub(super) async fn resume(&self, mut arguments: Arguments, context: &RequestContext<RoleServer>) -> Reply {
        let id = self.run(&arguments.required("run")?).await?;
        let message = arguments.text("message")?;
        let wait = self.wait(&mut arguments)?;
        arguments.end()?;
        let from = self.service().summary(&id).await?.records;
        let options = RunOptions::default();
        match message {
            Some(message) => {
                let context = Context::default();
                self.service().continue_with(&id, message, context, options).await?;
            }
            None => self.service().resume(&id, options).await?,
        }
        self.owned(id, from, wait, context).await
    }
}

/// The answer to a call that was cancelled, which nobody receives.
fn cancelled() -> Refusal {
    Refusal::Error(ErrorData::internal_error("the call was cancelled", None))
}
