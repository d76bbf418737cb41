//! One round of a dialogue: from a user message to the final reply of the model.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::call_ids::make_unique;
use super::too_long::{again, beside_messages, shorter, tokens as tokens_of, within};
use super::tools::Calling;
use super::{Cause, Dialogue, Tools, WindowInput, WindowOutput};
use ensemble_core::runner::{AttemptLedger, ExecutionRecords};
use ensemble_core::thread::{
    Attachment, ExecutionRef, Iteration, LiveOutput, Message, Role, StopReason, TASK, Thread, ToolCall,
};
use ensemble_language::data::{Remaining, Usage};
use ensemble_language::ensemble::Price;
use ensemble_models::{ModelQuery, ModelReply, ToolSpec, estimate_attachment, estimate_files, estimate_tokens};

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
    /// The number of requests before the attempt.
    pub requests_made: u64,
    /// The maximum number of requests in this round.
    pub max_requests: u32,
    /// The budget of the attempt. When it is used up, the results of tools are not sent to the model.
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

/// The end of a round: the final reply with its stop reason, or the error.
pub type RoundEnd = Result<(String, StopReason), Cause>;

impl Dialogue {
    /// Runs one round with these tools. The ledger is always up to date, so that it has the iterations and the usage so far
    /// if the future is dropped.
    pub async fn hold(
        &self,
        opening: RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        ledger: &AttemptLedger,
    ) -> RoundEnd {
        let end = self.rounds(&opening, tools, live_output, ledger).await;
        let reason = end
            .as_ref()
            .map_or_else(Cause::stop_reason, |(_, reason)| Some(*reason));
        complete_iteration(ledger, (self.now)(), reason);
        end
    }

    async fn rounds(
        &self,
        opening: &RoundRequest,
        tools: &dyn Tools,
        live_output: &dyn LiveOutput,
        ledger: &AttemptLedger,
    ) -> RoundEnd {
        let mut going_on = self.opened(opening, tools, ledger).await?;
        loop {
            let (specs, calls) = match going_on.take() {
                Some(due) => due,
                None => {
                    let (specs, reply) = self.replied(opening, tools, live_output, ledger).await?;
                    if reply.tool_calls.is_empty() {
                        return Ok((reply.text, reply.stop_reason));
                    }
                    record_iteration(ledger, &opening.records).await;
                    (specs, reply.tool_calls)
                }
            };
            let calling = Calling {
                tools,
                specs: &specs,
                source: &opening.source,
                live_output,
                records: &opening.records,
                ledger,
            };
            let results = calling.perform(calls).await;
            let requests = tools.waits_for();
            if !requests.is_empty() {
                return Err(Cause::Waits(requests));
            }
            let is_last = ledger.with_exchange(|exchange| exchange.exceeded_max_iterations(opening.max_requests));
            ledger.change_exchange(|exchange| exchange.add_tool_results(results, (self.now)()));
            if is_last {
                return Err(Cause::MaxTurnRequests(opening.max_requests));
            }
            if let Some(limit) = opening.remaining.without(ledger.usage()).used_up() {
                return Err(Cause::UsedUp(limit));
            }
        }
    }

