//! The reporter for `--fail-on-limit`, which turns a success with exhausted agents into a failure.

use super::Reporter;
use ensemble_core::conversation::{ConversationState, Event, Record};

/// A reporter that turns a success with exhausted agents into a failure, for another reporter.
pub struct FailOnLimitReporter(Box<dyn Reporter + Send>);

impl FailOnLimitReporter {
    /// Wraps a reporter.
    pub fn new(reporter: Box<dyn Reporter + Send>) -> Self {
        Self(reporter)
    }
}

impl Reporter for FailOnLimitReporter {
    fn report_event(&mut self, record: &Record, state: &ConversationState) {
        let refused = match &record.event {
            Event::RunEnded(ended) => ended.to_exhausted_failure(),
            _ => None,
        };
        match refused {
            Some(ended) => {
                let record = Record {
                    event: Event::RunEnded(ended),
                    ..record.clone()
                };
                self.0.report_event(&record, state);
            }
            None => self.0.report_event(record, state),
        }
    }
}
