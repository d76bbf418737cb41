//! Rhai scripts as agents: they run inside the process and need nothing installed.
//!
//! A script that computes must not hold up the others of its turn, nor the clock that limits it; so it runs
//! on a thread of its own and is told to stop when its execution is dropped.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Execution, Observation, Observed, output};
use crate::data::{Failure, FailureKind, JsonMap};
use crate::sandbox::{Script, ScriptError, ScriptFailure, Variable};

/// The script that was compiled last, kept as long as its text stays the same.
///
/// The text itself is compared: a file's time is too coarse for a script that an agent has just rewritten.
#[derive(Debug, Default)]
pub struct Compiled(Mutex<Option<(String, Arc<Script>)>>);

/// Runs the script at `path`, called `name` in messages.
pub async fn run(compiled: &Compiled, path: &Path, name: &str, execution: Execution) -> Observed {
    Observed::Finished(Observation {
        result: perform(compiled, path, name, execution).await,
        usage: None,
        exchange: Vec::new(),
    })
}

async fn perform(compiled: &Compiled, path: &Path, name: &str, execution: Execution) -> Result<JsonMap, Failure> {
    let script = compiled.of_file(path, name)?;
    let stop = StopOnDrop::default();
    let flag = Arc::clone(&stop.0);
    let work = tokio::task::spawn_blocking(move || {
        let asked = move || flag.load(Ordering::Relaxed);
        script.run(variables(&execution), asked)
    });
    match work.await {
        Ok(Ok(value)) => output::from_value(value),
        Ok(Err(failure)) => Err(failed(name, failure)),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(failed(name, ScriptFailure::Stopped)),
    }
}

impl Compiled {
    fn of_file(&self, path: &Path, name: &str) -> Result<Arc<Script>, Failure> {
        let unavailable = |why: String| Failure::new(FailureKind::Unavailable, why);
        let text = fs::read_to_string(path).map_err(|error| unavailable(format!("cannot read `{name}`: {error}")))?;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, script)) if *known == text => Ok(Arc::clone(script)),
            _ => {
                let script = Script::compile(&text).map_err(|error| unavailable(placed(name, &error)))?;
                let script = Arc::new(script);
                *last = Some((text, Arc::clone(&script)));
                Ok(script)
            }
        }
    }
}

/// The fields of the object that other scripts find on their stdin.
fn variables(execution: &Execution) -> Vec<(&'static str, Variable)> {
    let json = |value: Value| Variable::Json(Arc::new(value));
    let input = Arc::new(Value::from(&*execution.input));
    let outputs = execution.dependencies.iter();
    let dependencies = outputs.map(|(name, output)| (name.to_string(), Value::clone(output)));
    let request = execution.request.as_deref().map(|request| {
        let fields = [
            ("from", Value::from(&*request.from)),
            ("parameters", request.parameters.clone()),
            ("priority", request.priority.into()),
        ];
        Value::Object(
            fields
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect(),
        )
    });
    vec![
        ("input", Variable::Json(Arc::clone(&input))),
        ("input_data", Variable::Json(input)),
        ("context", Variable::Context(Arc::clone(&execution.context))),
        ("dependencies", json(Value::Object(dependencies.collect()))),
        ("parameters", json(Value::Object(JsonMap::clone(&execution.parameters)))),
        ("turn_count", json(execution.turn_count.into())),
        ("execution", json(execution.execution.into())),
        ("attempt", json(execution.attempt.into())),
        ("run_id", json(Value::from(&*execution.run_id))),
        ("agent_name", json(Value::from(&*execution.agent_name))),
        ("request", json(request.unwrap_or_default())),
    ]
}

fn failed(name: &str, failure: ScriptFailure) -> Failure {
    match failure {
        ScriptFailure::Reported(error) => Failure::new(FailureKind::Reported, placed(name, &error)),
        ScriptFailure::Limit(error) => Failure::new(FailureKind::Exit, placed(name, &error)),
        ScriptFailure::Stopped => Failure::new(FailureKind::Exit, format!("{name}: it was stopped")),
    }
}

fn placed(name: &str, error: &ScriptError) -> String {
    match error {
        ScriptError { message, line: 0, .. } => format!("{name}: {message}"),
        ScriptError { message, line, column } => format!("{name}:{line}:{column}: {message}"),
    }
}

/// Tells the script to stop when nobody waits for it any more.
#[derive(Debug, Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
