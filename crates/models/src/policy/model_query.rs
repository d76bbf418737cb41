//! A query of a model, and its result.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::{ExecutionAttemptRef, Message};
use ensemble_language::ensemble::TokenPrice;
use serde_json::Value;

use crate::{ModelError, ModelReply, RequestPurpose, ToolSpec};

/// Query to a model, independent of the profile that answers.
#[derive(Debug, Clone)]
pub struct ModelQuery {
    /// The system message for each profile of the chain; profiles may have instructions of their own.
    pub systems: Vec<Option<String>>,
    /// Everything after the system message; the last one is the user's.
    pub messages: Vec<Message>,
    /// The execution that makes the query.
    pub source: ExecutionAttemptRef,
    /// The purpose of the query.
    pub purpose: RequestPurpose,
    /// The number of earlier requests of the agent with this purpose.
    pub requests_made: u64,
    /// The schema that the reply must match.
    pub output_schema: Option<Arc<Value>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// Counts the requests when they are made, from 0, so that the number is known even if the future is dropped.
    pub request_counter: Arc<AtomicU64>,
    /// The clock of the execution, which stands while the query waits for the pace of a profile.
    pub clock: Stopwatch,
}

/// Result of a query, with the number of requests, warnings and the profile that answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQueryResult {
    /// The reply, or the error of all profiles.
    pub result: Result<ModelReply, ModelError>,
    /// The number of requests that were made, including failed ones.
    pub requests: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The price of tokens of the profile that answered, if it has one.
    pub price: Option<TokenPrice>,
    /// `PROVIDER/MODEL` of the profile that answered.
    pub model: Option<String>,
    /// The place in the chain of the profile that answered, or that failed last.
    pub link: usize,
}
