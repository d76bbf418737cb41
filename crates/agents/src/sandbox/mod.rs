//! Full Rhai scripts in a sandbox of their own: script agents, simulated models, response generators.
//!
//! Pure: no file, network or clock. A script is stopped by its limits, or from outside. It has the language
//! of Rhai (functions, closures, loops, `throw`, `try`), Rhai's packages for numbers, texts, arrays and maps,
//! and besides:
//!
//! | | |
//! |---|---|
//! | `map.get(key, default)` | as in Python |
//! | `parse_json(text)` | any JSON value; an error can be caught |
//! | `to_json(value)` | the value as JSON text |
//! | `context.key`, `context["key"]` | `()` if there is no such key |
//! | `context.get(key)`, `context.get(key, default)` | |
//! | `context.contains(key)`, `key in context` | |
//! | `context.keys()`, `context.len()`, `context.is_empty()` | |
//!
//! There is no `eval`, `import`, `print`, `sleep` or `timestamp`. JSON's null is `()`; the keys of a map are
//! sorted, since Rhai's maps are.
//!
//! Two things to know of the engine: it measures an array or a map whenever it changes, so building one item
//! by item takes time quadratic in its size (10,000 items: a tenth of a second); and it does not measure what
//! closures have captured, so a chain of closures, each holding the one before it, is bounded only by the
//! number of operations.

mod convert;
mod engine;
mod literal;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::sync::Arc;

use rhai::{AST, Dynamic, EvalAltResult, Position, Scope};
use serde_json::Value;

use ensemble_language::data::Context;

pub use literal::output_keys;

/// A compiled script.
pub struct Script {
    ast: AST,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

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
    pub fn compile(text: &str) -> Result<Self, ScriptError> {
        let compiled = with_room(|| engine::engine(|| false).compile(text));
        match compiled {
            Some(Ok(ast)) => Ok(Self { ast }),
            Some(Err(error)) => Err(ScriptError::at(error.err_type().to_string(), error.position())),
            None => Err(ScriptError::at(BROKEN.into(), Position::NONE)),
        }
    }

    /// Runs it; its last value is the result. `stop` is asked now and then and ends the script when true.
    pub fn run(
        &self,
        variables: Vec<(&'static str, Variable)>,
        stop: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Value, ScriptFailure> {
        let ended = with_room(move || {
            let mut scope = Scope::new();
            for (name, variable) in variables {
                scope.push_dynamic(name, variable.into());
            }
            let value: Dynamic = engine::engine(stop)
                .eval_ast_with_scope(&mut scope, &self.ast)
                .map_err(|error| explain(*error, Position::NONE))?;
            convert::to_json(value).map_err(|message| {
                ScriptFailure::Reported(ScriptError::at(
                    format!("the script's result {message}"),
                    Position::NONE,
                ))
            })
        });
        ended.unwrap_or_else(|| Err(ScriptFailure::Reported(ScriptError::at(BROKEN.into(), Position::NONE))))
    }
}

const BROKEN: &str = "the script's engine broke down";

/// Stack for the engine, in bytes; memory is taken only as far as it is used. The engine recurses with calls,
/// expressions and nested values.
const ROOM: usize = 256 << 20;

/// Runs the engine on a stack of its own; `None` if it panicked or there was no stack to be had.
fn with_room<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let roomy = std::thread::Builder::new().name("script".into()).stack_size(ROOM);
        roomy.spawn_scoped(scope, run).ok()?.join().ok()
    })
}

impl From<Variable> for Dynamic {
    fn from(variable: Variable) -> Self {
        match variable {
            Variable::Json(value) => convert::from_json(&value),
            Variable::Context(context) => Self::from(view::ContextView(context)),
        }
    }
}

impl ScriptError {
    fn at(message: String, position: Position) -> Self {
        Self {
            message,
            line: position.line().unwrap_or(0),
            column: position.position().unwrap_or(0),
        }
    }
}

/// The engine's error by kind; `outer` is the place of the call in which it happened.
fn explain(mut error: EvalAltResult, outer: Position) -> ScriptFailure {
    if let EvalAltResult::ErrorInFunctionCall(_, _, inner, position) = error {
        return explain(*inner, position);
    }
    let own = error.take_position();
    let position = if own.is_none() { outer } else { own };
    match error {
        EvalAltResult::ErrorTerminated(..) => ScriptFailure::Stopped,
        EvalAltResult::ErrorTooManyOperations(_) => {
            limit(format!("more than {} operations", engine::OPERATION_LIMIT), position)
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            limit(format!("more than {} nested calls", engine::CALL_LIMIT), position)
        }
        EvalAltResult::ErrorTooManyVariables(_) => {
            limit(format!("more than {} variables", engine::VARIABLE_LIMIT), position)
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => limit(format!("{} too large", what.to_lowercase()), position),
        EvalAltResult::ErrorRuntime(value, _) => ScriptFailure::Reported(ScriptError::at(thrown(value), position)),
        other => ScriptFailure::Reported(ScriptError::at(other.to_string(), position)),
    }
}

fn limit(what: String, position: Position) -> ScriptFailure {
    let message = format!("the script ran past a limit of its sandbox: {what}");
    ScriptFailure::Limit(ScriptError::at(message, position))
}

/// What a script threw, in words: a text, `#{error: text}`, or else JSON.
fn thrown(value: Dynamic) -> String {
    let value = match convert::to_json(value) {
        Ok(Value::Object(mut map)) => map.remove("error").unwrap_or(Value::Object(map)),
        Ok(value) => value,
        Err(_) => Value::from("the script threw a value that is no JSON"),
    };
    match value {
        Value::String(text) => text,
        Value::Null => "the script failed without saying why".into(),
        other => other.to_string(),
    }
}
