//! The environment of child processes, and the values in it that nobody may see.

#![expect(clippy::disallowed_methods, reason = "tests read what a run has left behind")]

use crate::support::server::{Server, answer, says};
use crate::support::{Outcome, Running, Workspace};

const KEY: &str = "sk-of-the-user-0123456789";
const SIGNATURE: &str = "signed-9876543210";
const OTHER: &str = "wiki-0123498765";

/// The program with the user's keys in its environment.
fn run(workspace: &Workspace, arguments: &[&str]) -> Outcome {
    let mut command = workspace.command(arguments);
    command
        .env("OPENAI_API_KEY", KEY)
        .env("MY_SIGNATURE", SIGNATURE)
        .env("WIKI_TOKEN", OTHER)
        .env("PLAIN", "plain-0123456789")
        .env("LC_TIME", "C");
    Running(command.spawn().expect("the program starts")).finish()
}

/// All that the only run has left behind, and what it shows.
fn traces(workspace: &Workspace) -> Vec<String> {
    let mut all = vec![run(workspace, &["runs", "show", "--last", "-v", "--messages"]).stdout];
    for form in ["json", "markdown", "html"] {
        all.push(run(workspace, &["runs", "export", "--last", "--output", form]).stdout);
    }
    let mut folders = workspace.runs();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
        {
            match entry.is_dir() {
                true => folders.push(entry),
                // The ensemble is as its author wrote it.
                false if entry.ends_with("ensemble.yaml") => {}
                false => all.push(std::fs::read_to_string(&entry).unwrap_or_default()),
            }
        }
    }
    all
}

fn assert_secret(texts: &[String], secrets: &[&str]) {
    for text in texts {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn a_script_has_the_users_environment_without_keys() {
    let workspace = Workspace::new();
    workspace.script("seen.sh", "#!/bin/sh\nenv > \"seen-$ENSEMBLE_AGENT_NAME\"\n");
    workspace.write(
        "one.yaml",
        "name: one\nagents:\n  - {name: bare, script: seen.sh}\n  - {name: keyed, script: seen.sh, env: [OPENAI_API_KEY, NOT_SET]}\n  \
         - {name: named, script: seen.sh, env: {MINE: {env: MY_SIGNATURE, prefix: 'v '}, LEVEL: warn}}\n  \
         - {name: m, model_profile: p, tools: [look]}\n\
         model_profiles:\n  p: {provider: simulated, replies: [{tool_calls: [{name: look}]}, done]}\n  \
         q: {provider: openai, model: m, headers: {X: {env: MY_SIGNATURE}}}\n\
         tools:\n  look: {script: seen.sh, env: [WIKI_TOKEN], parameters: {type: object}}\n",
    );
    run(&workspace, &["run", "one.yaml"]).expect_code(0);
    let rows: [(&str, &[&str], &[&str]); 4] = [
        (
            "bare",
            &["PLAIN=", "WIKI_TOKEN=", "HOME="],
            &["OPENAI_API_KEY=", "MY_SIGNATURE="],
        ),
        (
            "keyed",
            &["PLAIN=", &format!("OPENAI_API_KEY={KEY}")],
            &["MY_SIGNATURE=", "NOT_SET"],
        ),
        (
            "named",
            &[&format!("MINE=v {SIGNATURE}"), "LEVEL=warn"],
            &["OPENAI_API_KEY=", "MY_SIGNATURE="],
        ),
        ("m", &["PLAIN=", "WIKI_TOKEN="], &["OPENAI_API_KEY=", "MY_SIGNATURE="]),
    ];
    for (agent, there, gone) in rows {
        let seen = workspace.read(&format!("seen-{agent}"));
        for name in there {
            assert!(seen.contains(name), "{agent}, {name}: {seen}");
        }
        for name in gone {
            assert!(!seen.contains(name), "{agent}, {name}: {seen}");
        }
    }
}

#[test]
fn a_key_for_a_script_needs_trust() {
    let workspace = Workspace::new();
    workspace.script("seen.sh", "#!/bin/sh\ntrue\n");
    let text = |env: &str| format!("name: one\nagents: [{{name: a, script: seen.sh, env: {env}}}]\n");
    for (env, line) in [
        (
            "[OPENAI_API_KEY]",
            Some("agent `a` gives the value of OPENAI_API_KEY to the script `seen.sh`, as OPENAI_API_KEY"),
        ),
        (
            "{K: {env: WIKI_TOKEN}}",
            Some("agent `a` gives the value of WIKI_TOKEN to the script `seen.sh`, as K"),
        ),
        ("[WIKI_TOKEN]", None),
        ("{K: text}", None),
    ] {
        workspace.write("one.yaml", text(env));
        let told = workspace.wary(["run", "one.yaml"], &[("OPENAI_API_KEY", KEY), ("WIKI_TOKEN", OTHER)]);
        assert_eq!(told.code, if line.is_some() { 2 } else { 0 }, "{env}: {told:?}");
        assert!(told.stderr.contains(line.unwrap_or_default()), "{env}: {told:?}");
    }
}

/// A server whose only tool tells the value of a variable, and whose environment is written to a file.
const SERVER: &str = r#"env > seen-server
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
    *tools/list*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"tell","inputSchema":{"type":"object"}}]}}';;
    *tools/call*) echo "said $TOKEN" >&2; echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"it is '$TOKEN'"}]}}';;
  esac
