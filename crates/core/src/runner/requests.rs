//! The requests of an execution, with their digests.

use serde_json::json;

use super::ExecutionInput;
use crate::request::{PendingRequest, RequestDigest, RequestOrigin, build_permission_question};
use ensemble_language::data::{JsonMap, OperatorQuestion, sha256_of_text};

/// The number of hexadecimal digits of a digest.
const DIGEST_LENGTH: usize = 16;

impl PendingRequest {
    /// Creates the request for the question of an execution.
    pub fn for_question(execution: &ExecutionInput, question: OperatorQuestion) -> Self {
        Self::from_execution(execution, execution.origin.clone(), "", question)
    }

    /// Creates the request for a question of a tool during a call. `number` is the number of the question in the call.
    pub fn for_tool_question(
        execution: &ExecutionInput,
        origin: RequestOrigin,
        number: usize,
        question: OperatorQuestion,
    ) -> Self {
        Self::from_execution(execution, origin, &number.to_string(), question)
    }

    /// Creates the permission request of a tool call. `call` is the id of the call.
    pub fn for_permission(
        execution: &ExecutionInput,
        origin: RequestOrigin,
        call: &str,
        tool: &str,
        arguments: &JsonMap,
    ) -> Self {
        Self::from_execution(execution, origin, call, build_permission_question(tool, arguments))
    }

    /// Changes the digest of a request that repeats an earlier request of the execution, so that the earlier answer is not used.
    /// `number` is 2 for the first repetition.
    #[must_use]
    pub fn with_repetition_digest(mut self, number: u32) -> Self {
        self.digest = truncated_digest(&format!("{} {number}", self.digest));
        self
    }

    /// Creates the request and its digest. `distinct` distinguishes requests of one execution with the same text.
    fn from_execution(
        execution: &ExecutionInput,
        origin: RequestOrigin,
        distinct: &str,
        question: OperatorQuestion,
    ) -> Self {
        // Attempts that were lost are continued, so their requests are the same.
        let attempt = execution.attempt.saturating_sub(execution.lost_attempts);
        let permission = question.permission.as_ref();
        let request_json = json!({
            "address": origin.address,
            "run": execution.run_id,
            "execution": [execution.execution, attempt],
            "distinct": distinct,
            "prompt": question.prompt,
            "choices": question.choices,
            "tool": permission.map(|wanted| &wanted.tool),
            "arguments": permission.map(|wanted| &wanted.arguments),
        });
        Self {
            address: origin.address,
            agent: execution.agent_name.clone(),
            execution: execution.execution,
            digest: truncated_digest(&request_json.to_string()),
            question,
            position: origin.position,
        }
    }
}

/// Returns the first digits of the SHA-256 of the text as a digest.
fn truncated_digest(text: &str) -> RequestDigest {
    let mut digest = sha256_of_text(text);
    digest.truncate(DIGEST_LENGTH);
    RequestDigest::new(digest)
}
