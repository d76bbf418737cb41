//! One query while the profiles of a chain answer it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ensemble_core::thread::{Message, MessageRole};
use ensemble_language::ensemble::{self, ModelProfile, RetryPolicy};
use ensemble_language::profiles::ChainedProfile;

use super::model_query::ModelQuery;
use super::pace::ProviderPace;
use super::reply_forwarder::LiveReplyForwarder;
use super::retry_reasons::{
    MAX_PAUSE_WITH_FALLBACK, RetryReason, RetryState, max_requested_pause, retry_policy_or_default,
};
use crate::request::tool_files;
use crate::{
    ModelError, ModelNetwork, ModelProvider, ModelReply, ModelRequest, ReplyPiece, move_schema_to_messages,
    reasoning_source,
};

/// The minimum pause that causes a warning.
const MIN_WARNED_PAUSE: Duration = Duration::from_secs(5);

/// Model query while the profiles of its fallback chain are tried.
pub(crate) struct ChainQuery<'a> {
    pub(crate) ask: &'a ModelQuery,
    pub(crate) network: &'a ModelNetwork,
    pub(crate) replies: LiveReplyForwarder<'a>,
    pub(crate) warnings: Vec<String>,
}

/// Attempts of a query at one profile.
pub(crate) struct ProfileAttempts<'a> {
    link: &'a ChainedProfile,
    provider: &'a dyn ModelProvider,
    is_last: bool,
    retry: RetryPolicy,
    attempt: u32,
    schema_in_words: bool,
    files_in_words: bool,
    pace: Arc<ProviderPace>,
    successes: u64,
}

impl ProfileAttempts<'_> {
    /// Returns whether the retry policy allows another attempt.
    fn has_attempts_left(&self) -> bool {
        self.attempt < self.retry.max_attempts.get()
    }
}

