//! Secrets on every path by which a run sends or shows a text: scripts, tools, models and people say them; the journal, reports, requests,
//! traces and the page must not.

#![expect(clippy::disallowed_methods, reason = "tests read what a run has left behind")]

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::page::Page;
use crate::support::server::{Answer, Asked, Server, answer, events, says};
use crate::support::{Outcome, Running, Workspace};

/// A key of a service: JSON with a token, a number and a key of two lines.
const SERVICE: &str = r#"{"pin":4929123456781234,"token":"tk-9f8e\"7d6c/5b4a","private_key":"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nVJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC\n-----END KEY-----\n"}"#;

/// Parts of the key as programs write them: as they are, quoted, in an address, in base64, and in hexadecimal digits.
const HIDDEN: [&str; 9] = [
    "4929123456781234",
    "tk-9f8e",
    "tk-9f8e%227d6c",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    "VJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC",
    "TUlJRXZRSUJBREFOQmdrcWhraUc5dzBC",
    "746b2d39663865",
    "34393239313233343536373831323334",
    "3.4393239313233",
];

/// A script that says the parts of the key in several forms.
const LEAK: &str = r#"import base64, json, os, urllib.parse
service = json.loads(os.environ["SERVICE"])
lines = service["private_key"].splitlines()[1:3]
print(json.dumps({"all": service, "text": os.environ["SERVICE"], "address": urllib.parse.quote(service["token"], safe=""),
    "lines": lines, "base64": base64.b64encode(lines[0].encode()).decode(), "number": int(str(service["pin"]).encode().hex())}))
"#;

const ENSEMBLE: &str = "name: paths
model_profiles: {m: {provider: openai, model: x, base_url: 'URL'}}
tools:
  look: {script: leak.py, description: looks, permission: allow, parameters: {type: object}, env: [SERVICE]}
agents:
  - {name: leak, script: leak.py, env: [SERVICE]}
  - {name: person, input: {prompt: 'Is it {{ leak }}?'}, depends_on: [leak]}
  - {name: m, model_profile: m, tools: [look], prompt: '{{ leak }} {{ person }}', depends_on: [leak, person]}
result: {all: outputs.leak, said: outputs.m}
";

/// Returns what a model says that knows the key: first the call of a tool with the key in its arguments, then the key in several forms.
fn reply_with_key(asked: &Asked, chats: usize) -> Answer {
    if asked.head.contains("/v1/traces") {
        return answer("200 OK", &[("content-type", "application/x-protobuf")], "");
    }
    if chats == 0 {
        let arguments = json!({"service": SERVICE, "pin": 4_929_123_456_781_234_u64}).to_string();
        let call = json!({"index": 0, "id": "a", "function": {"name": "look", "arguments": arguments}});
        let delta = json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]});
        return events(&[&delta.to_string(), "[DONE]"]);
    }
    let digits: String = "4929123456781234".bytes().map(|byte| format!("{byte:02x}")).collect();
    says(&format!("{SERVICE} {} {digits}", Value::from(SERVICE)))
}

fn run_with_key(workspace: &Workspace, url: &str, arguments: &[&str]) -> Outcome {
    let mut command = workspace.command(arguments);
    command
        .env("SERVICE", SERVICE)
        .env("OPENAI_API_KEY", "sk-test-0123456789");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", url).stdin(Stdio::null());
    Running(command.spawn().expect("the program starts")).finish()
}

/// Adds the texts of all files below the folder.
fn read_files(folder: &Path, texts: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => read_files(&path, texts),
            false => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                texts.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
}

#[test]
fn a_secret_that_everybody_says_reaches_no_journal_report_request_trace_or_page() {
    let server = Server::new(move |_, asked| {
        let messages = asked.body["messages"].as_array().map_or(0, Vec::len);
        reply_with_key(asked, usize::from(messages > 1))
    });
    let workspace = Workspace::new();
    workspace.write("ensembles/paths.yaml", ENSEMBLE.replace("URL", &server.url()));
    workspace.write("ensembles/leak.py", LEAK);
    let answered = format!("person=my key is {SERVICE}");
    let run = [
        "run",
        "paths",
        "--otlp",
        "--otlp-content",
        "--output",
        "events",
        "--answer",
        &answered,
    ];
    let run = run_with_key(&workspace, &server.url(), &run).expect_code(0);
    let mut texts = vec![("run".to_owned(), format!("{}{}", run.stdout, run.stderr))];

    let requests = server.asked();
    let (traces, chats): (Vec<_>, Vec<_>) = requests.iter().partition(|asked| asked.head.contains("/v1/traces"));
    assert_eq!((traces.is_empty(), chats.len()), (false, 2), "{chats:#?}");
    for asked in &requests {
        texts.push((
            "request".to_owned(),
            asked.head.clone() + &String::from_utf8_lossy(&asked.bytes),
        ));
    }
    read_files(&workspace.path().join(".ensemble"), &mut texts);
    for form in ["json", "markdown", "html", "otlp"] {
        let exported = run_with_key(
            &workspace,
            &server.url(),
            &["runs", "export", "--last", "--output", form],
        );
        texts.push((form.to_owned(), exported.stdout + &exported.stderr));
    }
    let shown = run_with_key(
        &workspace,
        &server.url(),
        &["runs", "show", "--last", "-v", "--messages"],
    );
    texts.push(("show".to_owned(), shown.expect_code(0).stdout));

    let page = Page::start(&workspace);
    let listed = page.get("/api/runs");
    let id = listed["runs"][0]["id"].as_str().expect("a run").to_owned();
    texts.push(("/api/runs".to_owned(), listed.to_string()));
    for path in ["run", "result", "rows"] {
        texts.push((
            path.to_owned(),
            page.get(&format!("/api/{path}?id={id}&from=0&count=50")).to_string(),
        ));
    }
    for (turn, agent) in [(1, "leak"), (2, "person"), (3, "m")] {
        let execution = page.get(&format!("/api/execution?id={id}&turn={turn}&agent={agent}"));
        texts.push((format!("execution of {agent}"), execution.to_string()));
        let messages = page.get(&format!(
            "/api/messages?id={id}&turn={turn}&agent={agent}&execution=1&attempt=1"
        ));
        texts.push((format!("messages of {agent}"), messages.to_string()));
    }

    for needed in ["run", "request", "json", "show", "run", "execution of m"] {
        let is_struck = |(name, text): &(String, String)| name == needed && text.contains("[secret]");
        assert!(texts.iter().any(is_struck), "{needed}: nothing was struck out");
    }
    for (name, text) in texts {
        for hidden in HIDDEN {
            let at = text.find(hidden);
            let start = text.floor_char_boundary(at.unwrap_or_default().saturating_sub(150));
            let around = at.map(|at| &text[start..text.floor_char_boundary(at + 60)]);
            assert!(around.is_none(), "{hidden} is in {name}: {around:?}");
        }
    }
}
