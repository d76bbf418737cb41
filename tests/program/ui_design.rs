//! The designer of the page over a real socket: which files it reads and writes, what it finds, and what an edit of the graph changes.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::Workspace;
use crate::support::page::{Page, bearer};
use serde_json::{Value, json};

const TEXT: &str = "\
name: e # an é
agents:
  - name: one
    script: one.rhai
  - name: two
    script: two.rhai
    depends_on: [one]
";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("ensembles/e.yaml", TEXT);
    workspace.write("ensembles/one.rhai", "#{ n: execution }");
    workspace.write("ensembles/two.rhai", "#{ n: dependencies.one.n }");
    workspace
}

const FILE: &str = "ensembles/e.yaml";

fn read(workspace: &Workspace, name: &str) -> String {
    std::fs::read_to_string(workspace.path().join(name)).expect("a text")
}

fn open(page: &Page) -> Value {
    page.get("/api/design/file?file=ensembles%2Fe.yaml")
}

/// What saving answers: the status, and the code of an error.
fn save(page: &Page, file: &str, text: &str, digest: &Value) -> (u16, String) {
    let answer = page.post(
        "/api/design/save",
        &json!({"file": file, "text": text, "digest": digest}),
    );
    let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    (answer.status, code)
}

#[test]
fn a_text_is_read_examined_and_saved() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let opened = open(&page);
    assert_eq!(opened["text"], TEXT);
    let listed = page.get("/api/ensembles");
    assert_eq!(
        (&listed[0]["file"], &listed[0]["editable"]),
        (&json!(FILE), &json!(true))
    );
    let examine = |text: &str| page.done("/api/design/examine", &json!({"file": FILE, "text": text}));
    let found = examine(TEXT);
    assert_eq!(found["findings"], json!([]));
    let names = [&found["agents"][0]["name"], &found["agents"][1]["name"]];
    assert_eq!(names, ["one", "two"]);
    let dependency = json!({
        "to": "one", "condition": null, "feedback": false, "on": null, "wait_for": null, "max_executions": null, "requires_all": null,
        "at": {"start": 110, "end": 113},
    });
    assert_eq!(found["agents"][1]["dependencies"], json!([dependency]));
    // The places are those of a browser: an é is one unit.
    let wrong = TEXT.replace("script: one", "scrpt: one");
    let found = examine(&wrong);
    let finding = &found["findings"][0];
    assert_eq!(
        finding["at"],
        json!({"start": 41, "end": 46, "line": 4, "column": 5}),
        "{finding:#}"
    );
    assert_eq!(
        finding["fix"]["edits"],
        json!([{"start": 41, "end": 46, "text": "script"}])
    );
    // What `validate` finds about files around is found, too.
    let missing = TEXT.replace("two.rhai", "none.rhai");
    let found = examine(&missing);
    workspace.write(FILE, &missing);
    let told = workspace.run(["validate", FILE, "--format", "json"]);
    let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let codes = |list: &Value| -> Vec<Value> {
        let list = list.as_array().expect("a list").iter();
        list.map(|one| json!([one["code"], one["message"]])).collect()
    };
    assert_eq!(codes(&found["findings"]), codes(&told["diagnostics"]));
    assert_eq!(codes(&found["findings"]).len(), 1, "{found:#}");
    workspace.write(FILE, TEXT);
    // The graph of a text, and of one that has none.
    let graph = |text: &str| page.post("/api/design/graph", &json!({"file": FILE, "text": text}));
    let drawn = graph(TEXT);
    assert_eq!(
        (drawn.status, drawn.header("content-type")),
        (200, Some("image/svg+xml"))
    );
    assert!(
        drawn.body.contains("class=\"agent") && !drawn.body.contains("<style>"),
        "{}",
        drawn.body
    );
    assert_eq!(graph(&wrong).status, 400);
    // Saving, and saving again with the digest that was given.
    let new = TEXT.replace("an é", "a 😀");
    let saved = page.done(
        "/api/design/save",
        &json!({"file": FILE, "text": new, "digest": opened["digest"]}),
    );
    assert_eq!(read(&workspace, FILE), new);
    assert_eq!(saved["digest"], open(&page)["digest"]);
    assert_eq!(save(&page, FILE, TEXT, &saved["digest"]).0, 200);
    assert_eq!(read(&workspace, FILE), TEXT);
    let left = std::fs::read_dir(workspace.path().join("ensembles"))
        .expect("a folder")
        .count();
    assert_eq!(left, 3, "nothing is left beside the file");
}

