//! Each promise of the page on security has its tests in `security_promises.toml`.
//!
//! No promise is without a test.

use super::promises::{PromiseProof, find_missing_tests, parse_proofs};
use crate::support::files::read;

const PAGE: &str = "docs/security.md";

/// The list of the tests of each promise.
const PROOFS: &str = "tests/project/security_promises.toml";

/// The section of the page that promises nothing.
const NOT_PROMISED: &str = "What is not promised";

/// The largest number of words of the page.
const MOST_WORDS: usize = 5100;

/// The smallest number of words by which a promise is named.
const FEWEST_WORDS: usize = 5;

/// Lists the promises of a page, each on one line: the items and the paragraphs of all sections but one.
///
/// The introduction, and paragraphs that begin with `Attack`, describe what is promised against.
fn list_promises(page: &str) -> Vec<String> {
    let mut promises: Vec<String> = Vec::new();
    let mut is_promised = false;
    let mut is_open = false;
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            is_promised = heading != NOT_PROMISED;
        }
        if line.trim().is_empty() || line.starts_with('#') || !is_promised {
            is_open = false;
            continue;
        }
        let item = line.strip_prefix("- ");
        if !is_open || item.is_some() {
            promises.push(String::new());
        }
        if let Some(promise) = promises.last_mut() {
            if !promise.is_empty() {
                promise.push(' ');
            }
            promise.push_str(item.unwrap_or(line).trim());
        }
        is_open = true;
    }
    promises.retain(|promise| !promise.starts_with("Attack"));
    promises
}

#[test]
fn every_promise_has_an_entry_and_every_entry_a_promise() {
    let promises = list_promises(&read(PAGE));
    let proofs = parse_proofs(PROOFS, &read(PROOFS));
    assert!(promises.len() > 100, "{PAGE} has {} promises", promises.len());
    let mut wrong = Vec::new();
    for promise in &promises {
        let of_promise = |proof: &&PromiseProof| promise.starts_with(&proof.promise);
        let found = proofs.iter().filter(of_promise).count();
        if found != 1 {
            wrong.push(format!("{found} entries for the promise `{promise}`"));
        }
    }
    for proof in &proofs {
        let of_proof = |promise: &&String| promise.starts_with(&proof.promise);
        let found = promises.iter().filter(of_proof).count();
        if found != 1 {
            wrong.push(format!("{found} promises for the entry `{}`", proof.promise));
        }
        if proof.promise.split(' ').count() < FEWEST_WORDS {
            wrong.push(format!("the entry `{}` has too few words", proof.promise));
        }
    }
    assert!(wrong.is_empty(), "{PAGE} and {PROOFS} differ:\n{}", wrong.join("\n"));
}

#[test]
fn every_test_of_a_promise_is_there() {
    let proofs = parse_proofs(PROOFS, &read(PROOFS));
    let missing = find_missing_tests(proofs.iter().flat_map(|proof| &proof.tests));
    assert!(
        missing.is_empty(),
        "{PROOFS} names tests that are not there: {missing:#?}"
    );
}

#[test]
fn no_promise_is_without_a_test() {
    let proofs = parse_proofs(PROOFS, &read(PROOFS));
    let untested: Vec<&String> = proofs
        .iter()
        .filter(|proof| proof.tests.is_empty())
        .map(|proof| &proof.promise)
        .collect();
    assert!(untested.is_empty(), "promises without a test: {untested:#?}");
}

/// Requires a short page, with one list at its end, so that a reader finds what is not promised.
#[test]
fn the_page_lists_once_what_is_not_promised() {
    let page = read(PAGE);
    let last = page.lines().rfind(|line| line.starts_with("## "));
    assert_eq!(last, Some("## What is not promised"));
    assert!(!page.contains("Not promised"), "{PAGE} has another list");
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words = page.split_whitespace().filter(is_word).count();
    assert!(words <= MOST_WORDS, "{PAGE} has {words} words");
}

#[test]
fn items_and_paragraphs_are_promises() {
    let page = "# A\n\nNot one.\n\n- Not\n  one.\n\n## B\n\nAttackers: a,\nb.\n\n- One\n  item.\n- Two.\n\nA\nparagraph.\n- Three.\n\n\
                ### C\n\nFour.\n\n## What is not promised\n\n- Not one.\n";
    assert_eq!(
        list_promises(page),
        ["One item.", "Two.", "A paragraph.", "Three.", "Four."]
    );
    let proofs = parse_proofs(
        "a list",
        "# A comment\n\n\"One *item*, a\" = [\"a.rs::b\", \"c.rs::d\"]\n\"Two\" = []\n",
    );
    let found: Vec<(&str, usize)> = proofs
        .iter()
        .map(|proof| (proof.promise.as_str(), proof.tests.len()))
        .collect();
    assert_eq!(found, [("One *item*, a", 2), ("Two", 0)]);
    assert_eq!(proofs[0].tests, ["a.rs::b", "c.rs::d"]);
}
