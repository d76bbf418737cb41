//! The trait of tools, and the concurrent calls of one reply.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use crate::agent::BoxFuture;
use crate::agent::schema::Schema;
use crate::model::ToolSpec;
use ensemble_core::thread::{ExecutionRef, LiveOutput, LiveUpdate, ToolCall, ToolEnd};
use ensemble_language::data::Usage;

/// The right of a call to run. It is given back when it is dropped.
#[derive(Default)]
pub struct Admission(Option<Box<dyn Send>>);

impl Admission {
    /// A right that lasts as long as `guard` is kept.
    pub fn held_by(guard: impl Send + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.0.is_some()).finish()
    }
}

/// Tools that a model may call.
pub trait Tools: Send + Sync {
    /// The specifications of the tools for the model. This is called before each request and may connect to servers.
    ///
    /// # Errors
    /// The tools are not available; the text is the reason.
    fn specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>>;

    /// Waits until the call may begin. The calls of a reply ask in their order, and each runs while it holds the answer.
    /// By default, all calls begin at once.
    fn admit<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Admission> {
        let _ = call;
        Box::pin(async { Admission::default() })
    }

    /// Performs one call. The tool exists, and the arguments match its schema. Errors go to the model, so they are an
    /// end of the call. Dropping the future stops the tool.
    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolCall>;

    /// The usage of models in tools since the last call of this function.
    fn take_usage(&self) -> Usage {
        Usage::default()
    }
}

/// No tools at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

impl Tools for NoTools {
    fn specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(async { Ok(Arc::default()) })
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        Box::pin(async { call })
    }
}

/// Performs the calls of one reply side by side, as far as the tools admit it, and returns them with their ends, in the same order.
pub(super) async fn perform(
    tools: &dyn Tools,
    specs: &[ToolSpec],
    calls: Vec<ToolCall>,
    source: &ExecutionRef,
    live_output: &dyn LiveOutput,
) -> Vec<ToolCall> {
    let one = async |call: ToolCall| {
        let objection = objection(specs, &call);
        let _admission = match objection {
            Some(_) => Admission::default(),
            None => tools.admit(&call).await,
        };
        live_output.receive(source, LiveUpdate::ToolStarted(&call));
        let begun = tokio::time::Instant::now();
        let mut ended = match objection {
            Some(error) => call.ended(ToolEnd::Error(error), 0.0),
            None => tools.call(call).await,
        };
        ended.duration = begun.elapsed().as_secs_f64();
        live_output.receive(source, LiveUpdate::ToolEnded(&ended));
        ended
    };
    join_all(calls.into_iter().map(one)).await
}

/// Why the call cannot be made, as an error for the model.
fn objection(specs: &[ToolSpec], call: &ToolCall) -> Option<String> {
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
    let errors = Schema::compile(&spec.parameters).map(|schema| schema.errors(arguments));
    let errors = errors.unwrap_or_else(|error| vec![format!("the tool's own schema cannot be used: {error}")]);
    (!errors.is_empty()).then(|| format!("the arguments of `{}` are wrong: {}", call.name, errors.join("; ")))
}
