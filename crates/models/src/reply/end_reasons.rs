//! The reasons that providers give for the end of a reply.
//!
//! Invariant: a reason that is not in the table never makes a reply that looks complete. It is a warning if there is a reply,
//! and a failure if there is none.

/// Reason why a provider ended a reply, in terms that all providers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The reply is complete.
    Complete,
    /// The limit of the reply was reached: that of the profile, or that of the provider.
    TokenLimit,
    /// The request and the reply fill the context of the model.
    ContextFull,
    /// A content filter stopped the reply.
    Filtered,
    /// The provider failed; the same request may succeed.
    ProviderFailed,
    /// The provider cannot answer the request.
    CannotAnswer,
    /// The call of a tool cannot be read; the same request may succeed.
    MalformedCall,
    /// The reply may be incomplete.
    MaybeIncomplete,
    /// The table has no such reason.
    Unknown,
}

/// Names of the reasons of all providers, in lower case.
const PROVIDER_REASON_NAMES: [(EndReason, &[&str]); 8] = [
    (
        EndReason::Complete,
        &[
            "stop",
            "end_turn",
            "tool_calls",
            "tool_call",
            "tool_use",
            "function_call",
            "stop_sequence",
            "eos",
            "eos_token",
            "complete",
            "completed",
            "done",
        ],
    ),
    (
        EndReason::TokenLimit,
        &[
            "length",
            "max_tokens",
            "model_length",
            "max_output_tokens",
            "token_limit",
        ],
    ),
    (
        EndReason::ContextFull,
        &[
            "model_context_window_exceeded",
            "context_window_exceeded",
            "context_length_exceeded",
            "context_length",
        ],
    ),
    (
        EndReason::Filtered,
        &[
            "content_filter",
            "refusal",
            "safety",
            "recitation",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
            "image_safety",
            "image_prohibited_content",
            "image_recitation",
            "sensitive",
        ],
    ),
    (
        EndReason::ProviderFailed,
        &[
            "error",
            "network_error",
            "server_error",
            "internal_error",
            "insufficient_system_resource",
            "overloaded",
            "timeout",
            "abort",
            "aborted",
            "cancelled",
            "canceled",
        ],
    ),
    (
        EndReason::CannotAnswer,
        &["no_image", "image_other", "missing_thought_signature"],
    ),
    (
        EndReason::MalformedCall,
        &[
            "malformed_function_call",
            "unexpected_tool_call",
            "too_many_tool_calls",
            "malformed_response",
        ],
    ),
    (
        EndReason::MaybeIncomplete,
        &[
            "pause_turn",
            "incomplete",
            "other",
            "finish_reason_unspecified",
            "repetition_truncation",
            "load",
            "unload",
        ],
    ),
];

impl EndReason {
    /// Finds the reason for the name of a provider.
    pub(crate) fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let row = PROVIDER_REASON_NAMES
            .iter()
            .find(|(_, names)| names.contains(&name.as_str()));
        row.map_or(Self::Unknown, |(reason, _)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_meaning_in_any_case() {
        let mut seen = std::collections::HashSet::new();
        for (reason, names) in PROVIDER_REASON_NAMES {
            for name in names {
                assert!(seen.insert(name), "`{name}` is in the table twice");
                assert_eq!(EndReason::from_name(&name.to_uppercase()), reason, "{name}");
            }
        }
        assert_eq!(EndReason::from_name("bored"), EndReason::Unknown);
    }
}
