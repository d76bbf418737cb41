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
//! closures have captured, so a chain of closures, each holding the one before it, is bounded by the memory of the
//! whole script. The stack of a worker thread is large enough to drop the longest chain.
//!
//! Full Rhai scripts for agents, simulated models and response generators. A text is compiled once for all that use it. A short script is
//! evaluated on the thread that asks for it, within narrow limits (1,000 operations, small values, a small stack). A script that needs more
//! starts again on a worker thread with a large stack, and the thread is kept for the next script. This is possible because a script has no
//! effects. Only the variables that the text names are converted. Templates that repeat or build something, and schemas with references or
//! patterns, use the same threads (`apart.rs`), so that a signal or a time limit is heard while they compute. A job has a limit of
//! memory; a thread whose job wants too much at once never continues (`ensemble-memory`), and is replaced.
//!
//! Invariant: a script has no access to files, the network or a clock, it stops at a limit or on request, and it gives the same value on
//! either thread.

mod budget;
mod calls;
mod compiled_scripts;
mod context_view;
mod convert;
mod engine;
mod inline;
mod literal;
mod names;
pub mod regular_files;
mod script_analysis;
pub mod template_worker;
#[cfg(test)]
mod tests;
mod to_json;
mod variable;
mod workers;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rhai::{AST, Dynamic, Engine, EvalAltResult, Position, Scope};
use serde_json::Value;

use self::workers::LostJobReason;

pub use literal::{LiteralOutput, collect_output_keys, list_latched_keys, unify_output_types};
pub use script_analysis::{ScriptAnalysis, analyze_script};
pub use variable::ScriptVariable;

/// Stops the virtual time (tokio's paused clock) of runtimes on this thread while a worker thread evaluates a script.
/// Otherwise the time limit of the script would expire at once.
pub fn freeze_virtual_time_during_scripts() {
    workers::freeze_virtual_time_during_jobs();
}

/// Compiled script.
pub struct Script {
    ast: AST,
    words: ScriptWords,
    /// Is the script run inline first? No longer after it has exceeded the inline limits once.
    inline: AtomicBool,
}

/// Words of a script that can be names.
type ScriptWords = HashSet<Box<str>>;

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

/// Syntax error or error message of a script, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// What is wrong, without the place.
    pub message: String,
    /// Line in the script, from 1; 0 where there is none.
    pub line: usize,
    /// Column in the script, from 1; 0 where there is none.
    pub column: usize,
}

/// Reason why a script has no value.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptFailure {
    /// The script threw an error, or an error of the language stopped it.
    Reported(ScriptError),
    /// The script exceeded a limit of the sandbox.
    Limit(ScriptError),
    /// The script was stopped from outside.
    Stopped,
}

impl Script {
    /// Compiles the text, or returns the compiled form that other users of the text share.
    ///
    /// # Errors
    /// The text is not a valid script.
    pub fn compile(text: &str) -> Result<Arc<Self>, ScriptError> {
        compiled_scripts::get_or_compile(text, || {
            let owned_text = text.to_owned();
            workers::run_and_wait(move || Self::compile_new(&owned_text)).unwrap_or_else(|| Err(engine_crash_error()))
        })
    }

    /// Compiles the text on this thread, and decides whether the script can run inline.
    fn compile_new(text: &str) -> Result<Self, ScriptError> {
        let ast = engine::build_limited_engine(|| false).compile(text);
        let ast = ast.map_err(|error| ScriptError::at_position(error.err_type().to_string(), error.position()))?;
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let words: ScriptWords = words.map(Into::into).collect();
        Ok(Self {
            inline: inline::can_run_inline(&ast, &words).into(),
            ast,
            words,
        })
    }

    /// Returns whether the script may read the variable: the text contains the name. Callers can omit other variables.
    pub fn may_read_variable(&self, name: &str) -> bool {
        self.words.contains(name)
    }

    /// Runs the script and returns its last value. Dropping the future stops the script.
    ///
    /// # Errors
    /// The script failed or exceeded a limit.
    pub async fn run<N: ScriptVariableName>(
        self: &Arc<Self>,
        variables: Vec<(N, ScriptVariable)>,
    ) -> Result<Value, ScriptFailure> {
        if self.inline.load(Ordering::Relaxed) {
            if let Some(result) = inline::try_run_inline(&self.ast, &self.words, &variables) {
                return result;
            }
            self.inline.store(false, Ordering::Relaxed);
        }
        let (script, stop) = (Arc::clone(self), StopScriptGuard::default());
        let flag = Arc::clone(&stop.0);
        let is_stopped = move || flag.load(Ordering::Relaxed);
        let prepare = move || {
            let scope = build_named_scope(&variables, &script.words, ScriptVariable::to_dynamic);
            (script, scope)
        };
        let run = move |(script, scope): (Arc<Self>, _)| match is_stopped() {
            true => Err(ScriptFailure::Stopped),
            false => script.run_on_this_thread(scope, is_stopped),
        };
        let job_result = workers::run_with_memory_limit(engine::MAX_ALLOCATED_MEMORY, prepare, run).await;
        job_result.unwrap_or_else(|lost| {
            Err(match lost {
                LostJobReason::Memory => memory_limit_failure(Position::NONE),
                LostJobReason::Broken => engine_crash_failure(),
            })
        })
    }

