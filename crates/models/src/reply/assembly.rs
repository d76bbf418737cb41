//! Assembles a reply from the events of a stream.

use serde_json::Value;

use crate::reply::calls::{CallPiece, PartialCall, PartialCalls};
use crate::reply::end_reasons::EndReason;
use crate::reply::reasoning::PartialReasoning;
use crate::reply::think_tags::ThinkTagSplitter;
use crate::transport::frames::MAX_EVENT_BYTES;
use crate::transport::reply_error::ReplyError;
use crate::{ModelReply, ReplyPiece, ReplyPieceCallback, RequestTokens};
use ensemble_core::thread::StopReason;

/// Reply that is being assembled from the events of a stream.
pub(crate) struct ReplyAssembly<'h> {
    on_piece: &'h ReplyPieceCallback<'h>,
    text: String,
    tags: ThinkTagSplitter,
    calls: PartialCalls,
    reasoning: PartialReasoning,
    size: usize,
    /// The numbers of input and output tokens that the provider reports.
    pub(crate) input: Option<u64>,
    /// Tokens of the request that the provider read from its own cache.
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) output: Option<u64>,
    /// Why the model stopped; `None` until then.
    pub(crate) stop: Option<StopReason>,
    /// Why the model or a filter refused.
    refusal: Option<String>,
    /// Is the reply complete?
    pub(crate) is_complete: bool,
    /// The limit that counts if the reply is cut off.
    cut_off: CutOffCause,
    /// The description of an end reason with which the reply may be incomplete.
    doubtful_end: Option<String>,
}

/// Limits that can cut off a reply.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReplyCutOffLimits {
    /// The tokens of a reply, if the request contained a limit.
    pub(crate) max_tokens: Option<u64>,
    /// The tokens of the model's context, if the profile states them.
    pub(crate) context_length: Option<u64>,
}

/// Limit that cut off a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutOffCause {
    /// The limit of the reply.
    ReplyLimit,
    /// The context of the model.
    FullContext,
}

impl<'h> ReplyAssembly<'h> {
    /// Creates an empty reply. `on_piece` receives each piece of text and reasoning.
    pub(crate) fn new(on_piece: &'h ReplyPieceCallback<'h>) -> Self {
        Self {
            on_piece,
            text: String::new(),
            tags: ThinkTagSplitter::default(),
            calls: PartialCalls::default(),
            reasoning: PartialReasoning::default(),
            size: 0,
            input: None,
            cached_tokens: None,
            output: None,
            stop: None,
            refusal: None,
            is_complete: false,
            cut_off: CutOffCause::ReplyLimit,
            doubtful_end: None,
        }
    }

