//! The guide from hand-written loops to dialogues, in the page of the library.

use std::collections::BTreeSet;

use super::words::collect_sources;
use crate::support::files::{project, read};

const GUIDE: &str = "docs/library.md";

/// Returns the names of functions in the text: words before `(` or `::<`, and words with `_`.
fn list_function_names(text: &str) -> BTreeSet<String> {
    let code = text.split('`').skip(1).step_by(2);
    let mut names = BTreeSet::new();
    for code in code {
        let mut rest = code;
        while let Some(at) = rest.find(['(', '<']) {
            let before = rest[..at].trim_end_matches("::");
            let start = before
                .rfind(|c: char| !c.is_alphanumeric() && c != '_')
                .map_or(0, |at| at + 1);
            names.insert(before[start..].to_owned());
            rest = &rest[at + 1..];
        }
        if code.starts_with("with_") || !code.contains(|c: char| !c.is_alphanumeric() && c != '_') {
            names.insert(code.split('(').next().unwrap_or_default().to_owned());
        }
    }
    // Every value can be cloned.
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && name != "clone");
    names
}

#[test]
fn the_guide_from_loops_names_what_exists() {
    let guide = read(GUIDE);
    let section = guide
        .split("### From hand-written loops")
        .nth(1)
        .expect("the section is there");
    let section = section.split("\n### ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let answers: String = rows.map(|row| row.rsplit(" | ").next().unwrap_or_default()).collect();
    let names = list_function_names(&answers);
    assert!(names.len() >= 8, "{names:?}");
    let sources: String = ["crates/agents/src/agent/chat", "crates/core/src/thread"]
        .into_iter()
        .flat_map(list_sources)
        .collect();
    let missing: Vec<&String> = names
        .iter()
        .filter(|name| !sources.contains(&format!("fn {name}(")) && !sources.contains(&format!("fn {name}<")))
        .collect();
    assert!(
        missing.is_empty(),
        "{GUIDE} names functions that are not there: {missing:?}"
    );
}

/// Returns the error enums of a source that have no `#[non_exhaustive]`.
fn list_exhaustive_errors(source: &str) -> Vec<&str> {
    let mut attributes = Vec::new();
    let mut names = Vec::new();
    for line in source.lines() {
        if line.starts_with("#[") {
            attributes.push(line);
            continue;
        }
        if let Some(rest) = line.strip_prefix("pub enum ") {
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if name.contains("Error") && !attributes.contains(&"#[non_exhaustive]") {
                names.push(name);
            }
        }
        attributes.clear();
    }
    names
}

#[test]
fn errors_of_the_library_can_grow() {
    let exports = read("src/lib.rs");
    let exports: BTreeSet<&str> = exports.split(|c: char| !c.is_alphanumeric()).collect();
    let mut files = Vec::new();
    collect_sources(&project().join("crates"), &mut files);
    let sources: Vec<String> = files.iter().map(read).collect();
    let errors = sources.iter().flat_map(|source| list_exhaustive_errors(source));
    let exported: Vec<&str> = errors.filter(|name| exports.contains(name)).collect();
    assert!(exported.is_empty(), "without #[non_exhaustive]: {exported:?}");
    assert!(exports.contains("RunError") && sources.len() > 100);
}

/// Returns the texts of the sources in a folder.
#[expect(clippy::disallowed_methods, reason = "the test reads the project's own sources")]
fn list_sources(folder: &str) -> Vec<String> {
    let folder = project().join(folder);
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"));
    files
        .map(|file| std::fs::read_to_string(file.path()).expect("a source"))
        .collect()
}
