//! One round of a dialogue: from a user message to the final reply of the model.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::shortened_request::{
    drop_older_half_if_too_long, drop_oldest_messages_to_fit, estimate_message_tokens as tokens_of,
    merge_retried_answer, overhead_tokens,
};
use super::tools::ReplyToolCalls;
use super::{Dialogue, DialogueErrorKind, ModelTools, UnsentIterations, WindowInput, WindowOutput};
use ensemble_core::runner::{AttemptLedger, ExecutionRecorder};
use ensemble_core::stopwatch::Stopwatch;
use ensemble_core::thread::{
    Attachment, ExecutionAttemptRef, LEFT_OUT_KEY, LiveOutputReceiver, Message, MessageRole, REQUEST_OPTIONS_KEY,
    SYSTEM_PROMPT_KEY, StopReason, TASK_KEY, Thread, ThreadAppendError, ThreadIteration, ToolCall,
    make_call_ids_unique,
};
use ensemble_language::data::{ModelUsage, RemainingBudget};
use ensemble_language::ensemble::TokenPrice;
use ensemble_models::{
    ModelQuery, ModelReply, RequestPurpose, ToolSpec, estimate_attachment_tokens, estimate_result_file_tokens,
    estimate_tokens,
};

/// Parameters of a round: thread, message, limits and records.
#[derive(Debug, Clone)]
pub struct RoundParameters {
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
    pub source: ExecutionAttemptRef,
    /// The number of requests before the attempt.
    pub requests_made: u64,
    /// The number of requests before the attempt that wrote summaries.
    pub summaries_made: u64,
    /// The maximum number of requests in this round.
    pub max_requests: u32,
    /// The budget of the attempt. When it is used up, the results of tools are not sent to the model.
    pub remaining: RemainingBudget,
    /// The schema that the final reply must match, for providers that can enforce it.
    pub output_schema: Option<Arc<Value>>,
    /// The message that is remembered in place of `text`, if it is another.
    pub remembered_text: Option<String>,
    /// Records the replies that call tools, and the calls.
    pub records: ExecutionRecorder,
    /// The options that the thread states from the new user message on.
    pub options: Option<Value>,
    /// The iteration that the round continues, instead of a request with `text`. If it has calls, those that have not
    /// ended are made; otherwise its messages are sent.
    pub goes_on: Option<ThreadIteration>,
    /// The clock of the execution, which stands while a request waits for the pace of its profile.
    pub clock: Stopwatch,
}

/// Result of a round that has its final reply.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedRound {
    /// The text of the final reply.
    pub text: String,
    /// Why the model stopped: [`StopReason::EndTurn`], or [`StopReason::MaxTokens`] if the text is cut off.
    pub stop_reason: StopReason,
    /// The thread including this round; it can be continued.
    pub thread: Thread,
    /// The usage of the round.
    pub usage: ModelUsage,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// End of a round: the final reply with its stop reason, or an error.
pub type RoundEnd = Result<(String, StopReason), DialogueErrorKind>;

impl Dialogue {
    /// Runs one round: requests replies and performs tool calls until the final reply.
    ///
    /// Keeps the ledger up to date, so that it has all iterations and usage if the future is dropped.
    pub async fn run_round(
        &self,
        opening: RoundParameters,
        tools: &dyn ModelTools,
        live_output: &dyn LiveOutputReceiver,
        ledger: &AttemptLedger,
    ) -> RoundEnd {
        let end = self
            .request_until_final_reply(&opening, tools, live_output, ledger)
            .await;
        let reason = end
            .as_ref()
            .map_or_else(DialogueErrorKind::stop_reason, |(_, reason)| Some(*reason));
        complete_iteration(ledger, (self.now)(), reason);
        end
    }

