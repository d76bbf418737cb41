//! What may take long runs on a worker thread, so that time limits and signals are heard meanwhile: templates that repeat or
//! build something, and schemas that are not simple. Whoever waits can give up; the thread ends what it does by itself.
//!
//! A template is under limits like a script: it has its own share of memory, and it stops where it is asked.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{StopOnDrop, workers};
use ensemble_language::template::{Missed, Scope, Template, TemplateError, task_text, watched};

/// The memory of one rendering, in bytes, where it is asked.
const MEMORY_LIMIT: usize = 64 << 20;
/// The memory of one rendering that a single operation cannot exceed.
const MOST_MEMORY: usize = 128 << 20;

const TOO_MUCH: &str = "the template needs more than 64 MiB of memory";

thread_local! {
    /// Set when nobody waits any more for what this thread renders.
    static STOPPED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Returns why the rendering on this thread must stop.
fn look() -> Option<&'static str> {
    if ensemble_memory::share::used() > MEMORY_LIMIT {
        return Some(TOO_MUCH);
    }
    let is_stopped = STOPPED.with_borrow(|stopped| stopped.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    is_stopped.then_some("the execution was stopped")
}

/// Renders the template with the scope.
pub async fn rendered(template: &Template, scope: &Scope) -> Result<String, TemplateError> {
    if template.is_light() {
        return template.render(scope);
    }
    let template = template.clone();
    with_scope(scope, move |scope| template.render(scope)).await
}

/// The value of the template with the scope.
pub async fn value(template: &Template, scope: &Scope) -> Result<Value, TemplateError> {
    if template.is_light() {
        return template.value(scope);
    }
    let template = template.clone();
    with_scope(scope, move |scope| template.value(scope)).await
}

/// The task of an agent with the scope.
pub async fn task(prompt: Option<&Template>, scope: &Scope) -> Result<String, TemplateError> {
    if prompt.is_none_or(Template::is_light) {
        return task_text(prompt, scope);
    }
    let prompt = prompt.cloned();
    with_scope(scope, move |scope| task_text(prompt.as_ref(), scope)).await
}

async fn with_scope<T: Send + 'static>(
    scope: &Scope,
    render: impl FnOnce(&Scope) -> Result<T, TemplateError> + Send + 'static,
) -> Result<T, TemplateError> {
    let stop = StopOnDrop::default();
    let flag = Arc::clone(&stop.0);
    // A thread that is lost must hold nothing that others wait for.
    let missed = Missed::default();
    let own = Scope {
        missed: missed.clone(),
        ..scope.clone()
    };
    let run = move |own: Scope| {
        STOPPED.set(Some(flag));
        let rendered = watched(look, || render(&own));
        STOPPED.set(None);
        rendered
    };
    let ended = workers::perform_within(MOST_MEMORY, move || own, run).await;
    match ended {
        Ok(rendered) => {
            scope.missed.add(missed.take());
            rendered
        }
        Err(workers::Lost::Memory) => Err(failed(TOO_MUCH)),
        Err(workers::Lost::Broken) => Err(failed("the template engine broke down")),
    }
}

fn failed(message: &str) -> TemplateError {
    TemplateError {
        message: message.to_owned(),
        line: 1,
        column: 1,
        span: None,
    }
}

/// Runs it on a worker thread; `None` if it panicked or there was no thread.
pub async fn perform<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    workers::perform(run).await
}
