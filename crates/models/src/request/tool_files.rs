//! The images and PDFs of tool results: a model that does not take them is told of them in words.

use crate::{ModelError, ModelRequest};
use ensemble_core::thread::{Attachment, Message, ToolCall, ToolCallEnd};
use serde_json::Value;

/// The maximum size of the files of all tool results in one request, in bytes: 20 MiB.
const MAX_TOOL_FILE_BYTES: u64 = 20 << 20;

/// Warning about files that a request describes instead of sending them.
const REPLACED_FILES_WARNING: &str = "files of earlier tool results were replaced by descriptions: the files of a request are limited to 20 MiB in total";

/// Phrases in errors of models that accept no files at all.
const NO_FILES_PHRASES: [&str; 6] = [
    "support",
    "multimodal",
    "unknown variant",
    "missing data",
    "only valid",
    "certain models",
];

/// Returns whether tool results in these messages have files.
pub(crate) fn has_tool_files(messages: &[Message]) -> bool {
    let mut calls = messages.iter().flat_map(|message| &message.tool_calls);
    calls.any(|call| !call.attachments.is_empty())
}

/// Returns the request with descriptions instead of the files of tool results.
pub(crate) fn with_described_tool_files(mut request: ModelRequest) -> ModelRequest {
    tool_calls_mut(&mut request.messages).for_each(|call| replace_files_by_text(call, |_| false));
    request
}

/// Renders the warning that the request was repeated without files.
pub(crate) fn refused_files_warning(profile: &str, error: &ModelError) -> String {
    format!(
        "model profile `{profile}` does not support files in tool results ({error}); the request was repeated with \
         descriptions of the files"
    )
}

/// Returns whether the error means that the model accepts no files, rather than not one of these files.
pub(crate) fn rejects_all_files(error: &ModelError) -> bool {
    let message = error.message.to_lowercase();
    NO_FILES_PHRASES.iter().any(|word| message.contains(word))
}

/// Replaces files by descriptions that the API does not accept, and the oldest files above the size limit. Returns warnings.
pub(crate) fn replace_unsendable_tool_files(
    messages: &mut [Message],
    takes: impl Fn(&Attachment) -> bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for call in tool_calls_mut(messages) {
        if let Some(file) = call.attachments.iter().find(|file| !takes(file)) {
            let kind = &file.mime_type;
            warnings.push(format!(
                "the result of `{}` has a file of the type {kind}, which the provider does not support: the file was \
                 replaced by a description",
                call.name
            ));
            replace_files_by_text(call, &takes);
        }
    }
    warnings.dedup();
    let mut bytes_left = MAX_TOOL_FILE_BYTES;
    let mut has_room = true;
    for message in messages.iter_mut().rev() {
        for call in message.tool_calls.iter_mut().rev() {
            let size: u64 = call.attachments.iter().map(|file| file.size).sum();
            has_room &= size <= bytes_left;
            match has_room {
                true => bytes_left -= size,
                false => replace_files_by_text(call, |_| false),
            }
        }
    }
    warnings.extend((!has_room).then(|| REPLACED_FILES_WARNING.to_owned()));
    warnings
}

/// Iterates over all tool calls of the messages.
fn tool_calls_mut(messages: &mut [Message]) -> impl Iterator<Item = &mut ToolCall> {
    messages.iter_mut().flat_map(|message| &mut message.tool_calls)
}

/// Replaces the files of a tool result by descriptions, except files for which `stays` returns true.
fn replace_files_by_text(call: &mut ToolCall, stays: impl Fn(&Attachment) -> bool) {
    let (kept, gone): (Vec<Attachment>, Vec<Attachment>) =
        std::mem::take(&mut call.attachments).into_iter().partition(stays);
    call.attachments = kept;
    for file in gone {
        let words = format!(
            "[{}, {}, {} bytes, cannot be shown here]",
            file.name, file.mime_type, file.size
        );
        call.end = match call.end.take() {
            Some(ToolCallEnd::Error(error)) => Some(ToolCallEnd::Error(format!("{error}\n{words}"))),
            end => {
                call.end = end;
                Some(ToolCallEnd::Result(Value::String(format!(
                    "{}\n{words}",
                    call.text_for_model()
                ))))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use ensemble_core::thread::MessageRole;

    fn looked(files: &[(&str, u64)]) -> Message {
        let file = |(mime_type, size): &(&str, u64)| Attachment {
            name: "f".into(),
            mime_type: (*mime_type).into(),
            size: *size,
            sha256: "".into(),
            data: "".into(),
        };
        let mut call = ToolCall::new("c", "look", json!({})).with_end(ToolCallEnd::Result(json!({"n": 1})), 0.0);
        call.attachments = files.iter().map(file).collect();
        Message {
            tool_calls: vec![call],
            ..Message::new(MessageRole::Assistant, "")
        }
    }

    fn told(messages: &[Message]) -> Vec<(usize, String)> {
        let calls = messages.iter().flat_map(|message| &message.tool_calls);
        calls
            .map(|call| (call.attachments.len(), call.text_for_model()))
            .collect()
    }

    #[test]
    fn what_is_not_taken_is_told_in_words() {
        let mut messages = [looked(&[("image/png", 3), ("application/pdf", 5)]), looked(&[])];
        let warnings = replace_unsendable_tool_files(&mut messages, Attachment::is_image);
        assert_eq!(
            told(&messages),
            [
                (
                    1,
                    "{\"n\":1}\n[f, application/pdf, 5 bytes, cannot be shown here]".to_owned()
                ),
                (0, "{\"n\":1}".to_owned())
            ]
        );
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("application/pdf"), "{warnings:?}");
    }

    #[test]
    fn the_oldest_files_are_left_out_where_there_is_too_much() {
        let ten = 10 << 20;
        let mut messages = [1, ten, ten].map(|size| looked(&[("image/png", size)]));
        let warnings = replace_unsendable_tool_files(&mut messages, |_| true);
        let counts: Vec<usize> = told(&messages).iter().map(|(files, _)| *files).collect();
        assert_eq!(
            (counts, warnings),
            (vec![0, 1, 1], vec![REPLACED_FILES_WARNING.to_owned()])
        );
        let mut few = [looked(&[("image/png", 1)])];
        assert_eq!(replace_unsendable_tool_files(&mut few, |_| true), Vec::<String>::new());
        assert_eq!(told(&few)[0].0, 1);
    }
}