    /// Requests replies and performs their tool calls until a reply has no tool calls.
    async fn request_until_final_reply(
        &self,
        opening: &RoundParameters,
        tools: &dyn ModelTools,
        live_output: &dyn LiveOutputReceiver,
        ledger: &AttemptLedger,
    ) -> RoundEnd {
        let mut going_on = self.open_exchange(opening, tools, ledger).await?;
        loop {
            let (specs, calls) = match going_on.take() {
                Some(continuation) => continuation,
                None => {
                    let (specs, reply) = self
                        .request_and_trace_reply(opening, tools, live_output, ledger)
                        .await?;
                    if reply.tool_calls.is_empty() {
                        return Ok((reply.text, reply.stop_reason));
                    }
                    complete_and_record_iteration(ledger, &opening.records, (self.now)()).await;
                    (specs, reply.tool_calls)
                }
            };
            let calling = ReplyToolCalls {
                tools,
                specs: &specs,
                source: &opening.source,
                live_output,
                records: &opening.records,
                ledger,
            };
            let results = calling.perform_and_record_calls(calls).await;
            self.trace_ended_calls(&results, ledger);
            let requests = tools.pending_requests();
            if !requests.is_empty() {
                return Err(DialogueErrorKind::Waits(requests));
            }
            let is_last = ledger.read_exchange(|exchange| exchange.exceeded_max_iterations(opening.max_requests));
            ledger.update_exchange(|exchange| {
                let extended = exchange.add_tool_results(results, (self.now)());
                extended.unwrap_or_else(ThreadAppendError::into_thread)
            });
            if is_last {
                return Err(DialogueErrorKind::MaxTurnRequests(opening.max_requests));
            }
            if let Some(limit) = opening
                .remaining
                .subtract_usage(ledger.usage_so_far())
                .find_exhausted_limit()
            {
                return Err(DialogueErrorKind::UsedUp(limit));
            }
        }
    }

    /// Opens the exchange with the new message or an interrupted iteration. Returns the tool calls that must be performed first, if any.
    async fn open_exchange(
        &self,
        opening: &RoundParameters,
        tools: &dyn ModelTools,
        ledger: &AttemptLedger,
    ) -> Result<Option<ToolCallsToPerform>, DialogueErrorKind> {
        let Some(iteration) = &opening.goes_on else {
            let messages = vec![Message {
                attachments: opening.attachments.clone(),
                ..Message::new(MessageRole::User, opening.text.clone())
            }];
            ledger.start_round(Thread::default(), 0);
            ledger.update_exchange(|exchange| {
                let mut exchange = exchange.start_iteration(messages, (self.now)());
                if let Some(Some(system)) = opening.systems.first() {
                    exchange = exchange.set_metadata(SYSTEM_PROMPT_KEY, system.as_str());
                }
                if let Some(options) = &opening.options {
                    exchange = exchange.set_metadata(REQUEST_OPTIONS_KEY, options.clone());
                }
                match &opening.remembered_text {
                    Some(text) => exchange.set_metadata(TASK_KEY, text.as_str()),
                    None => exchange,
                }
            });
            return Ok(None);
        };
        if iteration.tool_calls.is_empty() {
            ledger.start_round(Thread::from_iterations(vec![iteration.clone()]), 0);
            return Ok(None);
        }
        ledger.start_round(Thread::from_iterations(vec![iteration.clone()]), 1);
        let open_calls: Vec<ToolCall> = iteration
            .tool_calls
            .iter()
            .filter(|call| call.end.is_none())
            .cloned()
            .collect();
        // The names of the tools are known from here on.
        let specs = tools.list_specs().await.map_err(DialogueErrorKind::Tools)?;
        Ok(Some((specs, open_calls)))
    }

    /// Makes one request and adds the reply to the exchange. Returns the reply and the tools of the request.
    pub(crate) async fn request_and_trace_reply(
        &self,
        opening: &RoundParameters,
        tools: &dyn ModelTools,
        live_output: &dyn LiveOutputReceiver,
        ledger: &AttemptLedger,
    ) -> Result<(Arc<[ToolSpec]>, ModelReply), DialogueErrorKind> {
        let traced_request = self.collect_traced_request(ledger);
        let replied = self.request_and_record_reply(opening, tools, live_output, ledger).await;
        self.trace_request(traced_request, replied.as_ref().map(|(_, reply)| reply), ledger);
        replied
    }

