//! The result of a tool call for a model: text content is unchanged, images and PDFs are files beside the text, and other
//! content is described in words.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use super::ServerTool;
use super::files::{ResultFiles, base64_decoded_length, describe_unshown_content};
use crate::agent::AttemptLedger;
use crate::agent::output::schema::OutputSchema;
use crate::agent::tools::result::{ToolCallResult, check_result_schema};
use ensemble_core::thread::ToolCallEnd;

/// Parts of a tool result from an MCP server.
struct McpToolResult {
    is_error: bool,
    structured: Option<Value>,
    text: String,
    files: ResultFiles,
}

/// Converts the result of a server to the end of a call of this tool. Adds warnings to the ledger.
pub(crate) fn convert_result(result: CallToolResult, tool: &ServerTool, ledger: &AttemptLedger) -> ToolCallResult {
    let mut files = ResultFiles::default();
    let texts: Vec<String> = result
        .content
        .iter()
        .map(|block| take_block_text(block, &mut files))
        .collect();
    let answer = McpToolResult {
        is_error: result.is_error == Some(true),
        structured: result.structured_content,
        text: texts.join("\n"),
        files,
    };
    answer.into_call_result(tool, ledger)
}

/// Converts a result that the SDK cannot parse, for example with newer kinds of content. Returns `None` if the value is no tool result.
pub(crate) fn convert_unknown_result(
    result: &Value,
    tool: &ServerTool,
    ledger: &AttemptLedger,
) -> Option<ToolCallResult> {
    let content = result.get("content")?.as_array()?;
    let mut files = ResultFiles::default();
    let texts: Vec<String> = content.iter().map(|block| any_block_text(block, &mut files)).collect();
    let answer = McpToolResult {
        is_error: result.get("isError") == Some(&Value::Bool(true)),
        structured: result.get("structuredContent").cloned(),
        text: texts.join("\n"),
        files,
    };
    Some(answer.into_call_result(tool, ledger))
}

impl McpToolResult {
    /// Converts the parts to a call result with its files.
    fn into_call_result(mut self, tool: &ServerTool, ledger: &AttemptLedger) -> ToolCallResult {
        ToolCallResult {
            summary: None,
            attachments: std::mem::take(&mut self.files.0),
            end: self.into_tool_end(tool, ledger),
            answers: Vec::new(),
        }
    }

    /// Returns the structured content as result if it matches the schema of the tool, otherwise the text.
    fn into_tool_end(self, tool: &ServerTool, ledger: &AttemptLedger) -> ToolCallEnd {
        match (self.is_error, self.structured) {
            (true, Some(value)) if self.text.is_empty() => ToolCallEnd::Error(value.to_string()),
            (true, _) if self.text.is_empty() => ToolCallEnd::Error("the tool failed without a message".to_owned()),
            (true, _) => ToolCallEnd::Error(self.text),
            (false, Some(value)) => {
                let schema = tool.output_schema.as_ref().map(OutputSchema::compile).transpose();
                let schema = schema.unwrap_or_else(|error| {
                    ledger.add_warning(format!("the `outputSchema` of `{}` cannot be used: {error}", tool.name));
                    None
                });
                check_result_schema(ToolCallEnd::Result(value), "`outputSchema`", schema.as_ref())
            }
            (false, None) => ToolCallEnd::Result(Value::String(self.text)),
        }
    }
}

/// Converts a content block to text, and moves a file in it to `files`.
fn take_block_text(block: &ContentBlock, files: &mut ResultFiles) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => files.add_or_describe_file("an image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => describe_unshown_content(
            "a sound",
            Some(&audio.mime_type),
            Some(base64_decoded_length(&audio.data)),
        ),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents {
                uri, mime_type, blob, ..
            } => files.add_or_describe_file(&format!("a resource at {uri}"), mime_type.as_deref(), blob),
            _ => describe_unshown_content("a resource of an unknown kind", None, None),
        },
        ContentBlock::ResourceLink(link) => {
            let kind = link.mime_type.as_deref().map(|kind| format!(", {kind}"));
            let size = link.size.map(|bytes| format!(", {bytes} bytes"));
            let about = link.description.as_deref().map(|text| format!(": {text}"));
            let more = [kind, size, about].into_iter().flatten().collect::<String>();
            format!("[{} at {}{more}]", link.name, link.uri)
        }
        other => serde_json::to_value(other).map_or_else(
            |_| describe_unshown_content("content of an unknown kind", None, None),
            |value| describe_unknown_block(&value),
        ),
    }
}

/// Converts a content block of any kind to text, and moves a file in it to `files`.
fn any_block_text(block: &Value, files: &mut ResultFiles) -> String {
    match serde_json::from_value::<ContentBlock>(block.clone()) {
        Ok(content_block) => take_block_text(&content_block, files),
        Err(_) => describe_unknown_block(block),
    }
}

