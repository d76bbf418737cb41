//! The crates, their modules and their files know only those that `imports.toml` lets them know.

#![expect(clippy::disallowed_methods, reason = "the test reads the project's own sources")]

mod circles;
mod imports;
mod sources;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use self::circles::{Uses, circles};
use self::imports::Imports;
use self::sources::{crates, dependencies, files, without_tests};
use crate::support::files::{project, read};
use crate::support::tables::{code_in, table};

const DOCUMENT: &str = "docs/architecture.md";

/// The list of the modules that each module may import.
const IMPORTS: &str = "tests/project/imports.toml";

/// The module at the edge, which may import everything and which nobody imports.
const EDGE: &str = "ensemble::command";

/// Parses the import list: each module with the modules that it may import; `None` stands for all modules.
fn allowed() -> BTreeMap<String, Option<BTreeSet<String>>> {
    let text = read(IMPORTS);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('"')).collect();
    assert!(lines.is_sorted(), "{IMPORTS} is not sorted");
    let row = |line: &&str| {
        let mut names = line.split('"').skip(1).step_by(2).map(str::to_owned);
        let module = names.next().expect("a module at the beginning of the line");
        let imports: BTreeSet<String> = names.collect();
        (module, (!imports.contains("*")).then_some(imports))
    };
    lines.iter().map(row).collect()
}

/// Every module, and what its files import.
fn modules() -> Uses<String> {
    let (crates, files) = (crates(), files());
    let imports = Imports::new(&crates, &files);
    let mut modules = Uses::new();
    for (at, file) in files.iter().enumerate() {
        modules
            .entry(file.top())
            .or_insert_with(BTreeSet::new)
            .extend(imports.top_modules(at));
    }
    modules
}

/// The files that use each other in a circle.
fn files_in_circles() -> BTreeSet<BTreeSet<String>> {
    let (crates, files) = (crates(), files());
    let imports = Imports::new(&crates, &files);
    let uses: Uses<String> = files
        .iter()
        .enumerate()
        .map(|(at, file)| {
            let used = imports.files_used(at).into_iter();
            (file.name(), used.map(|other| files[other].name()).collect())
        })
        .collect();
    circles(&uses)
}

#[test]
fn the_document_names_every_crate_as_a_room() {
    let rooms: BTreeSet<String> = table(DOCUMENT, "## Rooms")
        .iter()
        .flat_map(|row| code_in(&row[0]))
        .collect();
    let packages: BTreeSet<String> = crates().into_iter().map(|krate| krate.package).collect();
    assert_eq!(
        rooms, packages,
        "the rooms of {DOCUMENT} are not the crates of the workspace"
    );
}

#[test]
fn the_lowest_rooms_depend_on_no_higher_room() {
    let dependencies: BTreeMap<String, Vec<String>> = crates()
        .into_iter()
        .map(|krate| (krate.package.clone(), krate.dependencies()))
        .collect();
    assert_eq!(dependencies["ensemble-language"], ["ensemble-schema"]);
    assert_eq!(dependencies["ensemble-core"], ["ensemble-language"]);
}

