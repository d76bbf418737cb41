//! The result of a tool call as text for a model: text content is unchanged, other content is described in words.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use ensemble_core::thread::ToolEnd;

/// Converts the answer of a server to the end of a tool call.
pub(super) fn end_of(result: CallToolResult) -> ToolEnd {
    let is_error = result.is_error == Some(true);
    let texts: Vec<String> = result.content.iter().map(text).collect();
    let text = texts.join("\n");
    match (is_error, result.structured_content) {
        (true, Some(value)) if text.is_empty() => ToolEnd::Error(value.to_string()),
        (true, _) if text.is_empty() => ToolEnd::Error("the tool failed and does not say why".to_owned()),
        (true, _) => ToolEnd::Error(text),
        (false, Some(value)) => ToolEnd::Result(value),
        (false, None) => ToolEnd::Result(Value::String(text)),
    }
}

fn text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => by_words("an image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => by_words("a sound", Some(&audio.mime_type), &audio.data),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => by_words(uri, mime_type.as_deref(), blob),
            _ => "[content of an unknown kind]".to_owned(),
        },
        ContentBlock::ResourceLink(resource) => {
            let about = resource.description.as_deref().map(|text| format!(": {text}"));
            format!("[{} at {}{}]", resource.name, resource.uri, about.unwrap_or_default())
        }
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// Describes content that is not text; `data` is Base64, four characters for three bytes.
fn by_words(what: &str, mime_type: Option<&str>, data: &str) -> String {
    let bytes = data.trim_end_matches('=').len() * 3 / 4;
    let kind = mime_type.map(|kind| format!(", {kind}")).unwrap_or_default();
    format!("[{what}{kind}, {bytes} bytes, which cannot be shown here]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ends(result: Value) -> ToolEnd {
        end_of(serde_json::from_value(result).expect("a result"))
    }

    #[test]
    fn answers_become_ends() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "AAECAw==", "mimeType": "image/png"});
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "A"}});
        let blob = json!({"type": "resource", "resource": {"uri": "file:///b", "mimeType": "x/y", "blob": "AAEC"}});
        let link = json!({"type": "resource_link", "uri": "file:///c", "name": "c", "description": "about c"});
        let table = [
            (json!({"content": [text("a"), text("b")]}), Ok(json!("a\nb"))),
            (json!({"content": []}), Ok(json!(""))),
            (
                json!({"content": [text("{\"n\": 1}")], "structuredContent": {"n": 1}}),
                Ok(json!({"n": 1})),
            ),
            (json!({"content": [text("no")], "isError": true}), Err("no".to_owned())),
            (
                json!({"content": [], "isError": true}),
                Err("the tool failed and does not say why".to_owned()),
            ),
            (
                json!({"content": [], "structuredContent": {"n": 1}, "isError": true}),
                Err("{\"n\":1}".to_owned()),
            ),
            (
                json!({"content": [text("see"), image, resource, blob, link]}),
                Ok(json!(
                    "see\n[an image, image/png, 4 bytes, which cannot be shown here]\n[file:///a]\nA\n[file:///b, x/y, \
                     3 bytes, which cannot be shown here]\n[c at file:///c: about c]"
                )),
            ),
        ];
        for (given, expected) in table {
            let end = match ends(given.clone()) {
                ToolEnd::Result(value) => Ok(value),
                ToolEnd::Error(error) => Err(error),
            };
            assert_eq!(end, expected, "{given}");
        }
    }
}
