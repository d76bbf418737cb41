//! The limits of one prompt: a program that sends without end is ended.
//!
//! Invariant: memory and record of a prompt are bounded, whatever the program sends.

use super::wire::MAX_MESSAGE_BYTES;

/// Maximum number of lines of a prompt: messages and other lines.
const MAX_LINES: u64 = 200_000;

/// The maximum size of all messages, in bytes: 64 MiB.
const MAX_RECEIVED_BYTES: u64 = 64 << 20;

/// The maximum size of all records, in bytes: 64 MiB.
const MAX_RECORDED_BYTES: usize = 64 << 20;

/// The maximum number of tool calls.
pub(super) const MAX_CALLS: usize = 5_000;

/// The maximum number of plans.
const MAX_PLANS: u32 = 1_000;

/// The maximum size of a plan, in bytes: 256 KiB.
const MAX_PLAN_BYTES: usize = 256 << 10;

/// The maximum number of requests that wait for a decision.
const MAX_UNDECIDED_REQUESTS: usize = 100;

/// The maximum number of requests for a method that is not supported.
const MAX_UNSUPPORTED_REQUESTS: u32 = 1_000;

/// Counters of one prompt, compared with fixed limits.
#[derive(Debug, Default)]
pub(super) struct PromptCounters {
    messages: u64,
    received: u64,
    texts: usize,
    recorded: usize,
    plans: u32,
    unsupported: u32,
}

impl PromptCounters {
    /// Adds lines and their bytes to the counters. Fails above the limits.
    pub(super) fn count_lines(&mut self, lines: u64, bytes: u64) -> Result<(), String> {
        self.messages += lines;
        self.received += bytes;
        if self.messages > MAX_LINES {
            return Err(format!("it sent more than {MAX_LINES} messages in one prompt"));
        }
        match self.received > MAX_RECEIVED_BYTES {
            true => Err("it sent more than 64 MiB in one prompt".to_owned()),
            false => Ok(()),
        }
    }

    /// Adds the bytes of text or reasoning. Fails above the limit.
    pub(super) fn count_text(&mut self, text: &str) -> Result<(), String> {
        self.texts += text.len();
        match self.texts > MAX_MESSAGE_BYTES {
            true => Err("it sent more than 16 MiB of text".to_owned()),
            false => Ok(()),
        }
    }

    /// Returns the counted bytes of text and reasoning.
    pub(super) fn text_bytes(&self) -> u64 {
        self.texts as u64
    }

    /// Counts a plan of this size. Fails above the limits.
    pub(super) fn count_plan(&mut self, bytes: usize) -> Result<(), String> {
        self.plans += 1;
        if bytes > MAX_PLAN_BYTES {
            return Err("it sent a plan of more than 256 KiB".to_owned());
        }
        match self.plans > MAX_PLANS {
            true => Err(format!("it sent more than {MAX_PLANS} plans in one prompt")),
            false => self.count_record(bytes),
        }
    }

    /// Adds the bytes of a record. Fails above the limit.
    pub(super) fn count_record(&mut self, bytes: usize) -> Result<(), String> {
        self.recorded += bytes;
        match self.recorded > MAX_RECORDED_BYTES {
            true => Err("its tool calls have more than 64 MiB of records in one prompt".to_owned()),
            false => Ok(()),
        }
    }

    /// Counts a request for an unsupported method. Fails above the limit.
    pub(super) fn count_unsupported(&mut self) -> Result<(), String> {
        self.unsupported += 1;
        match self.unsupported > MAX_UNSUPPORTED_REQUESTS {
            true => Err(format!(
                "it sent more than {MAX_UNSUPPORTED_REQUESTS} requests that are not supported"
            )),
            false => Ok(()),
        }
    }
}

/// Fails if this many requests already wait for a decision.
pub(super) fn check_undecided_count(waiting: usize) -> Result<(), String> {
    match waiting >= MAX_UNDECIDED_REQUESTS {
        true => Err(format!(
            "it sent more than {MAX_UNDECIDED_REQUESTS} requests without waiting for answers"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_own_error() {
        type Count = fn(&mut PromptCounters) -> Result<(), String>;
        let rows: [(u32, Count, &str); 6] = [
            (200_000, |limits| limits.count_lines(1, 10), "200000 messages"),
            (64, |limits| limits.count_lines(1, 1 << 20), "64 MiB in one prompt"),
            (16, |limits| limits.count_text(&"x".repeat(1 << 20)), "16 MiB of text"),
            (1_000, |limits| limits.count_plan(100), "1000 plans"),
            (64, |limits| limits.count_record(1 << 20), "64 MiB of records"),
            (1_000, PromptCounters::count_unsupported, "1000 requests"),
        ];
        for (most, count, expected) in rows {
            let mut limits = PromptCounters::default();
            for at in 0..most {
                assert_eq!(count(&mut limits), Ok(()), "{expected} {at}");
            }
            let error = count(&mut limits).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        assert!(PromptCounters::default().count_plan(1 << 20).is_err());
        assert!(check_undecided_count(99).is_ok() && check_undecided_count(100).is_err());
    }
}
