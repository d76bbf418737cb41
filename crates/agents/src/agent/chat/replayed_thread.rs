//! The replay of a thread by a dialogue with other tools, other instructions or another model.
//!
//! Invariant: the thread stays as it is; a replay gives a new one.

use super::round::add_call_ends;
use super::stream::DialogueStreamInput;
use super::tools::ReplyToolCalls;
use super::{Dialogue, DialogueError, DialogueErrorKind, DialogueStream, ModelTools};
use ensemble_core::runner::AttemptLedger;
use ensemble_core::thread::{IgnoredLiveOutput, Message, MessageRole, REJECTED_KEY, Thread, ThreadIteration, ToolCall};
use ensemble_language::data::ModelUsage;
use ensemble_models::ToolSpec;

/// Choice of the parts of a thread that a replay executes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayScope {
    /// Everything: the model is asked for every reply, and every tool call is made. Only the messages of the user are used.
    Everything,
    /// The calls of these tools, and everything that depends on a change: other instructions, another result of a call, or a
    /// call of a tool that the dialogue does not have. Until the first change, the recorded replies and the results of other
    /// tools are used, and the model is not asked.
    Changes {
        /// The tools whose calls are made again.
        tools: Vec<String>,
    },
}

impl ReplayScope {
    /// Chooses a replay that makes the calls of these tools again.
    pub fn changed_tools(tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Changes {
            tools: tools.into_iter().map(Into::into).collect(),
        }
    }

