//! Code for other systems than Linux: it has the same names as the code for Linux, which alone is compiled where the tests run.

use std::collections::BTreeSet;

use super::words::collect_sources;
use crate::support::files::{project, read};

const LINUX: &str = "#[cfg(target_os = \"linux\")]";
const OTHERS: &str = "#[cfg(not(target_os = \"linux\"))]";

/// Returns the names of the functions, constants and imports after each such attribute.
fn list_conditional_names(source: &str, attribute: &str) -> BTreeSet<String> {
    source.split(attribute).skip(1).flat_map(list_item_names).collect()
}

/// Returns the names that the first item of the text defines: a function, a constant or an import from `linux` or `others`.
fn list_item_names(text: &str) -> Vec<String> {
    let item = text.split(';').next().unwrap_or_default();
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    for module in ["use linux::", "use others::"] {
        if let Some((_, names)) = item.split_once(module).filter(|_| !item.contains("fn ")) {
            return words(names);
        }
    }
    let item = item.split('{').next().unwrap_or_default();
    let name = ["fn ", "const "].iter().find_map(|kind| item.split_once(kind));
    let name = name.and_then(|(_, rest)| words(rest).into_iter().next());
    name.into_iter().collect()
}

#[test]
fn other_systems_have_the_names_of_linux() {
    let mut files = Vec::new();
    collect_sources(&project().join("crates"), &mut files);
    let mut count = 0;
    for file in files {
        let source = read(&file);
        let others = list_conditional_names(&source, OTHERS);
        let linux = list_conditional_names(&source, LINUX);
        let missing: Vec<&String> = others.difference(&linux).collect();
        assert!(
            missing.is_empty(),
            "{} has {missing:?} only for other systems",
            file.display()
        );
        count += others.len();
        let (_, module) = source.split_once("mod others {").unwrap_or_default();
        for name in source
            .split("use others::")
            .skip(1)
            .flat_map(|rest| list_item_names(&format!("use others::{rest}")))
        {
            let defined = ["fn ", "struct "]
                .iter()
                .any(|kind| module.contains(&format!("{kind}{name}")));
            assert!(defined, "{} has no `{name}` for other systems", file.display());
        }
    }
    assert!(count > 10, "{count} names for other systems");
}
