//! A dialogue one step at a time: one request, or the calls of one reply.

use std::ops::{Deref, DerefMut};

use super::error::NOT_MADE;
use super::round::{complete_iteration, continued, with_ends};
use super::tools::Calling;
use super::{Cause, Dialogue, DialogueError, Ended, Tools};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{
    Iteration, Message, NoLiveOutput, Role, StopReason, Thread, ToolCall, ToolEnd, UNKNOWN_FATE,
};
use ensemble_language::data::Usage;

/// The result of [`Dialogue::step`], which says what the next step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The model has called tools. The next step runs the calls; the caller can inspect and change them before.
    CallTools(Calls),
    /// The tool calls have ended. The next step sends the results to the model; the caller can inspect and change them
    /// before.
    AskModel(Calls),
    /// The model has sent its final reply.
    Done(Ended),
}

/// The calls of one reply, with the thread that they belong to. It reads like a list of [`ToolCall`], and becomes the
/// thread again with `.into()`, with what was changed in the calls.
///
/// A call with an `end` is not performed; its end goes to the model. A call that is removed from the list is not
/// performed either, and the model receives an error that says so.
#[derive(Debug, Clone, PartialEq)]
pub struct Calls {
    /// The calls, in the model's order.
    pub calls: Vec<ToolCall>,
    /// The usage of the step.
    pub usage: Usage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    thread: Thread,
}

impl Deref for Calls {
    type Target = Vec<ToolCall>;

    fn deref(&self) -> &Self::Target {
        &self.calls
    }
}

impl DerefMut for Calls {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.calls
    }
}

impl From<Calls> for Thread {
    fn from(calls: Calls) -> Self {
        let mut iterations = calls.thread.into_iterations();
        if let Some(last) = iterations.last_mut() {
            put_back(last, calls.calls);
        }
        Self::of(iterations)
    }
}

/// Replaces calls by id. A call that is missing in `calls` gets an error, unless it has already ended.
fn put_back(iteration: &mut Iteration, mut calls: Vec<ToolCall>) {
    for call in &mut iteration.tool_calls {
        match calls.iter().position(|changed| changed.id == call.id) {
            Some(at) => *call = calls.remove(at),
            None if call.end.is_none() => call.end = Some(ToolEnd::Error(NOT_MADE.to_owned())),
            None => {}
        }
    }
    iteration.tool_calls.extend(calls);
}

/// The next action for a thread.
enum Due {
    Request,
    Calls(Vec<ToolCall>),
    /// The thread has its final reply.
    Nothing(String),
}

impl Dialogue {
    /// Adds the user message `text` to the thread, for [`Dialogue::step`].
    pub fn asked(&self, thread: Thread, text: impl Into<String>) -> Thread {
        let said = vec![Message::new(Role::User, text)];
        thread.closed(UNKNOWN_FATE).opened(said, (self.now)())
    }

    /// Performs one step: one request, or concurrently all open calls of the last reply. The result says what the next
    /// step does. If the thread has its final reply, nothing is done.
    ///
    /// The caller limits the number of steps.
    ///
    /// ```
    /// use ensemble_agents::agent::dialogue::{Dialogue, Reply, Step, Thread};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    /// let dialogue = Dialogue::simulated([Reply::calls([("weather", json!({"name": "Pars"}))]), "Sunny.".into()])
    ///     .tool_with_schema("weather", "Tells the weather of a city.", schema, |city: Value| async move {
    ///         Ok(format!("sunny in {}", city["name"]))
    ///     });
    ///
    /// let mut thread = dialogue.asked(Thread::default(), "Is it sunny in Paris?");
    /// let ended = loop {
    ///     thread = match dialogue.step(thread).await? {
    ///         Step::CallTools(mut calls) => {
    ///             calls[0].arguments["name"] = "Paris".into();
    ///             calls.into()
    ///         }
    ///         Step::AskModel(calls) => {
    ///             assert_eq!(calls[0].told(), "sunny in \"Paris\"");
    ///             calls.into()
    ///         }
    ///         Step::Done(ended) => break ended,
    ///     };
    /// };
    /// assert_eq!(ended.text, "Sunny.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The model or its tools failed, or the thread is empty. The step can be repeated with the thread of the error.
    pub async fn step(&self, thread: impl Into<Thread>) -> Result<Step, DialogueError> {
        let thread = thread.into();
        match due(&thread) {
            Some(Due::Request) => self.request_step(thread).await,
            Some(Due::Calls(calls)) => self.calls_step(thread, calls).await,
            Some(Due::Nothing(text)) => Ok(Step::Done(Ended {
                text,
                stop_reason: StopReason::EndTurn,
                thread,
                usage: Usage::default(),
                warnings: Vec::new(),
            })),
            None => Err(failed(Cause::NothingSaid, thread)),
        }
    }