/// Describes a block of an unknown kind: its kind, type, size and address, if present.
fn describe_unknown_block(block: &Value) -> String {
    let word = |key: &str| block.get(key).and_then(Value::as_str);
    let kind = word("type").unwrap_or("unknown");
    let place = word("uri").or_else(|| word("url")).map(|uri| format!(" at {uri}"));
    let description = format!("content of the kind `{kind}`{}", place.unwrap_or_default());
    let encoded = word("data").or_else(|| word("blob")).map(base64_decoded_length);
    let size = block.get("size").and_then(Value::as_u64);
    describe_unshown_content(
        &description,
        word("mimeType"),
        encoded.or(size.map(|size| size as usize)),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(output_schema: Option<Value>) -> ServerTool {
        ServerTool {
            name: "t".into(),
            description: String::new(),
            parameters: json!({}),
            output_schema,
            only_reads: false,
        }
    }

    fn read(ended: ToolCallResult) -> Result<Value, String> {
        match ended.end {
            ToolCallEnd::Result(value) => Ok(value),
            ToolCallEnd::Error(error) => Err(error),
        }
    }

    fn ends(result: Value) -> Result<Value, String> {
        let result = serde_json::from_value(result).expect("a result");
        read(convert_result(result, &tool(None), &AttemptLedger::default()))
    }

    #[test]
    fn answers_become_ends() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "AAECAw==", "mimeType": "image/png"});
        let sound = json!({"type": "audio", "data": "AAEC", "mimeType": "audio/wav"});
        let resource = json!({"type": "resource", "resource": {"uri": "file:///a", "text": "A"}});
        let blob = json!({"type": "resource", "resource": {"uri": "file:///b", "mimeType": "x/y", "blob": "AAEC"}});
        let link = json!({"type": "resource_link", "uri": "file:///c", "name": "c", "description": "about c"});
        let large = json!({"type": "resource_link", "uri": "file:///d", "name": "d", "mimeType": "x/y", "size": 7});
        let table = [
            (json!({"content": [text("a"), text("b")]}), Ok(json!("a\nb"))),
            (json!({"content": []}), Ok(json!(""))),
            // A text is the text that it is, also if it is JSON.
            (json!({"content": [text("{\"n\": 1}")]}), Ok(json!("{\"n\": 1}"))),
            (
                json!({"content": [text("{\"n\": 1}")], "structuredContent": {"n": 1}}),
                Ok(json!({"n": 1})),
            ),
            (json!({"content": [text("no")], "isError": true}), Err("no".to_owned())),
            (
                json!({"content": [], "isError": true}),
                Err("the tool failed without a message".to_owned()),
            ),
            (
                json!({"content": [], "structuredContent": {"n": 1}, "isError": true}),
                Err("{\"n\":1}".to_owned()),
            ),
            (
                json!({"content": [text("see"), image, sound, resource, blob, link, large]}),
                Ok(json!(
                    "see\n[an image, image/png, 4 bytes, which cannot be shown here]\n[a sound, audio/wav, 3 bytes, which \
                     cannot be shown here]\n[file:///a]\nA\n[a resource at file:///b, x/y, 3 bytes, which cannot be shown \
                     here]\n[c at file:///c: about c]\n[d at file:///d, x/y, 7 bytes]"
                )),
            ),
        ];
        for (given, expected) in table {
            assert_eq!(ends(given.clone()), expected, "{given}");
        }
    }

    #[test]
    fn content_of_the_future_is_described() {
        let film = json!({"type": "video", "data": "AAEC", "mimeType": "video/x"});
        let place = json!({"type": "place", "uri": "geo:1,2", "size": 9});
        let content = json!([{"type": "text", "text": "see"}, film, place, {"type": "image"}, 3]);
        let told = "see\n[content of the kind `video`, video/x, 3 bytes, which cannot be shown here]\n[content of the kind \
                    `place` at geo:1,2, 9 bytes, which cannot be shown here]\n[content of the kind `image`, which cannot be \
                    shown here]\n[content of the kind `unknown`, which cannot be shown here]";
        let unknown = |result: Value| convert_unknown_result(&result, &tool(None), &AttemptLedger::default()).map(read);
        assert_eq!(unknown(json!({"content": content})), Some(Ok(json!(told))));
        assert_eq!(
            unknown(json!({"content": [film], "isError": true})).map(|end| end.is_err()),
            Some(true)
        );
        let structured = json!({"content": [film], "structuredContent": [1]});
        assert_eq!(unknown(structured), Some(Ok(json!([1]))));
        assert_eq!(unknown(json!({"tools": []})), None);
    }

    #[test]
    fn structured_content_matches_the_schema_of_the_tool() {
        let call = |schema: Value, result: Value| {
            let ledger = AttemptLedger::default();
            let result = serde_json::from_value(result).expect("a result");
            let end = read(convert_result(result, &tool(Some(schema)), &ledger));
            (end, ledger.take_entries().warnings.len())
        };
        let schema = json!({"type": "object", "required": ["n"]});
        let content = json!([{"type": "text", "text": "t"}]);
        let (end, _) = call(
            schema.clone(),
            json!({"content": content, "structuredContent": {"n": 1}}),
        );
        assert_eq!(end, Ok(json!({"n": 1})));
        let (end, _) = call(
            schema.clone(),
            json!({"content": content, "structuredContent": {"m": 1}}),
        );
        assert!(
            end.as_ref()
                .is_err_and(|error| error.contains("does not match its `outputSchema`: \"n\" is a required property")),
            "{end:?}"
        );
        let (end, _) = call(schema.clone(), json!({"content": content}));
        assert_eq!(
            end,
            Ok(json!("t")),
            "a server that gives no structured content gives its text"
        );
        let (end, _) = call(
            schema,
            json!({"content": content, "structuredContent": {}, "isError": true}),
        );
        assert_eq!(end, Err("t".to_owned()), "an error is not checked");
        let (end, warnings) = call(
            json!({"type": "nmber"}),
            json!({"content": [], "structuredContent": {"n": 1}}),
        );
        assert_eq!((end, warnings), (Ok(json!({"n": 1})), 1));
    }
}
