//! `/v1/chat/completions`: to which run messages belong, also after the server was killed.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;

use super::ui_chat::{complete, reply, request, workspace};
use crate::support::page::{Page, bearer};
use crate::support::{Workspace, eventually, records};
use serde_json::{Value, json};

/// An ensemble whose first agent notes in `done` that it ran, and whose second one waits for the file `open`.
fn with_work() -> Workspace {
    let workspace = workspace();
    workspace.write(
        "ensembles/work.yaml",
        "name: work\nagents:\n  - {name: first, script: first.sh}\n  - {name: second, script: \
         second.sh, depends_on: [first]}\n",
    );
    workspace.script(
        "ensembles/first.sh",
        "#!/bin/sh\necho first >> done\necho '{\"response\": \"noted\"}'\n",
    );
    workspace.script(
        "ensembles/second.sh",
        "#!/bin/sh\necho second >> done\nwhile ! [ -e open ]; do sleep 0.02; done\necho '{\"response\": \"finished\"}'\n",
    );
    workspace
}

/// Sends messages, waits until the second agent works on them, and does so with the server.
fn end_in_the_middle(workspace: &Workspace, page: Page, messages: &[(&str, &str)], signal: &str) {
    let before = done(workspace).len();
    let _ = std::fs::remove_file(workspace.path().join("open"));
    let body = request("work", messages).to_string();
    let stream: TcpStream = page.send("POST", "/v1/chat/completions", &[&bearer()], &body);
    eventually("the second agent", || {
        let done = done(workspace);
        (done.len() > before && done.last().is_some_and(|last| last == "second")).then_some(())
    });
    end(page, signal);
    drop(stream);
    workspace.write("open", "");
}

fn end(mut page: Page, signal: &str) {
    page.server.signal(signal);
    page.server.0.wait().expect("the server ends");
}

/// Which agents have begun, in order.
fn done(workspace: &Workspace) -> Vec<String> {
    let done = std::fs::read_to_string(workspace.path().join("done")).unwrap_or_default();
    done.lines().map(str::to_owned).collect()
}

/// The input of a run and the messages that were added.
fn said(run: &Path) -> Vec<String> {
    let records = records(&run.join("journal.jsonl"));
    let texts = records.iter().filter_map(|record| match record["event"].as_str() {
        Some("run_started") => record["data"]["input"].as_str(),
        Some("message_added") => record["data"]["text"].as_str(),
        _ => None,
    });
    texts.map(str::to_owned).collect()
}

/// The id of the first run.
fn first_run(workspace: &Workspace) -> String {
    workspace.runs()[0].file_name().expect("a name").display().to_string()
}