done
"#;

#[test]
fn a_server_has_a_small_environment_and_tells_no_secret() {
    let workspace = Workspace::new();
    workspace.write("server.sh", SERVER);
    workspace.write(
        "one.yaml",
        "name: one\nagents:\n  - {name: a, model_profile: p, tools: [s]}\nmodel_profiles:\n  p: {provider: simulated, script: model.rhai}\n\
         tools:\n  s: {permission: allow, mcp: {command: [sh, server.sh], env: {TOKEN: {env: WIKI_TOKEN}}}}\n",
    );
    workspace.write(
        "model.rhai",
        "let last = messages[messages.len() - 1]; if messages.len() > 1 { if `${messages}`.contains(\"[secret]\") { \"clean\" } else { \"told\" } } else { #{ tool_calls: [#{ name: \"s__tell\" }] } }\n",
    );
    let told = run(&workspace, &["run", "one.yaml", "-v"]).expect_code(0);
    let seen = workspace.read("seen-server");
    for name in [
        "PATH=",
        "HOME=",
        "LANG=",
        "LC_TIME=",
        "TZ=",
        &format!("TOKEN={OTHER}"),
        "ENSEMBLE_RUN_ID=",
    ] {
        assert!(seen.contains(name), "{name}: {seen}");
    }
    for name in [
        "OPENAI_API_KEY",
        "MY_SIGNATURE",
        "WIKI_TOKEN",
        "PLAIN",
        "ENSEMBLE_TRUST",
    ] {
        assert!(!seen.contains(name), "{name}: {seen}");
    }
    let mut texts = traces(&workspace);
    texts.extend([told.stdout, told.stderr]);
    assert_secret(&texts, &[OTHER]);
    let journal = std::fs::read_to_string(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    assert!(
        journal.contains("it is [secret]") && journal.contains("said [secret]"),
        "{journal}"
    );
    assert!(journal.contains("clean"), "the model has not seen it either: {journal}");
    // A list passes variables on.
    workspace.write(
        "two.yaml",
        workspace
            .read("one.yaml")
            .replace("env: {TOKEN: {env: WIKI_TOKEN}}", "env: [PLAIN]"),
    );
    run(&workspace, &["run", "two.yaml"]).expect_code(0);
    assert!(workspace.read("seen-server").contains("PLAIN=plain"));
}

#[test]
fn what_scripts_and_people_say_tells_no_secret() {
    let workspace = Workspace::new();
    workspace.script(
        "tell.sh",
        "#!/bin/sh\ncat > /dev/null\necho \"oops $OPENAI_API_KEY\" >&2\necho \"{\\\"said\\\": \\\"$OPENAI_API_KEY\\\", \\\"$OPENAI_API_KEY\\\": 1}\"\n",
    );
    workspace.script("fail.sh", "#!/bin/sh\necho \"broken $OPENAI_API_KEY\" >&2\nexit 3\n");
    workspace.write(
        "one.yaml",
        "name: one\nagents:\n  - {name: a, script: tell.sh, env: [OPENAI_API_KEY]}\n  \
         - {name: b, script: fail.sh, env: [OPENAI_API_KEY], on_error: continue}\n  - {name: p, input: {prompt: Well?}}\n",
    );
    let told = run(
        &workspace,
        &[
            "run",
            "one.yaml",
            "-v",
            "--input",
            KEY,
            "--set",
            &format!("k={KEY}"),
            "--answer",
            &format!("p={KEY}"),
        ],
    )
    .expect_code(0);
    let mut texts = traces(&workspace);
    texts.extend([told.stdout, told.stderr]);
    assert_secret(&texts, &[KEY]);
    let journal = std::fs::read_to_string(workspace.runs()[0].join("journal.jsonl")).expect("a journal");
    for struck in [
        "\"said\":\"[secret]\"",
        "\"[secret]\":1",
        "oops [secret]",
        "broken [secret]",
        "\"input\":\"[secret]\"",
        "\"k\":\"[secret]\"",
    ] {
        assert!(journal.contains(struck), "{struck}: {journal}");
    }
    run(&workspace, &["replay", "--last"]).expect_code(0);
}

#[test]
fn ids_of_calls_and_the_cache_tell_no_secret() {
    let server = Server::new(|nth, _| match nth {
        0 => answer(
            "200 OK",
            &[("content-type", "application/json")],
            &format!(
                r#"{{"choices": [{{"message": {{"role": "assistant", "content": null, "tool_calls": [{{"id": "call-{KEY}", "type": "function", "function": {{"name": "look", "arguments": "{{}}"}}}}]}}, "finish_reason": "tool_calls"}}]}}"#
            ),
        ),
        _ => says("done"),
    });
    let workspace = Workspace::new();
    workspace.script("tell.sh", "#!/bin/sh\necho \"$OPENAI_API_KEY $MY_SIGNATURE\"\n");
    workspace.write(
        "one.yaml",
        format!(
            "name: one\nagents: [{{name: a, model_profile: p, tools: [look]}}]\nmodel_profiles:\n  \
             p: {{provider: openai, model: m, base_url: '{}', api_key_env: OPENAI_API_KEY, headers: {{X: {{env: MY_SIGNATURE}}}}}}\n\
             tools: {{look: {{script: tell.sh, env: [OPENAI_API_KEY, MY_SIGNATURE], parameters: {{type: object}}}}}}\n",
            server.url()
        ),
    );
    let told = run(
        &workspace,
        &[
            "run",
            "one.yaml",
            "-v",
            "--cache",
            "kept",
            "--input",
            &format!("hello {KEY}"),
        ],
    )
    .expect_code(0);
    let mut texts = traces(&workspace);
    texts.extend([told.stdout, told.stderr]);
    for entry in std::fs::read_dir(workspace.path().join("kept/a")).expect("a cache") {
        texts.push(std::fs::read_to_string(entry.expect("an entry").path()).expect("a text"));
    }
    assert_secret(&texts, &[KEY, SIGNATURE]);
    assert!(texts.iter().any(|text| text.contains("call-[secret]")), "{texts:?}");
    let sent = server.asked()[1].body.to_string();
    assert!(
        sent.contains("[secret] [secret]") && !sent.contains(SIGNATURE),
        "nor is it sent on: {sent}"
    );
    run(
        &workspace,
        &[
            "run",
            "one.yaml",
            "--cache",
            "kept",
            "--cache-only",
            "--input",
            &format!("hello {KEY}"),
        ],
    )
    .expect_code(0);
}

#[test]
fn variables_with_rights_reach_no_program() {
    const TOKEN: &str = "token-of-the-page-0123456789";
    let workspace = Workspace::new();
    workspace.script(
        "seen.sh",
        "#!/bin/sh\nenv > seen\necho \"{\\\"said\\\": \\\"token-of-the-page-0123456789\\\"}\"\n",
    );
    let start = |file: &str, text: &str| {
        workspace.write(file, text);
        let mut command = workspace.command(["run", file]);
        command
            .env("ENSEMBLE_UI_TOKEN", TOKEN)
            .env("ENSEMBLE_OTHER", "x")
            .env("PLAIN", "y");
        Running(command.spawn().expect("the program starts")).finish()
    };
    let told = start("one.yaml", "name: one\nagents: [{name: a, script: seen.sh}]\n").expect_code(0);
    let seen = workspace.read("seen");
    assert!(seen.contains("PLAIN=y") && seen.contains("ENSEMBLE_RUN_ID="), "{seen}");
    for gone in ["ENSEMBLE_TRUST", "ENSEMBLE_UI_TOKEN", "ENSEMBLE_OTHER"] {
        assert!(!seen.contains(gone), "{gone}: {seen}");
    }
    assert!(!told.stdout.contains(TOKEN) && !told.stderr.contains(TOKEN), "{told:?}");
    std::fs::remove_file(workspace.path().join("seen")).expect("removed");
    for agent in [
        "{name: a, script: seen.sh, env: [ENSEMBLE_UI_TOKEN]}",
        "{name: a, script: seen.sh, env: {T: {env: ENSEMBLE_UI_TOKEN}}}",
        "{name: a, script: seen.sh, env: {ENSEMBLE_TRUST: '1'}}",
        "{name: a, script: seen.sh, env: {ensemble_trust: '1'}}",
        "{name: a, script: seen.sh, sandbox: {env: [ENSEMBLE_TRUST]}}",
        "{name: a, model_profile: p}]\nmodel_profiles: {p: {provider: openai, model: m, api_key_env: ENSEMBLE_UI_TOKEN}}\nx-rest: [",
        "{name: a, model_profile: p}]\nmodel_profiles: {p: {provider: openai, model: m, headers: {X: {env: ENSEMBLE_UI_TOKEN}}}}\nx-rest: [",
        "{name: a, acp: {command: ./seen.sh, env: [ENSEMBLE_TRUST]}, prompt: go}",
        "{name: a, tool: h.x}]\ntools: {h: {mcp: {command: ./seen.sh, env: {ENSEMBLE_TRUST: '1'}}}}\nx-rest: [",
    ] {
        let told = start("two.yaml", &format!("name: two\nagents: [{agent}]\n"));
        assert_eq!(told.code, 2, "{agent}: {told:?}");
        assert!(told.stderr.contains("carries rights of the user"), "{agent}: {told:?}");
        assert!(!workspace.path().join("seen").exists(), "{agent}");
        let told = workspace.run(["validate", "two.yaml"]).expect_code(2);
        assert!(told.stdout.contains("carries rights of the user"), "{agent}: {told:?}");
    }
}
