//! Power cuts: of all that a run does to the disk, what was not synced is left out, at every point of the run. What was acted upon
//! is there, and the resumed run ends as one that nobody disturbed.

#![cfg(debug_assertions)]
#![expect(clippy::disallowed_methods, reason = "tests make files")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Outcome, Running, Workspace};

/// Side by side, an inner conversation, and an output that is stored beside the journal.
const ENSEMBLE: &str = "
name: power
agents:
  - {name: left, script: ./act.sh}
  - {name: right, script: large.rhai}
  - {name: team, ensemble: team.yaml, depends_on: [left, right]}
  - {name: last, script: ./act.sh, depends_on: [team]}
";

const TEAM: &str =
    "name: team\nagents:\n  - {name: one, script: ./act.sh}\n  - {name: two, script: ./act.sh, depends_on: [one]}\n";

/// Says after which effect of the run it was started.
const ACT: &str = r#"#!/bin/sh
echo "$(wc -l < effects.jsonl) $ENSEMBLE_AGENT_NAME" >> acted.txt
echo "{\"by_$ENSEMBLE_AGENT_NAME\": true}"
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("power.yaml", ENSEMBLE);
    workspace.write("team.yaml", TEAM);
    workspace.script("act.sh", ACT);
    workspace.write(
        "large.rhai",
        "let text = \"\"; text.pad(70000, 'x'); #{ content: text }",
    );
    workspace.write("effects.jsonl", "");
    workspace
}

/// A file or a folder as the disk has it.
#[derive(Debug, Clone, Default)]
struct Node {
    /// The entries of a folder, by name: numbers of nodes. `None`: a file.
    entries: Option<BTreeMap<String, usize>>,
    text: String,
}

/// What was written, and what of it is on the disk.
struct Disk {
    written: Vec<Node>,
    synced: Vec<Node>,
    root: PathBuf,
}

impl Disk {
    /// The folder of a project, and all of it that was there before.
    fn new(root: PathBuf) -> Self {
        let folder = Node {
            entries: Some(BTreeMap::new()),
            ..Node::default()
        };
        Self {
            written: vec![folder.clone()],
            synced: vec![folder],
            root,
        }
    }

    fn node(&self, path: &Path) -> usize {
        let below = path.strip_prefix(&self.root).expect("in the project");
        below.components().fold(0, |node, name| {
            let entries = self.written[node].entries.as_ref().expect("a folder");
            entries[&name.as_os_str().to_string_lossy().into_owned()]
        })
    }

    fn entries(&mut self, path: &Path) -> (&mut BTreeMap<String, usize>, String) {
        let folder = self.node(path.parent().expect("a folder"));
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (self.written[folder].entries.as_mut().expect("a folder"), name)
    }

    fn perform(&mut self, effect: &Value) {
        let path = Path::new(effect["path"].as_str().expect("a path"));
        let value = &effect["value"];
        match effect["effect"].as_str().expect("a name") {
            kind @ ("folder" | "file") => {
                let made = Node {
                    entries: (kind == "folder").then(BTreeMap::new),
                    ..Node::default()
                };
                let number = self.written.len();
                self.written.push(made.clone());
                self.synced.push(made);
                let (entries, name) = self.entries(path);
                entries.insert(name, number);
            }
            "append" => {
                let node = self.node(path);
                self.written[node].text.push_str(value.as_str().expect("a text"));
            }
            "cut" => {
                let (node, length) = (self.node(path), value.as_u64().expect("a length"));
                self.written[node]
                    .text
                    .truncate(usize::try_from(length).expect("small"));
            }
            "sync" => {
                let node = self.node(path);
                self.synced[node] = self.written[node].clone();
            }
            "rename" => {
                let (entries, name) = self.entries(path);
                let number = entries.remove(&name).expect("it is there");
                entries.insert(value.as_str().expect("a name").to_owned(), number);
            }
            "remove" => {
                let (entries, name) = self.entries(path);
                entries.remove(&name);
            }
            other => panic!("{other}"),
        }
    }

