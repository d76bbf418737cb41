//! The tools of `ensemble mcp` for authors: they tell a client nothing of files outside of the served folder, and quote no file that is
//! not an ensemble.

use crate::support::Workspace;
use crate::support::mcp_client::{Client, document};
use serde_json::{Value, json};

const SECRET: &str = "hunter2";

/// A served folder `in`, and files around it that are none of its client's business.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("secret.txt", format!("root:x:0:{SECRET}\npassword: {SECRET}\n"));
    workspace.write(
        "outer.yaml",
        format!("name: outer\nagents: [{{name: {SECRET}, script: echo, depends_on: [x]}}]\n"),
    );
    workspace.write("outer.rhai", format!("let {SECRET} = ;"));
    workspace.write("in/.env", format!("KEY={SECRET}\n"));
    workspace.write("in/config.yaml", format!("password: [{SECRET}\n"));
    workspace.write("in/list.yaml", format!("- {SECRET}\n"));
    workspace.write("in/good.yaml", "name: good\nagents: [{name: a, script: echo}]\n");
    for (link, target) in [
        ("linked.yaml", "../outer.yaml"),
        ("linked.rhai", "../outer.rhai"),
        ("up", ".."),
    ] {
        std::os::unix::fs::symlink(target, workspace.path().join("in").join(link)).expect("a link");
    }
    workspace
}

/// The texts of ensembles that name the path in each place at which a path can stand.
fn texts(path: &str) -> Vec<String> {
    let agents = [
        format!("{{name: a, ensemble: '{path}'}}"),
        format!("{{name: a, script: '{path}'}}"),
        format!("{{name: a, script: 'python3 {path}'}}"),
        format!("{{name: a, script: 'cat <{path} | sh'}}"),
        format!("{{name: a, script: echo, args: ['{path}']}}"),
        format!("{{name: a, model_profile: p, prompt: x, attachments: ['{path}']}}"),
        format!("{{name: a, input: {{prompt: x, responses: {{script: '{path}'}}}}}}"),
        format!("{{name: a, script: 'echo x', sandbox: {{read: ['{path}'], write: ['{path}/x']}}}}"),
    ];
    let profile = "model_profiles: {p: {provider: simulated, replies: [x]}}";
    let mut texts: Vec<String> = agents
        .iter()
        .map(|agent| format!("name: t\n{profile}\nagents: [{agent}]\n"))
        .collect();
    let tools = [
        format!("{{description: d, script: '{path}'}}"),
        format!("{{description: d, ensemble: '{path}'}}"),
        format!("{{mcp: {{command: ['{path}', '{path}']}}}}"),
        format!("{{mcp: {{command: 'sh {path}'}}}}"),
    ];
    for tool in tools {
        texts.push(format!(
            "name: t\n{profile}\ntools: {{x: {tool}}}\nagents: [{{name: a, model_profile: p, prompt: x, tools: [x]}}]\n"
        ));
    }
    texts
}

/// What a call returns, as text. A place in a text is a number that tells nothing.
fn reply(client: &mut Client, tool: &str, arguments: Value) -> String {
    client.call(tool, arguments).to_string()
}

#[test]
fn what_is_outside_is_the_same_as_what_is_not_there() {
    let workspace = workspace();
    let mut client = Client::start(&workspace, &["in"], json!({}));
    for (there, missing) in [
        ("../secret.txt", "../absent.txt"),
        ("../outer.yaml", "../absent.yaml"),
        ("../outer.rhai", "../absent.rhai"),
        ("up/outer.yaml", "up/absent.yaml"),
        ("up/outer.rhai", "up/absent.rhai"),
        ("/etc/passwd", "/etc/absent"),
    ] {
        for (text, other) in texts(there).into_iter().zip(texts(missing)) {
            for tool in ["validate", "check", "graph"] {
                let found = reply(&mut client, tool, json!({"text": text}));
                let other = reply(&mut client, tool, json!({"text": other})).replace(missing, there);
                assert!(
                    !found.contains(SECRET) && !found.contains("root:"),
                    "{tool} {text}: {found}"
                );
                // Only the length of the path can make a difference.
                let without_digits = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
                assert_eq!(without_digits(&found), without_digits(&other), "{tool}: {text}");
            }
        }
    }
    for link in ["linked.yaml", "linked.rhai"] {
        for text in texts(link) {
            let found = reply(&mut client, "validate", json!({"text": text}));
            assert!(!found.contains(SECRET), "{text}: {found}");
        }
    }
    let told = document(&client.call("validate", json!({"text": texts("../outer.yaml")[0]})));
    let findings = told["diagnostics"].as_array().expect("findings");
    let mut messages = findings.iter().filter_map(|finding| finding["message"].as_str());
    assert!(
        messages.any(|message| message == "`../outer.yaml` is outside of the served folder"),
        "{told:#}"
    );
}

#[test]
fn a_file_that_is_no_ensemble_is_not_quoted_to_a_client() {
    let workspace = workspace();
    let mut client = Client::start(&workspace, &["in"], json!({}));
    for file in [
        ".env",
        "config.yaml",
        "list.yaml",
        "linked.yaml",
        "up/secret.txt",
        "../secret.txt",
        "/etc/passwd",
    ] {
        for tool in ["validate", "check", "graph", "estimate"] {
            let said = reply(&mut client, tool, json!({"ensemble": file}));
            assert!(
                !said.contains(SECRET) && !said.contains("root:"),
                "{tool} {file}: {said}"
            );
            assert!(said.contains("\"isError\":true"), "{tool} {file}: {said}");
        }
        for text in texts(file) {
            let said = reply(&mut client, "validate", json!({"text": text}));
            assert!(!said.contains(SECRET), "{file}: {said}");
        }
    }
    let good = document(&client.call("validate", json!({"ensemble": "good.yaml"})));
    assert_eq!(good["valid"], true, "{good}");
}
