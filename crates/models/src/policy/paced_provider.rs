//! A provider whose requests keep the pace of their profile.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::pace::{PaceTimeout, ProviderPace};
use crate::{
    BoxFuture, ModelError, ModelErrorKind, ModelProvider, ModelReply, ModelRequest, ReplyPieceCallback, estimate_tokens,
};

/// Provider that keeps the rate limit and the time limit of its profile.
pub(crate) struct PacedProvider {
    inner: Arc<dyn ModelProvider>,
    pace: Arc<ProviderPace>,
    /// The pause after a refusal, if the provider does not ask for another.
    pause: Duration,
}

impl PacedProvider {
    pub(crate) fn new(inner: Arc<dyn ModelProvider>, pace: Arc<ProviderPace>, pause: Duration) -> Self {
        Self { inner, pace, pause }
    }

    /// Waits for the rate limit, sends the request with its time limit, and records the result for the pace. The wait does not count.
    async fn answer_request(
        &self,
        request: ModelRequest,
        on_piece: &ReplyPieceCallback<'_>,
    ) -> Result<ModelReply, ModelError> {
        let tokens = request
            .messages
            .iter()
            .map(|message| estimate_tokens(&message.content))
            .sum();
        let admitted = self
            .pace
            .wait_for_admission(tokens, &request.clock)
            .await
            .map_err(|PaceTimeout| ModelError {
                kind: ModelErrorKind::RateLimited,
                ..ModelError::new_retryable("the provider has accepted no request for a minute (429 Too Many Requests)")
            })?;
        // The wait does not count.
        let limit = request.profile.timeout;
        let answer = self.inner.complete_request(request, on_piece);
        let answered = match limit {
            Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
                let seconds = limit.as_secs_f64();
                Err(ModelError::new_retryable(format!("no reply within {seconds} s")))
            }),
            None => answer.await,
        };
        match &answered {
            Ok(reply) => {
                let tokens = reply.tokens.map(|tokens| tokens.input + tokens.output);
                admitted.record_success(tokens, &reply.limits);
            }
            Err(error) if error.kind == ModelErrorKind::RateLimited => admitted.record_refusal(error, self.pause),
            Err(_) => {}
        }
        answered
    }
}

impl ModelProvider for PacedProvider {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.answer_request(request, on_piece))
    }

    fn enforces_own_limits(&self) -> bool {
        true
    }
}
