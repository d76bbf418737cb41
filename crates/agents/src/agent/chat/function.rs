//! Functions of the program as tools of a dialogue.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::Value;

use super::{CallAdmission, ModelTools, NoTools};
use crate::agent::BoxFuture;
use crate::agent::output::schema::OutputSchema;
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{ToolCall, ToolCallEnd};
use ensemble_language::data::ModelUsage;
use ensemble_models::ToolSpec;

/// Error of a function, which the model receives. `?` converts every error, and `.into()` converts a text.
pub type ToolError = Box<dyn std::error::Error + Send + Sync>;

/// The maximum number of characters of a tool name.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// Function that performs a call with JSON arguments.
type ToolFunctionBody = dyn Fn(Value) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;

/// Tools of a dialogue: functions of the program, and other tools.
#[derive(Clone)]
pub(crate) struct DialogueTools {
    functions: Vec<ToolFunction>,
    specs: Arc<[ToolSpec]>,
    other_tools: Arc<dyn ModelTools>,
    /// The error of an invalid function. The first request reports it, so that adding a function returns no `Result`.
    wrong: Option<String>,
}

/// Function of the program under its tool name.
#[derive(Clone)]
struct ToolFunction {
    name: String,
    perform: Arc<ToolFunctionBody>,
}

impl Default for DialogueTools {
    fn default() -> Self {
        Self {
            functions: Vec::new(),
            specs: Arc::default(),
            other_tools: Arc::new(NoTools),
            wrong: None,
        }
    }
}

impl DialogueTools {
    /// Sets the tools that are not functions.
    pub(crate) fn with_other_tools(self, beside: Arc<dyn ModelTools>) -> Self {
        Self {
            other_tools: beside,
            ..self
        }
    }

    /// Adds a function. Stores an error for the first request if its name or schema is invalid.
    pub(crate) fn with_function<F, Fut, R>(mut self, spec: ToolSpec, function: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
        R: Serialize,
    {
        self.wrong = self.wrong.or_else(|| find_tool_spec_error(&spec, &self.specs));
        let perform = move |arguments| -> BoxFuture<'static, Result<Value, ToolError>> {
            let result = function(arguments);
            Box::pin(async move { Ok(serde_json::to_value(result.await?)?) })
        };
        self.functions.push(ToolFunction {
            name: spec.name.clone(),
            perform: Arc::new(perform),
        });
        self.specs = self.specs.iter().cloned().chain([spec]).collect();
        self
    }
}

impl ModelTools for DialogueTools {
    fn list_specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(async move {
            if let Some(wrong) = &self.wrong {
                return Err(wrong.clone());
            }
            let other_specs = self.other_tools.list_specs().await?;
            if other_specs.is_empty() {
                return Ok(Arc::clone(&self.specs));
            }
            if let Some(twice) = other_specs.iter().find(|other| contains_tool(&self.specs, &other.name)) {
                return Err(duplicate_tool_error(&twice.name));
            }
            Ok(self.specs.iter().chain(&*other_specs).cloned().collect())
        })
    }

    fn call_tool(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        let Some(function) = self.functions.iter().find(|function| function.name == call.name) else {
            return self.other_tools.call_tool(call);
        };
        Box::pin(async move {
            let arguments = call.arguments.clone();
            // A panic is an error of this call: the thread and the other calls go on.
            let performing = AssertUnwindSafe(async { (function.perform)(arguments).await });
            let end = match performing.catch_unwind().await {
                Ok(Ok(result)) => ToolCallEnd::Result(result),
                Ok(Err(error)) => ToolCallEnd::Error(error_with_causes(&*error)),
                Err(panic) => ToolCallEnd::Error(format!("the tool panicked: {}", panic_message(&*panic))),
            };
            call.with_end(end, 0.0)
        })
    }

    fn wait_for_admission<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, CallAdmission> {
        match contains_tool(&self.specs, &call.name) {
            true => Box::pin(async { CallAdmission::default() }),
            false => self.other_tools.wait_for_admission(call),
        }
    }

    fn pending_requests(&self) -> Vec<PendingRequest> {
        self.other_tools.pending_requests()
    }

    fn take_usage(&self) -> ModelUsage {
        self.other_tools.take_usage()
    }
}

/// Shows the names of the functions.
impl fmt::Debug for DialogueTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.functions.iter().map(|function| &function.name))
            .finish()
    }
}

/// Returns the reason why the specification is invalid: its name, its schema, or a duplicate.
fn find_tool_spec_error(spec: &ToolSpec, others: &[ToolSpec]) -> Option<String> {
    let name = &spec.name;
    let is_sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || name.len() > MAX_TOOL_NAME_CHARS || !name.chars().all(is_sound) {
        return Some(format!(
            "`{name}` is not a valid name of a tool; use at most {MAX_TOOL_NAME_CHARS} letters (a to z), digits, `_` and `-`"
        ));
    }
    if contains_tool(others, name) {
        return Some(duplicate_tool_error(name));
    }
    if spec.parameters["type"] != "object" {
        return Some(format!(
            "the schema of tool `{name}` must have `\"type\": \"object\"`: a model passes the arguments of a tool by name"
        ));
    }
    let error = OutputSchema::compile(&spec.parameters).err()?;
    Some(format!("the schema of tool `{name}` cannot be used: {error}"))
}

/// Returns whether a tool has this name.
fn contains_tool(specs: &[ToolSpec], name: &str) -> bool {
    specs.iter().any(|spec| spec.name == name)
}

/// Creates the error about two tools with the same name.
fn duplicate_tool_error(name: &str) -> String {
    format!("two tools have the name `{name}`")
}

/// Returns the message of a panic, or a fixed text.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Joins the messages of the error and its causes.
fn error_with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let words = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string));
    words.collect::<Vec<_>>().join(": ")
}
