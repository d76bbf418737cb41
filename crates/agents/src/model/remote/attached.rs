//! Attachments in the forms of the dialects.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::model::{ModelError, ModelRequest};
use ensemble_core::thread::{Attachment, Message};
use ensemble_language::ensemble::Dialect;

/// Checks that the dialect has the types of all attachments.
pub(super) fn check(dialect: Dialect, request: &ModelRequest) -> Result<(), ModelError> {
    let attachments = request.messages.iter().flat_map(|message| &message.attachments);
    let takes = |one: &Attachment| dialect != Dialect::Ollama || one.is_image() || one.is_text();
    match attachments.into_iter().find(|one| !takes(one)) {
        Some(one) => Err(ModelError::fatal(format!(
            "Ollama takes images and texts, and the attachment `{}` is {}",
            one.name, one.mime_type
        ))),
        None => Ok(()),
    }
}

/// The content of a user message for OpenAI.
pub(super) fn openai(message: &Message) -> Value {
    let part = |one: &Attachment| match one {
        one if one.is_image() => json!({"type": "image_url", "image_url": {"url": data_url(one)}}),
        one if one.is_text() => json!({"type": "text", "text": labelled(one)}),
        one => json!({"type": "file", "file": {"filename": file_name(one), "file_data": data_url(one)}}),
    };
    let text = json!({"type": "text", "text": message.content});
    message.attachments.iter().map(part).chain([text]).collect()
}

/// The content of a user message for Anthropic.
pub(super) fn anthropic(message: &Message) -> Value {
    let bytes = |one: &Attachment| json!({"type": "base64", "media_type": one.mime_type, "data": one.data});
    let part = |one: &Attachment| match one {
        one if one.is_image() => json!({"type": "image", "source": bytes(one)}),
        one if one.is_text() => {
            let source = json!({"type": "text", "media_type": "text/plain", "data": text_of(one)});
            json!({"type": "document", "title": file_name(one), "source": source})
        }
        one => json!({"type": "document", "title": file_name(one), "source": bytes(one)}),
    };
    // A block without text is refused.
    let text = Some(&message.content).filter(|text| !text.trim().is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    message.attachments.iter().map(part).chain(text).collect()
}

/// The parts of a user message for Gemini.
pub(super) fn gemini(message: &Message) -> Value {
    let part = |one: &Attachment| match one.is_text() {
        true => json!({"text": labelled(one)}),
        false => json!({"inlineData": {"mimeType": one.mime_type, "data": one.data}}),
    };
    let text = json!({"text": message.content});
    message.attachments.iter().map(part).chain([text]).collect()
}

/// A user message for Ollama, which has images beside the text.
pub(super) fn ollama(message: &Message) -> Value {
    let texts = message.attachments.iter().filter(|one| one.is_text()).map(labelled);
    let text: Vec<String> = texts.chain([message.content.clone()]).collect();
    let images: Vec<&str> = message
        .attachments
        .iter()
        .filter(|one| one.is_image())
        .map(|one| &*one.data)
        .collect();
    let mut said = json!({"role": "user", "content": text.join("\n\n")});
    if !images.is_empty() {
        said["images"] = json!(images);
    }
    said
}

fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", attachment.mime_type, attachment.data)
}

fn file_name(attachment: &Attachment) -> &str {
    attachment.name.rsplit('/').next().unwrap_or(&attachment.name)
}

/// A text with the name of its file.
fn labelled(attachment: &Attachment) -> String {
    format!("## {}\n{}", file_name(attachment), text_of(attachment))
}

fn text_of(attachment: &Attachment) -> String {
    let bytes = BASE64_STANDARD.decode(&*attachment.data).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