    /// Makes one request and adds the reply to the exchange. A refusal is an error.
    async fn request_and_record_reply(
        &self,
        opening: &RoundParameters,
        tools: &dyn ModelTools,
        live_output: &dyn LiveOutputReceiver,
        ledger: &AttemptLedger,
    ) -> Result<(Arc<[ToolSpec]>, ModelReply), DialogueErrorKind> {
        // Asked each time: a server may have changed its tools.
        let specs = tools.list_specs().await.map_err(DialogueErrorKind::Tools)?;
        let mut reply = self
            .request_with_selected_messages(opening, &specs, live_output, ledger)
            .await?;
        ledger.read_exchange(|exchange| make_call_ids_unique(&mut reply.tool_calls, [&opening.thread, exchange]));
        ledger.update_exchange(|exchange| {
            let extended = exchange.add_assistant_message(reply.text.clone(), reply.tool_calls.clone());
            let exchange = extended.unwrap_or_else(ThreadAppendError::into_thread);
            exchange.set_reply_reasoning(reply.reasoning.clone())
        });
        match reply.stop_reason {
            StopReason::Refusal => Err(DialogueErrorKind::Refused(reply.refusal_reason_and_text())),
            _ => Ok((specs, reply)),
        }
    }

    /// Makes one request with the messages that the window selects.
    async fn request_with_selected_messages(
        &self,
        opening: &RoundParameters,
        specs: &Arc<[ToolSpec]>,
        live_output: &dyn LiveOutputReceiver,
        ledger: &AttemptLedger,
    ) -> Result<ModelReply, DialogueErrorKind> {
        let unsent = match &self.window {
            Some(window) => window.find_unsent_iterations(&opening.thread, opening.earlier).await,
            None => UnsentIterations::default(),
        };
        let mut messages = opening.thread.to_messages_without_oldest(unsent.iterations);
        messages.extend(ledger.read_exchange(Thread::to_messages));
        messages.iter_mut().for_each(Message::use_result_summaries);
        let systems = match opening.systems.as_slice() {
            [] => self.system_messages_by_profile(),
            systems => systems.to_vec(),
        };
        let system = systems.first().cloned().flatten();
        let task_index = opening.earlier - unsent.messages;
        let task = messages.get(task_index).cloned();
        let message_count = messages.len();
        let earlier_messages = match self.window {
            Some(_) => messages[..task_index.min(message_count)].to_vec(),
            None => Vec::new(),
        };
        let fitted = self
            .select_window_messages(opening, system.as_deref(), messages, unsent, ledger)
            .await?;
        let (mut messages, systems, system) = match fitted.drops_system {
            false => (fitted.messages, systems, system),
            true => (fitted.messages, vec![None; systems.len()], None),
        };
        let query = |messages: &[Message]| ModelQuery {
            systems: systems.clone(),
            messages: messages.to_vec(),
            source: opening.source.clone(),
            purpose: RequestPurpose::Reply,
            requests_made: opening.requests_made + ledger.usage_so_far().own_requests(),
            output_schema: opening.output_schema.clone(),
            tools: Arc::clone(specs),
            request_counter: ledger.start_request_counter(),
            clock: opening.clock.clone(),
        };
        let recent = self.window.as_ref().map_or(1, |window| window.min_recent_turns());
        let beside = overhead_tokens(system.as_deref(), specs);
        let mut dropped = fitted.dropped;
        if let Some(room) = self.model.learned_token_limit()
            && let Some(shorter) = drop_oldest_messages_to_fit(
                room.saturating_sub(beside),
                &messages,
                task.as_ref(),
                recent,
                dropped.as_ref(),
            )
        {
            ledger.update_exchange(|exchange| exchange.set_metadata(DROPPED_KEY, shorter.note.clone()));
            messages = shorter.messages;
            dropped = Some(shorter.note);
        }
        let mut answer = self.model.answer_query(query(&messages), live_output).await;
        if let Some((shorter, warning)) =
            drop_older_half_if_too_long(&messages, task.as_ref(), recent, dropped.as_ref(), &mut answer)
        {
            ledger.update_exchange(|exchange| exchange.set_metadata(DROPPED_KEY, shorter.note));
            ledger.add_warning_once(warning);
            messages = shorter.messages;
            answer = merge_retried_answer(answer, self.model.answer_query(query(&messages), live_output).await);
            if answer.result.is_ok() {
                self.model.limit_later_request_tokens(beside + tokens_of(&messages));
            }
        }
        ledger.update_exchange(|exchange| {
            let exchange = set_recorded_system_prompt(exchange, systems.get(answer.link).cloned().flatten());
            match self.window.is_some() || messages.len() != message_count {
                true => record_left_out_ranges(exchange, unsent.messages, &earlier_messages, &messages),
                false => exchange,
            }
        });
        // The requests of one attempt tend to have the same trouble.
        answer
            .warnings
            .drain(..)
            .for_each(|warning| ledger.add_warning_once(warning));
        let reply = answer.result.map_err(DialogueErrorKind::from)?;
        let mut used = ModelUsage::default();
        add_reply_usage(&reply, answer.price, system.as_deref(), &messages, &mut used);
        ledger.add_usage(used);
        ledger.update_exchange(|exchange| add_reply_metadata(exchange, &reply, answer.model.as_deref(), used));
        Ok(reply)
    }

