//! Answers on the page: the name that the person gives, questions of nested runs, and what is refused.

use super::ui::{asking, workspace};
use super::ui_chat::{complete, request};
use crate::support::page::Page;
use serde_json::{Value, json};

/// The answer in the record of the run.
fn recorded_answer(workspace: &crate::support::Workspace) -> Value {
    let journal = workspace.journal();
    let mut answers = journal.iter().map(|record| record["data"]["answer"].clone());
    answers.find(Value::is_object).expect("an answer")
}

#[test]
fn the_name_of_the_person_is_recorded_and_shown() {
    for (name, recorded, words) in [
        (
            json!("Ada\u{202e} \u{1b}Lovelace "),
            json!("Ada Lovelace"),
            "the page (Ada Lovelace)",
        ),
        (json!(""), Value::Null, "the page"),
        (Value::Null, Value::Null, "the page"),
        (json!(7), Value::Null, "the page"),
    ] {
        let workspace = workspace();
        let page = Page::start(&workspace);
        let id = asking(&page);
        let mut body = page.answering(&id, "answer", "yes");
        body["user"] = name;
        page.done("/api/answer", &body);
        page.follow(&id).until_outcome("completed");
        let answer = recorded_answer(&workspace);
        assert_eq!(
            (&answer["source"], &answer["user"]),
            (&json!("page"), &recorded),
            "{answer}"
        );
        let detail = page.get(&format!("/api/execution?id={id}&turn=1&agent=editor"));
        assert_eq!(detail["answered_by"], words);
        assert_eq!(detail["execution"]["answer"]["prompt"], "Print it?");
        let shown = workspace.run(["runs", "show", &id]).expect_code(0);
        assert!(
            shown.stdout.contains(&format!("answered by {words}")),
            "{}",
            shown.stdout
        );
    }
}

#[test]
fn the_name_of_a_decision_and_of_a_chat_are_recorded() {
    let workspace = workspace();
    workspace.write(
        "ensembles/w.yaml",
        "name: w\nagents: [{name: a, model_profile: m, tools: [write]}]\nmodel_profiles:\n  m:\n    provider: simulated\n    \
         replies:\n      - {text: t, tool_calls: [{name: write, arguments: {n: 4}}]}\n      - done\ntools:\n  write: {script: \
         \"echo w\", parameters: {type: object}, permission: ask}\n",
    );
    let page = Page::start(&workspace);
    let id = page.done("/api/start", &json!({"ensemble": "w", "input": "go"}))["id"].clone();
    let id = id.as_str().expect("an id");
    page.follow(id)
        .until(|_, data| data["head"]["waiting"]["permissions"][0]["permission"]["tool"] == "write");
    let mut body = page.answering(id, "decision", "once");
    body["user"] = json!("Grace");
    page.done("/api/permit", &body);
    page.follow(id).until_outcome("completed");
    let journal = workspace.journal();
    let decided = journal.iter().find(|record| record["event"] == "permission_decided");
    let decided = decided.expect("a decision")["data"].to_string();
    assert!(decided.contains("\"source\":\"page\",\"user\":\"Grace\""), "{decided}");
    drop(page);

    let workspace = super::ui::workspace();
    let page = Page::start(&workspace);
    let first = complete(&page, &request("gate", &[("user", "go")])).json();
    let question = first["choices"][0]["message"]["content"].as_str().expect("a question");
    let mut body = request("gate", &[("user", "go"), ("assistant", question), ("user", "yes")]);
    body["user"] = json!("bob");
    assert_eq!(complete(&page, &body).status, 200);
    assert_eq!(recorded_answer(&workspace)["user"], "bob");
}