    /// Writes what is on the disk to the folder of the project.
    fn restore(&self) {
        let _ = std::fs::remove_dir_all(self.root.join(".ensemble"));
        self.restore_node(0, &self.root);
    }

    fn restore_node(&self, node: usize, path: &Path) {
        match &self.synced[node].entries {
            None => std::fs::write(path, &self.synced[node].text).expect("written"),
            Some(entries) => {
                std::fs::create_dir_all(path).expect("made");
                for (name, node) in entries {
                    self.restore_node(*node, &path.join(name));
                }
            }
        }
    }
}

/// A result without times, ids and numbers of attempts.
fn essence(outcome: &Outcome) -> Value {
    let mut result = outcome.json();
    for entry in result["conversation_history"].as_array_mut().expect("a history") {
        for key in ["execution_time", "timestamp", "attempt"] {
            entry[key] = Value::Null;
        }
    }
    result["run_id"] = Value::Null;
    result
}

#[test]
fn a_power_cut_at_any_point_loses_nothing_that_was_acted_upon() {
    let workspace = workspace();
    let mut command = workspace.command(["run", "power.yaml", "--durability", "commit", "--output", "json"]);
    command.env("ENSEMBLE_EFFECTS", workspace.path().join("effects.jsonl"));
    let ran = Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(0);
    let undisturbed = essence(&ran);
    let effects = workspace.read("effects.jsonl");
    let effects: Vec<Value> = effects
        .lines()
        .map(|line| serde_json::from_str(line).expect("an effect"))
        .collect();
    assert!(effects.len() > 40, "{}", effects.len());
    // By the number of the effects before it.
    let acted = workspace.read("acted.txt");
    let mut acted: Vec<(usize, &str)> = acted
        .lines()
        .map(|line| line.split_once(' ').expect("two words"))
        .map(|(number, agent)| (number.parse().expect("a number"), agent))
        .collect();
    acted.sort_unstable();
    assert_eq!(acted.len(), 4, "{acted:?}");

    let mut disk = Disk::new(workspace.path());
    let mut images: HashMap<String, usize> = HashMap::new();
    for (done, effect) in (1..).zip(&effects) {
        disk.perform(effect);
        if images.insert(format!("{:?}", disk.synced), done).is_some() {
            // The disk was like this before.
            continue;
        }
        disk.restore();
        let journals: String = workspace.runs().iter().map(|run| journals(run)).collect();
        for (after, agent) in &acted {
            let named = format!("\"agent\":\"{agent}\"");
            let is_start = |line: &str| line.contains("\"execution_started\"") && line.contains(&named);
            let is_recorded = journals.lines().any(is_start);
            assert!(
                *after > done || is_recorded,
                "{agent} was started after effect {after}, and a power cut after {done} loses that:\n{journals}"
            );
        }
        if journals.is_empty() {
            assert!(acted[0].0 > done, "the run is gone after effect {done}");
            continue;
        }
        let resumed = workspace.run(["resume", "--last", "--output", "json"]);
        let is_over = resumed.stderr.contains("has ended");
        assert!(
            resumed.code == 0 || is_over,
            "after effect {done}, {effect}: {}",
            resumed.stderr
        );
        if !is_over {
            assert_eq!(essence(&resumed), undisturbed, "after effect {done}, {effect}");
        }
    }
    assert!(images.len() > 10, "{}", images.len());
}

/// The journals of a run and of the runs inside it.
fn journals(run: &Path) -> String {
    let inner = std::fs::read_dir(run.join("sub")).into_iter().flatten().flatten();
    let folders = inner.map(|entry| entry.path()).chain([run.to_owned()]);
    folders
        .filter_map(|folder| std::fs::read_to_string(folder.join("journal.jsonl")).ok())
        .collect()
}