impl ChainQuery<'_> {
    /// Asks one profile, with the retries that its `retry` allows. The error message contains the number of requests.
    pub(crate) async fn ask_profile_with_retries(
        &mut self,
        at: usize,
        link: &ChainedProfile,
        provider: &dyn ModelProvider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let before = self.ask.request_counter.load(Ordering::Relaxed);
        let answer = self.request_until_final_error(at, link, provider, is_last).await;
        let requests = self.ask.request_counter.load(Ordering::Relaxed) - before;
        answer.map_err(|error| match requests {
            0 | 1 => error,
            all => ModelError {
                message: format!(
                    "{error}; it was the last of {all} requests (`retry` of model profile `{}`)",
                    link.name
                ),
                ..error
            },
        })
    }

    /// Creates the state of the attempts at a profile, without sending a request.
    pub(crate) fn new_attempts<'p>(
        &self,
        link: &'p ChainedProfile,
        provider: &'p dyn ModelProvider,
        is_last: bool,
    ) -> ProfileAttempts<'p> {
        let pace = self.network.shared_pace_for_profile(&link.name, &link.profile);
        ProfileAttempts {
            link,
            provider,
            is_last,
            retry: retry_policy_or_default(&link.profile),
            attempt: 1,
            schema_in_words: self.network.refuses_schema(&link.profile),
            files_in_words: self.network.refuses_files(&link.profile),
            successes: pace.success_count(),
            pace,
        }
    }

    /// Sends requests to the profile until one succeeds or the error is final.
    pub(crate) async fn request_until_final_error(
        &mut self,
        at: usize,
        link: &ChainedProfile,
        provider: &dyn ModelProvider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let mut attempts = self.new_attempts(link, provider, is_last);
        loop {
            let remaining_pause = attempts.pace.remaining_pause();
            if !is_last && remaining_pause > MAX_PAUSE_WITH_FALLBACK {
                let seconds = remaining_pause.as_secs();
                let message = format!("the provider asks for a pause of {seconds} s, which is too long");
                return Err(ModelError::new_retryable(message));
            }
            let request = self.count_and_build_request(at, &attempts);
            let result = request_within_time_limit(link, provider, request, &self.replies).await;
            self.report_pace_changes(&attempts);
            let error = match result {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.adapt_or_wait_for_retry(&mut attempts, error).await?;
        }
    }

    /// Prepares the next request to the profile: changes the form of the request, or waits.
    ///
    /// # Errors
    /// The error, if it is final for this profile.
    async fn adapt_or_wait_for_retry(
        &mut self,
        attempts: &mut ProfileAttempts<'_>,
        error: ModelError,
    ) -> Result<(), ModelError> {
        let was_heard = self.replies.mark_sent_reply_void();
        let facts = RetryState {
            schema_in_words: attempts.schema_in_words,
            files_in_words: attempts.files_in_words,
            has_tool_files: tool_files::has_tool_files(&self.ask.messages),
            is_paced: attempts.provider.enforces_own_limits(),
            has_attempts_left: attempts.has_attempts_left(),
        };
        match RetryReason::from_error(&error, facts) {
            None => Err(error),
            Some(RetryReason::SchemaRefused) => {
                self.warn_and_prompt_for_schema(attempts, &error);
                Ok(())
            }
            Some(RetryReason::FilesRefused) => {
                self.warn_and_describe_files(attempts, &error);
                Ok(())
            }
            Some(RetryReason::RateLimited) => self.wait_after_rate_limit(attempts, error, was_heard).await,
            Some(RetryReason::TemporaryError) => self.report_and_sleep_before_retry(attempts, error, was_heard).await,
        }
    }

    /// Describes the schema in the prompt of later requests to this model, and adds a warning.
    fn warn_and_prompt_for_schema(&mut self, attempts: &mut ProfileAttempts<'_>, error: &ModelError) {
        let name = &attempts.link.name;
        self.warnings.push(format!(
            "model profile `{name}` does not support the output schema ({error}); the request was repeated with the schema \
             in the prompt"
        ));
        self.network.record_schema_refusal(&attempts.link.profile);
        attempts.schema_in_words = true;
    }

    /// Describes files in later requests instead of sending them, and adds a warning.
    fn warn_and_describe_files(&mut self, attempts: &mut ProfileAttempts<'_>, error: &ModelError) {
        self.warnings
            .push(tool_files::refused_files_warning(&attempts.link.name, error));
        if tool_files::rejects_all_files(error) {
            self.network.record_files_refusal(&attempts.link.profile);
        }
        attempts.files_in_words = true;
    }

    /// Reports the starts and ends of slowdowns that no other query has reported.
    fn report_pace_changes(&mut self, attempts: &ProfileAttempts<'_>) {
        for change in attempts.pace.take_unreported_changes() {
            let text = format!("model profile `{}`: {change}", attempts.link.name);
            self.replies.report_pace_change(&text);
            self.network.record_pace_change(&text);
            self.warnings.push(text);
        }
    }

    /// Waits for the pause that the provider requests for this request. The profile waits for pauses of all requests.
    ///
    /// Counts an attempt, unless the provider accepts other requests meanwhile.
    async fn wait_after_rate_limit(
        &mut self,
        attempts: &mut ProfileAttempts<'_>,
        error: ModelError,
        was_heard: bool,
    ) -> Result<(), ModelError> {
        let own_pause = self
            .retry_pause(attempts, &error)
            .ok_or_else(|| pause_too_long_error(error.clone()))?;
        let is_alive = attempts.pace.may_accept_since_success(attempts.successes);
        attempts.successes = attempts.pace.success_count();
        if !is_alive && !attempts.has_attempts_left() {
            return Err(error);
        }
        attempts.attempt += u32::from(!is_alive);
        let account_pause = attempts.pace.remaining_account_pause();
        let pause = match account_pause.is_zero() {
            true => own_pause,
            false => account_pause,
        };
        let pause = pause.max(attempts.pace.remaining_pause());
        if pause >= MIN_WARNED_PAUSE {
            self.add_retry_warning(attempts.link, &error, was_heard, pause);
        }
        self.replies.report_retry(pause, &error);
        if account_pause.is_zero() {
            let _pause = self.ask.clock.pause_with_outer_stopwatches();
            tokio::time::sleep(own_pause).await;
        }
        Ok(())
    }

    /// Sleeps before the next attempt, and reports the retry. Fails if the requested pause is too long.
    async fn report_and_sleep_before_retry(
        &mut self,
        attempts: &mut ProfileAttempts<'_>,
        error: ModelError,
        was_heard: bool,
    ) -> Result<(), ModelError> {
        let pause = self.retry_pause(attempts, &error);
        let pause = pause.ok_or_else(|| pause_too_long_error(error.clone()))?;
        if was_heard || pause >= MIN_WARNED_PAUSE {
            self.add_retry_warning(attempts.link, &error, was_heard, pause);
        }
        self.replies.report_retry(pause, &error);
        tokio::time::sleep(pause).await;
        attempts.attempt += 1;
        Ok(())
    }

    /// Returns the pause before the next attempt. Returns `None` if the pause would be too long.
    pub(crate) fn retry_pause(&self, attempts: &ProfileAttempts<'_>, error: &ModelError) -> Option<Duration> {
        let own_pause = attempts.retry.pause_after(attempts.attempt);
        match error.retry_after {
            Some(pause) => (pause <= max_requested_pause(!attempts.is_last)).then_some(pause),
            None if &*attempts.link.profile.provider == ensemble::SIMULATED_PROVIDER => Some(own_pause),
            None => Some(self.network.with_jitter(own_pause)),
        }
    }

    /// Adds a warning about the repeated request.
    fn add_retry_warning(&mut self, link: &ChainedProfile, error: &ModelError, was_heard: bool, pause: Duration) {
        let name = &link.name;
        let action = match was_heard {
            true => "failed during its reply, and the request was repeated".to_owned(),
            false => format!(
                "failed, and the request was repeated after {:.0} s",
                pause.as_secs_f64()
            ),
        };
        self.warnings.push(format!("model profile `{name}` {action} ({error})"));
    }

    /// Builds the next request to the profile, and counts it.
    fn count_and_build_request(&self, at: usize, attempts: &ProfileAttempts<'_>) -> ModelRequest {
        let number = self.ask.requests_made + self.ask.request_counter.fetch_add(1, Ordering::Relaxed) + 1;
        let request = build_request(self.ask, at, attempts.link, number);
        let request = match attempts.schema_in_words {
            true => move_schema_to_messages(request),
            false => request,
        };
        match attempts.files_in_words {
            true => tool_files::with_described_tool_files(request),
            false => request,
        }
    }
}