    /// Chooses a replay that asks the model again from the first request with changed instructions.
    pub fn changed_instructions() -> Self {
        Self::Changes { tools: Vec::new() }
    }
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadReplayResult {
    /// The new thread. It can be continued.
    pub thread: Thread,
    /// The number of the first iteration that differs from the recorded one; `None` if none does.
    pub first_change: Option<u32>,
    /// The usage of the requests that were made.
    pub usage: ModelUsage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Thread, usage and warnings of a replay so far.
struct ReplayState {
    thread: Thread,
    usage: ModelUsage,
    warnings: Vec<String>,
}

impl Dialogue {
    /// Replays a saved thread with this dialogue: sends its user messages again with the tools, instructions and model of this dialogue.
    ///
    /// `with` chooses the parts that are executed again.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, SimulatedReply, Thread, ReplayScope};
    /// use serde_json::{Value, json};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = json!({"type": "object"});
    /// let call = SimulatedReply::with_tool_calls([("weather", json!({}))]);
    /// let dialogue = Dialogue::with_simulated_replies([call, "It is sunny.".into()])
    ///     .with_tool_and_schema("weather", "", schema.clone(), |_: Value| async { Ok("sun") });
    /// let recorded = dialogue.say(Thread::default(), "The weather?").await?.thread;
    ///
    /// // The tool returns something else now, so the model is asked again after the call.
    /// let changed = Dialogue::with_simulated_replies(["", "It rains."])
    ///     .with_tool_and_schema("weather", "", schema, |_: Value| async { Ok("rain") });
    /// let replayed = changed.replay(&recorded, ReplayScope::changed_tools(["weather"])).await?;
    /// assert_eq!((replayed.first_change, replayed.usage.requests), (Some(1), 1));
    /// assert_eq!(replayed.thread.to_messages()[2].content, "It rains.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DialogueError`]: a round failed. The error contains the new thread so far.
    pub async fn replay(&self, thread: &Thread, with: ReplayScope) -> Result<ThreadReplayResult, DialogueError> {
        let mut state = ReplayState {
            thread: Thread::default(),
            usage: ModelUsage::default(),
            warnings: Vec::new(),
        };
        let kept = match with {
            ReplayScope::Everything => 0,
            ReplayScope::Changes { tools } => self.copy_until_change(thread, &tools, &mut state).await?,
        };
        let rest = &thread.iterations()[kept..];
        // The round of a change ends with new replies.
        if kept > 0 && kept < thread.iterations().len() && !starts_with_user_message(thread.iterations(), kept) {
            self.run_round_to_end(DialogueStreamInput::Continuation, &mut state)
                .await?;
        }
        for (at, iteration) in rest.iter().enumerate() {
            if starts_with_user_message(thread.iterations(), kept + at) {
                for message in iteration
                    .messages
                    .iter()
                    .filter(|message| message.role == MessageRole::User)
                {
                    self.run_round_to_end(DialogueStreamInput::Message(message.clone()), &mut state)
                        .await?;
                }
            }
        }
        Ok(ThreadReplayResult {
            first_change: find_first_change(thread, &state.thread),
            thread: state.thread,
            usage: state.usage,
            warnings: state.warnings,
        })
    }

    /// Copies the iterations of the thread up to the first change, and returns their number. Repeats calls of these and of unknown tools.
    async fn copy_until_change(
        &self,
        thread: &Thread,
        tools: &[String],
        state: &mut ReplayState,
    ) -> Result<usize, DialogueError> {
        let specs = self.tools.list_specs().await;
        let specs = specs.map_err(|error| state.take_error(DialogueErrorKind::Tools(error)))?;
        let instructions = self.system_messages_by_profile().into_iter().next().flatten();
        for (at, iteration) in thread.iterations().iter().enumerate() {
            let so_far = thread.iterations()[..=at].to_vec();
            let recorded = Thread::from_iterations(so_far);
            if starts_with_user_message(thread.iterations(), at) && recorded.instructions() != instructions.as_deref() {
                return Ok(at);
            }
            let is_repeated = |call: &&ToolCall| {
                call.end.is_none() || tools.contains(&call.name) || !specs.iter().any(|spec| spec.name == call.name)
            };
            let repeated: Vec<ToolCall> = iteration.tool_calls.iter().filter(is_repeated).cloned().collect();
            let (iteration, is_changed) = self.repeat_calls_and_compare(iteration, repeated, &specs, state).await;
            state.thread = std::mem::take(&mut state.thread).append_iterations(vec![iteration]);
            if is_changed {
                return Ok(at + 1);
            }
        }
        Ok(thread.iterations().len())
    }

    /// Makes the calls again. Returns the iteration with the new ends, and whether an end differs from the recorded one.
    async fn repeat_calls_and_compare(
        &self,
        iteration: &ThreadIteration,
        repeated: Vec<ToolCall>,
        specs: &[ToolSpec],
        state: &mut ReplayState,
    ) -> (ThreadIteration, bool) {
        if repeated.is_empty() {
            return (iteration.clone(), false);
        }
        let open: Vec<ToolCall> = repeated.iter().map(reopen_call).collect();
        let request = self.default_round_parameters(Thread::default(), String::new(), 1);
        let ledger = AttemptLedger::default();
        let calling = ReplyToolCalls {
            tools: &self.tools,
            specs,
            source: &request.source,
            live_output: &IgnoredLiveOutput,
            records: &request.records,
            ledger: &ledger,
        };
        let ended = calling.perform_and_record_calls(open.clone()).await;
        self.trace_ended_calls(&ended, &ledger);
        state.usage = state.usage + ledger.usage_so_far();
        state.warnings.extend(ledger.take_warnings());
        let has_same_end =
            |(before, now): (&ToolCall, &ToolCall)| (&before.end, &before.attachments) == (&now.end, &now.attachments);
        if repeated.iter().zip(&ended).all(has_same_end) {
            return (iteration.clone(), false);
        }
        let mut reopened = iteration.clone();
        for call in reopened.tool_calls.iter_mut() {
            if let Some(open) = open.iter().find(|open| open.id == call.id) {
                *call = open.clone();
            }
        }
        let with_ends = add_call_ends(Thread::from_iterations(vec![reopened]), ended);
        let changed = with_ends
            .complete_current_iteration((self.now)())
            .into_iterations()
            .pop();
        (changed.unwrap_or_default(), true)
    }

    /// Runs a round to its end, and adds the result to the state.
    async fn run_round_to_end(&self, start: DialogueStreamInput, state: &mut ReplayState) -> Result<(), DialogueError> {
        let thread = std::mem::take(&mut state.thread);
        let stream = DialogueStream::new(self, thread, start, self.max_iterations);
        match stream.await {
            Ok(ended) => {
                state.thread = ended.thread;
                state.usage = state.usage + ended.usage;
                state.warnings.extend(ended.warnings);
                Ok(())
            }
            Err(mut error) => {
                *error.usage = state.usage + *error.usage;
                error.warnings.splice(..0, std::mem::take(&mut state.warnings));
                Err(error)
            }
        }
    }
}

impl ReplayState {
    /// Moves the thread, usage and warnings so far into an error.
    fn take_error(&mut self, cause: DialogueErrorKind) -> DialogueError {
        DialogueError {
            cause,
            thread: std::mem::take(&mut self.thread),
            usage: Box::new(self.usage),
            warnings: std::mem::take(&mut self.warnings),
        }
    }
}

/// Returns whether the iteration starts with a user message that is not a correction request.
fn starts_with_user_message(iterations: &[ThreadIteration], at: usize) -> bool {
    let is_rejected = |iteration: &ThreadIteration| iteration.metadata.contains_key(REJECTED_KEY);
    let is_correction = at > 0 && is_rejected(&iterations[at - 1]);
    let messages = &iterations[at].messages;
    !is_correction && messages.iter().any(|message| message.role == MessageRole::User)
}

/// Copies the call without its end.
fn reopen_call(call: &ToolCall) -> ToolCall {
    ToolCall {
        end: None,
        duration: 0.0,
        attachments: Vec::new(),
        answers: Vec::new(),
        ..call.clone()
    }
}

/// Returns the number of the first iteration whose messages or calls differ.
fn find_first_change(recorded: &Thread, replayed: &Thread) -> Option<u32> {
    let (one, other) = (recorded.iterations(), replayed.iterations());
    let differs = |at: &usize| match (one.get(*at), other.get(*at)) {
        (Some(one), Some(other)) => !has_same_content(one, other),
        (one, other) => one.is_some() || other.is_some(),
    };
    let first = (0..one.len().max(other.len())).find(differs)?;
    Some(u32::try_from(first).unwrap_or(u32::MAX).saturating_add(1))
}

/// Returns whether both iterations have equal messages and equal calls, apart from ids and times.
fn has_same_content(one: &ThreadIteration, other: &ThreadIteration) -> bool {
    let texts = |iteration: &ThreadIteration| -> Vec<(MessageRole, String)> {
        let messages = iteration.messages.iter();
        let text = |message: &Message| (message.role, message.content.clone());
        messages.map(text).collect()
    };
    let is_same_call = |(one, other): (&ToolCall, &ToolCall)| {
        (&one.name, &one.arguments, &one.end) == (&other.name, &other.arguments, &other.end)
    };
    let (calls, other_calls) = (&one.tool_calls, &other.tool_calls);
    texts(one) == texts(other) && calls.len() == other_calls.len() && calls.iter().zip(other_calls).all(is_same_call)
}
