//! One round of a dialogue: from a user message to the final reply of the model.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::super::Notes;
use super::call_ids::make_unique;
use super::too_long::{again, beside_messages, shorter, tokens as tokens_of, within};
use super::tools::Calling;
use super::{Cause, Dialogue, Tools, WindowInput, WindowOutput};
use ensemble_core::runner::ExecutionRecords;
use ensemble_core::thread::{
    Attachment, ExecutionRef, Iteration, LiveOutput, Message, Role, StopReason, TASK, Thread, ToolCall,
};
use ensemble_language::data::{Remaining, Usage};
use ensemble_language::ensemble::Price;
use ensemble_models::{
    ModelAnswer, ModelQuery, ModelReply, ToolSpec, estimate_attachment, estimate_files, estimate_tokens,
};

/// The parameters of a round.
#[derive(Debug, Clone)]
pub struct RoundRequest {
    /// The thread before the round.
    pub thread: Arc<Thread>,
    /// The number of messages of the thread before the present execution, whose task is the next message.
    pub earlier: usize,
    /// The new user message.
    pub text: String,
    /// The files that are sent with the new user message.
    pub attachments: Vec<Attachment>,
    /// The system message for each profile in the chain of the model. If this is empty, that of the dialogue is used.
    pub systems: Vec<Option<String>>,
    /// The execution that makes the requests.
    pub source: ExecutionRef,
    /// The number of requests before this round.
    pub requests_made: u64,
    /// The maximum number of requests in this round.
    pub max_requests: u32,
    /// The budget of this round. When it is used up, the results of tools are not sent to the model.
    pub remaining: Remaining,
    /// The schema that the final reply must match, for providers that can enforce it.
    pub output_schema: Option<Arc<Value>>,
    /// The message that is remembered in place of `text`, if it is another.
    pub remembered_text: Option<String>,
    /// Records the replies that call tools, and the calls.
    pub records: ExecutionRecords,
    /// The iteration with which the round goes on, in place of a request with `text`: its calls that have not ended are
    /// made.
    pub goes_on: Option<Iteration>,
}

/// The result of a round that has ended normally.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The text of the final reply.
    pub text: String,
    /// Why the model stopped: [`StopReason::EndTurn`], or [`StopReason::MaxTokens`] if the text is cut off.
    pub stop_reason: StopReason,
    /// The thread including this round; it can be continued.
    pub thread: Thread,
    /// The usage of the round.
    pub usage: Usage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// The outcome of a round so far, whether it has ended or not.
#[derive(Debug, Clone, Default)]
pub struct RoundOutcome {
    /// The iterations that this round has added to the thread.
    pub exchange: Thread,
    /// The usage of the round so far.
    pub usage: Usage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// What is in the records of the execution.
    pub recorded: Recorded,
    /// The final reply with its stop reason, or the error; `None` while the round is running.
    pub end: Option<Result<(String, StopReason), Cause>>,
}

/// The parts of an execution that its records contain, so that its end does not repeat them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded {
    /// The number of iterations, from the first.
    pub iterations: usize,
    /// The usage.
    pub usage: Usage,
}

impl Dialogue {
    /// Runs one round with these tools. `progress` is always up to date, so that it has the outcome so far if the
    /// future is dropped.
    pub async fn hold(
        &self,
        opening: RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        progress: &Progress,
    ) {
        let end = self.rounds(&opening, tools, live_output, progress).await;
        let reason = end
            .as_ref()
            .map_or_else(Cause::stop_reason, |(_, reason)| Some(*reason));
        progress.close((self.now)(), reason);
        progress.lock().end = Some(end);
    }

    /// Runs one round for an execution. The usage is also added to the notes of the execution, even if the future is
    /// dropped.
    pub(in crate::agent) async fn booked(
        &self,
        opening: RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        notes: &Notes,
    ) -> RoundOutcome {
        let booked = Booked {
            progress: Progress::default(),
            notes,
        };
        self.hold(opening, tools, live_output, &booked.progress).await;
        booked.progress.lock().clone()
    }

