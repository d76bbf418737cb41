//! Functions of the program as tools of a dialogue.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::{Admission, NoTools, Tools};
use crate::agent::BoxFuture;
use crate::agent::output::schema::Schema;
use ensemble_core::request::PendingRequest;
use ensemble_core::thread::{ToolCall, ToolEnd};
use ensemble_language::data::Usage;
use ensemble_models::ToolSpec;

/// The error of a function, which goes to the model. `?` converts every error, and `.into()` converts a text.
pub type ToolError = Box<dyn std::error::Error + Send + Sync>;

/// The maximum number of characters of a tool name.
const LONGEST_NAME: usize = 64;

type Perform = dyn Fn(Value) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;

/// The tools of a dialogue: functions and other tools.
#[derive(Clone)]
pub(crate) struct Functions {
    own: Vec<Function>,
    specs: Arc<[ToolSpec]>,
    beside: Arc<dyn Tools>,
    /// The error of an invalid function. The first request reports it, so that adding a function returns no `Result`.
    wrong: Option<String>,
}

#[derive(Clone)]
struct Function {
    name: String,
    perform: Arc<Perform>,
}

impl Default for Functions {
    fn default() -> Self {
        Self {
            own: Vec::new(),
            specs: Arc::default(),
            beside: Arc::new(NoTools),
            wrong: None,
        }
    }
}

impl Functions {
    /// Sets the other tools.
    pub(crate) fn beside(self, beside: Arc<dyn Tools>) -> Self {
        Self { beside, ..self }
    }

    /// Adds a function.
    pub(crate) fn with<F, Fut, R>(mut self, spec: ToolSpec, function: F) -> Self
    where
        F: Fn(Value) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
        R: Serialize,
    {
        self.wrong = self.wrong.or_else(|| objection(&spec, &self.specs));
        let perform = move |arguments| -> BoxFuture<'static, Result<Value, ToolError>> {
            let result = function(arguments);
            Box::pin(async move { Ok(serde_json::to_value(result.await?)?) })
        };
        self.own.push(Function {
            name: spec.name.clone(),
            perform: Arc::new(perform),
        });
        self.specs = self.specs.iter().cloned().chain([spec]).collect();
        self
    }
}

impl Tools for Functions {
    fn specs(&self) -> BoxFuture<'_, Result<Arc<[ToolSpec]>, String>> {
        Box::pin(async move {
            if let Some(wrong) = &self.wrong {
                return Err(wrong.clone());
            }
            let others = self.beside.specs().await?;
            if others.is_empty() {
                return Ok(Arc::clone(&self.specs));
            }
            if let Some(twice) = others.iter().find(|other| named(&self.specs, &other.name)) {
                return Err(two_of(&twice.name));
            }
            Ok(self.specs.iter().chain(&*others).cloned().collect())
        })
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'_, ToolCall> {
        let Some(function) = self.own.iter().find(|function| function.name == call.name) else {
            return self.beside.call(call);
        };
        Box::pin(async move {
            let end = match (function.perform)(call.arguments.clone()).await {
                Ok(result) => ToolEnd::Result(result),
                Err(error) => ToolEnd::Error(in_words(&*error)),
            };
            call.ended(end, 0.0)
        })
    }

    fn admit<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Admission> {
        match named(&self.specs, &call.name) {
            true => Box::pin(async { Admission::default() }),
            false => self.beside.admit(call),
        }
    }

    fn waits_for(&self) -> Vec<PendingRequest> {
        self.beside.waits_for()
    }

    fn take_usage(&self) -> Usage {
        self.beside.take_usage()
    }
}

/// Shows the names of the functions.
impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.own.iter().map(|function| &function.name))
            .finish()
    }
}

/// Returns why the function cannot be a tool.
fn objection(spec: &ToolSpec, others: &[ToolSpec]) -> Option<String> {
    let name = &spec.name;
    let is_sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_sound) {
        return Some(format!(
            "`{name}` is no name of a tool: expected at most {LONGEST_NAME} of the letters a to z, digits, `_` and `-`"
        ));
    }
    if named(others, name) {
        return Some(two_of(name));
    }
    if spec.parameters["type"] != "object" {
        return Some(format!(
            "the schema of tool `{name}` has to say `\"type\": \"object\"`: a model gives the arguments of a tool by name"
        ));
    }
    let error = Schema::compile(&spec.parameters).err()?;
    Some(format!("the schema of tool `{name}` cannot be used: {error}"))
}

fn named(specs: &[ToolSpec], name: &str) -> bool {
    specs.iter().any(|spec| spec.name == name)
}

fn two_of(name: &str) -> String {
    format!("two tools have the name `{name}`")
}

/// The error with its causes.
fn in_words(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let words = std::iter::once(error.to_string()).chain(causes.map(ToString::to_string));
    words.collect::<Vec<_>>().join(": ")
}