/// Adds to the error that the requested pause is too long.
fn pause_too_long_error(error: ModelError) -> ModelError {
    let seconds = error.retry_after.unwrap_or_default().as_secs();
    ModelError {
        message: format!("{error}; it asks for a pause of {seconds} s, which is too long"),
        ..error
    }
}

/// Sends one request with the time limit of the profile.
async fn request_within_time_limit(
    link: &ChainedProfile,
    provider: &dyn ModelProvider,
    request: ModelRequest,
    replies: &LiveReplyForwarder<'_>,
) -> Result<ModelReply, ModelError> {
    let on_piece = |piece: ReplyPiece<'_>| replies.forward_piece(piece);
    let Some(limit) = link.profile.timeout.filter(|_| !provider.enforces_own_limits()) else {
        return provider.complete_request(request, &on_piece).await;
    };
    let timed = tokio::time::timeout(limit, provider.complete_request(request, &on_piece)).await;
    timed.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(ModelError::new_retryable(format!("no reply within {seconds} s")))
    })
}

/// Builds the request for the profile at index `at` of the chain, with this request number.
fn build_request(ask: &ModelQuery, at: usize, link: &ChainedProfile, number: u64) -> ModelRequest {
    let system = ask.systems.get(at).cloned().flatten();
    let system = system.map(|content| Message::new(MessageRole::System, content));
    let prompt = ask
        .messages
        .iter()
        .rev()
        .find(|message| message.role == MessageRole::User);
    ModelRequest {
        prompt: prompt
            .map(|message| message.content.as_str())
            .unwrap_or_default()
            .into(),
        messages: system
            .into_iter()
            .chain(without_foreign_reasoning(&ask.messages, &link.profile))
            .collect(),
        agent_name: Arc::clone(&ask.source.agent),
        purpose: ask.purpose,
        request_number: number,
        execution: ask.source.execution,
        output_schema: ask.output_schema.clone(),
        tools: Arc::clone(&ask.tools),
        profile: Arc::clone(&link.profile),
        clock: ask.clock.clone(),
    }
}

/// Returns the messages without the reasoning of other models.
fn without_foreign_reasoning<'m>(
    messages: &'m [Message],
    profile: &ModelProfile,
) -> impl Iterator<Item = Message> + use<'m> {
    let from = reasoning_source(profile);
    messages.iter().cloned().map(move |mut message| {
        if message
            .reasoning
            .as_ref()
            .is_some_and(|reasoning| reasoning.from != from)
        {
            message.reasoning = None;
            message.tool_calls.iter_mut().for_each(|call| call.signatures.clear());
        }
        message
    })
}