    async fn rounds(
        &self,
        opening: &RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        progress: &Progress,
    ) -> Result<(String, StopReason), Cause> {
        let mut going_on = self.opened(opening, tools, progress).await?;
        loop {
            let (specs, calls) = match going_on.take() {
                Some(due) => due,
                None => {
                    let (specs, reply) = self.replied(opening, tools, live_output, progress).await?;
                    if reply.tool_calls.is_empty() {
                        return Ok((reply.text, reply.stop_reason));
                    }
                    progress.record(&opening.records).await;
                    (specs, reply.tool_calls)
                }
            };
            let calling = Calling {
                tools,
                specs: &specs,
                source: &opening.source,
                live_output,
                records: &opening.records,
                book: &|usage| progress.book_call(usage),
                warn: &|warning| progress.warn(warning),
            };
            let results = calling.perform(calls).await;
            let requests = tools.waits_for();
            if !requests.is_empty() {
                return Err(Cause::Waits(requests));
            }
            let is_last = progress.lock().exchange.exceeded_max_iterations(opening.max_requests);
            progress.change(|exchange| exchange.add_tool_results(results, (self.now)()));
            if is_last {
                return Err(Cause::MaxTurnRequests(opening.max_requests));
            }
            let used = progress.lock().usage;
            if let Some(limit) = opening.remaining.without(used).used_up() {
                return Err(Cause::UsedUp(limit));
            }
        }
    }

    /// Starts the exchange. `Some`: the exchange goes on with these calls.
    async fn opened(
        &self,
        opening: &RoundRequest,
        tools: &dyn Tools,
        progress: &Progress,
    ) -> Result<Option<DueCalls>, Cause> {
        let Some(iteration) = &opening.goes_on else {
            let said = vec![Message {
                attachments: opening.attachments.clone(),
                ..Message::new(Role::User, opening.text.clone())
            }];
            progress.change(|exchange| {
                let mut exchange = exchange.opened(said, (self.now)());
                if let Some(Some(system)) = opening.systems.first() {
                    exchange = exchange.noted(SYSTEM_PROMPT, system.as_str());
                }
                match &opening.remembered_text {
                    Some(text) => exchange.noted(TASK, text.as_str()),
                    None => exchange,
                }
            });
            return Ok(None);
        };
        progress.change(|_| Thread::of(vec![iteration.clone()]));
        progress.lock().recorded.iterations = 1;
        let due: Vec<ToolCall> = iteration
            .tool_calls
            .iter()
            .filter(|call| call.end.is_none())
            .cloned()
            .collect();
        // The names of the tools are known from here on.
        let specs = tools.specs().await.map_err(Cause::Tools)?;
        Ok(Some((specs, due)))
    }

    /// Makes one request and adds the reply to the exchange. Returns the reply and the tools of the request.
    pub(crate) async fn replied(
        &self,
        opening: &RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        progress: &Progress,
    ) -> Result<(Arc<[ToolSpec]>, ModelReply), Cause> {
        // Asked each time: a server may have changed its tools.
        let specs = tools.specs().await.map_err(Cause::Tools)?;
        let mut reply = self.request(opening, &specs, live_output, progress).await?;
        make_unique(&mut reply.tool_calls, [&opening.thread, &progress.lock().exchange]);
        progress.change(|exchange| {
            let exchange = exchange.add_assistant_message(reply.text.clone(), reply.tool_calls.clone());
            exchange.reasoned(reply.reasoning.clone())
        });
        match reply.stop_reason {
            StopReason::Refusal => Err(Cause::Refused(reply.refusal_text())),
            _ => Ok((specs, reply)),
        }
    }

