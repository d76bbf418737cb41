//! A script that selects the messages.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AgentWindow, MeasuredInput, WindowOutput, describe_script_failure, format_limits, format_thread_size};
use ensemble_core::thread::window::{ScriptMessageEntry, ThreadSize, apply_script_selection, list_script_entries};
use ensemble_core::thread::{Attachment, Message, ToolCall};
use ensemble_models::estimate_result_file_tokens;
use ensemble_scripts::{Script, ScriptVariable};

impl AgentWindow {
    /// Selects the messages of a request with a Rhai script. Sends all messages if they fit, unless the script always runs.
    pub(super) async fn select_by_script(
        &self,
        (path, script): (&str, &Arc<Script>),
        measured: MeasuredInput<'_>,
    ) -> Result<WindowOutput, String> {
        let limits = self.rules.limits;
        if !self.always && limits.allows_size(measured.total_size()) {
            return Ok(WindowOutput {
                messages: measured.sending.messages,
                ..WindowOutput::default()
            });
        }
        let messages = &measured.sending.messages;
        let entries = list_script_entries(messages);
        let all: Vec<Value> = entries
            .iter()
            .map(|entry| script_message_json(*entry, messages))
            .collect();
        let tokens: Vec<u64> = entries
            .iter()
            .map(|entry| self.count_entry_tokens(*entry, messages))
            .collect();
        let json = |value: Value| ScriptVariable::Json(Arc::new(value));
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
            Ok(other) => return Err(format!("{path}: its last value is not a list of messages but {other}")),
            Err(failure) => return Err(describe_script_failure(path, &failure)),
        };
        let selected = apply_script_selection(&all, &selection, messages);
        let selected =
            selected.map_err(|error| format!("{path}: its last value is not a selection of `messages`: {error}"))?;
        let left_out = ThreadSize {
            tokens: selected.left_out.iter().map(|at| tokens[*at]).sum(),
            messages: selected.left_out.len() as u64,
        };
        let total_size = measured.total_size();
        let sent_size = ThreadSize {
            tokens: total_size.tokens.saturating_sub(left_out.tokens),
            messages: total_size.messages.saturating_sub(left_out.messages),
        };
        let too_much = format!(
            "the script of the context window keeps {}, but only {} are allowed",
            format_thread_size(sent_size),
            format_limits(limits)
        );
        Ok(WindowOutput {
            messages: selected.messages,
            dropped: (!selected.left_out.is_empty()).then(|| self.size_note(left_out, false)),
            warnings: (!limits.allows_size(sent_size))
                .then_some(too_much)
                .into_iter()
                .collect(),
            ..WindowOutput::default()
        })
    }

    /// Counts the tokens of a message without results, or of one tool result.
    fn count_entry_tokens(&self, entry: ScriptMessageEntry, messages: &[Message]) -> u64 {
        match entry {
            ScriptMessageEntry::Message(at) => self.counter.count_without_results(&messages[at]),
            ScriptMessageEntry::Result(at, call) => {
                let call = &messages[at].tool_calls[call];
                self.counter.count_text(&call.text_for_model()) + estimate_result_file_tokens(call)
            }
        }
    }
}

/// Converts a message or a tool result to the JSON that the script reads, in the form of a provider message.
fn script_message_json(entry: ScriptMessageEntry, messages: &[Message]) -> Value {
    match entry {
        ScriptMessageEntry::Message(at) => {
            let message = &messages[at];
            let call = |call: &ToolCall| json!({"id": call.id, "name": call.name, "arguments": call.arguments});
            let mut message_json = json!({"role": message.role, "content": message.content});
            if !message.attachments.is_empty() {
                message_json["attachments"] = message
                    .attachments
                    .iter()
                    .map(Attachment::to_json_without_bytes)
                    .collect();
            }
            if !message.tool_calls.is_empty() {
                message_json["tool_calls"] = message.tool_calls.iter().map(call).collect();
            }
            message_json
        }
        ScriptMessageEntry::Result(at, call) => {
            let call = &messages[at].tool_calls[call];
            let mut result_json =
                json!({"role": "tool", "content": call.text_for_model(), "name": call.name, "tool_call_id": call.id});
            if !call.attachments.is_empty() {
                result_json["attachments"] = call.attachments.iter().map(Attachment::to_json_without_bytes).collect();
            }
            result_json
        }
    }
}