    /// Adds a piece of text, and separates reasoning in think tags.
    pub(crate) fn add_text(&mut self, piece: &str) -> Result<(), ReplyError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.reserve_bytes(piece.len())?;
        let text = self.tags.split_piece(piece, &mut self.reasoning.text);
        let thought = self.tags.take_live_reasoning();
        self.emit_reasoning(&thought);
        self.append_and_emit_text(&text);
        Ok(())
    }

    /// Appends the text to the reply and passes it to the callback.
    fn append_and_emit_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.text.push_str(text);
            (self.on_piece)(ReplyPiece::Text(text));
        }
    }

    /// Passes a piece of reasoning to the callback while it arrives.
    pub(crate) fn emit_reasoning(&self, piece: &str) {
        if !piece.is_empty() {
            (self.on_piece)(ReplyPiece::Reasoning(piece));
        }
    }

    /// Adds a piece of reasoning. `key` is the field in which the provider accepts it back.
    pub(crate) fn add_reasoning(&mut self, piece: &str, key: Option<&'static str>) -> Result<(), ReplyError> {
        self.reserve_bytes(piece.len())?;
        self.reasoning.text.push_str(piece);
        self.emit_reasoning(piece);
        self.reasoning.key = self.reasoning.key.or(key.filter(|_| !piece.is_empty()));
        Ok(())
    }

    /// Marks the reply as refused by the model or a content filter.
    pub(crate) fn set_refusal(&mut self, reason: Option<String>) {
        self.stop = Some(StopReason::Refusal);
        self.refusal = self.refusal.take().or(reason);
    }

    /// Sets the reason of the provider for the end of the reply. `message` explains the reason. Ignores an empty reason.
    ///
    /// Later reasons do not replace one other than the end of the turn.
    ///
    /// # Errors
    /// There is no reply with this reason.
    pub(crate) fn set_end_reason(&mut self, name: &str, message: Option<&str>) -> Result<(), ReplyError> {
        if name.is_empty() || self.stop.is_some_and(|stop| stop != StopReason::EndTurn) {
            return Ok(());
        }
        let described = || match message.filter(|message| !message.trim().is_empty()) {
            Some(message) => format!("`{name}`: {message}"),
            None => format!("`{name}`"),
        };
        let failed = |retryable| {
            Err(ReplyError::ReportedByProvider {
                message: format!("it ended the reply with the reason {}", described()),
                retryable,
            })
        };
        self.stop = Some(match EndReason::from_name(name) {
            EndReason::Complete => StopReason::EndTurn,
            EndReason::TokenLimit => StopReason::MaxTokens,
            EndReason::ContextFull => {
                self.cut_off = CutOffCause::FullContext;
                StopReason::MaxTokens
            }
            EndReason::Filtered => {
                let by = match message {
                    Some(message) => format!(" ({name}): {message}"),
                    None if name.eq_ignore_ascii_case("content_filter") => String::new(),
                    None => format!(" ({name})"),
                };
                self.refusal = self
                    .refusal
                    .take()
                    .or(Some(format!("a content filter stopped the reply{by}")));
                StopReason::Refusal
            }
            EndReason::ProviderFailed => return failed(true),
            EndReason::CannotAnswer => return failed(false),
            EndReason::MalformedCall => {
                let message = format!("the model's tool call is malformed ({})", described());
                return Err(ReplyError::Malformed(message));
            }
            EndReason::MaybeIncomplete | EndReason::Unknown => {
                self.doubtful_end = Some(described());
                StopReason::EndTurn
            }
        });
        Ok(())
    }

    /// Returns whether request and reply have reached the known context length of the model.
    fn fills_known_context(&self, limits: ReplyCutOffLimits) -> bool {
        let used = self.input.unwrap_or_default() + self.output.unwrap_or_default();
        limits.context_length.is_some_and(|length| used >= length)
    }

    /// Renders a hint for a reply that was cut off.
    fn cut_off_advice(&self, limits: ReplyCutOffLimits) -> String {
        let cause = match self.fills_known_context(limits) {
            true => CutOffCause::FullContext,
            false => self.cut_off,
        };
        match (cause, limits.max_tokens, self.output) {
            (CutOffCause::FullContext, ..) => {
                "the context of the model is full, so a larger `max_tokens` does not help; shorten the request, or set \
                 `context_window`"
                    .to_owned()
            }
            (_, Some(limit), Some(output)) if output > 0 && output < limit => format!(
                "the provider ended the reply after {output} of {limit} tokens (`max_tokens`): at its own limit, or because \
                 the context of the model is full; a larger `max_tokens` does not help"
            ),
            (_, Some(limit), _) => format!("raise `max_tokens`: the reply has reached its {limit} tokens"),
            (_, None, _) => {
                "raise `max_tokens`: the request set none, so a default of the provider ended the reply".to_owned()
            }
        }
    }

    /// Reserves space for reasoning of this size, and returns the reasoning.
    pub(crate) fn reserve_reasoning_bytes(&mut self, size: usize) -> Result<&mut PartialReasoning, ReplyError> {
        self.reserve_bytes(size)?;
        Ok(&mut self.reasoning)
    }

    /// Adds a tool call, whose pieces have this index.
    pub(crate) fn start_call(&mut self, index: u64) -> Result<&mut PartialCall, ReplyError> {
        self.reserve_bytes(64)?;
        Ok(self.calls.start_call(Some(index)))
    }

    /// Adds a complete tool call and returns it.
    pub(crate) fn add_whole_call(
        &mut self,
        id: Option<&str>,
        name: &str,
        arguments: &Value,
    ) -> Result<&mut PartialCall, ReplyError> {
        let arguments = match arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.reserve_bytes(64 + arguments.len())?;
        let call = self.calls.start_call(None);
        call.id = id.unwrap_or_default().to_owned();
        call.name = name.to_owned();
        call.arguments = arguments;
        Ok(call)
    }

    /// Adds a piece of a tool call and returns the call.
    pub(crate) fn add_call_piece(&mut self, piece: CallPiece<'_>) -> Result<&mut PartialCall, ReplyError> {
        self.reserve_bytes(64 + piece.arguments.len())?;
        Ok(self.calls.add_piece(piece))
    }

    /// Appends a piece of arguments to the call with this index.
    pub(crate) fn append_call_arguments(&mut self, index: u64, piece: &str) -> Result<(), ReplyError> {
        self.reserve_bytes(piece.len())?;
        self.calls.call_at_index_or_new(index).arguments.push_str(piece);
        Ok(())
    }

    /// Adds to the size of the reply. Fails above the limit.
    fn reserve_bytes(&mut self, by: usize) -> Result<(), ReplyError> {
        self.size += by;
        (self.size <= MAX_EVENT_BYTES).then_some(()).ok_or(ReplyError::TooLarge)
    }

    /// Completes the reply. Fails if it is empty, cut off or ended with an error.
    pub(crate) fn into_complete_reply(
        mut self,
        request_number: u64,
        limits: ReplyCutOffLimits,
    ) -> Result<ModelReply, ReplyError> {
        let Some(stop_reason) = self.stop.or(self.is_complete.then_some(StopReason::EndTurn)) else {
            return Err(ReplyError::CutOff);
        };
        let remaining_text = self.tags.take_rest_at_end(stop_reason, &mut self.reasoning.text);
        let thought = self.tags.take_live_reasoning();
        self.emit_reasoning(&thought);
        self.append_and_emit_text(&remaining_text);
        let advice = (stop_reason == StopReason::MaxTokens).then(|| self.cut_off_advice(limits));
        let (tool_calls, cut_offs) = self.calls.into_calls_and_cut_names(request_number, stop_reason);
        let cut_off =
            |name: String| format!("the model's call of `{name}` was cut off at its token limit, so it was not made");
        let mut warnings: Vec<String> = cut_offs.into_iter().map(cut_off).collect();
        if let Some(reason) = self.doubtful_end.take() {
            if self.text.trim().is_empty() && tool_calls.is_empty() {
                return Err(ReplyError::ReportedByProvider {
                    message: format!("it ended the reply, which is empty, with the reason {reason}"),
                    retryable: true,
                });
            }
            warnings.push(format!(
                "the provider ended the reply with the reason {reason}, so the reply may be incomplete"
            ));
        }
        warnings.extend(advice);
        let is_signed = tool_calls.iter().any(|call| !call.signatures.is_empty());
        Ok(ModelReply {
            tool_calls,
            reasoning: self.reasoning.into_reasoning(is_signed),
            tokens: match (self.input, self.output) {
                // Who has counted nothing at all has not counted.
                (None | Some(0), None | Some(0)) => None,
                (input, output) => Some(RequestTokens {
                    input: input.unwrap_or_default(),
                    cached: self.cached_tokens.unwrap_or_default(),
                    output: output.unwrap_or_default(),
                }),
            },
            stop_reason,
            refusal: self.refusal,
            warnings,
            ..ModelReply::from_text(self.text)
        })
    }
}
