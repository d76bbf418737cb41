//! A script that selects the messages.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AgentWindow, Measured, WindowOutput, amount, describe, most};
use ensemble_core::thread::window::{Entry, Size, entries, selected};
use ensemble_core::thread::{Attachment, Message, ToolCall};
use ensemble_models::estimate_files;
use ensemble_scripts::{Script, Variable};

impl AgentWindow {
    pub(super) async fn by_script(&self, script: &Arc<Script>, measured: Measured<'_>) -> Result<WindowOutput, String> {
        let limits = self.rules.limits;
        if !self.always && limits.allow(measured.size()) {
            return Ok(WindowOutput {
                messages: measured.sending.messages,
                ..WindowOutput::default()
            });
        }
        let messages = &measured.sending.messages;
        let entries = entries(messages);
        let all: Vec<Value> = entries.iter().map(|entry| shown(*entry, messages)).collect();
        let tokens: Vec<u64> = entries.iter().map(|entry| self.tokens_of(*entry, messages)).collect();
        let json = |value: Value| Variable::Json(Arc::new(value));
        let variables = vec![
            ("messages", json(json!(all))),
            ("tokens", json(json!(tokens))),
            ("system", json(json!(measured.sending.system))),
            ("system_tokens", json(json!(measured.system.unwrap_or_default()))),
            ("max_tokens", json(json!(limits.max_tokens))),
            ("max_messages", json(json!(limits.max_messages))),
            ("min_recent_turns", json(json!(self.rules.min_recent_turns))),
        ];
        let selection = match script.run(variables).await {
            Ok(Value::Array(selection)) => selection,
            Ok(other) => return Err(format!("its last value is not a list of messages but {other}")),
            Err(failure) => return Err(describe(&failure)),
        };
        let selected = selected(&all, &selection, messages);
        let selected = selected.map_err(|error| format!("its last value is no selection of `messages`: {error}"))?;
        let left_out = Size {
            tokens: selected.left_out.iter().map(|at| tokens[*at]).sum(),
            messages: selected.left_out.len() as u64,
        };
        let whole = measured.size();
        let sent = Size {
            tokens: whole.tokens.saturating_sub(left_out.tokens),
            messages: whole.messages.saturating_sub(left_out.messages),
        };
        let too_much = format!(
            "the context window's script keeps {}, and {} are allowed",
            amount(sent),
            most(limits)
        );
        Ok(WindowOutput {
            messages: selected.messages,
            dropped: (!selected.left_out.is_empty()).then(|| self.note_of(left_out, false)),
            warnings: (!limits.allow(sent)).then_some(too_much).into_iter().collect(),
            ..WindowOutput::default()
        })
    }

    fn tokens_of(&self, entry: Entry, messages: &[Message]) -> u64 {
        match entry {
            Entry::Message(at) => self.counter.without_results(&messages[at]),
            Entry::Result(at, call) => {
                let call = &messages[at].tool_calls[call];
                self.counter.text(&call.told()) + estimate_files(call)
            }
        }
    }
}

/// The entry as the script sees it: like a message of a provider.
fn shown(entry: Entry, messages: &[Message]) -> Value {
    match entry {
        Entry::Message(at) => {
            let message = &messages[at];
            let call = |call: &ToolCall| json!({"id": call.id, "name": call.name, "arguments": call.arguments});
            let mut shown = json!({"role": message.role, "content": message.content});
            if !message.attachments.is_empty() {
                shown["attachments"] = message.attachments.iter().map(Attachment::described).collect();
            }
            if !message.tool_calls.is_empty() {
                shown["tool_calls"] = message.tool_calls.iter().map(call).collect();
            }
            shown
        }
        Entry::Result(at, call) => {
            let call = &messages[at].tool_calls[call];
            let mut shown = json!({"role": "tool", "content": call.told(), "name": call.name, "tool_call_id": call.id});
            if !call.attachments.is_empty() {
                shown["attachments"] = call.attachments.iter().map(Attachment::described).collect();
            }
            shown
        }
    }
}
