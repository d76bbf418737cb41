//! What `validate` accepts, `run` starts, and what it refuses, `run` refuses: for files that are changed at random.

#![expect(
    clippy::disallowed_methods,
    reason = "the number of changed files comes from the environment, and the files from the project"
)]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::blocks::blocks;
use crate::support::files::project;
use crate::support::{Outcome, Workspace};

/// The changed files of one test; `ENSEMBLE_MUTANTS` is another number.
const MUTANTS: usize = 2000;

/// Numbers that look random and are the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize >> 1
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end.max(1)
    }

    fn one<'t, T: ?Sized>(&mut self, all: &[&'t T]) -> &'t T {
        all[self.below(all.len())]
    }
}

const VALUES: [&str; 24] = [
    "1",
    "0",
    "-1",
    "3",
    "2.5",
    "1e9",
    "true",
    "false",
    "null",
    "''",
    "x",
    "'a b'",
    "[]",
    "{}",
    "[a]",
    "[1, 2]",
    "{a: 1}",
    "30s",
    "output.n > 1",
    "'{{ input }}'",
    "'{{ nobody }}'",
    "any",
    "settled",
    "failure",
];

const LINES: [&str; 18] = [
    "on: failure",
    "wait_for: settled",
    "feedback: true",
    "max_executions: 2",
    "condition: turn_count > 1",
    "timeout_seconds: 5",
    "conversation: {max_turns: 2}",
    "retry: {attempts: 3}",
    "on_error: continue",
    "output_schema: {type: object}",
    "depends_on: [a]",
    "prompt: '{{ transcript }}'",
    "for_each: {in: [1, 2], as: one}",
    "input: {prompt: hi}",
    "script: a.rhai",
    "limits: {max_turns: 3}",
    "inputs: {topic: {type: string, default: x}}",
    "result: a",
];

/// The text with one line changed.
fn changed(text: &str, dice: &mut Dice) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = dice.below(lines.len());
    let indent = |line: &str| line.len() - line.trim_start().len();
    match dice.below(9) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = dice.below(lines.len());
            lines.swap(at, other);
        }
        3 => {
            let space = " ".repeat(indent(&lines[at]));
            lines.insert(at, format!("{space}{}", dice.one(&LINES)));
        }
        4 => lines[at] = format!("  {}", lines[at]),
        5 | 6 => {
            let value = dice.one(&VALUES);
            let line = &mut lines[at];
            let keys: Vec<usize> = line.match_indices(": ").map(|(at, _)| at + 2).collect();
            if let Some(&start) = keys.get(dice.below(keys.len())) {
                let end = line[start..]
                    .find([',', '}', ']'])
                    .map_or(line.len(), |end| start + end);
                line.replace_range(start..end, value);
            }
        }
        7 => {
            let words = words(text);
            let line = &lines[at];
            let own: Vec<&str> = self::words(line).into_iter().collect();
            if !own.is_empty() {
                let (old, new) = (
                    dice.one(&own).to_owned(),
                    dice.one(&words.into_iter().collect::<Vec<_>>()),
                );
                lines[at] = lines[at].replacen(&old, new, 1);
            }
        }
        _ => {
            let line = &mut lines[at];
            let places: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
            if let Some(&place) = places.get(dice.below(places.len())) {
                line.remove(place);
            }
        }
    }
    lines.join("\n") + "\n"
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .filter(|word| !word.is_empty())
        .collect()
}

/// A folder with all files that the ensembles of the project need, and the texts of these ensembles.
fn originals() -> (Workspace, Vec<String>) {
    let workspace = Workspace::new();
    let mut texts = Vec::new();
    workspace.write("a.rhai", "let said = #{n: execution}; said");
    for document in ["docs/reference", "README.md", "docs/getting-started.md"] {
        for block in blocks(document) {
            if let Some(name) = block.value("file") {
                workspace.write(name, &block.text);
            }
            texts.extend(block.ensemble().map(|text| text.replace("ensemble: allow", "")));
        }
    }
    copy("ensembles", &workspace, &mut texts);
    (workspace, texts)
}

fn copy(folder: &str, workspace: &Workspace, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(project().join(folder))
        .expect("a folder")
        .map_while(Result::ok)
    {
        let name = entry.file_name().into_string().expect("a name");
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            copy(&path, workspace, texts);
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        if folder == "ensembles" && name.ends_with(".yaml") && !name.ends_with(".test.yaml") {
            texts.push(text.clone());
        }
        workspace.write(path.strip_prefix("ensembles/").unwrap_or(&path), text);
    }
}

/// The reasons for which a run does not start that are not the file's: values, people and servers that only a run has.
fn is_of_the_run(outcome: &Outcome) -> bool {
    ["--set", "--input", "environment variable", "--mcp-config"]
        .iter()
        .any(|said| outcome.stderr.contains(said))
}

#[test]
fn a_run_starts_exactly_what_is_accepted() {
    let number = std::env::var("ENSEMBLE_MUTANTS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(MUTANTS);
    let (workspace, texts) = originals();
    let mut dice = Dice(1);
    let mut names = Vec::new();
    for number in 0..number {
        let mut text = changed(
            dice.one(&texts.iter().map(String::as_str).collect::<Vec<_>>()),
            &mut dice,
        );
        for _ in 0..dice.below(2) {
            text = changed(&text, &mut dice);
        }
        let name = format!("m{number:05}.yaml");
        workspace.write(&name, text);
        names.push(name);
    }
    let arguments = ["validate", "--format", "json", "--no-config"].map(str::to_owned);
    let report = workspace.run(arguments.iter().chain(&names)).json();
    let diagnostics = report["diagnostics"].as_array().expect("a list");
    // What only a warning tells can be refused here: a model profile or a program that another machine has.
    // A missing attachment is an error of the execution, because an agent before it can write the file.
    let told = |is_told: fn(&Value) -> bool| -> BTreeSet<&str> {
        let told = diagnostics.iter().filter(|one| is_told(one));
        told.filter_map(|one| one["file"].as_str()).collect()
    };
    let refused = told(|one| one["severity"] == "error" && one["code"] != "E057");
    let reported = told(|_| true);
    let mut accepted = 0;
    let mut wrong = Vec::new();
    for name in &names {
        let is_refused = refused.contains(name.as_str());
        accepted += usize::from(!is_refused);
        if is_refused && dice.below(8) > 0 {
            continue;
        }
        let ran = workspace.run(["run", "--dry-run", name]);
        let is_silent = ran.code == 2 && !reported.contains(name.as_str()) && !is_of_the_run(&ran);
        if is_silent || is_refused && ran.code != 2 {
            let found: Vec<&Value> = diagnostics
                .iter()
                .filter(|one| one.to_string().contains(name))
                .collect();
            wrong.push(format!(
                "{name}: code {}\n{}\n{found:?}\n{}",
                ran.code,
                ran.stderr,
                workspace.read(name)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        names.len(),
        wrong[..wrong.len().min(5)].join("\n======\n")
    );
    // Enough of each.
    assert!(
        accepted * 10 > names.len() && accepted * 10 < names.len() * 9,
        "{accepted} of {}",
        names.len()
    );
}
