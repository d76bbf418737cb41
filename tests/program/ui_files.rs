//! The files that a client of the page can name: ensembles that the page lists, and ensembles inside its folder.

use crate::support::Workspace;
use crate::support::page::Page;
use serde_json::json;

const SECRET: &str = "hunter2";

#[test]
fn a_client_starts_no_ensemble_that_the_page_does_not_list() {
    let workspace = Workspace::new();
    let one = "name: one\nagents: [{name: a, script: a.rhai}]\n";
    workspace.write("project/ensembles/one.yaml", one);
    workspace.write("project/deep/two.yaml", one);
    workspace.write("project/deep/a.rhai", "1");
    workspace.write("project/ensembles/a.rhai", "1");
    workspace.write("project/.env", format!("KEY={SECRET}\n"));
    workspace.write("outside/other.yaml", one);
    workspace.write("outside/a.rhai", "1");
    workspace.write("outside/secret.txt", format!("{SECRET}: x\n"));
    std::os::unix::fs::symlink("../outside", workspace.path().join("project/linked")).expect("a link");
    let page = Page::start_with(&workspace, &["-C", "project", "--port", "0"]);
    let id = page.done("/api/start", &json!({"ensemble": "one"}))["id"].clone();
    page.follow(id.as_str().expect("an id")).until_outcome("completed");
    page.done("/api/start", &json!({"ensemble": "deep/two.yaml"}));

    for file in [
        "../outside/other.yaml",
        "linked/other.yaml",
        "../outside/secret.txt",
        "linked/secret.txt",
        ".env",
        "/etc/passwd",
        "deep/three.yaml",
    ] {
        let bodies = [
            ("/api/start", json!({"ensemble": file})),
            ("/api/fork", json!({"id": id, "turn": 1, "file": file})),
            ("/api/rerun", json!({"id": id, "agent": "a", "turn": 1, "file": file})),
            ("/api/replay", json!({"id": id, "file": file})),
        ];
        for (path, body) in bodies {
            let refused = page.post(path, &body);
            assert!([400, 404].contains(&refused.status), "{path} {file}: {refused:?}");
            let said = refused.json().to_string();
            let is_silent = !said.contains(SECRET) && !said.contains("root:");
            assert!(is_silent && said.contains(file), "{path}: {said}");
        }
    }
    assert!(
        !workspace.path().join("outside/.ensemble").exists(),
        "nothing is written outside"
    );
}
