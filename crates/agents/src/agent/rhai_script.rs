//! Rhai scripts as agents: they run inside the process and need nothing installed.
//!
//! A script that computes must not hold up the others of its turn, nor the clock that limits it; so it runs
//! on a thread of its own and is told to stop when its execution is dropped.

#![expect(clippy::disallowed_methods, reason = "this room reads scripts")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Execution, Observation, Observed, output};
use crate::sandbox::{Script, ScriptError, ScriptFailure, Variable};
use ensemble_language::data::{Failure, FailureKind, JsonMap};

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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::agent::process::tests::{an_execution, stdin_of};
    use ensemble_language::data::{Context, Request};

    fn error(line: usize) -> ScriptError {
        ScriptError {
            message: "boom".to_owned(),
            line,
            column: 7,
        }
    }

    /// What a variable holds, read back as JSON.
    fn value(variable: &Variable) -> Value {
        match variable {
            Variable::Json(value) => Value::clone(value),
            Variable::Context(context) => serde_json::to_value(&**context).expect("JSON"),
        }
    }

    #[tokio::test]
    async fn its_variables_are_what_others_find_on_stdin() {
        let mut execution = an_execution();
        let plain = execution.clone();
        execution.context = Arc::new(Context::from_iter([(Arc::from("k"), Arc::new(json!([1])))]));
        execution.dependencies = vec![(Arc::from("w"), Arc::new(json!({"n": 1})))];
        execution.parameters = Arc::new(JsonMap::from_iter([("p".to_owned(), json!(true))]));
        execution.request = Some(Arc::new(Request {
            from: Arc::from("boss"),
            parameters: json!({"q": 1}),
            priority: 2,
        }));
        for execution in [plain, execution] {
            let variables = variables(&execution).into_iter();
            let read: JsonMap = variables
                .map(|(name, variable)| (name.to_owned(), value(&variable)))
                .collect();
            assert_eq!(Value::Object(read), stdin_of(&execution).await);
        }
    }

    #[test]
    fn a_failure_has_its_kind_and_its_place() {
        let reported = failed("scripts/a.rhai", ScriptFailure::Reported(error(3)));
        assert_eq!(
            reported,
            Failure::new(FailureKind::Reported, "scripts/a.rhai:3:7: boom")
        );
        let limit = failed("a.rhai", ScriptFailure::Limit(error(0)));
        assert_eq!(limit, Failure::new(FailureKind::Exit, "a.rhai: boom"));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_unavailable() {
        let folder = TempDir::new().expect("a folder");
        let observed = run(
            &Compiled::default(),
            &folder.path().join("a.rhai"),
            "a.rhai",
            an_execution(),
        )
        .await;
        let Observed::Finished(Observation {
            result: Err(failure), ..
        }) = observed
        else {
            panic!("{observed:?}");
        };
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.error.starts_with("cannot read `a.rhai`: "), "{failure:?}");
    }

    #[test]
    fn a_script_is_compiled_once_for_as_long_as_its_text_stays() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("a.rhai");
        let compiled = Compiled::default();
        let script_of = |text: &str| {
            fs::write(&path, text).expect("written");
            compiled.of_file(&path, "a.rhai").expect("a script")
        };
        let first = script_of("1");
        assert!(Arc::ptr_eq(&first, &script_of("1")));
        assert!(!Arc::ptr_eq(&first, &script_of("2")));
    }

    #[test]
    fn a_script_that_nobody_waits_for_is_told_to_stop() {
        let stop = StopOnDrop::default();
        let flag = Arc::clone(&stop.0);
        assert!(!flag.load(Ordering::Relaxed));
        drop(stop);
        assert!(flag.load(Ordering::Relaxed));
    }
}