    /// Makes one request with the messages that the window selects.
    async fn request(
        &self,
        opening: &RoundRequest,
        specs: &Arc<[ToolSpec]>,
        live_output: &dyn LiveOutput,
        progress: &Progress,
    ) -> Result<ModelReply, Cause> {
        let mut messages = opening.thread.to_messages();
        messages.extend(progress.lock().exchange.to_messages());
        let systems = match opening.systems.as_slice() {
            [] => self.systems(),
            systems => systems.to_vec(),
        };
        let system = systems.first().cloned().flatten();
        let task = messages.get(opening.earlier).cloned();
        let fitted = self.fitted(opening, system.as_deref(), messages, progress).await?;
        let (mut messages, systems, system) = match fitted.drops_system {
            false => (fitted.messages, systems, system),
            true => (fitted.messages, vec![None; systems.len()], None),
        };
        let query = |messages: &[Message]| ModelQuery {
            systems: systems.clone(),
            messages: messages.to_vec(),
            source: opening.source.clone(),
            requests_made: opening.requests_made + progress.lock().usage.own_requests(),
            output_schema: opening.output_schema.clone(),
            tools: Arc::clone(specs),
            made: Arc::default(),
        };
        let recent = self.window.as_ref().map_or(1, |window| window.min_recent_turns());
        let beside = beside_messages(system.as_deref(), specs);
        let mut dropped = fitted.dropped;
        if let Some(room) = self.model.room()
            && let Some(shorter) = within(
                room.saturating_sub(beside),
                &messages,
                task.as_ref(),
                recent,
                dropped.as_ref(),
            )
        {
            progress.change(|exchange| exchange.noted(DROPPED, shorter.note.clone()));
            messages = shorter.messages;
            dropped = Some(shorter.note);
        }
        let mut asked = self.answer(query(&messages), live_output, progress).await;
        if let Some((shorter, warning)) = shorter(&messages, task.as_ref(), recent, dropped.as_ref(), &mut asked) {
            progress.change(|exchange| exchange.noted(DROPPED, shorter.note));
            progress.warn(warning);
            messages = shorter.messages;
            asked = again(asked, self.answer(query(&messages), live_output, progress).await);
            if asked.result.is_ok() {
                self.model.learn_room(beside + tokens_of(&messages));
            }
        }
        let mut conversed = progress.lock();
        for warning in asked.warnings {
            // The requests of one round tend to have the same trouble.
            if !conversed.warnings.contains(&warning) {
                conversed.warnings.push(warning);
            }
        }
        let reply = asked.result.map_err(Cause::from)?;
        let mut used = Usage::default();
        count(&reply, asked.price, system.as_deref(), &messages, &mut used);
        conversed.usage = conversed.usage + used;
        conversed.exchange = answered(
            std::mem::take(&mut conversed.exchange),
            &reply,
            asked.model.as_deref(),
            used,
        );
        Ok(reply)
    }

    /// Asks the model. The requests are counted even if the future is dropped.
    async fn answer(&self, query: ModelQuery, live_output: &dyn LiveOutput, progress: &Progress) -> ModelAnswer {
        let _made = Made {
            requests: Arc::clone(&query.made),
            progress,
        };
        self.model.ask(query, live_output).await
    }

    async fn fitted(
        &self,
        opening: &RoundRequest,
        system: Option<&str>,
        messages: Vec<Message>,
        progress: &Progress,
    ) -> Result<WindowOutput, Cause> {
        let Some(window) = &self.window else {
            return Ok(WindowOutput {
                messages,
                ..WindowOutput::default()
            });
        };
        let sending = {
            let conversed = progress.lock();
            WindowInput {
                system,
                messages,
                task: opening.earlier,
                source: &opening.source,
                requests_made: opening.requests_made + conversed.usage.own_requests(),
                before: last_dropped(&conversed.exchange).or_else(|| last_dropped(&opening.thread)),
            }
        };
        let fitted = window.fit(sending).await;
        let mut conversed = progress.lock();
        let fitted = fitted.map_err(|unfitted| {
            conversed.usage = conversed.usage + unfitted.usage;
            Cause::Model(unfitted.error)
        })?;
        conversed.usage = conversed.usage + fitted.usage;
        for warning in &fitted.warnings {
            // The requests of one round tend to have the same trouble.
            if !conversed.warnings.contains(warning) {
                conversed.warnings.push(warning.clone());
            }
        }
        drop(conversed);
        if let Some(dropped) = &fitted.dropped {
            progress.change(|exchange| exchange.noted(DROPPED, dropped.clone()));
        }
        Ok(fitted)
    }
}

