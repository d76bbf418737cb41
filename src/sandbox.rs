//! Full Rhai scripts in a sandbox of their own: script agents, simulated models, response generators.
//!
//! Pure: no file, network or clock. A script is stopped by its limits, or from outside.

use std::sync::Arc;

use serde_json::Value;

use crate::data::Context;

/// A compiled script.
#[derive(Debug)]
pub struct Script {}

/// A variable of the script.
#[derive(Debug, Clone)]
pub enum Variable {
    /// Any JSON, handed over as Rhai's own values.
    Json(Arc<Value>),
    /// The context, read without copying it: members, indexing, `get`, `contains`, `keys`, `len`.
    Context(Arc<Context>),
}

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// What is wrong, without the place.
    pub message: String,
    /// Line in the script, from 1; 0 where there is none.
    pub line: usize,
    /// Column in the script, from 1; 0 where there is none.
    pub column: usize,
}

/// Why a script gave no value.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptFailure {
    /// It threw this value, or an error of the language stopped it.
    Reported(ScriptError),
    /// It ran past a limit of the sandbox.
    Limit(ScriptError),
    /// It was stopped from outside.
    Stopped,
}

impl Script {
    /// Compiles the text.
    pub fn compile(_text: &str) -> Result<Self, ScriptError> {
        Ok(Self {})
    }

    /// Runs it; its last value is the result. `stop` is asked now and then and ends the script when true.
    pub fn run(
        &self,
        _variables: Vec<(&'static str, Variable)>,
        _stop: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Value, ScriptFailure> {
        Ok(Value::Null)
    }
}
