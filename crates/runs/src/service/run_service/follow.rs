//! The events of a run, whoever drives it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{ReadError, StoredRun};

use crate::drive::events::{LogReader, RunEvent, RunEvents};

/// How often the log of a run is looked at that another process drives.
const PAUSE: Duration = Duration::from_millis(20);

/// The events of a run. Dropping this does nothing to the run.
pub struct RunEventStream(EventSource);

enum EventSource {
    /// This process drives the run.
    Driven(Box<RunEvents>),
    /// Another process drives the run, or none: its records, without live pieces and questions.
    Recorded {
        run: Arc<dyn StoredRun>,
        log: LogReader,
        ready: VecDeque<RunEvent>,
    },
}

impl RunEventStream {
    pub(crate) fn from_driven(events: RunEvents) -> Self {
        Self(EventSource::Driven(Box::new(events)))
    }

    pub(crate) fn from_recorded(run: Arc<dyn StoredRun>, from: u64) -> Self {
        Self(EventSource::Recorded {
            log: LogReader::new(run.clone(), from),
            run,
            ready: VecDeque::new(),
        })
    }

    /// Returns the next event; `None` when everything was handed out and nobody drives the run.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn next<'f>(&'f mut self) -> BoxFuture<'f, Result<Option<RunEvent>, ReadError>> {
        Box::pin(async move {
            match &mut self.0 {
                EventSource::Driven(events) => events.next().await,
                EventSource::Recorded { run, log, ready } => loop {
                    if let Some(event) = ready.pop_front() {
                        return Ok(Some(event));
                    }
                    // Before the log is read: what another process wrote before its end is read, too.
                    let is_driven = run.driver_pid().is_some();
                    ready.extend(log.read_rest().await?);
                    if ready.is_empty() {
                        if !is_driven {
                            return Ok(None);
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        })
    }
}