    async fn select_window_messages(
        &self,
        opening: &RoundParameters,
        system: Option<&str>,
        messages: Vec<Message>,
        unsent: UnsentIterations,
        ledger: &AttemptLedger,
    ) -> Result<WindowOutput, DialogueErrorKind> {
        let Some(window) = &self.window else {
            return Ok(WindowOutput {
                messages,
                ..WindowOutput::default()
            });
        };
        let sending = WindowInput {
            system,
            messages,
            task: opening.earlier - unsent.messages,
            unsent,
            source: &opening.source,
            clock: &opening.clock,
            requests_made: opening.requests_made + ledger.usage_so_far().own_requests(),
            summaries_made: opening.summaries_made + ledger.usage_so_far().summaries,
            earlier_dropped: ledger
                .read_exchange(find_last_dropped_note)
                .or_else(|| find_last_dropped_note(&opening.thread)),
            ledger,
        };
        let mut fitted = window
            .select_messages(sending)
            .await
            .map_err(|unfitted| DialogueErrorKind::Model(unfitted.error))?;
        // The requests of one attempt tend to have the same trouble.
        fitted
            .warnings
            .drain(..)
            .for_each(|warning| ledger.add_warning_once(warning));
        if let Some(dropped) = &fitted.dropped {
            ledger.update_exchange(|exchange| exchange.set_metadata(DROPPED_KEY, dropped.clone()));
        }
        Ok(fitted)
    }
}

/// The calls with which an exchange goes on, and the tools.
type ToolCallsToPerform = (Arc<[ToolSpec]>, Vec<ToolCall>);

/// Adds the model, the usage and other facts of the reply to the metadata of its iteration.
fn add_reply_metadata(exchange: Thread, reply: &ModelReply, model: Option<&str>, used: ModelUsage) -> Thread {
    let tokens = json!({
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "estimated": used.estimated,
    });
    let exchange = match model {
        Some(model) => exchange.set_metadata("model", model),
        None => exchange,
    };
    exchange
        .set_metadata("stop_reason", json!(reply.stop_reason))
        .set_metadata("usage", tokens)
}

