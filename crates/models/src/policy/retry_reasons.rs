//! Reasons to ask the same profile again.
//!
//! This is the one table of reasons. A reason is found from the error and from what is known of the profile; the request
//! then follows the reason in [`running_query`](super::running_query).

use std::num::NonZeroU32;
use std::time::Duration;

use ensemble_language::ensemble::{self, ModelProfile, RetryPolicy};

use crate::{ModelError, ModelErrorKind};

/// The number of attempts of a request to a real provider if the profile has no `retry`.
const DEFAULT_REQUEST_ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).expect("is not 0");

/// The maximum pause that a provider may ask for if there is a fallback.
pub(crate) const MAX_PAUSE_WITH_FALLBACK: Duration = Duration::from_secs(60);

/// The maximum pause that a provider may ask for if there is no fallback.
pub(crate) const MAX_PAUSE_WITHOUT_FALLBACK: Duration = Duration::from_secs(300);

/// Reason to repeat a request to the same profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryReason {
    /// The provider refuses the output schema: the prompt describes the schema instead.
    SchemaRefused,
    /// The model accepts no files: the prompt describes the files of tool results instead.
    FilesRefused,
    /// The provider has reached its rate limit: the request waits for its turn in the pace of the profile.
    RateLimited,
    /// The error is temporary: the request is made again after the pause of `retry`.
    TemporaryError,
}

/// State of the attempts on which a retry depends, in addition to the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetryState {
    /// The request already describes the schema in its prompt.
    pub(crate) schema_in_words: bool,
    /// The request already describes its files.
    pub(crate) files_in_words: bool,
    /// A tool result of the request has files.
    pub(crate) has_tool_files: bool,
    /// The requests of the profile keep a common pace.
    pub(crate) is_paced: bool,
    /// `retry` allows another attempt.
    pub(crate) has_attempts_left: bool,
}

impl RetryReason {
    /// Returns the first reason that applies. Returns `None` if the error is final for this profile.
    pub(crate) fn from_error(error: &ModelError, facts: RetryState) -> Option<Self> {
        match error.kind {
            ModelErrorKind::RefusedSchema if !facts.schema_in_words => Some(Self::SchemaRefused),
            ModelErrorKind::RefusedFiles if !facts.files_in_words && facts.has_tool_files => Some(Self::FilesRefused),
            ModelErrorKind::RateLimited if facts.is_paced => Some(Self::RateLimited),
            _ if error.retryable && facts.has_attempts_left => Some(Self::TemporaryError),
            _ => None,
        }
    }
}

/// Returns the maximum pause that a provider can request.
pub(crate) fn max_requested_pause(has_fallback: bool) -> Duration {
    match has_fallback {
        true => MAX_PAUSE_WITH_FALLBACK,
        false => MAX_PAUSE_WITHOUT_FALLBACK,
    }
}

/// Returns the `retry` of the profile, or a default with several attempts for real providers.
pub(crate) fn retry_policy_or_default(profile: &ModelProfile) -> RetryPolicy {
    profile
        .retry
        .clone()
        .unwrap_or_else(|| match ensemble::HttpProvider::find_by_name(&profile.provider) {
            Some(_) => RetryPolicy {
                max_attempts: DEFAULT_REQUEST_ATTEMPTS,
                ..RetryPolicy::default()
            },
            None => RetryPolicy::default(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_TRIED: RetryState = RetryState {
        schema_in_words: false,
        files_in_words: false,
        has_tool_files: true,
        is_paced: true,
        has_attempts_left: true,
    };

    fn error(kind: ModelErrorKind, retryable: bool) -> ModelError {
        ModelError {
            kind,
            retryable,
            ..ModelError::new_fatal("no")
        }
    }

    #[test]
    fn each_error_has_its_reason() {
        use ModelErrorKind::{ContextTooLong, ModelRefused, OtherFailure, RateLimited, RefusedFiles, RefusedSchema};
        let tried = RetryState {
            schema_in_words: true,
            files_in_words: true,
            ..NOTHING_TRIED
        };
        let without_files = RetryState {
            has_tool_files: false,
            ..NOTHING_TRIED
        };
        let unpaced = RetryState {
            is_paced: false,
            ..NOTHING_TRIED
        };
        let last_attempt = RetryState {
            has_attempts_left: false,
            ..NOTHING_TRIED
        };
        let table = [
            (RefusedSchema, false, NOTHING_TRIED, Some(RetryReason::SchemaRefused)),
            (RefusedSchema, false, tried, None),
            (RefusedSchema, false, last_attempt, Some(RetryReason::SchemaRefused)),
            (RefusedFiles, false, NOTHING_TRIED, Some(RetryReason::FilesRefused)),
            (RefusedFiles, false, tried, None),
            (RefusedFiles, false, without_files, None),
            (RateLimited, true, NOTHING_TRIED, Some(RetryReason::RateLimited)),
            (RateLimited, true, last_attempt, Some(RetryReason::RateLimited)),
            (RateLimited, true, unpaced, Some(RetryReason::TemporaryError)),
            (OtherFailure, true, NOTHING_TRIED, Some(RetryReason::TemporaryError)),
            (OtherFailure, true, last_attempt, None),
            (OtherFailure, false, NOTHING_TRIED, None),
            (ModelRefused, false, NOTHING_TRIED, None),
            (ContextTooLong, false, NOTHING_TRIED, None),
        ];
        for (kind, retryable, facts, expected) in table {
            let found = RetryReason::from_error(&error(kind, retryable), facts);
            assert_eq!(found, expected, "{kind:?}, retryable: {retryable}, {facts:?}");
        }
    }
}
