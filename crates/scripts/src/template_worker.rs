//! What may take long runs on a worker thread, so that time limits and signals are heard meanwhile: templates that repeat or
//! build something, and schemas that are not simple. Whoever waits can give up; the thread ends what it does by itself.
//!
//! A template is under limits like a script: it has its own share of memory, and it stops where it is asked.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{StopScriptGuard, workers};
use ensemble_language::template::{
    MissingKeyCollector, Template, TemplateError, TemplateScope, render_task, render_with_check,
};

/// Largest memory of one rendering in bytes, which the renderer checks regularly.
const MAX_CHECKED_MEMORY: usize = 64 << 20;
/// Largest memory of one rendering in bytes that even a single operation cannot exceed.
const MAX_ALLOCATED_MEMORY: usize = 128 << 20;

/// Error message of a rendering that exceeds the memory limit.
const TOO_MUCH: &str = "the template needs more than 64 MiB of memory";

thread_local! {
    /// Flag that is set when no caller waits for the rendering on this thread any more.
    static STOPPED: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Returns the reason why the rendering on this thread must stop: memory, or a stopped execution.
fn find_stop_reason() -> Option<&'static str> {
    if ensemble_memory::thread_limit::used_bytes() > MAX_CHECKED_MEMORY {
        return Some(TOO_MUCH);
    }
    let is_stopped = STOPPED.with_borrow(|stopped| stopped.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)));
    is_stopped.then_some("the execution was stopped")
}

/// Renders the template with the scope. Renders slow templates on a worker thread.
pub async fn render_template_async(template: &Template, scope: &TemplateScope) -> Result<String, TemplateError> {
    if template.renders_quickly() {
        return template.render(scope);
    }
    let template = template.clone();
    render_on_worker(scope, move |scope| template.render(scope)).await
}

/// Evaluates the template as a value. Evaluates slow templates on a worker thread.
pub async fn render_value_async(template: &Template, scope: &TemplateScope) -> Result<Value, TemplateError> {
    if template.renders_quickly() {
        return template.render_value(scope);
    }
    let template = template.clone();
    render_on_worker(scope, move |scope| template.render_value(scope)).await
}

/// Renders the task of an agent from its prompt. Renders slow templates on a worker thread.
pub async fn render_agent_task_async(
    prompt: Option<&Template>,
    scope: &TemplateScope,
) -> Result<String, TemplateError> {
    if prompt.is_none_or(Template::renders_quickly) {
        return render_task(prompt, scope);
    }
    let prompt = prompt.cloned();
    render_on_worker(scope, move |scope| render_task(prompt.as_ref(), scope)).await
}

/// Renders on a worker thread with a memory limit. Dropping the future stops the rendering.
async fn render_on_worker<T: Send + 'static>(
    scope: &TemplateScope,
    render: impl FnOnce(&TemplateScope) -> Result<T, TemplateError> + Send + 'static,
) -> Result<T, TemplateError> {
    let stop = StopScriptGuard::default();
    let flag = Arc::clone(&stop.0);
    // A thread that is lost must hold nothing that others wait for.
    let missed = MissingKeyCollector::default();
    let worker_scope = TemplateScope {
        missing_keys: missed.clone(),
        ..scope.clone()
    };
    let run = move |own: TemplateScope| {
        STOPPED.set(Some(flag));
        let rendered = render_with_check(find_stop_reason, || render(&own));
        STOPPED.set(None);
        rendered
    };
    let job_result = workers::run_with_memory_limit(MAX_ALLOCATED_MEMORY, move || worker_scope, run).await;
    match job_result {
        Ok(rendered) => {
            scope.missing_keys.add_missing_keys(missed.take_missing_keys());
            rendered
        }
        Err(workers::LostJobReason::Memory) => Err(error_at_template_start(TOO_MUCH)),
        Err(workers::LostJobReason::Broken) => Err(error_at_template_start("the template engine crashed")),
    }
}

/// Creates a template error at line 1, column 1.
fn error_at_template_start(message: &str) -> TemplateError {
    TemplateError {
        message: message.to_owned(),
        line: 1,
        column: 1,
        span: None,
    }
}

/// Runs the function on a worker thread. Returns `None` if the function panicked or no thread was available.
pub async fn run_on_worker<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    workers::run_job_async(run).await
}
