//! The crates of the workspace and their source files, without tests and comments.

#![expect(clippy::disallowed_methods, reason = "the tests read the project's own sources")]

use std::path::{Path, PathBuf};

use crate::support::files::project;

/// One crate of the workspace.
#[derive(Debug)]
pub(super) struct Crate {
    /// The name in its `Cargo.toml`: `ensemble-core`.
    pub package: String,
    /// Where its `Cargo.toml` is.
    pub folder: PathBuf,
}

impl Crate {
    /// The name in paths: `ensemble_core`.
    pub(super) fn ident(&self) -> String {
        self.package.replace('-', "_")
    }

    /// The name before its top_modules: `core`; the program's own is `ensemble`.
    pub(super) fn short(&self) -> String {
        self.package.trim_start_matches("ensemble-").to_owned()
    }

    /// The crates of the workspace that it depends on outside its tests.
    pub(super) fn dependencies(&self) -> Vec<String> {
        let manifest = std::fs::read_to_string(self.folder.join("Cargo.toml")).expect("a manifest");
        dependencies(&manifest)
    }
}

/// The dependencies of a manifest that belong to the workspace.
pub(super) fn dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            let table = header.trim_end_matches(']').rsplit_once("dependencies.");
            if let Some((kind, name)) = table.filter(|(kind, _)| is_used_outside_tests(&format!("{kind}dependencies")))
            {
                assert!(!kind.starts_with("workspace"), "{line}");
                found.push(name.to_owned());
            }
        } else if is_used_outside_tests(section) {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found.retain(|name| name.starts_with("ensemble"));
    found.sort();
    found.dedup();
    found
}

/// `[dependencies]`, `[build-dependencies]` and those of a target, but neither those of tests nor the workspace's list.
fn is_used_outside_tests(section: &str) -> bool {
    let kind = if section.starts_with("target.") {
        section.rsplit('.').next().unwrap_or_default()
    } else {
        section
    };
    kind == "dependencies" || kind == "build-dependencies"
}

/// All crates, the program's own first.
pub(super) fn crates() -> Vec<Crate> {
    let root = project();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root.join("crates"))
        .expect("crates/")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    folders.sort();
    folders.insert(0, root);
    let one = |folder: PathBuf| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let package = manifest.split("[package]").nth(1).expect("a package");
        let name = package.lines().find_map(|line| line.strip_prefix("name = "));
        // The package of the program has another name than its library.
        let name = name
            .expect("a name")
            .trim_matches('"')
            .replace("ensemble-cli", "ensemble");
        Crate { package: name, folder }
    };
    folders.into_iter().map(one).collect()
}

/// One source file, its tests and comments cut away.
#[derive(Debug)]
pub(super) struct File {
    /// The short name of its crate.
    pub krate: String,
    /// Its module in the crate: `["agent", "tool", "mcp"]`.
    pub module: Vec<String>,
    pub path: PathBuf,
    pub text: String,
}

impl File {
    /// Its top-level module: `agents::agent`.
    pub(super) fn top(&self) -> String {
        format!("{}::{}", self.krate, self.module[0])
    }

    /// Its path in the project.
    pub(super) fn name(&self) -> String {
        let inside = self.path.strip_prefix(project()).expect("inside the project");
        inside.display().to_string()
    }
}

/// All files of all crates that are no tests. `lib.rs` and `main.rs` are no module and are left out.
pub(super) fn files() -> Vec<File> {
    crates().iter().flat_map(files_of).collect()
}

fn files_of(krate: &Crate) -> Vec<File> {
    let source = krate.folder.join("src");
    let mut files = Vec::new();
    let mut tests: Vec<PathBuf> = Vec::new();
    let doors = ["lib.rs", "main.rs"].map(|door| source.join(door));
    for path in walk(&source) {
        let text = std::fs::read_to_string(&path).expect("sources are text");
        let (text, mods) = without_tests(&text);
        let is_folder = |stem: &std::ffi::OsStr| stem == "mod" || stem == "lib" || stem == "main";
        let home = if path.file_stem().is_some_and(is_folder) {
            path.parent().expect("a folder").to_owned()
        } else {
            path.with_extension("")
        };
        tests.extend(mods.iter().map(|name| home.join(name)));
        if doors.contains(&path) {
            continue;
        }
        let inside = path.strip_prefix(&source).expect("below src").with_extension("");
        let mut module: Vec<String> = inside
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        module.retain(|step| step != "mod");
        files.push(File {
            krate: krate.short(),
            module,
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

/// The text without comments and without what stands under `#[cfg(test)]` or `#[cfg(any(test, …))]`; also the names of test
/// modules in files of their own.
pub(super) fn without_tests(text: &str) -> (String, Vec<String>) {
    let mut kept = String::new();
    let mut mods = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if start.starts_with("//") {
            continue;
        }
        if !start.starts_with("#[cfg(test)]") && !start.starts_with("#[cfg(any(test,") {
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
