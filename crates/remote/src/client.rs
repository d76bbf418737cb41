//! Client of the engine, over its HTTP interface.
//!
//! Invariant: to start a run twice starts the run once, so the client repeats a request that a lost node did not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::Record;
use ensemble_core::records::JournalLineError;
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{RunId, RunStore, StoredRun};
use ensemble_history::RunState;
use ensemble_runs::batch::{BatchRunEngine, EngineRunOptions};
use ensemble_runs::{ReadyRun, RunError};
use futures_util::stream::{self, StreamExt};
use reqwest::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::client_error::EngineClientError;
use crate::protocol::{
    DAYS, INDEX, RUNS, RecordsReply, ResumeRequest, RunBrief, RunStartRequest, SentQuestionAnswer, decode_record_lines,
};

/// Time limit for one response of the engine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the end of a run is waited for before the run is looked at, at first and later.
const END_CHECK_INTERVAL: Duration = Duration::from_secs(2);
const LOOKED_AT_AT_LEAST_EVERY: Duration = Duration::from_secs(16);
/// How many runs are asked for side by side.
const MAX_PARALLEL_REQUESTS: usize = 16;

/// Time to wait for an engine that has answered before, because a lost node can be replaced.
const LOST_ENGINE_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of a response, in bytes. The engine's own messages are smaller.
const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// First and longest pause before a request is repeated.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Client of a durable execution engine, by the address of its ingress. Clones share the state of the connection.
#[derive(Debug, Clone)]
pub struct EngineClient {
    url: String,
    http: reqwest::Client,
    /// Set after the first answer of the engine. The client then waits for an engine that does not answer.
    was_reached: Arc<AtomicBool>,
    /// Set if requests fail as soon as the engine or the workers do not answer.
    is_impatient: bool,
}

