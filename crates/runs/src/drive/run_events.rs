//! The stream of a run's events, which is the same for runs of this process and of other processes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{LogReadError, StoredRun};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, TryStreamExt};

use super::events::{RunEvent, RunEventSubscription, RunTreeReader};

/// The pause between two reads of the log of a run that another process executes.
const LOG_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A [`Stream`] of the events of a run, each once and in order. The stream ends when the run is closed. An item is an error if the log
/// cannot be read, and the next poll tries again. Dropping the stream does not affect the run.
#[must_use = "a stream does nothing until it is polled"]
pub struct RunEventStream(BoxStream<'static, Result<RunEvent, LogReadError>>);

impl RunEventStream {
    /// Creates the events of a run that this process executes.
    pub(crate) fn from_subscription(subscription: RunEventSubscription) -> Self {
        let next_event = async |mut subscription: RunEventSubscription| {
            let event = subscription.next_event().await.transpose()?;
            Some((event, subscription))
        };
        Self(Box::pin(stream::unfold(subscription, next_event)))
    }

    /// Creates the records of a run that another process or no process executes, from the record `from` on, without live events and
    /// questions.
    pub(crate) fn from_stored_run(run: Arc<dyn StoredRun>, from: u64) -> Self {
        let log = StoredRunEvents {
            log: RunTreeReader::new(run.clone(), from),
            run,
            ready: VecDeque::new(),
        };
        let next_event = async |mut log: StoredRunEvents| {
            let event = log.next_event().await.transpose()?;
            Some((event, log))
        };
        Self(Box::pin(stream::unfold(log, next_event)))
    }

    /// Returns the next event. Returns `None` when the run is closed and every event was returned. Equals [`TryStreamExt::try_next`]
    /// without its import.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn next<'f>(&'f mut self) -> BoxFuture<'f, Result<Option<RunEvent>, LogReadError>> {
        Box::pin(self.0.try_next())
    }
}

impl Stream for RunEventStream {
    type Item = Result<RunEvent, LogReadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

/// The records of a run of another process that a client has not received yet.
struct StoredRunEvents {
    run: Arc<dyn StoredRun>,
    log: RunTreeReader,
    /// Events that were read from the log and not returned.
    ready: VecDeque<RunEvent>,
}

impl StoredRunEvents {
    /// Returns the next record. Polls the log while a process executes the run. Returns `None` when no process does and every record was
    /// returned.
    async fn next_event(&mut self) -> Result<Option<RunEvent>, LogReadError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            // Asked before the log is read, so that the last records of a process that ends now are read, too.
            let is_executed = self.run.lease_holder_pid().is_some();
            self.ready.extend(self.log.read_unread_records().await?);
            if self.ready.is_empty() {
                if !is_executed {
                    return Ok(None);
                }
                tokio::time::sleep(LOG_POLL_INTERVAL).await;
            }
        }
    }
}
