//! Names and doc comments say what they mean: the number of vague ones never grows.
//!
//! `CEILINGS` are the counts of today. Whoever lowers a count lowers its ceiling; nothing raises one.

#![expect(clippy::disallowed_methods, reason = "the test reads the project's own sources")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::files::project;

/// The patterns, each with the largest number of items that may have it.
const CEILINGS: &[(Pattern, usize)] = &[
    (Pattern::ParticipleFunction, 4),
    (Pattern::PrepositionFunction, 0),
    (Pattern::FunctionOf, 1),
    (Pattern::FunctionDoc, 5),
    (Pattern::TypeDoc, 1),
    (Pattern::SharedTypeName, 0),
    (Pattern::ParticipleType, 3),
];

/// The smallest number of words in the names of functions, on average, in hundredths.
const WORDS_OF_FUNCTIONS: usize = 200;

/// A pattern of names or doc comments that a reader does not understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    /// A function that is named by a participle alone: `told`.
    ParticipleFunction,
    /// A function that is named by a preposition or an adverb alone: `within`.
    PrepositionFunction,
    /// A function `of`, `of_x` or `x_of`.
    FunctionOf,
    /// The doc comment of a function that begins with a question word or a pronoun.
    FunctionDoc,
    /// The doc comment of a type that begins with a question word or a pronoun.
    TypeDoc,
    /// A type with a name that another type has, too.
    SharedTypeName,
    /// A type that is named by a participle alone: `CarriedInputs`.
    ParticipleType,
}

/// A function or a type of the sources.
struct Item {
    place: String,
    is_function: bool,
    name: String,
    /// The first word of the doc comment.
    doc: Option<String>,
}

const OPENERS: &[&str] = &[
    "What", "How", "Why", "Who", "Whose", "Where", "When", "Which", "Its", "His", "Their", "Those", "That", "These",
    "This", "It", "They", "Whether", "Is", "One", "Nobody", "Somebody",
];

const PREPOSITIONS: &[&str] = &[
    "above",
    "after",
    "again",
    "against",
    "along",
    "alone",
    "among",
    "anew",
    "apart",
    "around",
    "at",
    "before",
    "behind",
    "below",
    "beside",
    "besides",
    "between",
    "beyond",
    "by",
    "during",
    "elsewhere",
    "everywhere",
    "in",
    "inside",
    "instead",
    "of",
    "off",
    "on",
    "once",
    "out",
    "over",
    "past",
    "through",
    "to",
    "together",
    "under",
    "until",
    "up",
    "upward",
    "with",
    "within",
    "without",
];

const IRREGULAR_PARTICIPLES: &[&str] = &[
    "begun",
    "bound",
    "broken",
    "brought",
    "built",
    "chosen",
    "drawn",
    "driven",
    "fallen",
    "found",
    "given",
    "gone",
    "grown",
    "heard",
    "held",
    "hidden",
    "kept",
    "known",
    "left",
    "lost",
    "made",
    "meant",
    "met",
    "read",
    "said",
    "seen",
    "sent",
    "shown",
    "spelt",
    "spent",
    "spoken",
    "stood",
    "struck",
    "taken",
    "told",
    "thrown",
    "torn",
    "understood",
    "unread",
    "unseen",
    "withdrawn",
    "written",
];

/// Words that end like a participle, or that are also a base form.
const NO_PARTICIPLES: &[&str] = &[
    "embed", "exceed", "feed", "hundred", "need", "proceed", "read", "seed", "shed", "speed",
];

fn is_participle(word: &str) -> bool {
    let word = word.to_lowercase();
    !NO_PARTICIPLES.contains(&&*word)
        && (IRREGULAR_PARTICIPLES.contains(&&*word) || (word.len() > 3 && word.ends_with("ed")))
}

fn has_one_word(type_name: &str) -> bool {
    type_name.chars().skip(1).all(|c| c.is_lowercase())
}

/// Collects the Rust sources below a folder.
pub(super) fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with("test") {
            collect_sources(&path, sources);
        } else if name.ends_with(".rs") && !name.starts_with("test") {
            sources.push(path);
        }
    }
}