/// Adds the ends of these calls to the exchange.
pub(crate) fn add_call_ends(exchange: Thread, ended: Vec<ToolCall>) -> Thread {
    let mut iterations = exchange.into_iterations();
    if let Some(last) = iterations.last_mut() {
        for ended_call in ended {
            let is_it = |call: &&mut ToolCall| call.end.is_none() && call.id == ended_call.id;
            if let Some(call) = last.tool_calls.iter_mut().find(is_it) {
                *call = ended_call;
            }
        }
    }
    Thread::from_iterations(iterations)
}

/// Appends the iterations of a round to the thread, and adds further requests of the usage to the metadata.
pub(crate) fn append_exchange(earlier: Thread, exchange: Vec<ThreadIteration>, usage: ModelUsage) -> Thread {
    let iterations = exchange.len() as u64;
    let thread = earlier.append_iterations(exchange);
    let thread = add_count(
        thread,
        FURTHER_REQUESTS_KEY,
        usage.own_requests().saturating_sub(iterations),
    );
    add_count(thread, SUMMARY_COUNT, usage.summaries)
}

/// Adds a number of requests to the count with this key in the metadata of the last iteration.
fn add_count(thread: Thread, key: &str, requests: u64) -> Thread {
    if requests == 0 {
        return thread;
    }
    let before = thread.iterations().last().map_or(0, |last| read_count(last, key));
    thread.set_metadata(key, before + requests)
}

/// Counts the requests that were made for the thread.
pub(crate) fn count_requests(thread: &Thread) -> u64 {
    let iterations = thread.iterations();
    iterations.len() as u64 + sum_counts(thread, FURTHER_REQUESTS_KEY)
}

/// Counts the requests that wrote summaries for the thread.
pub(crate) fn count_summaries(thread: &Thread) -> u64 {
    sum_counts(thread, SUMMARY_COUNT)
}

/// Sums the counts with this key in the metadata of all iterations.
fn sum_counts(thread: &Thread, key: &str) -> u64 {
    thread.iterations().iter().map(|one| read_count(one, key)).sum()
}