impl EngineClient {
    /// Creates a client for the engine at this address. No request is sent.
    ///
    /// # Errors
    /// The text is not a URL, or no HTTP client can be built.
    pub fn from_url(url: &str) -> Result<Self, EngineClientError> {
        let wrong = |reason: String| EngineClientError::Address {
            url: url.to_owned(),
            reason,
        };
        let parsed = reqwest::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        let http = ensemble_models::build_http_client().map_err(wrong)?;
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            http,
            was_reached: Arc::default(),
            is_impatient: false,
        })
    }

    /// Waits for the engine from the first request on, as if the engine had answered before.
    #[must_use]
    pub fn with_waiting_from_start(self) -> Self {
        self.was_reached.store(true, Ordering::Relaxed);
        self
    }

    /// Makes a request fail within 10 seconds if the engine or the workers do not answer.
    #[must_use]
    pub fn with_fast_failures(self) -> Self {
        Self {
            is_impatient: true,
            ..self
        }
    }

    /// Returns the HTTP client.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Returns the address of the ingress.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Starts a run. Has no effect if a run with this id was started before.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn start_run_once(&self, start: &RunStartRequest) -> Result<(), EngineClientError> {
        let _sent: Value = self
            .call_handler_with_retries(&run_path(&start.started.run_id, "run/send"), start)
            .await?;
        Ok(())
    }

    /// Fetches the records of a run from number `from` on, with the state of the run.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn fetch_records(&self, id: &str, from: u64) -> Result<RecordsReply, EngineClientError> {
        let mut reply: RecordsReply = self.call_handler_with_retries(&run_path(id, "records"), &from).await?;
        while reply.is_partial {
            let next = from + reply.lines.lines().count() as u64;
            let rest: RecordsReply = self.call_handler_with_retries(&run_path(id, "records"), &next).await?;
            reply.is_partial = rest.is_partial && !rest.lines.is_empty();
            reply.is_over = rest.is_over;
            reply.lines.push_str(&rest.lines);
            if reply.lines.len() > MAX_RESPONSE_BYTES {
                let reason = format!("run {id} has more than {} MiB of records", MAX_RESPONSE_BYTES >> 20);
                return Err(self.content_error(reason));
            }
        }
        self.check_refusal(id, reply)
    }

    /// Returns the reply, unless the worker refused the run before it began.
    fn check_refusal(&self, id: &str, reply: RecordsReply) -> Result<RecordsReply, EngineClientError> {
        match reply.refusal {
            Some(message) => Err(EngineClientError::RunRefused {
                id: id.to_owned(),
                message,
            }),
            None => Ok(reply),
        }
    }

    /// Returns the records of a run from one on, as soon as there is one or the run has ended; after some seconds, no record.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses.
    pub async fn follow_records(&self, id: &str, from: u64) -> Result<RecordsReply, EngineClientError> {
        let reply = self.call_handler_with_retries(&run_path(id, "follow"), &from).await?;
        self.check_refusal(id, reply)
    }

    /// Sends the answer to a question of a run.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn send_answer(&self, id: &str, answer: &SentQuestionAnswer) -> Result<(), EngineClientError> {
        self.call_handler_with_retries(&run_path(id, "answer"), answer).await
    }

    /// Cancels a run on behalf of `by`.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn cancel_run(&self, id: &str, by: &str) -> Result<(), EngineClientError> {
        self.call_handler_with_retries(&run_path(id, "cancel"), &by).await
    }

    /// Requests the continuation of a run that was cancelled or timed out. The run continues a few seconds after its interruption, when the
    /// workers have stopped its executions. Has no effect on a running run.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses, as it does if the run has waited for this for too long.
    pub async fn request_resume(&self, id: &str, request: impl Into<ResumeRequest>) -> Result<(), EngineClientError> {
        let resumed = self
            .call_handler_with_retries(&run_path(id, "resume"), &request.into())
            .await;
        resumed.map_err(|error| match error {
            EngineClientError::RequestRefused { status: 404, .. } => self.no_run_error(id),
            error => error,
        })
    }

    /// Creates the error that there is no run with this id.
    pub(crate) fn no_run_error(&self, id: &str) -> EngineClientError {
        EngineClientError::NoRun {
            id: id.to_owned(),
            url: self.url.clone(),
        }
    }

    /// Lets a run go on that was cut short after so many records, and waits until it does. One that goes on already, or waits for an
    /// answer, is left as it is.
    async fn resume_and_wait_for_records(
        &self,
        id: &RunId,
        known: u64,
        request: ResumeRequest,
    ) -> Result<(), EngineClientError> {
        let brief = self.fetch_optional_brief(id.as_str()).await?;
        let brief = brief.ok_or_else(|| self.no_run_error(id.as_str()))?;
        if !brief.has_ended() {
            return Ok(());
        }
        if self.fetch_records(id.as_str(), known).await?.lines.is_empty() {
            self.request_resume(id.as_str(), request).await?;
        }
        while self.fetch_records(id.as_str(), known).await?.lines.is_empty() {
            tokio::time::sleep(END_CHECK_INTERVAL / 4).await;
        }
        Ok(())
    }

    /// Waits until a run has ended or waits for an answer.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses.
    pub async fn wait_for_end_or_question(&self, id: &str) -> Result<(), EngineClientError> {
        let mut patience = END_CHECK_INTERVAL;
        loop {
            let attached = self
                .http
                .get(format!("{}/restate/workflow/{}", self.url, run_path(id, "attach")));
            // The answer comes when the run is over. A question is not its end, so the run is looked at from time to time.
            let attached = attached.timeout(patience).send().await;
            match attached {
                Ok(attached) if attached.status().is_success() => return Ok(()),
                // The run has failed or is not known, which is answered at once.
                Ok(_) => tokio::time::sleep(END_CHECK_INTERVAL).await,
                Err(_) => {}
            }
            let brief = self.fetch_optional_brief(id).await?;
            match brief {
                Some(brief) if brief.state != RunState::Running => return Ok(()),
                Some(_) => {}
                // The run has not begun, or was refused.
                None => self.fetch_records(id, 0).await.map(drop)?,
            }
            patience = (patience * 2).min(LOOKED_AT_AT_LEAST_EVERY);
        }
    }

    /// Asks the engine whether the run has ended. A run that waits for an answer has not ended.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn fetch_has_run_ended(&self, id: &str) -> Result<bool, EngineClientError> {
        Ok(self
            .fetch_optional_brief(id)
            .await?
            .is_some_and(|brief| brief.has_ended()))
    }

    /// Asks the engine whether the executions of the run must stop, because the run has ended or is about to end.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn fetch_is_run_stopping(&self, id: &str) -> Result<bool, EngineClientError> {
        let brief = self.fetch_optional_brief(id).await?;
        Ok(brief.is_some_and(|brief| brief.is_stopping || brief.has_ended()))
    }

    /// Fetches the summary of a run. Returns `None` if there is no such run.
    pub(crate) async fn fetch_optional_brief(&self, id: &str) -> Result<Option<RunBrief>, EngineClientError> {
        self.call_handler_with_retries(&run_path(id, "brief"), &()).await
    }

    /// Lists the ids of at most `limit` of the latest runs, the latest last.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn list_latest_run_ids(&self, limit: usize) -> Result<Vec<RunId>, EngineClientError> {
        let mut days: Vec<String> = self
            .call_handler_with_retries(&format!("{INDEX}/{DAYS}/ids"), &())
            .await?;
        days.sort_unstable();
        let mut run_ids = Vec::new();
        for day in days.iter().rev() {
            let ids: Vec<String> = self
                .call_handler_with_retries(&format!("{INDEX}/{day}/ids"), &())
                .await?;
            // An engine that others can write to may list anything; what is no id names no run.
            run_ids.extend(ids.iter().filter_map(|id| RunId::parse(id).ok()));
            if run_ids.len() >= limit {
                break;
            }
        }
        run_ids.sort_unstable();
        Ok(run_ids.split_off(run_ids.len().saturating_sub(limit)))
    }

    /// Fetches the summary of a run.
    ///
    /// # Errors
    /// The engine cannot be reached, or has no such run.
    pub async fn fetch_existing_brief(&self, id: &RunId) -> Result<RunBrief, EngineClientError> {
        let brief = self.fetch_optional_brief(id.as_str()).await?;
        brief.ok_or_else(|| self.no_run_error(id.as_str()))
    }

    /// Lists at most `limit` of the latest runs with their summaries, the latest last.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn list_latest_briefs(&self, limit: usize) -> Result<Vec<(RunId, RunBrief)>, EngineClientError> {
        let briefs = stream::iter(self.list_latest_run_ids(limit).await?).map(|id| async move {
            let brief = self.fetch_optional_brief(id.as_str()).await?;
            Ok::<_, EngineClientError>(brief.map(|brief| (id, brief)))
        });
        let briefs: Vec<_> = briefs.buffered(MAX_PARALLEL_REQUESTS).collect().await;
        briefs.into_iter().filter_map(Result::transpose).collect()
    }

    /// Returns the id of the run with this id or beginning of an id, among the latest runs. Without a text, returns the latest run.
    ///
    /// # Errors
    /// There is no such run, or there are several.
    pub async fn resolve_run_id(&self, given: Option<&str>) -> Result<RunId, EngineClientError> {
        let mut ids = self.list_latest_run_ids(10_000).await?;
        let Some(prefix) = given else {
            return ids.pop().ok_or_else(|| self.no_run_error("the latest"));
        };
        let matching_ids: Vec<&RunId> = ids.iter().filter(|id| id.matches_prefix(prefix)).collect();
        match matching_ids.as_slice() {
            [] => Err(self.no_run_error(prefix)),
            [one] => Ok((*one).clone()),
            several => Err(EngineClientError::Ambiguous {
                id: prefix.to_owned(),
                candidates: several.iter().map(ToString::to_string).collect(),
            }),
        }
    }

    /// Decodes records from the lines that the engine sent.
    ///
    /// # Errors
    /// A line is no record.
    pub fn decode_records(&self, lines: &str) -> Result<Vec<Record>, EngineClientError> {
        decode_record_lines(lines).map_err(|error: JournalLineError| self.content_error(error.to_string()))
    }

    /// Creates the error that a response cannot be read.
    pub(crate) fn content_error(&self, reason: String) -> EngineClientError {
        EngineClientError::Content {
            url: self.url.clone(),
            reason,
        }
    }

    /// Calls a handler and parses its answer. Repeats the call after temporary errors, because all calls can be repeated.
    pub(crate) async fn call_handler_with_retries<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, EngineClientError> {
        let body = serde_json::to_string(body).map_err(|error| self.content_error(error.to_string()))?;
        let [mut pause, longest] = RETRY_PAUSES;
        let begun = Instant::now();
        loop {
            // A request that a worker answers takes as long as the worker needs, if the worker is alive.
            let answer = tokio::select! {
                answer = self.post_once(path, &body) => answer,
                absence = self.wait_for_absence() => Err(absence),
            };
            let error = match answer {
                Ok(text) => {
                    self.was_reached.store(true, Ordering::Relaxed);
                    let text = if text.is_empty() { "null" } else { &text };
                    return serde_json::from_str(text).map_err(|error| self.content_error(error.to_string()));
                }
                Err(error) => error,
            };
            let is_reached = self.was_reached.load(Ordering::Relaxed);
            let is_waited_for = is_reached && !self.is_impatient && begun.elapsed() < LOST_ENGINE_PATIENCE;
            if !error.is_temporary() || !is_waited_for {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Reads the text of a response of limited size.
    async fn read_limited_response(&self, mut response: reqwest::Response) -> Result<String, EngineClientError> {
        let mut bytes = Vec::new();
        let read_chunk = |error: &reqwest::Error| EngineClientError::Unreachable {
            url: self.url.clone(),
            reason: innermost_cause(error),
        };
        while let Some(chunk) = response.chunk().await.map_err(|error| read_chunk(&error))? {
            if bytes.len() + chunk.len() > MAX_RESPONSE_BYTES {
                let reason = format!("it is larger than {} MiB", MAX_RESPONSE_BYTES >> 20);
                return Err(self.content_error(reason));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|error| self.content_error(error.to_string()))
    }

    /// Posts a JSON body to a handler, and returns the text of a successful response. Does not retry.
    pub(crate) async fn post_once(&self, path: &str, body: &str) -> Result<String, EngineClientError> {
        let request = self.http.post(format!("{}/{path}", self.url)).timeout(PATIENCE);
        // A handler without a parameter takes no body.
        let request = match body {
            "null" => request,
            _ => request.header("content-type", "application/json").body(body.to_owned()),
        };
        let unreachable = |error: &reqwest::Error| EngineClientError::Unreachable {
            url: self.url.clone(),
            reason: innermost_cause(error),
        };
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        let text = self.read_limited_response(response).await?;
        if status.is_success() {
            return Ok(text);
        }
        let message = serde_json::from_str::<Value>(&text).ok();
        let message = message.and_then(|value| value["message"].as_str().map(str::to_owned));
        let message = message.unwrap_or(text);
        let is_unknown = status == StatusCode::NOT_FOUND && message.contains("service");
        Err(match is_unknown {
            true => EngineClientError::NoWorkers(self.url.clone()),
            false => EngineClientError::RequestRefused {
                url: self.url.clone(),
                status: status.as_u16(),
                message,
            },
        })
    }
}

/// Returns the URL path of a handler of a run. Percent-encodes the id, which contains slashes for a nested run.
pub(crate) fn run_path(id: &str, handler: &str) -> String {
    let mut path = format!("{RUNS}/");
    for byte in RunId::new(id).as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => path.push(char::from(byte)),
            other => path.push_str(&format!("%{other:02X}")),
        }
    }
    format!("{path}/{handler}")
}

/// Returns the message of the innermost cause. The outer message only states that a request failed.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl BatchRunEngine for EngineClient {
    fn drive_or_attach_run<'a>(
        &'a self,
        ready: ReadyRun,
        id: RunId,
        given: EngineRunOptions,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>> {
        Box::pin(async move {
            let start =
                RunStartRequest::from_ready_run(&ready, &id, ready.current_time(), &given).map_err(RunError::Engine)?;
            let run_future = async {
                self.start_run_once(&start).await?;
                self.wait_for_end_or_question(id.as_str()).await?;
                self.copy_run(&id, store).await
            };
            run_future.await.map_err(|error| RunError::Engine(error.to_string()))
        })
    }

    fn resume_cancelled_run<'a>(
        &'a self,
        id: RunId,
        at: DateTime<Utc>,
        refuses_exhausted: bool,
        store: &'a dyn RunStore,
    ) -> BoxFuture<'a, Result<Arc<dyn StoredRun>, RunError>> {
        Box::pin(async move {
            let request = ResumeRequest::new(at, refuses_exhausted);
            let resume_future = async {
                let record_count = store
                    .find_run_by_prefix(id.as_str())
                    .await?
                    .read_journal()
                    .await?
                    .records
                    .len();
                self.resume_and_wait_for_records(&id, record_count as u64, request)
                    .await?;
                self.wait_for_end_or_question(id.as_str()).await?;
                self.copy_or_replace_run(&id, store).await
            };
            resume_future.await.map_err(|error| RunError::Engine(error.to_string()))
        })
    }
}
