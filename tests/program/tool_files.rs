//! Images and PDFs in the results of tools: how each provider gets them, and where they are recorded and shown.

use serde_json::{Value, json};

use crate::support::Workspace;
use crate::support::server::{Answer, Asked, Part, Server, answer, events, head, ollama_says, says};

/// `GIF89atiny`, and `%PDF-1.4 tiny`.
const GIF: &str = "R0lGODlhdGlueQ==";
const PDF: &str = "JVBERi0xLjQgdGlueQ==";

/// A server of tools with one tool, `look`, whose answer is the file `answer.json`.
const CAMERA: &str = r#"
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    say() { printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; printf '%s' "$1"; printf '}\n'; }
    case "$line" in
    *'"method":"initialize"'*)
        say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}' ;;
    *'"method":"tools/list"'*)
        say '{"tools":[{"name":"look","description":"d","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        echo x >> looked.txt
        printf '{"jsonrpc":"2.0","id":%s,"result":' "$id"; cat answer.json; printf '}\n' ;;
    esac
done
"#;

fn image(data: &str) -> Value {
    json!({"type": "image", "mimeType": "image/gif", "data": data})
}

fn document(data: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": "file:///b.pdf", "mimeType": "application/pdf", "blob": data}})
}

/// A workspace in which the model of this profile looks, with this content in the answer.
fn looking(profile: &str, content: &[Value]) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("camera.sh", CAMERA);
    let text = json!({"type": "text", "text": "see"});
    let content: Vec<&Value> = std::iter::once(&text).chain(content).collect();
    workspace.write("answer.json", json!({"content": content}).to_string());
    workspace.write(
        "a.yaml",
        format!(
            "name: looking\nagents:\n  - {{name: a, model_profile: m, prompt: Look., tools: [cam], conversation: {{memory: conversation}}}}\n\
             model_profiles:\n  m: {{{profile}, retry: {{max_attempts: 1}}}}\ntools:\n  cam: {{permission: allow, mcp: \
             {{command: [sh, camera.sh]}}}}\n"
        ),
    );
    workspace
}

/// The model calls the tool once, with the first request.
fn calls(dialect: &str) -> Answer {
    let event = |event: Value| event.to_string();
    match dialect {
        "anthropic" => events(&[
            &event(json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "tool_use", "id": "c1", "name": "cam__look", "input": {}}})),
            &event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})),
            &event(json!({"type": "message_stop"})),
        ]),
        "gemini" => {
            let part = json!({"functionCall": {"name": "cam__look", "args": {}}});
            events(&[&event(
                json!({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}),
            )])
        }
        "ollama" => {
            let call = json!({"function": {"name": "cam__look", "arguments": {}}});
            let said = json!({"message": {"content": "", "tool_calls": [call]}, "done": true, "done_reason": "stop"});
            vec![
                head("application/x-ndjson"),
                Part::Bytes(format!("{said}\n").into_bytes()),
            ]
        }
        _ => {
            let call = json!({"index": 0, "id": "c1", "function": {"name": "cam__look", "arguments": "{}"}});
            events(&[
                &event(json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})),
                "[DONE]",
            ])
        }
    }
}