/// Returns the count with this key in the metadata of the iteration.
fn read_count(iteration: &ThreadIteration, key: &str) -> u64 {
    iteration.metadata.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Metadata key for the number of requests without an iteration: failed requests and retries.
const FURTHER_REQUESTS_KEY: &str = "further_requests";

/// Metadata key for the number of requests that wrote summaries.
const SUMMARY_COUNT: &str = "summaries";

/// The metadata key for the session of an external program.
pub(in crate::agent) const SESSION_KEY: &str = "session";

/// Replaces the system prompt in the iteration by the one that was sent: a window may drop it, and a fallback profile may have another.
fn set_recorded_system_prompt(exchange: Thread, sent: Option<String>) -> Thread {
    let last = exchange.iterations().last();
    let stated = last.and_then(|last| last.metadata.get(SYSTEM_PROMPT_KEY)?.as_str());
    match (stated, sent) {
        (Some(stated), Some(sent)) if stated != sent => exchange.set_metadata(SYSTEM_PROMPT_KEY, sent),
        (Some(_), None) => exchange.remove_metadata(SYSTEM_PROMPT_KEY),
        _ => exchange,
    }
}

/// Adds the ranges of the earlier messages that the request leaves out to the metadata: unsent ones, then those of `earlier`.
fn record_left_out_ranges(exchange: Thread, unsent: usize, earlier: &[Message], sent: &[Message]) -> Thread {
    let mut before = sent.len();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (at, message) in (unsent..).zip(earlier).collect::<Vec<_>>().into_iter().rev() {
        let is_it = |sent: &Message| sent.role == message.role && sent.content == message.content;
        match sent[..before].iter().rposition(is_it) {
            Some(place) => before = place,
            None => match ranges.last_mut() {
                Some((start, _)) if *start == at + 1 => *start = at,
                _ => ranges.push((at, at + 1)),
            },
        }
    }
    match ranges.last_mut() {
        _ if unsent == 0 => {}
        Some((start, _)) if *start == unsent => *start = 0,
        _ => ranges.push((0, unsent)),
    }
    ranges.reverse();
    match ranges.is_empty() {
        true => exchange,
        false => exchange.set_metadata(LEFT_OUT_KEY, json!(ranges)),
    }
}

/// The metadata key for the messages that were dropped from the request.
const DROPPED_KEY: &str = "dropped";

fn find_last_dropped_note(thread: &Thread) -> Option<Value> {
    let mut iterations = thread.iterations().iter().rev();
    iterations.find_map(|iteration| iteration.metadata.get(DROPPED_KEY).cloned())
}

/// Adds the partial results of a stopped round: the start of a reply, and the calls that have ended.
pub(in crate::agent) fn add_partial_results(ledger: &AttemptLedger, text: String, ended: Vec<ToolCall>) {
    ledger.update_exchange(|exchange| match text.is_empty() {
        true => exchange,
        false => exchange
            .add_assistant_message(text, Vec::new())
            .unwrap_or_else(ThreadAppendError::into_thread),
    });
    ledger.update_exchange(|exchange| add_call_ends(exchange, ended));
}

/// Completes and records the current iteration, with the usage since the last record.
pub(crate) async fn complete_and_record_iteration(
    ledger: &AttemptLedger,
    records: &ExecutionRecorder,
    now: DateTime<Utc>,
) {
    if !records.is_recording() {
        return;
    }
    if let Some((mut iteration, usage)) = ledger.mark_iteration_recorded() {
        iteration.completed_at.get_or_insert(now);
        records.record_reply_and_wait(iteration, usage).await;
    }
}

/// Marks the current iteration as completed.
pub(crate) fn complete_iteration(ledger: &AttemptLedger, at: DateTime<Utc>, reason: Option<StopReason>) {
    ledger.update_exchange(|exchange| match reason {
        Some(reason) => exchange
            .complete_current_iteration(at)
            .set_metadata("stop_reason", json!(reason)),
        None => exchange.complete_current_iteration(at),
    });
}

/// Adds the usage of a reply to `spent`: reported or estimated tokens, and their cost unless a cache answered.
pub(in crate::agent) fn add_reply_usage(
    reply: &ModelReply,
    price: Option<TokenPrice>,
    system: Option<&str>,
    messages: &[Message],
    spent: &mut ModelUsage,
) {
    let mut used = count_reply_tokens(reply, system, messages);
    let price = price.filter(|_| !reply.cached);
    used.cost = price.map(|price| price.cost_for_usage(&used));
    used.cached = u64::from(reply.cached);
    *spent = *spent + used;
}

/// Returns the tokens that the provider reports, or an estimate.
fn count_reply_tokens(reply: &ModelReply, system: Option<&str>, messages: &[Message]) -> ModelUsage {
    if let Some(tokens) = reply.tokens {
        return ModelUsage {
            input_tokens: tokens.input,
            cached_tokens: tokens.cached,
            output_tokens: tokens.output,
            ..ModelUsage::default()
        };
    }
    let of_call = |call: &ToolCall| {
        estimate_tokens(&call.arguments.to_string())
            + estimate_tokens(&call.text_for_model())
            + estimate_result_file_tokens(call)
    };
    let read = messages.iter().map(|message| {
        let attached = message.attachments.iter().map(estimate_attachment_tokens).sum::<u64>();
        estimate_tokens(&message.content) + attached + message.tool_calls.iter().map(of_call).sum::<u64>()
    });
    let argument_tokens = reply
        .tool_calls
        .iter()
        .map(|call| estimate_tokens(&call.arguments.to_string()));
    ModelUsage {
        input_tokens: read.sum::<u64>() + system.map_or(0, estimate_tokens),
        output_tokens: estimate_tokens(&reply.text) + argument_tokens.sum::<u64>(),
        estimated: true,
        ..ModelUsage::default()
    }
}