/// The calls with which an exchange goes on, and the tools.
type DueCalls = (Arc<[ToolSpec]>, Vec<ToolCall>);

/// The exchange with what is known of the reply in the metadata of its iteration.
fn answered(exchange: Thread, reply: &ModelReply, model: Option<&str>, used: Usage) -> Thread {
    let tokens = json!({
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "estimated": used.estimated,
    });
    let exchange = match model {
        Some(model) => exchange.noted("model", model),
        None => exchange,
    };
    exchange
        .noted("stop_reason", json!(reply.stop_reason))
        .noted("usage", tokens)
}

/// The exchange with the ends of these calls.
pub(crate) fn with_ends(exchange: Thread, ended: Vec<ToolCall>) -> Thread {
    let mut iterations = exchange.into_iterations();
    if let Some(last) = iterations.last_mut() {
        for ended in ended {
            let is_it = |call: &&mut ToolCall| call.end.is_none() && call.id == ended.id;
            if let Some(call) = last.tool_calls.iter_mut().find(is_it) {
                *call = ended;
            }
        }
    }
    Thread::of(iterations)
}

/// The thread with the iterations of a round added.
pub(crate) fn continued(earlier: Thread, exchange: Vec<Iteration>, usage: Usage) -> Thread {
    let iterations = exchange.len() as u64;
    let thread = earlier.followed_by(exchange);
    match usage.own_requests().saturating_sub(iterations) {
        0 => thread,
        further => {
            let before = thread.iterations().last().map_or(0, further_requests);
            thread.noted(FURTHER_REQUESTS, before + further)
        }
    }
}

/// The number of requests that were made for the thread.
pub(crate) fn requests(thread: &Thread) -> u64 {
    let iterations = thread.iterations();
    iterations.len() as u64 + iterations.iter().map(further_requests).sum::<u64>()
}

fn further_requests(iteration: &Iteration) -> u64 {
    iteration
        .metadata
        .get(FURTHER_REQUESTS)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

/// The metadata key for the number of requests without an iteration: failed requests, retries and summaries.
const FURTHER_REQUESTS: &str = "further_requests";

/// The metadata key for the instructions of the requests from this iteration on, which the thread does not contain.
const SYSTEM_PROMPT: &str = "system_prompt";

/// The metadata key for the messages that were dropped from the request.
const DROPPED: &str = "dropped";

fn last_dropped(thread: &Thread) -> Option<Value> {
    let mut iterations = thread.iterations().iter().rev();
    iterations.find_map(|iteration| iteration.metadata.get(DROPPED).cloned())
}

/// Counts requests while they are made, so that they count even if the future is dropped.
struct Made<'p> {
    requests: Arc<AtomicU64>,
    progress: &'p Progress,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.progress.lock().usage.requests += self.requests.load(Ordering::Relaxed);
    }
}

/// Adds the usage of a round to the notes when it is dropped.
pub(in crate::agent) struct Booked<'n> {
    pub(crate) progress: Progress,
    pub(crate) notes: &'n Notes,
}

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        let conversed = self.progress.lock();
        self.notes.add_usage(conversed.usage);
        if conversed.end.is_none()
            && let Some(open) = conversed.exchange.iterations().get(conversed.recorded.iterations)
        {
            let used = conversed.usage.since(conversed.recorded.usage);
            self.notes.keep_stopped(open.clone(), used);
        }
    }
}

/// The shared progress of a round that is running.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Mutex<RoundOutcome>>);

impl Progress {
    /// The progress of a round that starts with this exchange.
    pub(crate) fn of(exchange: Thread) -> Self {
        Self(Arc::new(Mutex::new(RoundOutcome {
            exchange,
            ..RoundOutcome::default()
        })))
    }