    /// Starts the exchange. `Some`: the exchange goes on with these calls.
    async fn opened(
        &self,
        opening: &RoundRequest,
        tools: &dyn Tools,
        ledger: &AttemptLedger,
    ) -> Result<Option<DueCalls>, Cause> {
        let Some(iteration) = &opening.goes_on else {
            let said = vec![Message {
                attachments: opening.attachments.clone(),
                ..Message::new(Role::User, opening.text.clone())
            }];
            ledger.begin_round(Thread::default(), 0);
            ledger.change_exchange(|exchange| {
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
        ledger.begin_round(Thread::of(vec![iteration.clone()]), 1);
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
        ledger: &AttemptLedger,
    ) -> Result<(Arc<[ToolSpec]>, ModelReply), Cause> {
        // Asked each time: a server may have changed its tools.
        let specs = tools.specs().await.map_err(Cause::Tools)?;
        let mut reply = self.request(opening, &specs, live_output, ledger).await?;
        ledger.with_exchange(|exchange| make_unique(&mut reply.tool_calls, [&opening.thread, exchange]));
        ledger.change_exchange(|exchange| {
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
        ledger: &AttemptLedger,
    ) -> Result<ModelReply, Cause> {
        let mut messages = opening.thread.to_messages();
        messages.extend(ledger.with_exchange(Thread::to_messages));
        let systems = match opening.systems.as_slice() {
            [] => self.systems(),
            systems => systems.to_vec(),
        };
        let system = systems.first().cloned().flatten();
        let task = messages.get(opening.earlier).cloned();
        let fitted = self.fitted(opening, system.as_deref(), messages, ledger).await?;
        let (mut messages, systems, system) = match fitted.drops_system {
            false => (fitted.messages, systems, system),
            true => (fitted.messages, vec![None; systems.len()], None),
        };
        let query = |messages: &[Message]| ModelQuery {
            systems: systems.clone(),
            messages: messages.to_vec(),
            source: opening.source.clone(),
            requests_made: opening.requests_made + ledger.usage().own_requests(),
            output_schema: opening.output_schema.clone(),
            tools: Arc::clone(specs),
            made: ledger.open_request(),
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
            ledger.change_exchange(|exchange| exchange.noted(DROPPED, shorter.note.clone()));
            messages = shorter.messages;
            dropped = Some(shorter.note);
        }
        let mut asked = self.model.ask(query(&messages), live_output).await;
        if let Some((shorter, warning)) = shorter(&messages, task.as_ref(), recent, dropped.as_ref(), &mut asked) {
            ledger.change_exchange(|exchange| exchange.noted(DROPPED, shorter.note));
            ledger.warn_once(warning);
            messages = shorter.messages;
            asked = again(asked, self.model.ask(query(&messages), live_output).await);
            if asked.result.is_ok() {
                self.model.learn_room(beside + tokens_of(&messages));
            }
        }
        // The requests of one attempt tend to have the same trouble.
        asked.warnings.drain(..).for_each(|warning| ledger.warn_once(warning));
        let reply = asked.result.map_err(Cause::from)?;
        let mut used = Usage::default();
        count(&reply, asked.price, system.as_deref(), &messages, &mut used);
        ledger.add_usage(used);
        ledger.change_exchange(|exchange| answered(exchange, &reply, asked.model.as_deref(), used));
        Ok(reply)
    }

    async fn fitted(
        &self,
        opening: &RoundRequest,
        system: Option<&str>,
        messages: Vec<Message>,
        ledger: &AttemptLedger,
    ) -> Result<WindowOutput, Cause> {
        let Some(window) = &self.window else {
            return Ok(WindowOutput {
                messages,
                ..WindowOutput::default()
            });
        };
        let sending = WindowInput {
            system,
            messages,
            task: opening.earlier,
            source: &opening.source,
            requests_made: opening.requests_made + ledger.usage().own_requests(),
            before: ledger
                .with_exchange(last_dropped)
                .or_else(|| last_dropped(&opening.thread)),
            ledger,
        };
        let mut fitted = window
            .fit(sending)
            .await
            .map_err(|unfitted| Cause::Model(unfitted.error))?;
        // The requests of one attempt tend to have the same trouble.
        fitted.warnings.drain(..).for_each(|warning| ledger.warn_once(warning));
        if let Some(dropped) = &fitted.dropped {
            ledger.change_exchange(|exchange| exchange.noted(DROPPED, dropped.clone()));
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

/// Adds the partial results of a round that was stopped: the beginning of a reply, and the calls that have ended.
pub(in crate::agent) fn add_cut_off(ledger: &AttemptLedger, text: String, ended: Vec<ToolCall>) {
    ledger.change_exchange(|exchange| match text.is_empty() {
        true => exchange,
        false => exchange.add_assistant_message(text, Vec::new()),
    });
    ledger.change_exchange(|exchange| with_ends(exchange, ended));
}

/// Records the current iteration, with what was used since the last record.
pub(crate) async fn record_iteration(ledger: &AttemptLedger, records: &ExecutionRecords) {
    if !records.is_recording() {
        return;
    }
    if let Some((iteration, usage)) = ledger.record_iteration() {
        records.replied(iteration, usage).await;
    }
}

/// Marks the current iteration as completed.
pub(crate) fn complete_iteration(ledger: &AttemptLedger, at: DateTime<Utc>, reason: Option<StopReason>) {
    ledger.change_exchange(|exchange| match reason {
        Some(reason) => exchange.completed(at).noted("stop_reason", json!(reason)),
        None => exchange.completed(at),
    });
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
