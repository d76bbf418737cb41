//! Sandboxed scripts off the async threads: they compute, and computing would hold up everyone else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::sandbox::{Script, ScriptError, ScriptFailure, Variable};

/// Runs a script to its end. Dropping the future stops the script.
pub async fn run(script: Arc<Script>, variables: Vec<(&'static str, Variable)>) -> Result<Value, ScriptFailure> {
    let stop = Stop::default();
    let stopped = Arc::clone(&stop.0);
    let task = tokio::task::spawn_blocking(move || script.run(variables, move || stopped.load(Ordering::Relaxed)));
    match task.await {
        Ok(ended) => ended,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(ScriptFailure::Stopped),
    }
}

/// Why a script gave no value, with its place, for people.
pub fn describe(failure: &ScriptFailure) -> String {
    match failure {
        ScriptFailure::Reported(error) | ScriptFailure::Limit(error) => place(error),
        ScriptFailure::Stopped => "the script was stopped".to_owned(),
    }
}

pub(super) fn place(error: &ScriptError) -> String {
    match (error.line, error.column) {
        (0, _) => error.message.clone(),
        (line, column) => format!("{} (line {line}, column {column})", error.message),
    }
}

/// Tells the script to stop when whoever waits for it no longer does.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
