//! Assembles a reply from the events of a stream.

use serde_json::{Map, Value};

use super::frames::MAX_EVENT_BYTES;
use super::reply_error::ReplyError;
use crate::model::{ModelReply, OnText, Tokens};
use ensemble_core::thread::{StopReason, ToolCall};

/// The reply so far.
pub(super) struct Assembly<'h> {
    on_text: &'h OnText<'h>,
    text: String,
    calls: Vec<Call>,
    size: usize,
    /// The numbers of input and output tokens that the provider reports.
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// Why the model stopped; `None` until then.
    pub(super) stop: Option<StopReason>,
    /// Is the reply complete?
    pub(super) ended: bool,
}

/// A tool call that is being assembled.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The index that its pieces have.
    index: u64,
    pub(super) id: String,
    pub(super) name: String,
    /// The JSON text of the arguments so far.
    pub(super) arguments: String,
    pub(super) signatures: Vec<String>,
}

impl<'h> Assembly<'h> {
    pub(super) fn new(on_text: &'h OnText<'h>) -> Self {
        Self {
            on_text,
            text: String::new(),
            calls: Vec::new(),
            size: 0,
            input: None,
            output: None,
            stop: None,
            ended: false,
        }
    }

    /// The next piece of the text; an empty one is none.
    pub(super) fn say(&mut self, piece: &str) -> Result<(), ReplyError> {
        if piece.is_empty() {
            return Ok(());
        }
        self.grow(piece.len())?;
        self.text.push_str(piece);
        (self.on_text)(piece);
        Ok(())
    }

    /// The call with that index, new if there is none.
    pub(super) fn call(&mut self, index: u64) -> Result<&mut Call, ReplyError> {
        let at = match self.calls.iter().position(|call| call.index == index) {
            Some(at) => at,
            None => {
                self.grow(64)?;
                self.calls.push(Call {
                    index,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        Ok(&mut self.calls[at])
    }

    /// A call that comes in one piece.
    pub(super) fn whole_call(
        &mut self,
        id: Option<&str>,
        name: &str,
        arguments: &Value,
    ) -> Result<&mut Call, ReplyError> {
        let index = self.calls.len() as u64;
        let arguments = arguments.to_string();
        self.grow(arguments.len())?;
        let call = self.call(index)?;
        call.id = id.unwrap_or_default().to_owned();
        call.name = name.to_owned();
        call.arguments = arguments;
        Ok(call)
    }

    /// The next piece of a call's arguments.
    pub(super) fn argue(&mut self, index: u64, piece: &str) -> Result<(), ReplyError> {
        self.grow(piece.len())?;
        self.call(index)?.arguments.push_str(piece);
        Ok(())
    }

    fn grow(&mut self, by: usize) -> Result<(), ReplyError> {
        self.size += by;
        (self.size <= MAX_EVENT_BYTES).then_some(()).ok_or(ReplyError::TooLarge)
    }

    /// The reply. Calls without an id get one that is the same whenever the request is made again.
    pub(super) fn finish(self, request_number: u64) -> Result<ModelReply, ReplyError> {
        let Some(stop_reason) = self.stop.or(self.ended.then_some(StopReason::EndTurn)) else {
            return Err(ReplyError::Cut);
        };
        let calls = self.calls.into_iter().filter(|call| !call.name.is_empty());
        let call = |(at, call): (usize, Call)| {
            let id = match call.id.is_empty() {
                true => format!("call_{request_number}_{at}"),
                false => call.id,
            };
            ToolCall {
                signatures: call.signatures,
                ..ToolCall::new(id, call.name, arguments(call.arguments))
            }
        };
        Ok(ModelReply {
            tool_calls: (1..).zip(calls).map(call).collect(),
            tokens: match (self.input, self.output) {
                // Who has counted nothing at all has not counted.
                (None | Some(0), None | Some(0)) => None,
                (input, output) => Some(Tokens {
                    input: input.unwrap_or_default(),
                    output: output.unwrap_or_default(),
                }),
            },
            stop_reason,
            ..ModelReply::text(self.text)
        })
    }
}

/// The arguments; text that is not JSON stays text, which leads to an error for the model.
fn arguments(text: String) -> Value {
    match text.trim() {
        "" | "null" => Value::Object(Map::new()),
        given => serde_json::from_str(given).unwrap_or(Value::String(text)),
    }
}
