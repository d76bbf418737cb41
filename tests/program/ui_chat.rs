//! `/v1/chat/completions`: ensembles as models.

use crate::support::Workspace;
use crate::support::page::{Answer, Page, bearer};
use serde_json::{Value, json};

pub(super) fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "ensembles/echo.yaml",
        "name: echo\nagents: [{name: it, model_profile: m, conversation: {max_turns: 5}}]\nmodel_profiles: {m: {provider: \
         simulated, script: echo.rhai}}\n",
    );
    workspace.write(
        "ensembles/echo.rhai",
        "let said = []; for one in messages { if one.role == \"user\" { said.push(one.content); } } \"heard \" + said",
    );
    workspace.write(
        "ensembles/gate.yaml",
        "name: gate\nresult: {answer: context.editor.response}\nagents: [{name: editor, input: {prompt: Print it?, choices: ['yes', 'no']}}]\n",
    );
    workspace.write(
        "ensembles/fails.yaml",
        "name: fails\nagents: [{name: it, script: it.rhai}]\n",
    );
    workspace.write("ensembles/it.rhai", "throw \"no luck\"");
    workspace
}

pub(super) fn request(model: &str, messages: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> = messages
        .iter()
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect();
    json!({"model": model, "messages": messages})
}

pub(super) fn complete(page: &Page, body: &Value) -> Answer {
    page.post("/v1/chat/completions", body)
}

#[track_caller]
pub(super) fn reply(page: &Page, model: &str, messages: &[(&str, &str)]) -> String {
    let answer = complete(page, &request(model, messages));
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = answer.json();
    assert_eq!(document["object"], "chat.completion");
    assert_eq!(document["choices"][0]["finish_reason"], "stop");
    let usage = &document["usage"];
    let number = |key: &str| usage[key].as_u64().unwrap_or_else(|| panic!("{key}: {usage}"));
    assert_eq!(
        number("prompt_tokens") + number("completion_tokens"),
        number("total_tokens")
    );
    document["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text")
        .to_owned()
}

#[test]
fn each_ensemble_is_a_model_and_a_conversation_is_one_run() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let models = page.get("/v1/models");
    let names: Vec<&Value> = models["data"]
        .as_array()
        .expect("models")
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(names, ["echo", "fails", "gate"]);
    assert_eq!(page.get("/v1/models/echo")["object"], "model");

    let first = reply(&page, "echo", &[("system", "be brief"), ("user", "one")]);
    assert!(first.contains("one") && !first.contains("brief"), "{first}");
    let second = reply(
        &page,
        "echo",
        &[
            ("system", "be brief"),
            ("user", "one"),
            ("assistant", &first),
            ("user", "two"),
        ],
    );
    assert!(second.contains("one") && second.contains("two"), "{second}");
    assert_eq!(workspace.runs().len(), 1, "the same run goes on");
    // Nobody knows these messages, so they are the input of a new run.
    let other = reply(
        &page,
        "echo",
        &[("user", "six"), ("assistant", "seven"), ("user", "eight")],
    );
    assert!(other.contains("assistant: seven"), "{other}");
    assert_eq!(workspace.runs().len(), 2);
}

#[test]
fn a_stream_has_the_same_text_and_the_usage_if_it_is_wanted() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    for wants_usage in [false, true] {
        let mut body = request("echo", &[("user", "one")]);
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": wants_usage});
        let answer = complete(&page, &body);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        let frames: Vec<&str> = answer
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .collect();
        assert_eq!(frames.last(), Some(&"[DONE]"), "{answer:?}");
        let chunks: Vec<Value> = frames[..frames.len() - 1]
            .iter()
            .map(|frame| serde_json::from_str(frame).expect("JSON"))
            .collect();
        assert!(
            chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"),
            "{chunks:?}"
        );
        assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
        let deltas = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
        assert_eq!(deltas.collect::<String>(), reply(&page, "echo", &[("user", "one")]));
        let finish: Vec<&Value> = chunks
            .iter()
            .map(|chunk| &chunk["choices"][0]["finish_reason"])
            .filter(|one| !one.is_null())
            .collect();
        assert_eq!(finish, ["stop"]);
        assert_eq!(chunks.iter().any(|chunk| chunk["usage"].is_object()), wants_usage);
    }
}

#[test]
fn a_question_is_a_reply_and_the_next_message_is_its_answer() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let question = reply(&page, "gate", &[("user", "go")]);
    assert_eq!(question, "Print it? (yes, no)");
    let answer = reply(
        &page,
        "gate",
        &[("user", "go"), ("assistant", &question), ("user", "yes")],
    );
    assert_eq!(answer, "yes");
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn errors_have_the_form_that_clients_know() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let image = json!({"model": "echo", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]});
    let parts =
        json!({"model": "echo", "messages": [{"role": "user", "content": [{"type": "text", "text": "in parts"}]}]});
    assert!(complete(&page, &parts).body.contains("in parts"));
    for (body, status, code, words) in [
        (
            request("nobody", &[("user", "one")]),
            404,
            "model_not_found",
            "there is no ensemble `nobody`",
        ),
        (
            request("echo", &[]),
            400,
            "bad_request",
            "the last message must have the role `user`",
        ),
        (
            request("echo", &[("tool", "x")]),
            400,
            "bad_request",
            "the role `tool` is not supported; use `user`, `assistant` or `system`",
        ),
        (image, 400, "bad_request", "the message part `image_url`"),
        (
            request("fails", &[("user", "one")]),
            502,
            "run_failed",
            "ended as agent_failed",
        ),
    ] {
        let answer = complete(&page, &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code, "{body}");
        assert!(
            error["message"].as_str().is_some_and(|message| message.contains(words)),
            "{error}"
        );
        assert!(error["type"].is_string() && error.get("param").is_some(), "{error}");
    }
    let unknown = page.ask(
        "POST",
        "/v1/chat/completions",
        &["authorization: Bearer sk-wrong"],
        "{}",
    );
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (401, &json!("no_token"))
    );
    assert_eq!(page.ask("GET", "/v1/models/nobody", &[&bearer()], "").status, 404);
}