    /// Adds the partial results of a round that was stopped: the beginning of a reply, and the calls that have ended.
    pub(crate) fn add_cut_off(&self, text: String, ended: Vec<ToolCall>) {
        self.change(|exchange| match text.is_empty() {
            true => exchange,
            false => exchange.add_assistant_message(text, Vec::new()),
        });
        self.change(|exchange| with_ends(exchange, ended));
    }

    /// Records the current iteration, with what was used since the last record.
    pub(in crate::agent) async fn record(&self, records: &ExecutionRecords) {
        if !records.is_recording() {
            return;
        }
        let (iteration, usage) = {
            let mut conversed = self.lock();
            let Some(iteration) = conversed.exchange.iterations().last().cloned() else {
                return;
            };
            let usage = conversed.usage.since(conversed.recorded.usage);
            conversed.recorded = Recorded {
                iterations: conversed.exchange.iterations().len(),
                usage: conversed.usage,
            };
            (iteration, usage)
        };
        records.replied(iteration, usage).await;
    }

    /// Adds what a call has used, which is recorded with its end.
    pub(crate) fn book_call(&self, usage: Usage) {
        let mut conversed = self.lock();
        conversed.usage = conversed.usage + usage;
        conversed.recorded.usage = conversed.recorded.usage + usage;
    }

    /// Adds a warning for the user.
    pub(crate) fn warn(&self, warning: String) {
        let mut conversed = self.lock();
        if !conversed.warnings.contains(&warning) {
            conversed.warnings.push(warning);
        }
    }

    /// Takes the outcome so far and leaves an empty one.
    pub fn take(&self) -> RoundOutcome {
        std::mem::take(&mut self.lock())
    }

    /// Marks the current iteration as completed.
    pub(crate) fn close(&self, at: DateTime<Utc>, reason: Option<StopReason>) {
        self.change(|exchange| match reason {
            Some(reason) => exchange.completed(at).noted("stop_reason", json!(reason)),
            None => exchange.completed(at),
        });
    }

    pub(crate) fn change(&self, change: impl FnOnce(Thread) -> Thread) {
        let mut conversed = self.lock();
        conversed.exchange = change(std::mem::take(&mut conversed.exchange));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, RoundOutcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the usage of a reply to `spent`: the tokens that the provider counted or an estimate, and their cost unless the
/// reply comes from a cache.
pub(in crate::agent) fn count(
    reply: &ModelReply,
    price: Option<Price>,
    system: Option<&str>,
    messages: &[Message],
    spent: &mut Usage,
) {
    let mut used = tokens(reply, system, messages);
    let price = price.filter(|_| !reply.cached);
    used.cost = price.map(|price| price.of(&used));
    used.cached = u64::from(reply.cached);
    *spent = *spent + used;
}

fn tokens(reply: &ModelReply, system: Option<&str>, messages: &[Message]) -> Usage {
    if let Some(tokens) = reply.tokens {
        return Usage {
            input_tokens: tokens.input,
            cached_tokens: tokens.cached,
            output_tokens: tokens.output,
            ..Usage::default()
        };
    }
    let of_call = |call: &ToolCall| {
        estimate_tokens(&call.arguments.to_string()) + estimate_tokens(&call.told()) + estimate_files(call)
    };
    let read = messages.iter().map(|message| {
        let attached = message.attachments.iter().map(estimate_attachment).sum::<u64>();
        estimate_tokens(&message.content) + attached + message.tool_calls.iter().map(of_call).sum::<u64>()
    });
    let written = reply
        .tool_calls
        .iter()
        .map(|call| estimate_tokens(&call.arguments.to_string()));
    Usage {
        input_tokens: read.sum::<u64>() + system.map_or(0, estimate_tokens),
        output_tokens: estimate_tokens(&reply.text) + written.sum::<u64>(),
        estimated: true,
        ..Usage::default()
    }
}
