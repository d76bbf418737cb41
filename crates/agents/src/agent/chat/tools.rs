//! The trait of tools, and the concurrent calls of one reply.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use crate::agent::BoxFuture;
use crate::agent::output::schema::OutputSchema;
use ensemble_core::request::PendingRequest;
use ensemble_core::runner::{AttemptLedger, ExecutionRecorder};
use ensemble_core::thread::{
    ExecutionAttemptRef, INTERRUPTED_CALL_ERROR, LiveOutputReceiver, LiveUpdate, ToolCall, ToolCallEnd,
};
use ensemble_language::data::ModelUsage;
use ensemble_models::ToolSpec;

/// Permission for a call to run now. Dropping it lets the next call start.
#[derive(Default)]
pub struct CallAdmission(Option<Box<dyn Send>>);

impl CallAdmission {
    /// Creates an admission that drops `guard` at its end.
    pub fn from_guard(guard: impl Send + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for CallAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.0.is_some()).finish()
    }
}

/// Tools that a model can call.
pub trait ModelTools: Send + Sync {
    /// Lists the specifications of the tools for the model. Called before each request; can connect to servers.
    ///
    /// # Errors
    /// The tools are not available; the text is the reason.
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>>;

    /// Waits until the call can start. Calls of one reply ask in their order. By default, all calls start at once.
    fn wait_for_admission<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, CallAdmission> {
        let _ = call;
        Box::pin(async { CallAdmission::default() })
    }

    /// Performs one call. The tool exists, and the arguments match its schema. Errors become the end of the call.
    ///
    /// Dropping the future stops the tool.
    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall>;

    /// Returns whether an interrupted call can be made again.
    fn may_repeat_interrupted_call(&self, _: &ToolCall) -> bool {
        false
    }

    /// Returns the permission requests and questions of calls that have not ended.
    fn pending_requests(&self) -> Vec<PendingRequest> {
        Vec::new()
    }

    /// Takes the model usage inside of tools since the last call of this function.
    fn take_usage(&self) -> ModelUsage {
        ModelUsage::default()
    }
}

/// Empty set of tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl ModelTools for NoTools {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(async { Ok(Arc::default()) })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async { call })
    }
}

/// Tool calls of one reply, with everything that they need.
pub(crate) struct ReplyToolCalls<'a> {
    pub(crate) tools: &'a dyn ModelTools,
    pub(crate) specs: &'a [ToolSpec],
    /// The execution that makes the calls.
    pub(crate) source: &'a ExecutionAttemptRef,
    pub(crate) live_output: &'a dyn LiveOutputReceiver,
    pub(crate) records: &'a ExecutionRecorder,
    /// Gets the usage of each call when it ends, and warnings for the user.
    pub(crate) ledger: &'a AttemptLedger,
}

impl ReplyToolCalls<'_> {
    /// Performs the calls in parallel, up to the limits of the tools, and records each end. Returns the calls in the same order.
    pub(crate) async fn perform_and_record_calls(&self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        join_all(calls.into_iter().map(|call| self.perform_call(call))).await
    }

    /// Checks, performs, records and shows one call. Leaves a call without an end if it waits for an operator.
    async fn perform_call(&self, call: ToolCall) -> ToolCall {
        let error = find_call_error(self.specs, &call).await;
        let error = error.or_else(|| self.interrupted_call_error(&call));
        let _admission = match error {
            Some(_) => CallAdmission::default(),
            None => self.tools.wait_for_admission(&call).await,
        };
        self.live_output
            .receive_update(self.source, LiveUpdate::ToolStarted(&call));
        let started_at = tokio::time::Instant::now();
        let mut finished_call = match error {
            // The model's token limit has cut it off.
            _ if call.end.is_some() => call,
            Some(error) => call.with_end(ToolCallEnd::Error(error), 0.0),
            None => self.tools.call_tool(call).await,
        };
        if finished_call.end.is_none() {
            // It waits, so it is made when the execution goes on.
            return finished_call;
        }
        finished_call.duration = started_at.elapsed().as_secs_f64();
        let usage = self.tools.take_usage();
        self.ledger.add_recorded_usage(usage);
        self.records.record_call_end_and_wait(&finished_call, usage).await;
        self.live_output
            .receive_update(self.source, LiveUpdate::ToolEnded(&finished_call));
        finished_call
    }

    /// Returns an error if an earlier attempt started the call and the call must not be repeated.
    fn interrupted_call_error(&self, call: &ToolCall) -> Option<String> {
        let before = self.records.earlier_exchange()?;
        if !before.started_calls.contains(call.id.as_str()) || self.tools.may_repeat_interrupted_call(call) {
            return None;
        }
        self.ledger.add_warning_once(format!(
            "the interrupted call of `{}` was not repeated; the model was informed that the call might have taken effect \
             (set `repeatable: true` at the tool to repeat such calls)",
            call.name
        ));
        Some(INTERRUPTED_CALL_ERROR.to_owned())
    }
}

/// Returns the reason why the call is invalid, such as unknown tools or arguments, as an error for the model.
async fn find_call_error(specs: &[ToolSpec], call: &ToolCall) -> Option<String> {
    let Some(spec) = specs.iter().find(|spec| spec.name == call.name) else {
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        return Some(format!(
            "there is no tool `{}`; there are: {}",
            call.name,
            names.join(", ")
        ));
    };
    let Value::Object(arguments) = &call.arguments else {
        return Some(format!("the arguments of `{}` must be a JSON object", call.name));
    };
    let errors = match OutputSchema::compile(&spec.parameters) {
        Ok(schema) => schema.list_errors_async(Cow::Borrowed(arguments)).await,
        Err(error) => vec![format!("the tool's own schema cannot be used: {error}")],
    };
    (!errors.is_empty()).then(|| format!("the arguments of `{}` are wrong: {}", call.name, errors.join("; ")))
}
