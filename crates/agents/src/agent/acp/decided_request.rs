//! Decided requests of an external program for permission.

use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::permitted_files::FilePermission;
use super::protocol::{PermissionOptionIds, ProgramRequest};
use crate::agent::BoxFuture;
use crate::agent::tools::PermissionResult;
use ensemble_language::ensemble::AcpToolKind;

/// Request of the program whose permission was decided.
pub(super) struct DecidedAcpRequest {
    /// The id of the request.
    pub(super) id: Value,
    /// The id of the call.
    pub(super) call: String,
    /// The action that follows.
    pub(super) action: DecidedAction,
    /// The decision.
    pub(super) permitted: PermissionResult,
    /// The kinds that were asked about.
    pub(super) kinds: Vec<AcpToolKind>,
}

/// Action after the decision: reply to a permission request, or perform a file request.
pub(super) enum DecidedAction {
    /// The program hears the decision, and may use these files.
    Answer(PermissionOptionIds, Vec<FilePermission>),
    /// The file is read or written. A write has the digest of the text that it replaces.
    Perform(ProgramRequest, String),
}

/// Futures of the requests whose permission is not decided yet.
pub(super) type PendingDecisions<'a> = FuturesUnordered<BoxFuture<'a, DecidedAcpRequest>>;