/// The reply of the first run, which the request names.
#[track_caller]
fn reply_of_first(workspace: &Workspace, page: &Page, model: &str, messages: &[(&str, &str)]) -> String {
    let mut body = request(model, messages);
    body["metadata"] = json!({"run": first_run(workspace)});
    let answer = complete(page, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = answer.json();
    assert_eq!(document["metadata"], body["metadata"]);
    document["choices"][0]["message"]["content"]
        .as_str()
        .expect("a text")
        .to_owned()
}

fn all_said(workspace: &Workspace) -> Vec<Vec<String>> {
    workspace.runs().iter().map(|run| said(run)).collect()
}

#[test]
fn a_killed_server_gives_the_missing_reply_when_it_is_asked_again() {
    for signal in ["KILL", "INT"] {
        let workspace = with_work();
        end_in_the_middle(&workspace, Page::start(&workspace), &[("user", "one")], signal);
        let page = Page::start(&workspace);
        let one = [("user", "one")];
        assert_eq!(reply_of_first(&workspace, &page, "work", &one), "finished", "{signal}");
        assert_eq!(done(&workspace), ["first", "second", "second"], "{signal}");
        assert_eq!(all_said(&workspace), [["one"]], "{signal}");

        // In the middle of a later message, and the client goes on with what it has got of the reply.
        let two = [("user", "one"), ("assistant", "finished"), ("user", "two")];
        end_in_the_middle(&workspace, page, &two, signal);
        let page = Page::start(&workspace);
        let three = [&two[..], &[("assistant", "fin"), ("user", "three")]].concat();
        assert_eq!(
            reply_of_first(&workspace, &page, "work", &three),
            "finished",
            "{signal}"
        );
        assert_eq!(all_said(&workspace), [["one", "two", "three"]], "{signal}");
        assert_eq!(
            done(&workspace)[3..],
            ["first", "second", "second", "first", "second"],
            "{signal}"
        );
    }
}

#[test]
fn the_same_words_once_more_begin_a_new_conversation() {
    let workspace = with_work();
    end_in_the_middle(&workspace, Page::start(&workspace), &[("user", "one")], "KILL");
    let page = Page::start(&workspace);
    let one = [("user", "one")];
    assert_eq!(reply_of_first(&workspace, &page, "work", &one), "finished");
    for runs in 2..=3 {
        assert_eq!(reply(&page, "work", &one), "finished");
        assert_eq!(workspace.runs().len(), runs);
    }
}

#[test]
fn what_a_person_has_stopped_on_the_page_is_not_taken_up() {
    let workspace = with_work();
    let page = Page::start(&workspace);
    let body = request("work", &[("user", "one")]).to_string();
    let _stream = page.send("POST", "/v1/chat/completions", &[&bearer()], &body);
    eventually("the second agent", || (done(&workspace).len() == 2).then_some(()));
    let id = first_run(&workspace);
    page.done("/api/cancel", &serde_json::json!({"id": id}));
    page.follow(&id).until_outcome("cancelled");
    workspace.write("open", "");
    end(page, "KILL");
    assert_eq!(reply(&Page::start(&workspace), "work", &[("user", "one")]), "finished");
    assert_eq!(done(&workspace), ["first", "second", "first", "second"]);
}

#[test]
fn a_reply_that_was_finished_while_nobody_listened_is_given() {
    let workspace = with_work();
    end_in_the_middle(&workspace, Page::start(&workspace), &[("user", "one")], "KILL");
    let id = first_run(&workspace);
    workspace.run(["resume", &id, "--quiet"]).expect_code(0);
    let page = Page::start(&workspace);
    assert_eq!(
        reply_of_first(&workspace, &page, "work", &[("user", "one")]),
        "finished"
    );
    assert_eq!(done(&workspace), ["first", "second", "second"]);
}

#[test]
fn a_named_conversation_goes_on_after_the_server_was_killed_and_in_another_one() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let mut messages = vec![("user".to_owned(), "one".to_owned())];
    let ask = |page: &Page, messages: &mut Vec<(String, String)>, next: &str| {
        let all: Vec<(&str, &str)> = messages.iter().map(|(role, text)| (&**role, &**text)).collect();
        let answer = match all.len() {
            1 => reply(page, "echo", &all),
            _ => reply_of_first(&workspace, page, "echo", &all),
        };
        messages.push(("assistant".to_owned(), answer.clone()));
        messages.push(("user".to_owned(), next.to_owned()));
        answer
    };
    ask(&page, &mut messages, "two");
    end(page, "KILL");
    let page = Page::start(&workspace);
    let second = ask(&page, &mut messages, "three");
    assert!(second.contains("one") && second.contains("two"), "{second}");
    let other = Page::start(&workspace);
    ask(&other, &mut messages, "four");
    let fourth = ask(&page, &mut messages, "five");
    assert!(fourth.contains("three") && fourth.contains("four"), "{fourth}");
    assert_eq!(all_said(&workspace), [["one", "two", "three", "four"]]);
}

#[test]
fn without_an_id_a_conversation_begins_anew_after_a_restart() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let one = reply(&page, "echo", &[("user", "one")]);
    end(page, "KILL");
    let two = [("user", "one"), ("assistant", &*one), ("user", "two")];
    reply(&Page::start(&workspace), "echo", &two);
    assert_eq!(workspace.runs().len(), 2);
}

#[test]
fn a_run_that_does_not_fit_the_messages_is_an_error() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let one = reply(&page, "echo", &[("user", "one")]);
    let named = |model: &str, run: &str, messages: &[(&str, &str)]| {
        let mut body = request(model, messages);
        body["metadata"] = json!({"run": run});
        complete(&page, &body)
    };
    let id = first_run(&workspace);
    let edited = [("user", "once"), ("assistant", &*one), ("user", "two")];
    let fits = [("user", "one"), ("assistant", &*one), ("user", "two")];
    let answers = [
        (named("echo", &id, &edited), 400),
        (named("gate", &id, &fits), 400),
        (named("echo", "zzzz-20200101-000000000", &fits), 404),
    ];
    for (answer, status) in answers {
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn a_question_that_was_open_is_answered_after_the_kill() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let question = reply(&page, "gate", &[("user", "go")]);
    end(page, "KILL");
    let page = Page::start(&workspace);
    let asked = [("user", "go"), ("assistant", &question)];
    // An answer that is none of the choices is asked for again, and the kill comes between them.
    let refused = [&asked[..], &[("user", "perhaps")]].concat();
    assert_eq!(reply_of_first(&workspace, &page, "gate", &refused), question);
    let again = [&refused[..], &[("assistant", &question), ("user", "2")]].concat();
    let answer = reply_of_first(&workspace, &page, "gate", &again);
    assert!(answer.contains("no"), "{answer}");
    end(page, "KILL");
    let page = Page::start(&workspace);
    let next = [&again[..], &[("assistant", &answer), ("user", "more")]].concat();
    assert_eq!(reply_of_first(&workspace, &page, "gate", &next), question);
    assert_eq!(all_said(&workspace), [["go", "more"]]);
}

