//! The projects and commands that are compared.

use std::path::{Path, PathBuf};

use ensemble_language::plan::Plan;
use ensemble_language::random_ensembles::plan_with_results;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// A project, and commands that are executed in it one after the other.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) commands: Vec<CaseCommand>,
    pub(crate) compares_journals: bool,
    files: Vec<(String, String)>,
    folders: Vec<(PathBuf, &'static str)>,
}

/// A command, and the kind of its output in the report.
pub(crate) struct CaseCommand {
    pub(crate) kind: &'static str,
    pub(crate) arguments: Vec<String>,
}

/// Agents fail, or return a number, as the number of their execution says.
const FATE: &str = "
let fate = parameters.fate[(parameters.at * 11 + execution * 7) % parameters.fate.len()];
if fate % 5 == 0 { throw `fails with ${fate}`; }
#{ n: fate % 4, fate: fate }
";

/// How many random ensembles one project has.
const ENSEMBLES_IN_A_PROJECT: usize = 20;

/// The format of the journals of the older program, if it differs from that of the fixtures.
const OLD_FORMAT: &str = "\"format\":4";

impl Case {
    /// Writes the files of the project. Fixtures get the format that the older program reads.
    pub(crate) fn write_files(&self, project: &Path, is_old: bool) {
        std::fs::create_dir_all(project).expect("folders can be made");
        for (from, to) in &self.folders {
            copy_folder(from, &project.join(to), is_old);
        }
        for (name, text) in &self.files {
            std::fs::write(project.join(name), text).expect("files can be written");
        }
    }
}

/// Collects all cases: random ensembles first.
pub(crate) fn collect_cases(random_ensembles: usize) -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cases = random_cases(random_ensembles);
    for folder in ["ensembles", "tests/snapshots/project/ensembles"] {
        cases.push(folder_case(&root, folder));
        let names = list_names(&root.join(folder), |name| {
            name.ends_with(".yaml")
                && !name.ends_with(".test.yaml")
                && !["cancelled.yaml", "timeout.yaml"].contains(&name)
        });
        cases.extend(names.iter().map(|name| ensemble_case(&root, folder, name)));
    }
    for format in list_names(&root.join("tests/fixtures"), |name| name.starts_with("format-")) {
        for run in ["complete", "waiting"] {
            cases.push(fixture_case(&root, &format, run));
        }
    }
    cases
}

fn command(kind: &'static str, arguments: &[&str]) -> CaseCommand {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    CaseCommand { kind, arguments }
}

fn random_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    let strategy = plan_with_results();
    let texts: Vec<String> = (0..count)
        .map(|_| {
            let (plan, fate) = strategy.new_tree(&mut runner).expect("a random ensemble").current();
            write_ensemble(&plan, &fate)
        })
        .collect();
    let projects = texts.chunks(ENSEMBLES_IN_A_PROJECT).enumerate();
    projects.map(|(number, texts)| random_case(number, texts)).collect()
}

fn random_case(number: usize, texts: &[String]) -> Case {
    let mut files = vec![("fate.rhai".to_owned(), FATE.to_owned())];
    let mut commands = vec![command("validate, random", &["validate", ".", "--output", "json"])];
    for (at, text) in texts.iter().enumerate() {
        let file = format!("r{at}.yaml");
        commands.push(command(
            "run, random",
            &["run", &file, "-i", "in", "--output", "json", "--durability", "none"],
        ));
        commands.push(command(
            "check, random",
            &[
                "check",
                &file,
                "--output",
                "json",
                "--max-states",
                "300",
                "--max-time",
                "1h",
            ],
        ));
        commands.push(command("graph, random", &["graph", &file]));
        files.push((file, text.clone()));
    }
    Case {
        name: format!("random project {number}"),
        commands,
        compares_journals: true,
        files,
        folders: Vec::new(),
    }
}

/// All files of a folder at once: `validate`, `test` and `list`.
fn folder_case(root: &Path, folder: &str) -> Case {
    Case {
        name: folder.to_owned(),
        commands: vec![
            command("validate", &["validate", "--output", "json"]),
            command("validate, sarif", &["validate", "--output", "sarif"]),
            command("test", &["test", "--output", "json", "--coverage"]),
            command("list", &["list", "--output", "json"]),
        ],
        compares_journals: false,
        files: Vec::new(),
        folders: vec![(root.join(folder), "ensembles")],
    }
}

