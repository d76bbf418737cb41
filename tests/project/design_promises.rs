//! The promises of the design documents, each with its tests or with the reason for a difference, in `design_promises.toml`.
//!
//! The pages in `docs/design-documents/` and the list of differences in `docs/design-documents.md` are written from that list:
//! `UPDATE_PAGES=1 cargo test --test project design_promises`.
//!
//! `UNTESTED` is the count of today. Whoever writes a missing test lowers it; nothing raises it.

#![expect(
    clippy::disallowed_methods,
    reason = "tests write the pages that follow from the list"
)]

use super::promises::{find_missing_tests, parse_tests, split_entry};
use crate::support::files::{pages, project, read};

/// The list. A heading `["page"."section"]` begins a section; a value is a list of tests, or the reason for a difference.
const PROMISES: &str = "tests/project/design_promises.toml";

const INDEX: &str = "docs/design-documents.md";
const PAGES: &str = "docs/design-documents";

/// The lines of the index between which the differences are.
const DIFFERENCES: [&str; 2] = ["<!-- differences -->\n", "<!-- end of differences -->\n"];

/// The documents: the name of the page, and the title.
const DOCUMENTS: [(&str, &str); 5] = [
    ("adr-005", "ADR-005: Multi-Turn Agent Conversations"),
    ("functional-conversations", "Functional Conversation Management"),
    ("model-integration", "Multi-turn Language Model Integration"),
    ("async-generator", "Conversations as an async generator"),
    ("context-module", "Context Module Implementation"),
];

/// The largest number of promises without a test.
const UNTESTED: usize = 1;

/// The largest number of words of a page.
const MOST_WORDS: usize = 3500;

/// A promise of a document.
struct DesignPromise {
    page: String,
    section: String,
    promise: String,
    proof: Proof,
}

enum Proof {
    Tests(Vec<String>),
    /// The reason for which the project does otherwise.
    Difference(String),
}

fn list_promises() -> Vec<DesignPromise> {
    let text = read(PROMISES);
    let mut place = (String::new(), String::new());
    let mut promises = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            let mut names = line.split('"').skip(1).step_by(2).map(str::to_owned);
            place = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
            continue;
        }
        let (promise, value) = split_entry(PROMISES, line);
        let proof = match parse_tests(value) {
            Some(tests) => Proof::Tests(tests),
            None => Proof::Difference(value.trim_matches('"').to_owned()),
        };
        promises.push(DesignPromise {
            page: place.0.clone(),
            section: place.1.clone(),
            promise: promise.to_owned(),
            proof,
        });
    }
    promises
}

/// Returns the page of a document.
fn render_page((name, title): (&str, &str), promises: &[DesignPromise]) -> String {
    let mut text = format!(
        "# Where “{title}” is kept\n\nEach row is a promise of the [document](../design-documents.md) and the tests that fail if it is \
         broken. A `.feature` file names a scenario.\n"
    );
    let mut section = "";
    for promise in promises.iter().filter(|promise| promise.page == name) {
        if promise.section != section {
            section = &promise.section;
            text.push_str(&format!("\n## {section}\n\n| promise | test |\n|---|---|\n"));
        }
        let proof = match &promise.proof {
            Proof::Tests(tests) => tests
                .iter()
                .map(|test| format!("`{test}`"))
                .collect::<Vec<_>>()
                .join("<br>"),
            Proof::Difference(_) => {
                "different, see [the reason](../design-documents.md#deliberate-differences)".to_owned()
            }
        };
        text.push_str(&format!("| {} | {proof} |\n", promise.promise));
    }
    text
}

/// Returns the list of differences.
fn render_differences(promises: &[DesignPromise]) -> String {
    let mut text = String::from("\n| document | promise | what the program does, and why |\n|---|---|---|\n");
    for promise in promises {
        if let Proof::Difference(reason) = &promise.proof {
            let page = &promise.page;
            text.push_str(&format!(
                "| [{page}](design-documents/{page}.md) | {} | {reason} |\n",
                promise.promise
            ));
        }
    }
    text + "\n"
}

/// Compares a file with its text, or writes it.
fn compare_or_update(file: &str, expected: &str) {
    if std::env::var_os("UPDATE_PAGES").is_some() {
        std::fs::write(project().join(file), expected).expect("a page can be written");
    }
    assert!(
        read(file) == expected,
        "{file} is not what {PROMISES} says; `UPDATE_PAGES=1 cargo test --test project design_promises` writes it"
    );
}

#[test]
fn every_test_of_a_promise_is_there() {
    let promises = list_promises();
    let tests = promises.iter().filter_map(|promise| match &promise.proof {
        Proof::Tests(tests) => Some(tests),
        Proof::Difference(_) => None,
    });
    let missing = find_missing_tests(tests.flatten());
    assert!(
        missing.is_empty(),
        "{PROMISES} names tests that are not there: {missing:#?}"
    );
}

#[test]
fn the_pages_are_those_of_the_list() {
    let promises = list_promises();
    assert!(promises.len() > 100, "{}", promises.len());
    for promise in &promises {
        assert!(
            DOCUMENTS.iter().any(|(name, _)| *name == promise.page),
            "{}",
            promise.promise
        );
        assert!(
            !promise.promise.contains('|') && !promise.section.is_empty(),
            "{}",
            promise.promise
        );
    }
    for document in DOCUMENTS {
        let page = format!("{PAGES}/{}.md", document.0);
        let text = render_page(document, &promises);
        compare_or_update(&page, &text);
        let words = text.split_whitespace().count();
        assert!(words <= MOST_WORDS, "{page} has {words} words");
        assert!(
            read(INDEX).contains(&format!("(design-documents/{}.md)", document.0)),
            "{page}"
        );
    }
    assert_eq!(pages(PAGES).len(), DOCUMENTS.len());
}

/// Each deliberate difference has its reason, and all reasons are in one list.
#[test]
fn the_differences_are_those_of_the_list() {
    let promises = list_promises();
    let index = read(INDEX);
    let (before, rest) = index.split_once(DIFFERENCES[0]).expect("the beginning of the list");
    let (_, after) = rest.split_once(DIFFERENCES[1]).expect("the end of the list");
    let list = render_differences(&promises);
    compare_or_update(INDEX, &[before, DIFFERENCES[0], &list, DIFFERENCES[1], after].concat());
    for promise in &promises {
        if let Proof::Difference(reason) = &promise.proof {
            assert!(reason.split_whitespace().count() >= 8, "{}: no reason", promise.promise);
        }
    }
    let words = index.split_whitespace().count();
    assert!(words <= MOST_WORDS, "{INDEX} has {words} words");
}

#[test]
fn promises_without_a_test_become_no_more() {
    let promises = list_promises();
    let untested: Vec<&String> = promises
        .iter()
        .filter(|promise| matches!(&promise.proof, Proof::Tests(tests) if tests.is_empty()))
        .map(|promise| &promise.promise)
        .collect();
    assert!(
        untested.len() <= UNTESTED,
        "more than {UNTESTED} promises have no test: {untested:#?}"
    );
}