#[test]
fn a_question_of_a_nested_run_is_shown_and_answered_there_too() {
    let workspace = workspace();
    workspace.write(
        "ensembles/outer.yaml",
        "name: outer\nagents: [{name: deep, ensemble: middle}, {name: other, ensemble: gate}]\n",
    );
    workspace.write(
        "ensembles/middle.yaml",
        "name: middle\nagents: [{name: inner, ensemble: gate}]\n",
    );
    let page = Page::start(&workspace);
    let id = page.done("/api/start", &json!({"ensemble": "outer"}))["id"].clone();
    let id = id.as_str().expect("an id");
    page.follow(id).until(|_, data| {
        data["head"]["waiting"]["questions"]
            .as_array()
            .is_some_and(|all| all.len() == 2)
    });
    let questions = |run: &str| -> Vec<Value> {
        let head = page.get(&format!("/api/run?id={}", run.replace('/', "%2F")));
        head["waiting"]["questions"].as_array().expect("a list").clone()
    };
    // Each run shows the questions inside of it, and no others.
    let (deep, other) = (format!("{id}/sub/deep-1-1"), format!("{id}/sub/other-1-1"));
    for run in [&deep, &format!("{deep}/sub/inner-1-1")] {
        let asked = questions(run);
        assert_eq!(asked.len(), 1, "{run}: {asked:?}");
        assert_eq!(
            (&asked[0]["outermost_run"], &asked[0]["address"]),
            (&json!(id), &json!("deep.inner.editor"))
        );
    }
    let asked = questions(&other);
    assert_eq!(asked.len(), 1, "{asked:?}");
    let body = json!({"id": asked[0]["outermost_run"], "address": asked[0]["address"], "digest": asked[0]["digest"], "answer": "no"});
    page.done("/api/answer", &body);
    page.follow(&other).until_outcome("completed");
    assert_eq!(questions(id).len(), 1);
    page.answer(id, "yes");
    page.follow(id).until_outcome("completed");
}

#[test]
fn what_cannot_be_done_with_a_run_is_refused_with_its_reason() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let id = asking(&page);
    let refused = |path: &str, body: Value, status: u16, words: &str| {
        let answer = page.post(path, &body);
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!((answer.status, &*message), (status, words), "{path} {body}");
    };
    let own = |key: &str, value: Value| json!({"id": id, key: value});
    let not_ended =
        |consequence: &str| format!("run {id} has not ended, so {consequence}; stop it, or wait for its end");
    refused(
        "/api/resume",
        own("x", 1.into()),
        409,
        &not_ended("there is nothing to resume"),
    );
    refused(
        "/api/say",
        own("text", "more".into()),
        409,
        &not_ended("no message can be added"),
    );
    refused(
        "/api/fork",
        own("turn", 3.into()),
        409,
        &format!("run {id} has no finished turn 3"),
    );
    let mut wrong = page.answering(&id, "answer", "yes");
    wrong["answer"] = "perhaps".into();
    refused(
        "/api/answer",
        wrong,
        409,
        "`perhaps` is not one of the choices of `editor`: yes, no",
    );
    page.answer(&id, "yes");
    page.follow(&id).until_outcome("completed");
    let ended = format!("run {id} has ended, so there is nothing to resume");
    refused("/api/resume", own("x", 1.into()), 409, &ended);
    let idle = format!("run {id} is not running, so there is nothing to cancel");
    refused("/api/cancel", own("x", 1.into()), 409, &idle);
    let rerun = json!({"id": id, "turn": 9, "agent": "editor"});
    refused(
        "/api/rerun",
        rerun,
        409,
        &format!("editor did not run in turn 9 of run {id}"),
    );
    refused(
        "/api/start",
        json!({"ensemble": "none"}),
        404,
        "there is no ensemble `none` on this page",
    );
    refused("/api/resume", json!({}), 400, "`id` is missing");
    let batch = page.ask("GET", "/api/batch?name=none", &[&crate::support::page::bearer()], "");
    assert_eq!(
        (batch.status, &batch.json()["error"]["message"]),
        (404, &json!("there is no batch none"))
    );
}