/// Lists the functions and types of a source up to its tests.
fn list_items(path: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(path).expect("a source");
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut items = Vec::new();
    let mut doc: Option<String> = None;
    let mut is_in_doc = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            if !is_in_doc {
                let word = comment.trim().split(|c: char| !c.is_alphabetic()).next();
                doc = word.map(str::to_owned);
            }
            is_in_doc = true;
            continue;
        }
        is_in_doc = false;
        if line.starts_with("#[") || line.starts_with(')') || line.starts_with("//") {
            continue;
        }
        if let Some((is_function, name)) = find_definition(line) {
            items.push(Item {
                place: format!("{}:{number}", path.display()),
                is_function,
                name: name.to_owned(),
                doc: doc.take(),
            });
        }
        doc = None;
    }
    items
}

/// Returns the name that a line defines, and whether it is a function.
fn find_definition(line: &str) -> Option<(bool, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words
        .iter()
        .position(|word| matches!(*word, "fn" | "struct" | "enum" | "trait" | "union"))?;
    let is_visible =
        |word: &str| word.starts_with("pub") || matches!(word, "const" | "async" | "unsafe" | "in" | "super)");
    if !words[..at].iter().all(|word| is_visible(word)) {
        return None;
    }
    let name = words.get(at + 1)?;
    let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then_some((words[at] == "fn", name))
}

fn list_all_items() -> Vec<Item> {
    let mut sources = Vec::new();
    collect_sources(&project().join("src"), &mut sources);
    for entry in std::fs::read_dir(project().join("crates")).expect("crates").flatten() {
        collect_sources(&entry.path().join("src"), &mut sources);
    }
    sources.iter().flat_map(|path| list_items(path)).collect()
}

fn has_pattern(item: &Item, pattern: Pattern, types: &BTreeMap<String, usize>) -> bool {
    let name = &*item.name;
    let opens_badly = item.doc.as_deref().is_some_and(|doc| OPENERS.contains(&doc));
    match pattern {
        Pattern::ParticipleFunction => item.is_function && !name.contains('_') && is_participle(name),
        Pattern::PrepositionFunction => item.is_function && PREPOSITIONS.contains(&name) && name != "of",
        Pattern::FunctionOf => item.is_function && (name == "of" || name.starts_with("of_") || name.ends_with("_of")),
        Pattern::FunctionDoc => item.is_function && opens_badly,
        Pattern::TypeDoc => !item.is_function && opens_badly,
        Pattern::SharedTypeName => !item.is_function && types[name] > 1,
        Pattern::ParticipleType => !item.is_function && has_one_word(name) && is_participle(name),
    }
}

#[test]
fn vague_names_and_doc_comments_do_not_grow() {
    let items = list_all_items();
    assert!(items.len() > 5_000, "{} items", items.len());
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for item in items.iter().filter(|item| !item.is_function) {
        *types.entry(item.name.clone()).or_default() += 1;
    }
    let mut complaints = Vec::new();
    for (pattern, ceiling) in CEILINGS {
        let found: Vec<&Item> = items
            .iter()
            .filter(|item| has_pattern(item, *pattern, &types))
            .collect();
        if found.len() != *ceiling {
            let last: Vec<String> = found
                .iter()
                .map(|item| format!("{} {}", item.place, item.name))
                .collect();
            complaints.push(format!("{pattern:?}: {} items, the ceiling is {ceiling}", found.len()));
            if std::env::var_os("LIST_WORDS").is_some() {
                complaints.extend(last);
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "a ceiling is the count of today; more is not allowed, and less lowers it (LIST_WORDS=1 lists the items):\n{}",
        complaints.join("\n")
    );
}

#[test]
fn names_of_functions_have_enough_words() {
    let items = list_all_items();
    let functions: Vec<&Item> = items.iter().filter(|item| item.is_function).collect();
    let words: usize = functions
        .iter()
        .map(|item| item.name.split('_').filter(|word| !word.is_empty()).count())
        .sum();
    let average = words * 100 / functions.len();
    assert!(
        average >= WORDS_OF_FUNCTIONS,
        "{average} hundredths of a word on average"
    );
}

#[test]
fn items_are_found_with_their_docs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sample.rs");
    let text = "/// What it is.\n///\n/// How it is.\n#[derive(Debug)]\npub(crate) struct Told;\n\nimpl Told {\n    /// Returns it.\n    pub async fn \
                within(&self) {}\n    fn of() {}\n}\n#[cfg(test)]\nmod tests { fn told() {} }\n";
    std::fs::write(&path, text).expect("a file");
    let items = list_items(&path);
    let found: Vec<(bool, &str, Option<&str>)> = items
        .iter()
        .map(|item| (item.is_function, &*item.name, item.doc.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            (false, "Told", Some("What")),
            (true, "within", Some("Returns")),
            (true, "of", None)
        ]
    );
}