fn ends(dialect: &str) -> Answer {
    let event = |event: Value| event.to_string();
    match dialect {
        "anthropic" => events(&[
            &event(
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I see."}}),
            ),
            &event(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
            &event(json!({"type": "message_stop"})),
        ]),
        "gemini" => events(&[&event(
            json!({"candidates": [{"content": {"parts": [{"text": "I see."}]}, "finishReason": "STOP"}]}),
        )]),
        "ollama" => ollama_says("I see."),
        _ => says("I see."),
    }
}

fn model(dialect: &str, server: &Server) -> String {
    format!("provider: {dialect}, model: x, base_url: '{}'", server.url())
}

/// What the second request had at this JSON pointer after `look` gave an image and a PDF.
fn told(dialect: &'static str) -> (Value, Value) {
    let server = Server::new(move |nth, _| if nth == 0 { calls(dialect) } else { ends(dialect) });
    let workspace = looking(&model(dialect, &server), &[image(GIF), document(PDF)]);
    let result = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!(
        result["conversation_history"][0]["output_data"]["response"], "I see.",
        "{result:#}"
    );
    (server.asked()[1].body.clone(), result)
}

#[test]
fn every_provider_gets_the_files_of_a_result_in_its_own_form() {
    let words = "see\n[an image, image/gif, 10 bytes, attached as file-1.gif]\n[a resource at file:///b.pdf, \
                 application/pdf, 13 bytes, attached as file-2.pdf]";
    let names = "From the result of `cam__look`: file-1.gif, file-2.pdf";

    let (body, result) = told("anthropic");
    let source = |kind: &str, data: &str| json!({"type": "base64", "media_type": kind, "data": data});
    let mut content = body["messages"][2]["content"][0]["content"].clone();
    content.as_array_mut().expect("blocks").iter_mut().for_each(|block| {
        block.as_object_mut().expect("a block").remove("cache_control");
    });
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": words},
            {"type": "image", "source": source("image/gif", GIF)},
            {"type": "document", "title": "file-2.pdf", "source": source("application/pdf", PDF)},
        ])
    );
    assert_eq!(result["warnings"], json!([]));

    let (body, _) = told("openai");
    assert_eq!(
        body["messages"][2],
        json!({"role": "tool", "tool_call_id": "c1", "content": words})
    );
    let url = format!("data:image/gif;base64,{GIF}");
    let file = json!({"filename": "file-2.pdf", "file_data": format!("data:application/pdf;base64,{PDF}")});
    assert_eq!(
        body["messages"][3],
        json!({"role": "user", "content": [
            {"type": "text", "text": names},
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "file", "file": file},
        ]})
    );

    let (body, _) = told("gemini");
    let inline = |kind: &str, data: &str| json!({"inlineData": {"mimeType": kind, "data": data}});
    assert_eq!(
        body["contents"][2]["parts"],
        json!([
            {"functionResponse": {"name": "cam__look", "response": {"result": words}}},
            {"text": names},
            inline("image/gif", GIF),
            inline("application/pdf", PDF),
        ])
    );

    let (body, result) = told("ollama");
    let said = &body["messages"][2];
    assert_eq!((&said["role"], &said["images"]), (&json!("tool"), &json!([GIF])));
    let described = format!("{words}\n[file-2.pdf, application/pdf, 13 bytes, cannot be shown here]");
    assert_eq!(
        said["content"],
        json!(described),
        "what Ollama does not take is told in words"
    );
    let warning = "a: the result of `cam__look` has a file of the type application/pdf, which the provider does not support: \
                   the file was replaced by a description";
    assert_eq!(result["warnings"], json!([warning]));
    // Three requests have the trouble, and it is told once.
    let server = Server::new(|nth, _| if nth < 3 { calls("ollama") } else { ends("ollama") });
    let workspace = looking(&model("ollama", &server), &[document(PDF)]);
    let result = workspace
        .run(["run", "a.yaml", "--output", "json"])
        .expect_code(0)
        .json();
    assert_eq!((server.asked().len(), &result["warnings"]), (4, &json!([warning])));
}

/// A server whose model takes no images, and says so in these words.
fn blind(status: &'static str, words: &'static str) -> Server {
    Server::new(move |_, asked: &Asked| {
        let text = asked.body.to_string();
        match text.contains("image_url") {
            true => answer(status, &[], &json!({"error": {"message": words}}).to_string()),
            false if text.contains("\"tool\",\"tool_call_id\"") || text.contains("\"role\":\"tool\"") => {
                says("I read.")
            }
            false => calls("openai"),
        }
    })
}

