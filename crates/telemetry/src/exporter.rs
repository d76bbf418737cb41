//! Export of spans over HTTP on a separate thread, which can neither slow down nor fail a run.
//!
//! Invariant: the size of the queue and the time at the end are bounded.
#![expect(clippy::disallowed_methods, reason = "how long is waited is measured by the clock")]

mod answer;

use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::sync::{mpsc, watch};

use self::answer::{CollectorResponse, post_body};
use crate::otlp_request::TelemetryResource;
use crate::settings::{BodyCompression, BodyEncoding, CollectorEndpoint, TelemetrySettings};

/// Maximum number of spans in the queue.
const MAX_QUEUED_SPANS: usize = 4096;
/// Maximum number of spans of one request. The next constant is the size in bytes after which no span is added to a request.
const MAX_BATCH_SPANS: usize = 512;
/// Size in bytes after which no span is added to a request.
const MAX_BATCH_BYTES: usize = 2 << 20;
/// Time in which spans are collected for one request.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Maximum number of tries of a request.
const MAX_SEND_TRIES: u32 = 5;
/// Pause before the second try. Each further pause is twice as long.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause that a collector can request.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(30);
/// Maximum time for the export when the program exits.
const FINAL_EXPORT_TIME: Duration = Duration::from_secs(5);

/// Function that builds the HTTP client, on the exporter thread.
pub type HttpClientBuilder = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<reqwest::Client, String>>>> + Send>;

/// Exporter that sends spans to a collector on a background thread.
#[derive(Debug)]
pub struct SpanExporter {
    queue: Mutex<Option<mpsc::Sender<Span>>>,
    deadline: watch::Sender<Option<Instant>>,
    done: Mutex<Receiver<()>>,
    shared: Arc<ExportCounters>,
}

/// Result of the export: the number of spans, the number of accepted spans, and the first problem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportReport {
    /// Number of all spans.
    pub all: u64,
    /// Number of spans that the collector has accepted.
    pub accepted: u64,
    /// First problem of the export.
    pub first_problem: Option<String>,
}

/// Counters that the exporter and its thread share.
#[derive(Debug, Default)]
struct ExportCounters {
    all: AtomicU64,
    accepted: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl SpanExporter {
    /// Spawns the exporter thread, which exports the spans of the queue.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn spawn_exporter_thread(settings: &TelemetrySettings, client: HttpClientBuilder) -> std::io::Result<Self> {
        let (queue, spans) = mpsc::channel(MAX_QUEUED_SPANS);
        let (deadline, until) = watch::channel(None);
        let (tell, done) = sync_channel(1);
        let shared = Arc::new(ExportCounters::default());
        let sending = ExporterThread {
            endpoint: settings.endpoint.clone(),
            resource: settings.resource.clone(),
            shared: Arc::clone(&shared),
            until: until.clone(),
        };
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                match runtime {
                    Ok(runtime) => {
                        runtime.block_on(async {
                            tokio::select! {
                                () = sending.export_until_queue_closes(spans, client) => {}
                                () = wait_for_deadline(until) => sending.shared.record_problem_if_first("the program exited before all spans were sent"),
                            }
                        });
                        runtime.shutdown_background();
                    }
                    Err(error) => sending.shared.record_problem_if_first(&error.to_string()),
                }
                let _nobody_waits = tell.try_send(());
            })?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            deadline,
            done: Mutex::new(done),
            shared,
        })
    }

    /// Sends the span to the exporter thread. Drops the span and records a problem if the queue is full.
    pub fn queue_or_drop_span(&self, span: Span) {
        self.shared.all.fetch_add(1, Ordering::Relaxed);
        let queue = lock_mutex(&self.queue);
        if queue.as_ref().is_none_or(|queue| queue.try_send(span).is_err()) {
            self.shared.record_problem_if_first("the queue of spans was full");
        }
    }

    /// Closes the queue, waits a limited time until all spans are sent, and returns the report.
    pub fn close_and_wait_for_export(&self) -> ExportReport {
        self.deadline.send_replace(Some(Instant::now() + FINAL_EXPORT_TIME));
        drop(lock_mutex(&self.queue).take());
        let _too_late = lock_mutex(&self.done).recv_timeout(FINAL_EXPORT_TIME + BATCH_TIME);
        ExportReport {
            all: self.shared.all.load(Ordering::Relaxed),
            accepted: self.shared.accepted.load(Ordering::Relaxed),
            first_problem: lock_mutex(&self.shared.problem).clone(),
        }
    }
}

impl ExportCounters {
    /// Records the problem, unless an earlier problem was recorded.
    fn record_problem_if_first(&self, problem: &str) {
        lock_mutex(&self.problem).get_or_insert_with(|| problem.to_owned());
    }
}