#[test]
fn the_file_on_disk_wins() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let digest = open(&page)["digest"].clone();
    let theirs = TEXT.replace("an é", "theirs");
    workspace.write(FILE, &theirs);
    assert_eq!(
        save(&page, FILE, &format!("{TEXT}# mine\n"), &digest),
        (409, "changed".to_owned())
    );
    assert_eq!(read(&workspace, FILE), theirs);
    assert_eq!(save(&page, FILE, TEXT, &Value::Null).0, 400, "a digest is needed");
    std::fs::remove_file(workspace.path().join(FILE)).expect("removed");
    assert_eq!(save(&page, FILE, TEXT, &digest), (404, "not_found".to_owned()));
    assert!(!workspace.path().join(FILE).exists());
}

#[test]
fn every_change_on_disk_is_told() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let mut events = page.watch(FILE);
    let is = |text: &'static str| move |name: &str, data: &Value| name == "file" && data["text"] == text;
    events.until(is(TEXT));
    // In place, by a rename, and with the same length.
    workspace.write(FILE, "agents: [{name: a}]");
    events.until(is("agents: [{name: a}]"));
    workspace.write("other", "agents: [{name: b}]");
    std::fs::rename(workspace.path().join("other"), workspace.path().join(FILE)).expect("renamed");
    let told = events.until(is("agents: [{name: b}]"));
    assert_eq!(told["digest"], open(&page)["digest"]);
    std::fs::remove_file(workspace.path().join(FILE)).expect("removed");
    events.until(|name, _| name == "gone");
    workspace.write(FILE, TEXT);
    events.until(is(TEXT));
}

#[test]
fn bytes_that_the_page_does_not_see_stay() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    for text in [
        format!("\u{feff}{}", TEXT.replace('\n', "\r\n")),
        TEXT.replacen('\n', "\r\n", 3),
        TEXT.trim_end().to_owned(),
    ] {
        workspace.write(FILE, &text);
        let opened = open(&page);
        let shown = opened["text"].as_str().expect("a text").to_owned();
        assert!(!shown.contains(['\r', '\u{feff}']), "{shown:?}");
        assert_eq!(save(&page, FILE, &shown, &opened["digest"]).0, 200);
        assert_eq!(read(&workspace, FILE), text);
        let more = shown.replace("name: one", "name: one # 1");
        assert_eq!(save(&page, FILE, &more, &opened["digest"]).0, 200);
        assert_eq!(read(&workspace, FILE), text.replace("name: one", "name: one # 1"));
    }
}

#[test]
fn only_ensembles_of_the_list_inside_the_folder_are_touched() {
    let workspace = workspace();
    let outside = Workspace::new();
    outside.write("far.yaml", TEXT);
    workspace.write("secret.yaml", "password: x\n");
    workspace.write("deep/inner/e.yaml", TEXT);
    workspace.write(".ensemble/config.yaml", "model_profiles: {}\n");
    symlink(
        outside.path().join("far.yaml"),
        workspace.path().join("ensembles/far.yaml"),
    )
    .expect("a link");
    symlink("e.yaml", workspace.path().join("ensembles/near.yaml")).expect("a link");
    let page = Page::start(&workspace);
    let far = outside.path().join("far.yaml").display().to_string();
    let digest = open(&page)["digest"].clone();
    for (file, status) in [
        ("ensembles/far.yaml", 403),
        ("secret.yaml", 404),
        ("deep/inner/e.yaml", 404),
        ("ensembles/../ensembles/e.yaml", 404),
        ("../ensembles/e.yaml", 404),
        (far.as_str(), 404),
        (".ensemble/config.yaml", 404),
        ("ensembles/one.rhai", 404),
        ("ensembles", 404),
        ("", 404),
    ] {
        let query = file.replace('/', "%2F");
        for path in ["file", "events"] {
            let answer = page.ask("GET", &format!("/api/design/{path}?file={query}"), &[&bearer()], "");
            // Of a file that is listed and is no ensemble, only the text is refused.
            assert!(
                answer.status == status || path == "events" && file == "secret.yaml",
                "{path} {file}: {answer:?}"
            );
        }
        assert_eq!(save(&page, file, TEXT, &digest).0, status, "{file}");
        if file != "secret.yaml" {
            let examined = page.post("/api/design/examine", &json!({"file": file, "text": TEXT}));
            assert_eq!(examined.status, status, "{file}");
        }
    }
    assert_eq!(
        outside.path().join("far.yaml").metadata().expect("data").len(),
        TEXT.len() as u64
    );
    let listed = page.get("/api/ensembles");
    let of_far = listed
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["name"] == "far");
    assert_eq!(of_far.expect("it is listed")["editable"], json!(false));
    // A link inside the folder stays a link.
    let new = format!("{TEXT}# new\n");
    assert_eq!(save(&page, "ensembles/near.yaml", &new, &digest).0, 200);
    assert!(
        workspace
            .path()
            .join("ensembles/near.yaml")
            .symlink_metadata()
            .expect("data")
            .is_symlink()
    );
    assert_eq!(read(&workspace, FILE), new);
}

