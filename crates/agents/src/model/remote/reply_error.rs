//! What can be wrong with a reply.

/// What can be wrong with a reply that has begun.
#[derive(Debug, PartialEq)]
pub(super) enum ReplyError {
    /// More than may be held.
    TooLarge,
    /// It is not what a model says.
    Malformed(String),
    /// It ended before its end.
    Cut,
    /// The provider says so itself.
    Reported {
        /// In its words.
        message: String,
        /// May another try help?
        retryable: bool,
    },
    /// The connection broke off.
    Lost(String),
}