/// All crates of the workspace that a crate depends on, directly or through others.
fn reachable_from(package: &str, dependencies: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![package.to_owned()];
    while let Some(package) = next.pop() {
        for other in &dependencies[&package] {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}

#[test]
fn checking_reaches_no_model_and_no_run() {
    let dependencies: BTreeMap<String, Vec<String>> = crates()
        .into_iter()
        .map(|krate| (krate.package.clone(), krate.dependencies()))
        .collect();
    for package in ["ensemble-project", "ensemble-ide", "ensemble-lsp"] {
        let reached = reachable_from(package, &dependencies);
        assert!(reached.contains("ensemble-scripts"), "{package} reaches {reached:?}");
        for other in ["ensemble-models", "ensemble-agents", "ensemble-runs"] {
            assert!(!reached.contains(other), "{package} reaches {other}");
        }
        for krate in crates()
            .iter()
            .filter(|krate| reached.contains(&krate.package) || krate.package == package)
        {
            let manifest = std::fs::read_to_string(krate.folder.join("Cargo.toml")).expect("a manifest");
            let (kept, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
            for client in ["reqwest", "rmcp"] {
                assert!(
                    !kept.contains(client),
                    "{} has {client}, and {package} needs it",
                    krate.package
                );
            }
        }
    }
}

#[test]
fn dependencies_are_read_from_every_spelling() {
    let manifest = "[workspace.dependencies]\nensemble-a = 1\n[dependencies]\nensemble-b.workspace = true\nserde = \"1\"\n\
                    ensemble-c = { path = \"\" }\n[dependencies.ensemble-d]\nworkspace = true\n\
                    [target.'cfg(unix)'.dependencies]\nensemble-e = \"1\"\n[dev-dependencies]\nensemble-f = \"1\"\n\
                    [build-dependencies]\nensemble-g = \"1\"\n";
    let expected = ["ensemble-b", "ensemble-c", "ensemble-d", "ensemble-e", "ensemble-g"];
    assert_eq!(dependencies(manifest), expected);
}

#[test]
fn the_list_of_imports_is_that_of_the_sources() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    for (module, imports) in modules() {
        if allowed
            .get(&module)
            .is_none_or(|allowed| allowed.as_ref().is_some_and(|allowed| *allowed != imports))
        {
            let names: Vec<String> = imports.iter().map(|name| format!("\"{name}\"")).collect();
            wrong.push(format!("\"{module}\" = [{}]", names.join(", ")));
        }
    }
    let modules = modules();
    let removed: Vec<&String> = allowed.keys().filter(|module| !modules.contains_key(*module)).collect();
    assert!(
        wrong.is_empty() && removed.is_empty(),
        "{IMPORTS} needs these lines:\n{}\nand not the lines of {removed:?}",
        wrong.join("\n")
    );
}

#[test]
fn the_table_has_no_circle() {
    let table = allowed();
    let table: Uses<String> = table
        .into_iter()
        .map(|(module, may)| (module, may.unwrap_or_default()))
        .collect();
    assert_eq!(circles(&table), BTreeSet::new(), "these modules import each other");
}

#[test]
fn nobody_imports_the_edge() {
    for (module, imports) in modules() {
        assert!(!imports.contains(EDGE), "`{module}` imports `{EDGE}`");
    }
}

#[test]
fn files_use_each_other_in_no_circle() {
    let found = files_in_circles();
    assert!(found.is_empty(), "these files use each other in circles: {found:#?}");
}

#[test]
fn the_language_and_the_core_reach_nothing_outside() {
    let outside = [
        "clippy::disallowed_methods",
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::time::SystemTime",
        "std::time::Instant",
        "tokio::fs",
        "tokio::net",
        "tokio::process",
        "Utc::now",
        "Local::now",
    ];
    let pure = files()
        .into_iter()
        .filter(|file| file.krate == "language" || file.krate == "core");
    let mut seen = 0;
    for file in pure {
        seen += 1;
        for word in outside {
            assert!(!file.text.contains(word), "{} mentions `{word}`", file.name());
        }
    }
    assert!(seen > 50, "{seen} files");
}

#[test]
fn every_module_begins_with_its_subject() {
    let mut undocumented = BTreeSet::new();
    for file in files().into_iter().filter(|file| file.module.len() == 1) {
        let text = std::fs::read_to_string(&file.path).expect("sources are text");
        if !text.starts_with("//! ") {
            undocumented.insert(file.name());
        }
    }
    assert!(undocumented.is_empty(), "no `//!` line: {undocumented:#?}");
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let text = read(DOCUMENT).replace("```", "");
    let is_place =
        |code: &String| code.contains('/') && !code.contains([' ', '<', ':']) && !code.starts_with(['.', '/']);
    let is_file = |code: &String| [".rs", ".toml", ".md"].iter().any(|end| code.ends_with(end)) || is_place(code);
    let named: Vec<String> = code_in(&text).into_iter().filter(is_file).collect();
    assert!(named.len() > 40, "{named:?}");
    let mut places = vec![project(), project().join("docs")];
    places.extend(crates().iter().map(|krate| krate.folder.join("src")));
    for name in named {
        let there = places.iter().any(|place| place.join(&name).exists());
        assert!(there, "there is no {name}");
    }
}

#[test]
fn tests_are_cut_away_and_nothing_else() {
    let text = "use crate::a;\n// use crate::b;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {\n    use crate::c;\n}\nuse crate::d;\n";
    let (kept, mods) = without_tests(text);
    assert_eq!(kept, "use crate::a;\nuse crate::d;\n");
    assert_eq!(mods, ["tests"]);
}
