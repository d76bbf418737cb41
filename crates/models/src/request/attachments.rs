//! Attachments in the forms of the dialects.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::{ModelError, ModelRequest};
use ensemble_core::thread::{Attachment, Message, ToolCall};
use ensemble_language::ensemble::ProviderApi;

/// Returns whether the API accepts files of this type.
pub(crate) fn supports_file_type(dialect: ProviderApi, file: &Attachment) -> bool {
    dialect != ProviderApi::Ollama || file.is_image() || file.is_text()
}

/// Checks that the API accepts the types of all attachments.
pub(crate) fn check_attachment_types(dialect: ProviderApi, request: &ModelRequest) -> Result<(), ModelError> {
    let attachments = request.messages.iter().flat_map(|message| &message.attachments);
    match attachments.into_iter().find(|one| !supports_file_type(dialect, one)) {
        Some(attachment) => Err(ModelError::new_fatal(format!(
            "Ollama supports images and texts, but the attachment `{}` is {}",
            attachment.name, attachment.mime_type
        ))),
        None => Ok(()),
    }
}

/// Converts a user message with attachments to the content of a message for OpenAI.
pub(crate) fn openai_user_content(message: &Message) -> Value {
    let text = json!({"type": "text", "text": message.content});
    message
        .attachments
        .iter()
        .map(openai_attachment_part)
        .chain([text])
        .collect()
}

/// Converts an attachment to a content part for OpenAI.
fn openai_attachment_part(file: &Attachment) -> Value {
    match file {
        file if file.is_image() => json!({"type": "image_url", "image_url": {"url": data_url(file)}}),
        file if file.is_text() => json!({"type": "text", "text": titled_attachment_text(file)}),
        file => json!({"type": "file", "file": {"filename": file_name(file), "file_data": data_url(file)}}),
    }
}

/// Creates a user message with the files of tool results for OpenAI, whose tool messages contain only text.
///
/// Returns `None` if there are no files.
pub(crate) fn openai_result_files_message(calls: &[ToolCall]) -> Option<Value> {
    let of_call = |call: &ToolCall| {
        let text = json!({"type": "text", "text": result_files_intro(call)});
        let files: Vec<Value> = call.attachments.iter().map(openai_attachment_part).collect();
        (!files.is_empty()).then(|| std::iter::once(text).chain(files))
    };
    let parts: Vec<Value> = calls.iter().filter_map(of_call).flatten().collect();
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

/// Converts a user message with attachments to the content of a message for Anthropic.
pub(crate) fn anthropic_user_content(message: &Message) -> Value {
    let text = anthropic_text(&message.content);
    message
        .attachments
        .iter()
        .map(anthropic_attachment_block)
        .chain(text)
        .collect()
}

/// Converts a tool result with its files to the content of a block for Anthropic.
pub(crate) fn anthropic_tool_result_content(call: &ToolCall) -> Value {
    let text = call.text_for_model();
    if call.attachments.is_empty() {
        return text.into();
    }
    let files = call.attachments.iter().map(anthropic_attachment_block);
    anthropic_text(&text).into_iter().chain(files).collect()
}

/// Creates a text block for Anthropic. Returns `None` for a blank text, which the API refuses.
fn anthropic_text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Converts an attachment to a content block for Anthropic.
fn anthropic_attachment_block(file: &Attachment) -> Value {
    let bytes = || json!({"type": "base64", "media_type": file.mime_type, "data": file.data});
    match file {
        file if file.is_image() => json!({"type": "image", "source": bytes()}),
        file if file.is_text() => {
            let source = json!({"type": "text", "media_type": "text/plain", "data": decode_attachment_text(file)});
            json!({"type": "document", "title": file_name(file), "source": source})
        }
        file => json!({"type": "document", "title": file_name(file), "source": bytes()}),
    }
}

/// Converts a user message with attachments to the parts of a message for Gemini.
pub(crate) fn gemini_user_parts(message: &Message) -> Value {
    let text = json!({"text": message.content});
    message
        .attachments
        .iter()
        .map(gemini_attachment_part)
        .chain([text])
        .collect()
}

/// Converts an attachment to a part for Gemini.
fn gemini_attachment_part(file: &Attachment) -> Value {
    match file.is_text() {
        true => json!({"text": titled_attachment_text(file)}),
        false => json!({"inlineData": {"mimeType": file.mime_type, "data": file.data}}),
    }
}

/// Creates the parts with the files of tool results for Gemini.
pub(crate) fn gemini_result_file_parts(calls: &[ToolCall]) -> Vec<Value> {
    let of_call = |call: &ToolCall| {
        let text = json!({"text": result_files_intro(call)});
        let files: Vec<Value> = call.attachments.iter().map(gemini_attachment_part).collect();
        (!files.is_empty()).then(|| std::iter::once(text).chain(files))
    };
    calls.iter().filter_map(of_call).flatten().collect()
}

/// Renders the text before the files of a tool result.
fn result_files_intro(call: &ToolCall) -> String {
    let names: Vec<&str> = call.attachments.iter().map(|file| &*file.name).collect();
    format!("From the result of `{}`: {}", call.name, names.join(", "))
}

/// Creates a user message for Ollama. Text files become part of the text, and images are a separate field.
pub(crate) fn ollama_user_message(message: &Message) -> Value {
    let texts = message
        .attachments
        .iter()
        .filter(|one| one.is_text())
        .map(titled_attachment_text);
    let text: Vec<String> = texts.chain([message.content.clone()]).collect();
    let user_message = json!({"role": "user", "content": text.join("\n\n")});
    with_images(user_message, &message.attachments)
}

/// Adds the images among the files to a message for Ollama.
pub(crate) fn with_images(mut message: Value, files: &[Attachment]) -> Value {
    let images = files.iter().filter(|file| file.is_image());
    let images: Vec<&str> = images.map(|file| &*file.data).collect();
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

/// Creates a `data:` URL with the content of the attachment.
fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", attachment.mime_type, attachment.data)
}

/// Returns the last part of the attachment name.
fn file_name(attachment: &Attachment) -> &str {
    attachment.name.rsplit('/').next().unwrap_or(&attachment.name)
}

/// Returns the text of the attachment below a heading with its file name.
fn titled_attachment_text(attachment: &Attachment) -> String {
    format!("## {}\n{}", file_name(attachment), decode_attachment_text(attachment))
}

/// Decodes the text of an attachment.
fn decode_attachment_text(attachment: &Attachment) -> String {
    let bytes = BASE64_STANDARD.decode(&*attachment.data).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
