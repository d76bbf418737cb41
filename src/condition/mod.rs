//! Conditions on edges: compiled once, evaluated on a snapshot that they can neither change nor copy.

use std::sync::Arc;

use serde_json::Value;

use crate::data::Context;
use crate::source::Span;

/// What a condition can see: the state at the turn's start.
#[derive(Clone)]
pub struct Facts {
    /// `context`.
    pub context: Arc<Context>,
    /// `output`: the latest output of the dependency's own agent; `None` before it has one.
    pub output: Option<Arc<Value>>,
    /// `turn_count`: turns finished so far.
    pub turn_count: u64,
    /// `history`, oldest first.
    pub history: Arc<dyn History>,
    /// `executions` (and `agent_execution_count`): every agent's executions so far.
    pub executions: Arc<dyn Counts>,
    /// `input`: the run's input.
    pub input: Arc<str>,
}

/// The executions so far, as conditions see them.
pub trait History: Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;
    /// Is there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A field (`agent_name`, `turn_number`, `output_data`, `success`, …) of execution `at`, from 0; `None`: no such field.
    fn field(&self, at: usize, name: &str) -> Option<Arc<Value>>;
    /// The names of all fields.
    fn fields(&self) -> &'static [&'static str];
}

/// Executions so far by agent.
pub trait Counts: Send + Sync {
    /// The count of that agent; `None`: there is no such agent.
    fn count(&self, agent: &str) -> Option<u64>;
    /// All agents in declaration order.
    fn names(&self) -> Vec<Arc<str>>;
}

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    text: Arc<str>,
}

/// Why a text is no condition; the span is in bytes of the condition's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// One sentence without a full stop.
    pub message: String,
    /// The offending part.
    pub span: Span,
    /// What to write instead.
    pub help: Option<String>,
}

/// Why a condition has no answer; the span is in bytes of the condition's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluateError {
    /// One sentence without a full stop.
    pub message: String,
    /// The offending part.
    pub span: Span,
}

/// A sub-expression that the condition read from the snapshot, with its value then (long values shortened).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Read {
    /// As the user wrote it: `context.get('needs_clarification')`, `turn_count`.
    pub expression: String,
    /// Its value, `null` where there is none.
    pub value: Value,
}

impl Condition {
    /// Compiles a condition in Rhai's or Python's spelling.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        Ok(Self { text: text.into() })
    }

    /// The text as the user wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Is it true of these facts?
    pub fn evaluate(&self, _facts: &Facts) -> Result<bool, EvaluateError> {
        Ok(true)
    }

    /// What it reads and what stands there, for reports; never fails.
    pub fn reads(&self, _facts: &Facts) -> Vec<Read> {
        Vec::new()
    }

    /// Agents that it names through `executions`.
    pub fn agents_read(&self) -> Vec<(String, Span)> {
        Vec::new()
    }
}