#[test]
fn who_may_not_use_the_page_may_not_use_the_designer() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let digest = open(&page)["digest"].clone();
    let body = json!({"file": FILE, "text": "agents: [{name: a}]", "digest": digest, "name": "x"}).to_string();
    let rebound = format!("host: evil.example:{}", page.port);
    for (lines, status) in [
        (&[][..], 401),
        (&[bearer(), "origin: http://evil.example".to_owned()], 403),
        (&[bearer(), rebound], 403),
        (&[bearer(), "sec-fetch-site: cross-site".to_owned()], 403),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        for path in ["save", "examine", "graph", "edit", "new"] {
            let answer = page.ask("POST", &format!("/api/design/{path}"), &lines, &body);
            assert_eq!(answer.status, status, "{path} {lines:?}");
        }
        for path in ["file", "events"] {
            let answer = page.ask(
                "GET",
                &format!("/api/design/{path}?file=ensembles%2Fe.yaml"),
                &lines,
                "",
            );
            assert_eq!(answer.status, status, "{path} {lines:?}");
        }
    }
    assert_eq!(read(&workspace, FILE), TEXT);
    assert!(!workspace.path().join("ensembles/x.yaml").exists());
}

#[test]
fn what_cannot_be_saved_is_told() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let digest = open(&page)["digest"].clone();
    assert_eq!(
        save(&page, FILE, "name: x\n", &digest).0,
        400,
        "it would be no ensemble"
    );
    let large = |size: usize| format!("{TEXT}# {}", "x".repeat(size));
    assert_eq!(
        save(&page, FILE, &large(4 << 20), &digest),
        (413, "too_large".to_owned())
    );
    assert_eq!(save(&page, FILE, &large(3 << 20), &digest).0, 200);
    let digest = open(&page)["digest"].clone();
    let path = workspace.path().join(FILE);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).expect("a mode");
    assert_eq!(save(&page, FILE, TEXT, &digest), (403, "forbidden".to_owned()));
    assert!(read(&workspace, FILE).len() > 3 << 20);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("a mode");
    assert_eq!(save(&page, FILE, TEXT, &digest).0, 200);
    let mode = path.metadata().expect("data").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    workspace.write(FILE, large(4 << 20));
    let answer = page.ask("GET", "/api/design/file?file=ensembles%2Fe.yaml", &[&bearer()], "");
    assert_eq!(answer.status, 413);
}

