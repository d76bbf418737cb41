//! Lists of promises with the tests that go red when a promise breaks.
//!
//! A list is TOML with one entry a line: `"promise" = ["file::function", …]`. The test of a feature file is the name of a scenario:
//! `features/NAME.feature::SCENARIO`.

use std::collections::BTreeMap;

use crate::support::files::read;

/// A promise, or its beginning, and the tests that fail if it is broken.
pub(super) struct PromiseProof {
    pub(super) promise: String,
    /// Each as `file::function`.
    pub(super) tests: Vec<String>,
}

/// Parses one entry: the promise and the text of its value.
pub(super) fn split_entry<'a>(file: &str, line: &'a str) -> (&'a str, &'a str) {
    let entry = line.strip_prefix('"').and_then(|line| line.split_once("\" = "));
    entry.unwrap_or_else(|| panic!("{file}: this is no entry: {line}"))
}

/// Parses a list of tests: `["file::function", …]`. Returns `None` if the value is no list.
pub(super) fn parse_tests(value: &str) -> Option<Vec<String>> {
    let list = value.strip_prefix('[')?.strip_suffix(']')?;
    Some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Parses a list of promises. `file` is the name of the list for errors.
pub(super) fn parse_proofs(file: &str, text: &str) -> Vec<PromiseProof> {
    let is_entry = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let parse = |line: &str| {
        let (promise, value) = split_entry(file, line);
        PromiseProof {
            promise: promise.to_owned(),
            tests: parse_tests(value).unwrap_or_else(|| panic!("{file}: this is no list of tests: {line}")),
        }
    };
    text.lines().filter(is_entry).map(parse).collect()
}

/// Returns the named tests that are not in the sources.
pub(super) fn find_missing_tests<'a>(tests: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut is_missing = |test: &str| {
        let Some((file, name)) = test.split_once("::") else {
            return true;
        };
        let text = texts.entry(file.to_owned()).or_insert_with_key(|file| read(file));
        match file.ends_with(".feature") {
            true => !text.lines().any(|line| is_scenario(line, name)),
            false => !text.contains(&format!("fn {name}(")),
        }
    };
    tests.filter(|test| is_missing(test)).collect()
}

/// Returns whether a line of a feature file begins the scenario with this name.
fn is_scenario(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    ["Scenario: ", "Scenario Outline: "]
        .iter()
        .any(|start| line.strip_prefix(start) == Some(name))
}

#[test]
fn tests_are_found_by_file_and_name() {
    let tests = [
        "tests/project/promises.rs::tests_are_found_by_file_and_name",
        "tests/project/promises.rs::tests_are_found",
        "features/limits.feature::Twenty turns are the default",
        "features/limits.feature::Twenty turns",
        "no name",
    ];
    let tests = tests.map(str::to_owned);
    let missing = find_missing_tests(tests.iter());
    assert_eq!(missing, [&tests[1], &tests[3], &tests[4]]);
}