    async fn request_step(&self, thread: Thread) -> Result<Step, DialogueError> {
        let mut iterations = thread.into_iterations();
        // A request that failed has an iteration of its own.
        let open = iterations.pop_if(|last| last.tool_calls.is_empty() && last.completed_at.is_none());
        let exchange = match open {
            Some(open) => Thread::of(vec![open]),
            None => Thread::default().opened(Vec::new(), (self.now)()),
        };
        let earlier = Thread::of(iterations).completed((self.now)());
        let ledger = AttemptLedger::default();
        ledger.begin_round(exchange, 0);
        let opening = self.opening(earlier.clone(), String::new(), 1);
        let replied = self.replied(&opening, &self.tools, &NoLiveOutput, &ledger).await;
        if !matches!(&replied, Ok((_, reply)) if !reply.tool_calls.is_empty()) {
            let reason = match &replied {
                Ok((_, reply)) => Some(reply.stop_reason),
                Err(cause) => cause.stop_reason(),
            };
            complete_iteration(&ledger, (self.now)(), reason);
        }
        let (usage, warnings) = (ledger.usage(), ledger.take_warnings());
        let thread = continued(earlier, ledger.close_round().into_iterations(), usage);
        match replied {
            Ok((_, reply)) if reply.tool_calls.is_empty() => Ok(Step::Done(Ended {
                text: reply.text,
                stop_reason: reply.stop_reason,
                thread,
                usage,
                warnings,
            })),
            Ok((_, reply)) => Ok(Step::CallTools(Calls {
                calls: reply.tool_calls,
                usage,
                warnings,
                thread,
            })),
            Err(cause) => Err(DialogueError {
                thread: thread.closed(cause.fate_of_calls()),
                cause,
                usage: Box::new(usage),
                warnings,
            }),
        }
    }

    async fn calls_step(&self, thread: Thread, calls: Vec<ToolCall>) -> Result<Step, DialogueError> {
        let specs = match self.tools.specs().await {
            Ok(specs) => specs,
            Err(error) => return Err(failed(Cause::Tools(error), thread)),
        };
        let opening = self.opening(Thread::default(), String::new(), 1);
        let ledger = AttemptLedger::default();
        let calling = Calling {
            tools: &self.tools,
            specs: &specs,
            source: &opening.source,
            live_output: &NoLiveOutput,
            records: &opening.records,
            ledger: &ledger,
        };
        let ended = calling.perform(calls).await;
        let thread = with_ends(thread, ended).completed((self.now)());
        let last = thread.iterations().last();
        Ok(Step::AskModel(Calls {
            calls: last.map(|last| last.tool_calls.clone()).unwrap_or_default(),
            usage: ledger.usage(),
            warnings: Vec::new(),
            thread,
        }))
    }
}

fn due(thread: &Thread) -> Option<Due> {
    let last = thread.iterations().last()?;
    let open: Vec<ToolCall> = thread.extract_tool_calls().into_iter().cloned().collect();
    if !open.is_empty() {
        return Some(Due::Calls(open));
    }
    match last.messages.last() {
        Some(last) if thread.is_ended() => Some(Due::Nothing(last.content.clone())),
        _ => Some(Due::Request),
    }
}

fn failed(cause: Cause, thread: Thread) -> DialogueError {
    DialogueError {
        cause,
        thread,
        usage: Box::default(),
        warnings: Vec::new(),
    }
}