/// Compresses a body with gzip.
fn compress_gzip(body: &[u8]) -> Vec<u8> {
    let mut zip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    zip.write_all(body)
        .and_then(|()| zip.finish())
        .expect("memory can be written")
}

/// Export loop of the exporter thread, with its settings.
struct ExporterThread {
    endpoint: CollectorEndpoint,
    resource: TelemetryResource,
    shared: Arc<ExportCounters>,
    until: watch::Receiver<Option<Instant>>,
}

impl ExporterThread {
    /// Exports the spans of the queue in batches until the queue is closed. Drops all spans if no HTTP client can be built.
    async fn export_until_queue_closes(&self, mut spans: mpsc::Receiver<Span>, client: HttpClientBuilder) {
        let Some(first) = spans.recv().await else { return };
        let client = match client().await {
            Ok(client) => client,
            Err(error) => {
                self.shared.record_problem_if_first(&error);
                // They are counted, and not sent.
                while spans.recv().await.is_some() {}
                return;
            }
        };
        let mut next = Some(first);
        while let Some(first) = next.take() {
            let batch = collect_batch(first, &mut spans).await;
            let count = batch.len() as u64;
            if let Some(rejected) = self.post_batch_with_retries(batch, &client).await {
                self.shared
                    .accepted
                    .fetch_add(count.saturating_sub(rejected), Ordering::Relaxed);
            }
            next = spans.recv().await;
        }
    }

    /// Posts the spans, with retries after temporary errors. Returns the number of rejected spans, or `None` if the export of the batch failed.
    async fn post_batch_with_retries(&self, batch: Vec<Span>, client: &reqwest::Client) -> Option<u64> {
        let body = match self.endpoint.encoding {
            BodyEncoding::Protobuf => self.resource.spans_to_protobuf(batch),
            BodyEncoding::Json => self.resource.spans_to_json(batch).into_bytes(),
        };
        let body = match self.endpoint.compression {
            BodyCompression::None => body,
            BodyCompression::Gzip => compress_gzip(&body),
        };
        for attempt in 0..MAX_SEND_TRIES {
            let answer = post_body(&self.endpoint, client, body.clone()).await;
            let (problem, pause) = match answer {
                CollectorResponse::Accepted { rejected, problem } => {
                    problem
                        .into_iter()
                        .for_each(|problem| self.shared.record_problem_if_first(&problem));
                    return Some(rejected);
                }
                CollectorResponse::Refused(problem) => {
                    self.shared.record_problem_if_first(&problem);
                    return None;
                }
                CollectorResponse::Unreachable(problem) if self.is_deadline_set() && attempt > 0 => {
                    self.shared.record_problem_if_first(&problem);
                    return None;
                }
                CollectorResponse::Unreachable(problem) => (problem, None),
                CollectorResponse::RetryLater(problem, pause) => (problem, pause),
            };
            if attempt + 1 == MAX_SEND_TRIES {
                self.shared.record_problem_if_first(&problem);
                return None;
            }
            let pause = pause
                .unwrap_or(FIRST_RETRY_PAUSE * 2_u32.pow(attempt))
                .min(MAX_REQUESTED_PAUSE);
            if self.is_deadline_within(pause) {
                self.shared.record_problem_if_first(&problem);
                return None;
            }
            self.wait_before_retry(pause).await;
        }
        None
    }

    /// Returns whether the program has started to exit.
    fn is_deadline_set(&self) -> bool {
        self.until.borrow().is_some()
    }

    /// Returns whether the deadline is before the end of this pause.
    fn is_deadline_within(&self, pause: Duration) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() + pause > until)
    }

    /// Waits for the pause. Returns early if the program starts to exit, so that the next try follows at once.
    async fn wait_before_retry(&self, pause: Duration) {
        let mut until = self.until.clone();
        if self.is_deadline_set() {
            tokio::time::sleep(pause).await;
            return;
        }
        let _either = tokio::time::timeout(pause, until.wait_for(Option::is_some)).await;
    }
}

/// Collects the first span and the spans that arrive within the batch time, up to the limits of a batch.
async fn collect_batch(first: Span, spans: &mut mpsc::Receiver<Span>) -> Vec<Span> {
    let mut size = first.encoded_len();
    let mut batch = vec![first];
    let enough = tokio::time::sleep(BATCH_TIME);
    let mut enough = std::pin::pin!(enough);
    while batch.len() < MAX_BATCH_SPANS && size < MAX_BATCH_BYTES {
        let next = tokio::select! {
            biased;
            next = spans.recv() => next,
            () = &mut enough => None,
        };
        let Some(next) = next else { break };
        size += next.encoded_len();
        batch.push(next);
    }
    batch
}

/// Waits until the final export time has passed. Waits forever while the program does not exit.
async fn wait_for_deadline(mut until: watch::Receiver<Option<Instant>>) {
    let deadline = until
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|deadline| *deadline);
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Locks the mutex, also after a panic in another thread.
fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
