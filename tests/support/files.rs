//! The project's own files.

#![expect(clippy::disallowed_methods, reason = "tests read the project's files")]

use std::path::{Path, PathBuf};

/// The project's folder.
pub(crate) fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the text of a file of the project, or of all pages of a folder of pages.
pub(crate) fn read(name: impl AsRef<Path>) -> String {
    let name = name.as_ref().to_str().expect("a name in UTF-8");
    let texts = pages(name).into_iter().map(|page| {
        let path = project().join(page);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Lists the pages of a document: the document itself, or the pages of a folder, in the order of their names.
pub(crate) fn pages(document: &str) -> Vec<String> {
    let path = project().join(document);
    if !path.is_dir() {
        return vec![document.to_owned()];
    }
    let entries = std::fs::read_dir(&path).expect("a folder");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name in UTF-8")
    });
    let mut pages: Vec<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("{document}/{name}"))
        .collect();
    pages.sort();
    pages
}
