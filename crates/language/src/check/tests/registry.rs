//! Every check is registered once.

#![expect(clippy::disallowed_methods, reason = "the test lists the source files")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::check::CHECKS;

/// The files that are not checks: what checks share, and what is about the text.
const SHARED: [&str; 15] = [
    "model_costs",
    "hidden_values",
    "allowances",
    "run_bounds",
    "context",
    "check_graph",
    "mod",
    "output_keys",
    "usable_profiles",
    "script_text",
    "rhai_equivalents",
    "secrets",
    "check_subject",
    "tests",
    "text_secrets",
];

#[test]
fn every_check_is_registered_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
    let files = std::fs::read_dir(folder).expect("the folder").flatten();
    let files = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let mut lines: BTreeMap<String, usize> = files
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), 0)))
        .filter(|(name, _)| !SHARED.contains(&name.as_str()))
        .collect();
    for check in CHECKS {
        *lines.entry(check.file.to_owned()).or_insert(0) += 1;
    }
    let wrong: Vec<_> = lines.iter().filter(|(_, lines)| **lines != 1).collect();
    assert_eq!(wrong, [], "files of checks, and their lines in `CHECKS`");
    assert!(lines.len() > 30, "{lines:?}");
}