#[test]
fn a_rename_reaches_scripts_when_it_is_saved() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let digest = open(&page)["digest"].clone();
    let cases = "cases:\n  - name: one\n    expect: {order: [one, two]}\n";
    workspace.write("ensembles/e.test.yaml", cases);
    let rename = json!({"do": "rename", "agent": "one", "name": "uno"});
    let renamed = page.done("/api/design/edit", &json!({"file": FILE, "text": TEXT, "edit": rename}));
    assert_eq!(renamed["edits"].as_array().map(Vec::len), Some(2), "{renamed:#}");
    assert_eq!(renamed["scripts"][0]["file"], "ensembles/two.rhai");
    assert_eq!(renamed["scripts"][1]["file"], "ensembles/e.test.yaml");
    assert_eq!(
        read(&workspace, "ensembles/two.rhai"),
        "#{ n: dependencies.one.n }",
        "nothing is written yet"
    );
    // While the text has errors, the file says which scripts there are.
    let faulty = TEXT.replace("  - name: two\n", "  - name: two\n    bogus: 1\n");
    let of_faulty = page.done(
        "/api/design/edit",
        &json!({"file": FILE, "text": faulty, "edit": rename}),
    );
    assert_eq!(of_faulty["scripts"], renamed["scripts"], "{of_faulty:#}");
    let text = TEXT.replace("name: one", "name: uno").replace("[one]", "[uno]");
    let save_with = |scripts: &Value, digest: &Value| {
        let body = json!({"file": FILE, "text": text, "digest": digest, "scripts": scripts});
        page.post("/api/design/save", &body).status
    };
    // A script that has changed meanwhile stops all of it.
    workspace.write("ensembles/two.rhai", "#{ m: dependencies.one.n }");
    assert_eq!(save_with(&renamed["scripts"], &digest), 409);
    assert_eq!(read(&workspace, FILE), TEXT);
    workspace.write("ensembles/two.rhai", "#{ n: dependencies.one.n }");
    // So does a test file that cannot be written, though it comes after the script.
    let with_folder = workspace.path().join("ensembles/e.test.yaml");
    std::fs::remove_file(&with_folder).expect("removed");
    std::fs::create_dir(&with_folder).expect("a folder");
    assert_ne!(save_with(&renamed["scripts"], &digest), 200);
    std::fs::remove_dir(&with_folder).expect("removed");
    workspace.write("ensembles/e.test.yaml", format!("# other\n{cases}"));
    assert_eq!(save_with(&renamed["scripts"], &digest), 409);
    workspace.write("ensembles/e.test.yaml", cases);
    assert_eq!(read(&workspace, "ensembles/two.rhai"), "#{ n: dependencies.one.n }");
    assert_eq!(read(&workspace, FILE), TEXT);
    // Nothing but a script or a test file inside the folder is renamed in.
    for file in ["../x.rhai", "../x.test.yaml", "/etc/hostname", FILE] {
        let mut scripts = renamed["scripts"].clone();
        scripts[0]["file"] = file.into();
        assert_eq!(save_with(&scripts, &digest), 403, "{file}");
    }
    assert_eq!(save_with(&renamed["scripts"], &digest), 200);
    let hidden = std::fs::read_dir(workspace.path().join("ensembles")).expect("a folder");
    let hidden = hidden.filter(|one| {
        one.as_ref()
            .is_ok_and(|one| one.file_name().to_string_lossy().starts_with('.'))
    });
    assert_eq!(hidden.count(), 0, "nothing is left beside the files");
    assert_eq!(read(&workspace, FILE), text);
    assert_eq!(read(&workspace, "ensembles/two.rhai"), "#{ n: dependencies.uno.n }");
    assert_eq!(
        read(&workspace, "ensembles/e.test.yaml"),
        cases.replace("[one,", "[uno,")
    );
    workspace.write("ensembles/e.test.yaml", "cases: []\n");
    // A script that another ensemble uses is left to the user.
    workspace.write("ensembles/f.yaml", "name: f\nagents: [{name: x, script: two.rhai}]\n");
    let again = json!({"do": "rename", "agent": "uno", "name": "one"});
    let renamed = page.done("/api/design/edit", &json!({"file": FILE, "text": text, "edit": again}));
    assert_eq!(renamed["scripts"], json!([]));
    let warning = renamed["warning"].as_str().unwrap_or_default();
    assert!(
        warning.starts_with("rename did not change `ensembles/two.rhai`, which might name the agent"),
        "{warning}"
    );
}

