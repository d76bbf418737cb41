//! The rooms of `src/` know only those that `docs/architecture.md` lets them know.

#![expect(clippy::disallowed_methods, reason = "the test reads the project's own sources")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::files::{project, read};
use crate::support::tables::{code_in, table};

type Rooms = BTreeMap<String, BTreeSet<String>>;

/// Files of `src/` that are the crate's own doors and no room.
const DOORS: [&str; 2] = ["lib.rs", "main.rs"];

/// The table: each room, and whom it may import; `None`: everyone.
fn allowed() -> BTreeMap<String, Option<BTreeSet<String>>> {
    table("docs/architecture.md", "<!-- imports -->")
        .iter()
        .map(|row| {
            let room = code_in(&row[0]).remove(0);
            let imports = (row[1] != "everything").then(|| code_in(&row[1]).into_iter().collect());
            (room, imports)
        })
        .collect()
}

/// One source file, its tests cut away.
struct File {
    room: String,
    /// How many `super::` lead from it out of its room.
    depth: usize,
    path: PathBuf,
    text: String,
}

/// All files below `src/` that are no tests.
fn files() -> Vec<File> {
    let source = project().join("src");
    let mut files = Vec::new();
    let mut tests: Vec<PathBuf> = Vec::new();
    let doors = DOORS.map(|door| source.join(door));
    for path in walk(&source) {
        let text = std::fs::read_to_string(&path).expect("sources are text");
        let (text, mods) = without_tests(&text);
        let home = if path.file_stem().is_some_and(|stem| stem == "mod" || stem == "lib") {
            path.parent().expect("a folder").to_owned()
        } else {
            path.with_extension("")
        };
        tests.extend(mods.iter().map(|name| home.join(name)));
        if doors.contains(&path) {
            continue;
        }
        let inside = path.strip_prefix(&source).expect("below src").with_extension("");
        let mut steps: Vec<String> = inside
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        steps.retain(|step| step != "mod");
        files.push(File {
            room: steps[0].clone(),
            depth: steps.len(),
            path,
            text,
        });
    }
    let is_test = |path: &Path| tests.iter().any(|test| path.with_extension("").starts_with(test));
    files.retain(|file| !is_test(&file.path));
    files
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The text without comments and without what stands under `#[cfg(test)]`; also the names of test modules in files of their own.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let mut kept = String::new();
    let mut mods = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if !line.trim_start().starts_with("#[cfg(test)]") {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let item = lines
            .find(|line| !line.trim_start().starts_with("#[") && !line.trim_start().starts_with("//"))
            .unwrap_or_default();
        if let Some(name) = item
            .trim_end()
            .strip_suffix(';')
            .and_then(|item| item.split("mod ").nth(1))
        {
            mods.push(name.to_owned());
        } else if !item.trim_end().ends_with(';') {
            // rustfmt sets the closing brace under the item's first letter.
            let indent = item.len() - item.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            lines.by_ref().take_while(|line| *line != end).for_each(drop);
        }
    }
    (kept, mods)
}

/// The rooms that a file imports.
fn imports(file: &File, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in file.text.match_indices("crate::") {
        let rest = &file.text[at + "crate::".len()..];
        assert!(
            !rest.starts_with('{'),
            "{}: write one `use` for each room",
            file.path.display()
        );
        found.insert(first_word(rest));
    }
    let out = "super::".repeat(file.depth);
    for (at, _) in file.text.match_indices(&out) {
        let before = &file.text[..at];
        if !before.ends_with("super::") {
            let word = first_word(&file.text[at + out.len()..]);
            found.extend(rooms.contains(&word).then_some(word));
        }
    }
    found.remove(&file.room);
    found
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn rooms() -> Rooms {
    let files = files();
    let names: BTreeSet<String> = files.iter().map(|file| file.room.clone()).collect();
    let mut rooms = Rooms::new();
    for file in &files {
        rooms
            .entry(file.room.clone())
            .or_default()
            .extend(imports(file, &names));
    }
    rooms
}

#[test]
fn the_table_knows_every_room_and_no_other() {
    let there: BTreeSet<String> = rooms().into_keys().collect();
    let known: BTreeSet<String> = allowed().into_keys().collect();
    assert_eq!(there, known, "src/ and the import table of docs/architecture.md differ");
}

#[test]
fn no_room_imports_what_the_table_does_not_allow() {
    let allowed = allowed();
    let names: BTreeSet<String> = allowed.keys().cloned().collect();
    let mut complaints = Vec::new();
    for file in files() {
        let Some(Some(may)) = allowed.get(&file.room) else {
            continue;
        };
        for import in imports(&file, &names).difference(may) {
            let path = file.path.strip_prefix(project()).expect("inside the project");
            complaints.push(format!("{} imports `{import}`", path.display()));
        }
    }
    assert!(
        complaints.is_empty(),
        "docs/architecture.md does not allow that:\n{}",
        complaints.join("\n")
    );
}

#[test]
fn nobody_is_allowed_what_nobody_uses() {
    let rooms = rooms();
    for (room, may) in allowed() {
        let unused: Vec<String> = may
            .into_iter()
            .flatten()
            .filter(|other| !rooms.get(&room).is_some_and(|used| used.contains(other)))
            .collect();
        assert!(
            unused.is_empty(),
            "`{room}` does not import {unused:?}: take it out of the table"
        );
    }
}

#[test]
fn the_table_has_no_circle() {
    let mut left = allowed();
    left.remove("cli");
    while !left.is_empty() {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let free: Vec<String> = left
            .iter()
            .filter(|(_, may)| may.iter().flatten().all(|other| !names.contains(other)))
            .map(|(room, _)| room.clone())
            .collect();
        assert!(!free.is_empty(), "these rooms import each other: {names:?}");
        left.retain(|room, _| !free.contains(room));
    }
}

#[test]
fn nobody_imports_the_edge() {
    for (room, imports) in rooms() {
        assert!(!imports.contains("cli"), "`{room}` imports `cli`");
    }
}

#[test]
fn every_room_is_told_of_with_its_invariant() {
    let text = read("docs/architecture.md");
    let section = text
        .split("## The rooms")
        .nth(1)
        .and_then(|rest| rest.split("### Who may import whom").next())
        .expect("the code map");
    for room in allowed().into_keys() {
        let told = section
            .split(&format!("`{room}`"))
            .skip(1)
            .any(|rest| rest.contains("**Invariant:**"));
        assert!(told, "the code map does not tell of `{room}`");
    }
}

#[test]
fn every_file_that_the_architecture_names_is_there() {
    let text = read("docs/architecture.md").replace("```", "");
    let is_file = |code: &String| code.ends_with(".rs") || code.ends_with(".toml") || code.ends_with(".md");
    let named: Vec<String> = code_in(&text).into_iter().filter(is_file).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        let places = [
            project().join("src").join(&name),
            project().join("docs").join(&name),
            project().join(&name),
        ];
        assert!(places.iter().any(|place| place.is_file()), "there is no {name}");
    }
}

#[test]
fn tests_are_cut_away_and_nothing_else() {
    let text = "use crate::a;\n// use crate::b;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inline {\n    use crate::c;\n}\nuse crate::d;\n";
    let (kept, mods) = without_tests(text);
    assert_eq!(kept, "use crate::a;\nuse crate::d;\n");
    assert_eq!(mods, ["tests"]);
}
