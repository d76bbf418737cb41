//! A provider that refuses requests, in virtual time: at random, or because of a real limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::{ExecutionAttemptRef, IgnoredLiveOutput, Message, MessageRole};
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::profiles::ChainedProfile;
use ensemble_models::{
    BoxFuture, Model, ModelError, ModelErrorKind, ModelNetwork, ModelProvider, ModelQuery, ModelReply, ModelRequest,
    ReplyPieceCallback, ReportedLimit, ReportedLimitUnit,
};
use futures_util::future::join_all;
use tokio::time::Instant;

/// The time of an answer.
const LATENCY: Duration = Duration::from_millis(500);

/// The pause that a refusal asks for.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The conversations that run at the same time.
const WORKERS: usize = 8;

/// The rule by which a provider refuses requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RefusalRule {
    /// This share of the requests, at random.
    Random(f64),
    /// A bucket that holds 60 requests and gets one each second. With `headers`, answers state what remains.
    Bucket {
        /// Whether answers state the limit.
        headers: bool,
    },
}

/// A provider that refuses requests.
pub(crate) struct FlakyProvider {
    rule: RefusalRule,
    state: Mutex<ProviderState>,
}

struct ProviderState {
    random: u64,
    tokens: f64,
    filled_at: Instant,
    refused: u32,
}

/// The times of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchTimes {
    /// The time of the program.
    pub(crate) measured: Duration,
    /// The time of a client that knows the rule.
    pub(crate) omniscient: Duration,
    /// The number of refusals.
    pub(crate) refused: u32,
    /// The number of failed tickets.
    pub(crate) failed: usize,
}

impl BatchTimes {
    /// Returns the time of the program, compared with that of the client that knows the rule.
    pub(crate) fn ratio(&self) -> f64 {
        self.measured.as_secs_f64() / self.omniscient.as_secs_f64()
    }
}

impl FlakyProvider {
    fn new(rule: RefusalRule, seed: u64) -> Self {
        Self {
            rule,
            state: Mutex::new(ProviderState {
                random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
                tokens: 60.0,
                filled_at: Instant::now(),
                refused: 0,
            }),
        }
    }

    /// Answers a request: the limits that the answer states, and whether the request is accepted.
    fn accept_request(&self) -> (Vec<ReportedLimit>, bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (limits, is_accepted) = match self.rule {
            RefusalRule::Random(share) => {
                state.random ^= state.random << 13;
                state.random ^= state.random >> 7;
                state.random ^= state.random << 17;
                (Vec::new(), (state.random >> 11) as f64 / (1_u64 << 53) as f64 >= share)
            }
            RefusalRule::Bucket { headers } => {
                let filled = state.filled_at.elapsed().as_secs_f64();
                state.tokens = (state.tokens + filled).min(60.0);
                state.filled_at = Instant::now();
                let is_accepted = state.tokens >= 1.0;
                state.tokens -= f64::from(u8::from(is_accepted));
                let limit = ReportedLimit {
                    name: "x-ratelimit-remaining-requests",
                    unit: ReportedLimitUnit::Requests,
                    limit: Some(60),
                    remaining: state.tokens as u64,
                    resets_in: Duration::from_secs_f64(60.0 - state.tokens),
                };
                (if headers { vec![limit] } else { Vec::new() }, is_accepted)
            }
        };
        state.refused += u32::from(!is_accepted);
        (limits, is_accepted)
    }
}

impl ModelProvider for FlakyProvider {
    fn complete_request<'a>(
        &'a self,
        _: ModelRequest,
        _: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            let (limits, is_accepted) = self.accept_request();
            tokio::time::sleep(LATENCY).await;
            match is_accepted {
                true => Ok(ModelReply {
                    limits,
                    ..ModelReply::from_text("ok")
                }),
                false => Err(ModelError {
                    kind: ModelErrorKind::RateLimited,
                    retry_after: Some(RETRY_AFTER),
                    limits,
                    ..ModelError::new_retryable("429 Too Many Requests")
                }),
            }
        })
    }
}

/// Returns the times of a batch of this many tickets, each with one request.
pub(crate) fn measure_batch(rule: RefusalRule, tickets: usize, seed: u64) -> BatchTimes {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let provider = Arc::new(FlakyProvider::new(rule, seed));
        let model = paced_model(Arc::clone(&provider) as Arc<dyn ModelProvider>);
        let begun = Instant::now();
        let failed: Vec<usize> = join_all((0..WORKERS).map(|worker| ask_tickets(&model, worker, tickets))).await;
        let measured = begun.elapsed();
        let omniscient = match rule {
            RefusalRule::Random(_) => measure_pauses_alone(&FlakyProvider::new(rule, seed), tickets).await,
            RefusalRule::Bucket { .. } => {
                let by_limit = Duration::from_secs(tickets.saturating_sub(60) as u64) + LATENCY;
                by_limit.max(LATENCY * tickets.div_ceil(WORKERS) as u32)
            }
        };
        let refused = provider.state.lock().unwrap_or_else(PoisonError::into_inner).refused;
        BatchTimes {
            measured,
            omniscient,
            refused,
            failed: failed.into_iter().sum(),
        }
    })
}

/// Returns a model of one profile whose requests keep a pace.
fn paced_model(provider: Arc<dyn ModelProvider>) -> Model {
    let profile = ModelProfile {
        provider: "openai".into(),
        model: "some-model".into(),
        ..ModelProfile::default()
    };
    let link = ChainedProfile {
        name: "main".into(),
        profile: Arc::new(profile),
    };
    Model::with_paced_providers(vec![(link, provider)], &ModelNetwork::default())
}

/// Answers every eighth ticket, one after the other, and returns the number of those that failed.
async fn ask_tickets(model: &Model, worker: usize, tickets: usize) -> usize {
    let mut failed = 0;
    for ticket in (worker..tickets).step_by(WORKERS) {
        let source = ExecutionAttemptRef {
            run: format!("ticket-{ticket}").into(),
            agent: "triage".into(),
            execution: 1,
            attempt: 1,
        };
        let query = ModelQuery {
            systems: vec![None],
            messages: vec![Message::new(MessageRole::User, "Triage this ticket.")],
            source,
            purpose: ensemble_models::RequestPurpose::Reply,
            requests_made: 0,
            output_schema: None,
            tools: Arc::default(),
            request_counter: Arc::default(),
            clock: Stopwatch::default(),
        };
        failed += usize::from(model.answer_query(query, &IgnoredLiveOutput).await.result.is_err());
    }
    failed
}

/// Returns the time if each refused request waits for its own pause and nothing else.
async fn measure_pauses_alone(provider: &FlakyProvider, tickets: usize) -> Duration {
    let begun = Instant::now();
    let work = |worker: usize| async move {
        for _ in (worker..tickets).step_by(WORKERS) {
            loop {
                let (_, is_accepted) = provider.accept_request();
                tokio::time::sleep(LATENCY).await;
                if is_accepted {
                    break;
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    };
    join_all((0..WORKERS).map(work)).await;
    begun.elapsed()
}