#[test]
fn a_renamed_input_has_its_new_name_in_the_text_the_scripts_and_the_tests() {
    let workspace = workspace();
    let text = "\
name: e
inputs:
  topic: {type: string, default: the sea}
  tone: {type: string, default: calm}
agents:
  - {name: one, script: one.rhai}
  - {name: two, input: 'About {{ inputs.topic }}?', dependencies: [{agent_name: one, condition: inputs.topic != ''}]}
result: {topic: inputs.topic}
";
    workspace.write(FILE, text);
    workspace.write("ensembles/one.rhai", "#{ n: inputs.topic }");
    let cases = "cases:\n  - {name: one, inputs: {topic: x}, answers: {two: 'yes'}}\n";
    workspace.write("ensembles/e.test.yaml", cases);
    let caller = "name: f\nagents: [{name: x, ensemble: e, inputs: {topic: y}}]\n";
    workspace.write("ensembles/f.yaml", caller);
    let page = Page::start(&workspace);
    let digest = open(&page)["digest"].clone();
    let rename = |name: &str| json!({"do": "rename", "input": "topic", "name": name});
    let plan = |name: &str| {
        page.post(
            "/api/design/edit",
            &json!({"file": FILE, "text": text, "edit": rename(name)}),
        )
    };
    for (name, part) in [("tone", "already exists"), ("1st", "cannot be the name of an input")] {
        let refused = plan(name);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains(part), "{refused:?}");
    }
    let renamed = page.done(
        "/api/design/edit",
        &json!({"file": FILE, "text": text, "edit": rename("subject")}),
    );
    assert_eq!(renamed["edits"].as_array().map(Vec::len), Some(4), "{renamed:#}");
    let warning = renamed["warning"].as_str().unwrap_or_default();
    assert!(
        warning.starts_with("rename did not change `ensembles/f.yaml`"),
        "{warning}"
    );
    let after = text
        .replace("  topic: {type", "  subject: {type")
        .replace("inputs.topic", "inputs.subject");
    let body = json!({"file": FILE, "text": after, "digest": digest, "scripts": renamed["scripts"]});
    page.done("/api/design/save", &body);
    assert_eq!(read(&workspace, "ensembles/one.rhai"), "#{ n: inputs.subject }");
    assert_eq!(
        read(&workspace, "ensembles/e.test.yaml"),
        cases.replace("topic: x", "subject: x")
    );
    assert_eq!(read(&workspace, "ensembles/f.yaml"), caller);
}

#[test]
fn an_edit_is_a_splice_or_a_reason() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let edit =
        |text: &str, edit: Value| page.post("/api/design/edit", &json!({"file": FILE, "text": text, "edit": edit}));
    let done = edit(
        TEXT,
        json!({"do": "set_condition", "agent": "two", "at": 0, "to": "one", "condition": "output.n > 1"}),
    );
    assert_eq!(done.status, 200, "{done:?}");
    let splice = done.json()["edits"][0].clone();
    let units: Vec<u16> = TEXT.encode_utf16().collect();
    let at = |key: &str| usize::try_from(splice[key].as_u64().expect("a number")).expect("it fits");
    let new = [
        &String::from_utf16_lossy(&units[..at("start")]),
        splice["text"].as_str().expect("a text"),
        &String::from_utf16_lossy(&units[at("end")..]),
    ]
    .concat();
    let expected = "dependencies: [{agent_name: one, condition: output.n > 1}]";
    assert_eq!(new, TEXT.replace("depends_on: [one]", expected));
    for (text, command, why) in [
        (
            TEXT,
            json!({"do": "remove_agent", "agent": "six"}),
            "there is no agent `six`",
        ),
        (
            TEXT,
            json!({"do": "rename", "agent": "one", "name": "two"}),
            "an agent `two` already exists; choose another name",
        ),
        (
            TEXT,
            json!({"do": "rename", "agent": "six", "name": "one"}),
            "there is no agent `six`",
        ),
        (TEXT, json!({"do": "dance"}), "`edit` is not a valid edit"),
        (
            "agents: [",
            json!({"do": "remove_agent", "agent": "one"}),
            "while it is not YAML",
        ),
    ] {
        let refused = edit(text, command);
        assert_eq!(refused.status, 400, "{refused:?}");
        let told = refused.json()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(read(&workspace, FILE), TEXT, "nothing was written");
}