    /// Runs the script on this thread, which needs a large stack. Ends the script when `stop` returns true.
    fn run_on_this_thread(
        &self,
        scope: Scope<'static>,
        stop: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Value, ScriptFailure> {
        evaluate_script(&engine::build_limited_engine(stop), &self.ast, scope)
            .unwrap_or_else(|error| Err(classify_engine_error(*error, Position::NONE)))
    }
}

/// Name of a script variable.
pub trait ScriptVariableName: AsRef<str> + Send + Sync + 'static {}

impl<N: AsRef<str> + Send + Sync + 'static> ScriptVariableName for N {}

/// Converts the variables that occur in the text. A script cannot read other variables.
fn build_named_scope<N: ScriptVariableName>(
    variables: &[(N, ScriptVariable)],
    words: &ScriptWords,
    convert: impl Fn(&ScriptVariable) -> Dynamic,
) -> Scope<'static> {
    let named = variables.iter().filter(|(name, _)| words.contains(name.as_ref()));
    let mut scope = Scope::new();
    for (name, variable) in named {
        scope.push_dynamic(name.as_ref(), convert(variable));
    }
    scope
}

/// Evaluates the script. The outer error is an error of the engine, so that the caller can inspect the error.
fn evaluate_script(
    engine: &Engine,
    ast: &AST,
    mut scope: Scope<'static>,
) -> Result<Result<Value, ScriptFailure>, Box<EvalAltResult>> {
    let value: Dynamic = engine.eval_ast_with_scope(&mut scope, ast)?;
    Ok(to_json::to_json(value).map_err(|message| {
        ScriptFailure::Reported(ScriptError::at_position(
            format!("the script's result {message}"),
            Position::NONE,
        ))
    }))
}

/// Guard that stops the script when its future is dropped.
#[derive(Debug, Default)]
struct StopScriptGuard(Arc<AtomicBool>);

impl Drop for StopScriptGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Creates the error of a crashed script engine.
fn engine_crash_error() -> ScriptError {
    ScriptError::at_position("the script engine crashed".into(), Position::NONE)
}

/// Creates the failure of a script whose engine crashed.
fn engine_crash_failure() -> ScriptFailure {
    ScriptFailure::Reported(engine_crash_error())
}

impl ScriptError {
    /// Returns the position in the script with this name, such as `answers.rhai:3:7`, or the name if no position is known.
    pub fn position_in_file(&self, name: &str) -> String {
        match self.line {
            0 => name.to_owned(),
            line => format!("{name}:{line}:{}", self.column),
        }
    }

    /// Returns the message after the position in the script with this name.
    pub fn message_with_position(&self, name: &str) -> String {
        format!("{}: {}", self.position_in_file(name), self.message)
    }

    /// Creates the error with the message and the position of the engine.
    fn at_position(message: String, position: Position) -> Self {
        Self {
            message,
            line: position.line().unwrap_or(0),
            column: position.position().unwrap_or(0),
        }
    }
}

/// Converts an error of the engine to a failure. `outer` is the position of the call in which the error occurred.
fn classify_engine_error(mut error: EvalAltResult, outer: Position) -> ScriptFailure {
    if let EvalAltResult::ErrorInFunctionCall(_, _, inner, position) = error {
        return classify_engine_error(*inner, position);
    }
    let own_position = error.take_position();
    let position = if own_position.is_none() { outer } else { own_position };
    match error {
        EvalAltResult::ErrorTerminated(why, _) if !why.is_unit() => memory_limit_failure(position),
        EvalAltResult::ErrorTerminated(..) => ScriptFailure::Stopped,
        EvalAltResult::ErrorTooManyOperations(_) => {
            limit_failure(format!("more than {} operations", engine::MAX_OPERATIONS), position)
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            limit_failure(format!("more than {} nested calls", engine::MAX_NESTED_CALLS), position)
        }
        EvalAltResult::ErrorTooManyVariables(_) => {
            limit_failure(format!("more than {} variables", engine::MAX_VARIABLES), position)
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => {
            limit_failure(format!("{} too large", what.to_lowercase()), position)
        }
        EvalAltResult::ErrorRuntime(value, _) => {
            ScriptFailure::Reported(ScriptError::at_position(describe_thrown_value(value), position))
        }
        other => ScriptFailure::Reported(ScriptError::at_position(other.to_string(), position)),
    }
}

/// Creates the failure of a script that needs too much memory.
fn memory_limit_failure(position: Position) -> ScriptFailure {
    let limit_mib = engine::MAX_CHECKED_MEMORY >> 20;
    limit_failure(format!("more than {limit_mib} MiB of memory"), position)
}

/// Creates the failure of a script that exceeded the limit `what`.
fn limit_failure(what: String, position: Position) -> ScriptFailure {
    let message = format!("the script exceeded a limit of its sandbox: {what}");
    ScriptFailure::Limit(ScriptError::at_position(message, position))
}

/// Returns the message of a thrown value: the text, the text of the key `error`, or JSON.
fn describe_thrown_value(value: Dynamic) -> String {
    let value = match to_json::to_json(value) {
        Ok(Value::Object(mut map)) => map.remove("error").unwrap_or(Value::Object(map)),
        Ok(value) => value,
        Err(_) => Value::from("the script threw a value that JSON cannot represent"),
    };
    match value {
        Value::String(text) => text,
        Value::Null => "the script failed without a message".into(),
        other => other.to_string(),
    }
}
