//! The errors of a reply that has begun.

/// Error in a reply that has started.
#[derive(Debug, PartialEq)]
pub(crate) enum ReplyError {
    /// The reply exceeds a size limit.
    TooLarge,
    /// The reply is not in the format of the dialect.
    Malformed(String),
    /// The stream ended before the end of the reply.
    CutOff,
    /// The provider reports an error.
    ReportedByProvider {
        /// The message of the provider.
        message: String,
        /// Can a retry help?
        retryable: bool,
    },
    /// The server sent nothing for so long.
    SilentTooLong(std::time::Duration),
    /// The connection broke off.
    ConnectionLost(String),
}