#[test]
fn a_new_ensemble_is_that_of_init_and_overwrites_nothing() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    let create = |name: &str| page.post("/api/design/new", &json!({"name": name}));
    let made = create(" tea.yaml ");
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(made.json(), json!({"name": "tea", "file": "ensembles/tea.yaml"}));
    let of_init = Workspace::new();
    of_init.run(["init", "tea", "--template", "chat"]).expect_code(0);
    for file in [
        "ensembles/tea.yaml",
        "ensembles/tea/companion.rhai",
        "ensembles/tea.test.yaml",
        "ensembles/ensemble.schema.json",
    ] {
        assert_eq!(workspace.read(file), of_init.read(file), "{file}");
    }
    let opened = page.get("/api/design/file?file=ensembles%2Ftea.yaml");
    assert_eq!(opened["text"], workspace.read("ensembles/tea.yaml"));
    workspace
        .run(["validate", "--deny-warnings", "ensembles/tea.yaml"])
        .expect_code(0);
    workspace.run(["run", "tea"]).expect_code(0);

    // What is there stays, also the schema.
    workspace.write("ensembles/ensemble.schema.json", "{}");
    assert_eq!(create("milk").status, 200);
    assert_eq!(workspace.read("ensembles/ensemble.schema.json"), "{}");
    workspace.write("ensembles/tea.yaml", "mine");
    workspace.write("ensembles/rum/companion.rhai", "mine");
    workspace.write("gin.yml", TEXT);
    symlink("nowhere", workspace.path().join("ensembles/ale.yaml")).expect("a link");
    for (name, told) in [
        ("tea", "`ensembles/tea.yaml` exists already"),
        ("rum", "`ensembles/rum/companion.rhai` exists already"),
        ("gin", "`gin.yml` exists already"),
        ("ale", "`ensembles/ale.yaml` exists already"),
    ] {
        let refused = create(name);
        assert_eq!(refused.status, 409, "{refused:?}");
        let message = refused.json()["error"]["message"].clone();
        assert!(
            message.as_str().is_some_and(|message| message.starts_with(told)),
            "{message}"
        );
    }
    assert_eq!(workspace.read("ensembles/tea.yaml"), "mine");
    assert!(
        !workspace.path().join("ensembles/rum.yaml").exists(),
        "nothing is half done"
    );
    for name in ["", "../x", "a/b", "/x", ".x", "x\\y", "e.test", "ä", "x\0"] {
        assert_eq!(create(name).status, 400, "{name}");
    }
    let long = create(&"x".repeat(300));
    assert_eq!(long.status, 503, "{long:?}");
    let missing = page.post("/api/design/new", &json!({}));
    assert_eq!(missing.status, 400);
}

#[test]
fn a_new_ensemble_stands_inside_the_folder() {
    let outside = Workspace::new();
    for (link, to) in [("ensembles", outside.path()), ("ensembles", "/nowhere/at/all".into())] {
        let workspace = Workspace::new();
        symlink(&to, workspace.path().join(link)).expect("a link");
        let page = Page::start(&workspace);
        let refused = page.post("/api/design/new", &json!({"name": "tea"}));
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 0);
    let workspace = workspace();
    symlink(outside.path(), workspace.path().join("ensembles/tea")).expect("a link");
    let page = Page::start(&workspace);
    let refused = page.post("/api/design/new", &json!({"name": "tea"}));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(!workspace.path().join("ensembles/tea.yaml").exists());
    assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 0);
}

#[test]
fn test_files_of_an_ensemble_are_read_examined_and_saved() {
    const TESTS: &str = "ensembles/e.test.yaml";
    let workspace = workspace();
    let cases = "cases:\n  - name: both\n    expect: {order: [one, two]}\n";
    workspace.write(TESTS, cases);
    workspace.write("ensembles/more.test.yaml", format!("ensemble: e.yaml\n{cases}"));
    workspace.write("ensembles/gone.test.yaml", cases);
    let page = Page::start(&workspace);
    let listed = page.get("/api/ensembles");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["tests"], json!([TESTS, "ensembles/more.test.yaml"]));
    let opened = page.get("/api/design/file?file=ensembles%2Fe.test.yaml");
    assert_eq!(opened["text"], cases);
    let examine = |text: &str| page.done("/api/design/examine", &json!({"file": TESTS, "text": text}));
    assert_eq!(examine(cases)["findings"], json!([]));
    let wrong = cases.replace("two]", "six]");
    let found = examine(&wrong);
    assert_eq!(found["findings"][0]["at"]["line"], 3, "{found}");
    assert!(found.to_string().contains("six"), "{found}");
    let mut events = page.watch(TESTS);
    events.until(|name, data| name == "file" && data["text"] == cases);
    let more = format!("{cases}# more\n");
    assert_eq!(save(&page, TESTS, &more, &opened["digest"]).0, 200);
    assert_eq!(workspace.read(TESTS), more);
    events.until(|name, data| name == "file" && data["text"] == more);
    assert_eq!(
        save(&page, TESTS, cases, &opened["digest"]),
        (409, "changed".to_owned())
    );
    // Also what is no list of cases yet can be saved.
    let now = page.get("/api/design/file?file=ensembles%2Fe.test.yaml");
    assert_eq!(save(&page, TESTS, "cases:\n", &now["digest"]).0, 200);
}