#[test]
fn two_conversations_with_the_same_beginning_stay_apart_and_an_edited_one_begins_anew() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let hello = [("user", "hello")];
    let first = reply(&page, "echo", &hello);
    assert_eq!(reply(&page, "echo", &hello), first);
    let with = |next: &'static str| [("user", "hello"), ("assistant", &*first), ("user", next)];
    let cat = reply(&page, "echo", &with("cat"));
    let dog = reply(&page, "echo", &with("dog"));
    assert!(
        cat.contains("cat") && dog.contains("dog") && !dog.contains("cat"),
        "{cat} {dog}"
    );
    assert_eq!(workspace.runs().len(), 2);
    // No run stands after `hello` any more.
    let owl = reply(&page, "echo", &with("owl"));
    assert!(
        owl.contains("user: hello") && owl.contains("owl") && !owl.contains("cat"),
        "{owl}"
    );
    assert_eq!(workspace.runs().len(), 3);
}

/// Questions inside of an inner run are not in the journal of the outer one: the answer is found while the run asks.
#[test]
fn an_open_question_of_an_inner_ensemble_is_answered_after_the_kill() {
    let workspace = workspace();
    workspace.write(
        "ensembles/outer.yaml",
        "name: outer\nagents: [{name: inner, ensemble: gate}]\n",
    );
    let page = Page::start(&workspace);
    let question = reply(&page, "outer", &[("user", "go")]);
    end(page, "KILL");
    let page = Page::start(&workspace);
    let answered = [("user", "go"), ("assistant", &question), ("user", "yes")];
    let answer = reply_of_first(&workspace, &page, "outer", &answered);
    assert!(answer.contains("yes"), "{answer}");
    assert_eq!(workspace.runs().len(), 1);
}

#[test]
fn a_call_that_waits_for_permission_is_decided_after_the_kill() {
    for (decision, is_written) in [("yes", true), ("no", false)] {
        let workspace = workspace();
        workspace.write(
            "ensembles/w.yaml",
            "name: w\nagents: [{name: a, model_profile: m, tools: [write]}]\nmodel_profiles:\n  m:\n    provider: \
             simulated\n    replies:\n      - {text: t, tool_calls: [{name: write, arguments: {n: 4}}]}\n      - done\ntools:\n  \
             write: {script: \"echo w >> written.txt\", parameters: {type: object}, permission: ask}\n",
        );
        let page = Page::start(&workspace);
        let wanted = reply(&page, "w", &[("user", "go")]);
        assert_eq!(wanted, "a wants to call write with {\"n\":4}. Allow it? (yes, no)");
        end(page, "KILL");
        let page = Page::start(&workspace);
        let decided = [("user", "go"), ("assistant", &wanted), ("user", decision)];
        assert_eq!(reply_of_first(&workspace, &page, "w", &decided), "done");
        assert_eq!(workspace.path().join("written.txt").exists(), is_written, "{decision}");
        end(page, "KILL");
        let next = [&decided[..], &[("assistant", "done"), ("user", "more")]].concat();
        reply_of_first(&workspace, &Page::start(&workspace), "w", &next);
        assert_eq!(all_said(&workspace), [["go", "more"]]);
    }
}

#[test]
fn what_was_used_before_the_kill_is_counted() {
    let workspace = with_work();
    workspace.write(
        "ensembles/paid.yaml",
        "name: paid\nagents:\n  - {name: it, model_profile: m}\n  - {name: second, script: second.sh, depends_on: [it]}\n\
         model_profiles: {m: {provider: simulated, replies: [some words]}}\n",
    );
    let page = Page::start(&workspace);
    let body = request("paid", &[("user", "one")]);
    let _stream = page.send("POST", "/v1/chat/completions", &[&bearer()], &body.to_string());
    eventually("the second agent", || (done(&workspace).len() == 1).then_some(()));
    end(page, "KILL");
    workspace.write("open", "");
    let page = Page::start(&workspace);
    let usage = |body: &Value| complete(&page, body).json()["usage"].clone();
    let mut named = body.clone();
    named["metadata"] = json!({"run": first_run(&workspace)});
    let (cut, whole) = (usage(&named), usage(&body));
    assert!(
        whole["total_tokens"].as_u64().is_some_and(|tokens| tokens > 0),
        "{whole}"
    );
    assert_eq!(cut, whole);
}

#[test]
fn later_messages_that_are_sent_twice_get_one_reply() {
    let workspace = with_work();
    workspace.write("open", "");
    let page = Page::start(&workspace);
    let one = reply(&page, "work", &[("user", "one")]);
    std::fs::remove_file(workspace.path().join("open")).expect("removed");
    let mut body = request("work", &[("user", "one"), ("assistant", &one), ("user", "two")]);
    body["stream"] = true.into();
    let streams: Vec<BufReader<TcpStream>> = (0..2)
        .map(|_| {
            let stream = page.send("POST", "/v1/chat/completions", &[&bearer()], &body.to_string());
            let mut stream = BufReader::new(stream);
            // It listens to a run when its first frame is there.
            let mut line = String::new();
            while !line.starts_with("data: ") {
                line.clear();
                assert!(stream.read_line(&mut line).expect("a line") > 0, "it has ended");
            }
            stream
        })
        .collect();
    workspace.write("open", "");
    for mut stream in streams {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("a stream");
        assert!(rest.contains("finished") && rest.contains("[DONE]"), "{rest}");
    }
    assert_eq!(all_said(&workspace), [["one", "two"]]);
    assert_eq!(done(&workspace).len(), 4);
}