/// An ensemble: it is checked, drawn and run, and its record is read by every command.
fn ensemble_case(root: &Path, folder: &str, name: &str) -> Case {
    let file = format!("ensembles/{name}");
    let mut commands = vec![
        command("check", &["check", &file, "--output", "json"]),
        command("explain", &["explain", &file]),
        command(
            "run",
            &[
                "run",
                &file,
                "-i",
                "the sea",
                "--model",
                "*=simulated",
                "--output",
                "json",
            ],
        ),
        command("run, human", &["run", &file, "-i", "the sea", "--model", "*=simulated"]),
        command("runs show", &["runs", "show", "--output", "json"]),
        command("runs list", &["runs", "list", "--output", "json"]),
        command("runs export", &["runs", "export", "--output", "json"]),
        command("runs export, markdown", &["runs", "export", "--output", "markdown"]),
        command("replay", &["replay", "--last", "--output", "json"]),
        command("estimate", &["estimate", &file, "--last", "--output", "json"]),
        command("graph, run", &["graph", "--last", "--output", "ascii"]),
    ];
    for format in ["mermaid", "dot", "svg", "ascii"] {
        commands.push(command("graph", &["graph", &file, "--output", format]));
    }
    Case {
        name: format!("{folder}/{name}"),
        commands,
        compares_journals: true,
        files: Vec::new(),
        folders: vec![(root.join(folder), "ensembles")],
    }
}

/// A recorded run.
fn fixture_case(root: &Path, format: &str, run: &str) -> Case {
    let folder = root.join("tests/fixtures").join(format);
    Case {
        name: format!("fixture {format}/{run}"),
        commands: vec![
            command("fixture, runs show", &["runs", "show", "record", "--output", "json"]),
            command("fixture, runs show -v", &["runs", "show", "record", "-v"]),
            command("fixture, messages", &["runs", "show", "record", "--messages"]),
            command("fixture, export", &["runs", "export", "record", "--output", "json"]),
            command(
                "fixture, markdown",
                &["runs", "export", "record", "--output", "markdown"],
            ),
            command("fixture, replay", &["replay", "record", "--output", "json"]),
            command("fixture, graph", &["graph", "--run", "record"]),
        ],
        compares_journals: false,
        files: Vec::new(),
        folders: vec![(folder.join(run), "record"), (folder.join("project"), ".")],
    }
}

fn list_names(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let names = entries.map(|entry| {
        entry
            .expect("the folder can be read")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let mut names: Vec<String> = names.filter(|name| is_wanted(name)).collect();
    names.sort();
    names
}

fn copy_folder(from: &Path, to: &Path, is_old: bool) {
    std::fs::create_dir_all(to).expect("folders can be made");
    for name in list_names(from, |_| true) {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy_folder(&source, &target, is_old);
        } else if is_old && name == "journal.jsonl" {
            let journal = std::fs::read_to_string(&source).expect("a journal");
            std::fs::write(&target, with_old_format(&journal)).expect("files can be written");
        } else {
            std::fs::copy(&source, &target).expect("files can be copied");
        }
    }
}

/// The journal with the format of the older program in its first line, and the checksum that belongs to it.
fn with_old_format(journal: &str) -> String {
    let (first, rest) = journal.split_once('\n').expect("a record");
    let (body, _) = first.rsplit_once(",\"crc\"").expect("a checksum");
    let body = body.replace("\"format\":1", OLD_FORMAT);
    let crc = crc32fast::hash(body.as_bytes());
    format!("{body},\"crc\":\"{crc:08x}\"}}\n{rest}")
}

/// Writes an ensemble whose agents are scripts with these fates.
fn write_ensemble(plan: &Plan, fate: &[u8]) -> String {
    let agents = plan.ensemble().agents.iter().enumerate();
    let agents: Vec<Value> = agents
        .map(|(at, agent)| {
            let dependencies: Vec<Value> = agent
                .dependencies
                .iter()
                .map(|dependency| {
                    let mut written = json!({
                        "agent_name": dependency.agent_name,
                        "requires_all": dependency.requires_all,
                        "feedback": dependency.feedback,
                        "on": format!("{:?}", dependency.on).to_lowercase(),
                    });
                    if dependency.requires_all {
                        written["wait_for"] = json!(format!("{:?}", dependency.wait_for).to_lowercase());
                    }
                    if let Some(condition) = &dependency.condition {
                        written["condition"] = json!(&**condition);
                    }
                    if let Some(most) = dependency.max_executions {
                        written["max_executions"] = json!(most);
                    }
                    written
                })
                .collect();
            let is_every_turn = format!("{:?}", agent.conversation.trigger) == "EveryTurn";
            json!({
                "name": agent.name,
                "script": "fate.rhai",
                "config": {"at": at, "fate": fate},
                "dependencies": dependencies,
                "on_error": if at % 2 == 0 { "fail" } else { "continue" },
                "conversation": {
                    "max_turns": agent.conversation.max_turns,
                    "trigger": if is_every_turn { "every_turn" } else { "news" },
                },
            })
        })
        .collect();
    json!({"name": "random", "agents": agents}).to_string()
}
