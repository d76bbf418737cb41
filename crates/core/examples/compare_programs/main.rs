//! Compares what two builds of the program do: `cargo run -p ensemble-core --example compare_programs -- OLD NEW [ENSEMBLES]`.
//!
//! Both builds get the same projects: random ensembles (2,000 unless `ENSEMBLES` says otherwise), the shipped ensembles with
//! their test files, the project of the snapshots, and the recorded runs of `tests/fixtures`. Their documents and journals must
//! be the same, apart from the differences that `expected.rs` lists. It ends with exit code 1 if there are others. Ctrl-C stops
//! it at any time.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a tool starts programs, makes files and prints what it found"
)]

mod cases;
mod expected;
mod normalize;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use cases::Case;
use normalize::{journal_document, output_document};

/// How many cases are compared at once. Each starts one process at a time.
const WORKERS: usize = 2;

/// What was found for one kind of document.
#[derive(Default)]
struct Tally {
    same: usize,
    expected: usize,
    different: usize,
}

/// A difference that has the same place in some documents.
struct Difference {
    count: usize,
    example: String,
}

/// The result of the whole comparison.
#[derive(Default)]
struct Report {
    kinds: BTreeMap<String, Tally>,
    differences: BTreeMap<(String, String), Difference>,
    expected: BTreeMap<&'static str, usize>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(old), Some(new)) = (arguments.first(), arguments.get(1)) else {
        println!("usage: compare_programs OLD NEW [ENSEMBLES]");
        return ExitCode::from(2);
    };
    let programs = [old, new].map(|path| std::path::absolute(path).expect("a path"));
    let count = arguments
        .get(2)
        .map_or(2_000, |text| text.parse().expect("a number of ensembles"));
    let cases = cases::collect_cases(count);
    let report = Mutex::new(Report::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compare_case(case, &programs, &report);
                }
            });
        }
    });
    report.into_inner().expect("no worker panicked").print()
}

/// Executes the commands of a case with both programs, and compares the documents.
fn compare_case(case: &Case, programs: &[PathBuf; 2], report: &Mutex<Report>) {
    let [old, new] = [0, 1].map(|build| execute_case(case, &programs[build], build == 0));
    let mut report = report.lock().expect("no worker panicked");
    for ((kind, old), (_, new)) in old.iter().zip(&new) {
        report.add(kind, &case.name, old, new);
    }
}

/// Returns a document for each command, and one for the journals.
fn execute_case(case: &Case, program: &Path, is_old: bool) -> Vec<(String, Value)> {
    let folder = tempfile::tempdir().expect("a folder");
    let project = folder.path().join("project");
    case.write_files(&project, is_old);
    let mut documents = Vec::new();
    for command in &case.commands {
        let output = Command::new(program)
            .args(&command.arguments)
            .current_dir(&project)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder.path().join("home"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("ENSEMBLE_TRUST", "1")
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        let document = json!({
            "exit": output.status.code(),
            "stdout": output_document(&output.stdout, &project),
            "stderr": output_document(&output.stderr, &project),
        });
        documents.push((command.kind.to_owned(), document));
    }
    if case.compares_journals {
        documents.push(("journals".to_owned(), journal_document(&project)));
    }
    documents
}

impl Report {
    fn add(&mut self, kind: &str, case: &str, old: &Value, new: &Value) {
        let mut places = Vec::new();
        find_differences(String::new(), old, new, &mut places);
        let tally = self.kinds.entry(kind.to_owned()).or_default();
        let mut unexplained = Vec::new();
        let mut is_expected = false;
        for (place, texts) in places {
            match expected::find_reason(kind, case, &place, &texts) {
                Some(reason) => {
                    is_expected = true;
                    *self.expected.entry(reason).or_default() += 1;
                }
                None => unexplained.push((place, texts)),
            }
        }
        match (unexplained.is_empty(), is_expected) {
            (true, false) => tally.same += 1,
            (true, true) => tally.expected += 1,
            (false, _) => tally.different += 1,
        }
        for (place, [old, new]) in unexplained {
            let difference = self
                .differences
                .entry((kind.to_owned(), place))
                .or_insert_with(|| Difference {
                    count: 0,
                    example: format!("{case}\n      old {old}\n      new {new}"),
                });
            difference.count += 1;
        }
    }

    fn print(&self) -> ExitCode {
        println!("{:<24} {:>7} {:>9} {:>10}", "document", "same", "expected", "different");
        for (kind, tally) in &self.kinds {
            println!(
                "{kind:<24} {:>7} {:>9} {:>10}",
                tally.same, tally.expected, tally.different
            );
        }
        for (reason, count) in &self.expected {
            println!("expected {count:>6} times: {reason}");
        }
        for ((kind, place), difference) in &self.differences {
            println!(
                "\n{kind} {place}, {} times, first in {}",
                difference.count, difference.example
            );
        }
        ExitCode::from(u8::from(!self.differences.is_empty()))
    }
}

/// Collects the places at which two documents differ. Positions in lists are left out of a place.
fn find_differences(place: String, old: &Value, new: &Value, found: &mut Vec<(String, [String; 2])>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            for key in keys {
                let [a, b] = [a, b].map(|map| map.get(key).unwrap_or(&Value::Null));
                find_differences(format!("{place}.{key}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                find_differences(format!("{place}[]"), a, b, found);
            }
        }
        _ => found.push((place, [old, new].map(shorten))),
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
