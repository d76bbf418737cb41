//! Secrets with a structure, in all forms in which a script and a model can write them, and in all that a run leaves behind.

#![expect(clippy::disallowed_methods, reason = "tests read what a run has left behind")]

use std::process::Stdio;

use crate::support::{Running, Workspace};

/// The key of a service, as clouds hand it out: JSON with a key in lines.
const SERVICE: &str = r#"{"type":"service_account","pin":4929123456781234,"private_key":"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC0H0+tG3hGbN4MYHRZZKq\n-----END KEY-----\n","note":"quo\"ted\\and <b>&amp"}"#;

/// What nobody may see of it, as it is and as programs write it.
const HIDDEN: [&str; 10] = [
    "4929123456781234",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
    "VJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC0H0+tG3hGbN4MYHRZZKq",
    "VJTUt9Us8cKjMzEfYyjiWA4R4ypbHqGC0H0%2BtG3hGbN4MYHRZZKq",
    "TUlJRXZRSUJBREFOQmdrcWhraUc5dzBCQVFF",
    "4d494945765149424144414e42676b71",
    "quo\"ted",
    "quo\\\"ted",
    "quo\\\\\\\"ted",
    "quo%22ted",
];

/// A script that writes the members of the service's key in this form.
fn script(form: &str) -> String {
    format!(
        "import base64, html, json, os, sys, urllib.parse\nservice = os.environ[\"SERVICE\"]\nparts = json.loads(service)\n\
         lines = parts[\"private_key\"].splitlines()\nkey, note, pin = lines[1:3], parts[\"note\"], parts[\"pin\"]\n{form}\n"
    )
}

/// All that the runs of the folder have left behind and show.
fn traces(workspace: &Workspace) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |arguments: &[&str]| {
        let mut command = workspace.command(arguments);
        let command = command.env("SERVICE", SERVICE).stdin(Stdio::null());
        let outcome = Running(command.spawn().expect("the program starts")).finish();
        all.push((arguments.join(" "), format!("{}{}", outcome.stdout, outcome.stderr)));
    };
    add(&["runs", "show", "--last", "-v", "--messages"]);
    for form in ["json", "markdown", "html"] {
        add(&["runs", "export", "--last", "--output", form]);
    }
    let mut folders = workspace.runs();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => all.push((
                    entry.path().display().to_string(),
                    std::fs::read_to_string(entry.path()).unwrap_or_default(),
                )),
            }
        }
    }
    all
}

#[test]
fn a_secret_with_a_structure_leaves_in_no_form() {
    if std::process::Command::new("python3")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return;
    }
    let forms = [
        "print(service)",
        "print(json.dumps(parts))",
        "print(json.dumps({\"a\": [parts], \"n\": pin, \"key\": key, \"note\": note}))",
        "print(json.dumps({\"a\": json.dumps({\"b\": json.dumps(parts)})}))",
        "print(urllib.parse.urlencode({\"note\": note, \"key\": key[1], \"pin\": pin}))",
        "print(base64.b64encode((\"u:\" + key[0] + key[1]).encode()).decode(), key[0].encode().hex())",
        "print(html.escape(note), repr(note), key, pin)",
        "print(json.dumps({\"reply\": \"x\", \"items\": [note, str(pin)]}), file=sys.stderr); print(note)",
        "sys.stderr.write(\"x\" * 9000 + service + note); sys.exit(3)",
        "print(\"not json {\", service, file=sys.stderr); print(json.dumps({\"success\": False, \"error\": note + key[0]}))",
    ];
    let workspace = Workspace::new();
    let mut text =
        String::from("name: one\nmodel_profiles:\n  m: {provider: simulated, script: model.rhai}\nagents:\n");
    for (number, form) in forms.iter().enumerate() {
        workspace.write(&format!("s{number}.py"), script(form));
        text.push_str(&format!(
            "  - {{name: s{number}, script: s{number}.py, env: [SERVICE], on_error: continue}}\n"
        ));
    }
    let names: Vec<String> = (0..forms.len()).map(|number| format!("s{number}")).collect();
    text.push_str(&format!(
        "  - {{name: m, model_profile: m, dependencies: [{}]}}\n",
        names
            .iter()
            .map(|name| format!("{{agent_name: {name}, on: any}}"))
            .collect::<Vec<_>>()
            .join(", ")
    ));
    workspace.write("one.yaml", text);
    // The model says what it got.
    workspace.write("model.rhai", "`I got ${messages}`\n");
    let mut command = workspace.command(["run", "one.yaml", "--output", "events", "--trust"]);
    let command = command.env("SERVICE", SERVICE).stdin(Stdio::null());
    let outcome = Running(command.spawn().expect("the program starts")).finish();
    let mut traces = traces(&workspace);
    assert!(outcome.stdout.contains("[secret]"), "{outcome:?}");
    traces.push(("run".to_owned(), format!("{}{}", outcome.stdout, outcome.stderr)));
    for (name, text) in traces {
        for hidden in HIDDEN {
            let at = text.find(hidden);
            let around =
                at.map(|at| &text[text.floor_char_boundary(at.saturating_sub(200))..text.floor_char_boundary(at + 99)]);
            assert!(at.is_none(), "{hidden} is in {name}: {around:?}");
        }
    }
}

#[test]
fn a_finding_about_a_key_does_not_show_it() {
    let workspace = Workspace::new();
    let texts = [
        "model_profiles: {p: {provider: openai, model: m, headers: {Authorization: 'hunter-two'}}}",
        "model_profiles: {p: {provider: openai, model: m, base_url: 'https://me:hunter-two@host/v1'}}",
        "model_profiles: {p: {provider: openai, model: m, base_url: 'https://host/v1?key=hunter-two'}}",
        "model_profiles: {p: {provider: openai, model: m, api_key_env: hunter-two}}",
        "model_profiles: {p: {provider: openai, model: m, headers: {X: {env: hunter-two}}}}",
        "tools: {t: {script: x, parameters: {type: object}, env: [hunter-two]}}",
        "model_profiles: {p: {provider: openai, model: m, token: hunter-two}}",
        "model_profiles: {p: {password: hunter-two",
    ];
    for text in texts {
        workspace.write(
            "a.yaml",
            format!("name: a\nagents: [{{name: a, script: echo a}}]\n{text}\n"),
        );
        for form in ["human", "json", "github", "sarif"] {
            let mut command = workspace.command(["validate", "a.yaml", "--output", form]);
            let outcome = Running(command.stdin(Stdio::null()).spawn().expect("the program starts")).finish();
            assert_ne!(outcome.code, 0, "{text}");
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(!said.contains("hunter-two"), "{form}: {said}");
        }
    }
}

#[test]
fn rights_over_the_program_reach_no_child() {
    let workspace = Workspace::new();
    workspace.script("seen.sh", "#!/bin/sh\nenv > seen\n");
    workspace.write(
        "one.yaml",
        "name: one\nagents: [{name: a, script: seen.sh, env: [LISTED]}]\n",
    );
    let mut command = workspace.command(["run", "one.yaml"]);
    let command = command
        .env("ENSEMBLE_UI_TOKEN", "a-token-of-the-page-0123456789")
        .env("ENSEMBLE_TRUST", "1")
        .env("LISTED", "yes")
        .stdin(Stdio::null());
    Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(0);
    let seen = workspace.read("seen");
    assert!(
        seen.contains("LISTED=yes") && seen.contains("ENSEMBLE_RUN_ID="),
        "{seen}"
    );
    assert!(
        !seen.contains("ENSEMBLE_UI_TOKEN") && !seen.contains("ENSEMBLE_TRUST"),
        "{seen}"
    );
}