#[test]
fn a_model_that_takes_no_images_is_told_of_them_in_words_and_that_is_told_once() {
    for (status, words) in [
        (
            "400 Bad Request",
            "Invalid content type. image_url is only supported by certain models.",
        ),
        ("404 Not Found", "No endpoints found that support image input"),
        (
            "500 Internal Server Error",
            "image input is not supported - hint: you may need to provide the mmproj",
        ),
        (
            "422 Unprocessable Entity",
            "unknown variant `image_url`, expected `text`",
        ),
    ] {
        let server = blind(status, words);
        let workspace = looking(&model("openai", &server), &[image(GIF)]);
        let arguments = ["run", "a.yaml", "--output", "json", "--then", "again"];
        let result = workspace.run(arguments).expect_code(0).json();
        assert_eq!(
            result["conversation_history"][0]["output_data"]["response"], "I read.",
            "{result:#}"
        );
        let warnings = result["warnings"].as_array().expect("warnings");
        assert_eq!(warnings.len(), 1, "{status}: {warnings:?}");
        let warning = warnings[0].as_str().expect("a text");
        assert!(warning.contains("does not support files in tool results"), "{warning}");
        let asked = server.asked();
        assert_eq!(asked.len(), 4, "the second message knows it");
        let said = asked[2].body["messages"][2]["content"].as_str().expect("a text");
        assert!(
            said.ends_with("[file-1.gif, image/gif, 10 bytes, cannot be shown here]"),
            "{said}"
        );
    }
}

#[test]
fn a_result_with_a_file_is_recorded_and_shown_without_its_bytes() {
    let data = "R0lGODlh".to_owned() + &"AAAA".repeat(30_000);
    let replies = "provider: simulated, replies: [{tool_calls: [{name: cam__look}]}, I see.]";
    let workspace = looking(replies, &[image(&data)]);
    workspace.run(["run", "a.yaml"]).expect_code(0);
    let shown = workspace.run(["runs", "show", "--messages"]).expect_code(0).stdout;
    let lines = "    ← cam__look: see\n    [an image, image/gif, 90006 bytes, attached as file-1.gif]\n    file file-1.gif \
                 (image/gif, 90006 bytes)\n";
    assert!(shown.contains(lines), "{shown}");
    let json = workspace
        .run(["runs", "show", "--messages", "--output", "json"])
        .expect_code(0);
    assert!(json.stdout.len() < 8_000, "{}", json.stdout.len());
    let file = json.json()[0]["iterations"][0]["tool_calls"][0]["attachments"][0].clone();
    let keys = ["name", "mime_type", "size"].map(|key| file[key].clone());
    assert_eq!(keys, [json!("file-1.gif"), json!("image/gif"), json!(90_006)]);
    assert_eq!(file.get("data"), None);
    // The record that it names has the bytes.
    let record = file["record"].as_u64().expect("a number");
    let events = workspace
        .run(["runs", "show", "--output", "events"])
        .expect_code(0)
        .stdout;
    let line = events
        .lines()
        .find(|line| line.starts_with(&format!("{{\"seq\":{record},")));
    assert!(line.expect("the record").contains(&data));
    // The journal has it once, beside its lines.
    let journal = workspace.runs()[0].join("journal.jsonl");
    let journal = workspace.read(&journal.to_string_lossy());
    assert!(journal.len() < 20_000, "{}", journal.len());
    let run = workspace.run(["runs", "show", "--output", "json"]).expect_code(0);
    assert!(run.stdout.len() < 20_000, "{}", run.stdout.len());
    for format in ["html", "markdown"] {
        let page = workspace
            .run(["runs", "export", "--format", format])
            .expect_code(0)
            .stdout;
        assert!(page.contains("file-1.gif") && !page.contains(&data), "{format}");
    }
    workspace.run(["replay", "--last"]).expect_code(0);
}

#[test]
fn a_run_that_goes_on_sends_the_file_again_and_does_not_call_the_tool_again() {
    let server = Server::new(|nth, _| match nth {
        0 => calls("openai"),
        1 => answer("400 Bad Request", &[], "no"),
        _ => says("I see."),
    });
    let workspace = looking(&model("openai", &server), &[image(GIF)]);
    workspace.run(["run", "a.yaml"]).expect_code(1);
    workspace.run(["continue", "--last", "and now?"]).expect_code(0);
    let asked = server.asked();
    let image = &asked[2].body["messages"][3]["content"][1]["image_url"]["url"];
    assert_eq!(
        image,
        &json!(format!("data:image/gif;base64,{GIF}")),
        "{:#}",
        asked[2].body
    );
    assert_eq!(workspace.read("looked.txt"), "x\n");
}
