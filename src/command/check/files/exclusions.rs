//! Exclusions of a search in folders: patterns of configurations, hidden folders, folders of tools, and the patterns of `.ignore` and
//! `.gitignore` files.
//!
//! The rules of a folder include the rules of the folders above. The search in folders above ends where the search for a configuration
//! ends, so that no file of another user decides which files are checked.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use ensemble_scripts::regular_files;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Maximum size of an ignore file, in bytes. A larger file excludes nothing.
const MAX_IGNORE_FILE_BYTES: u64 = 256 << 10;

/// Folders that tools fill.
const TOOL_FOLDERS: [&str; 2] = ["node_modules", "target"];

/// Reason why a search skips a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSkipReason {
    /// A configuration, or `--exclude`, excludes the path.
    Excluded,
    /// An ignore file ignores the path.
    Ignored,
    /// The path is hidden, or a folder that a tool fills.
    Foreign,
}

/// Rules of a search that apply in all folders.
pub(crate) struct GlobalSearchRules {
    /// Patterns of the command line.
    pub(crate) exclude: Gitignore,
    /// Patterns that the user's git ignores in all repositories.
    pub(crate) user_ignored: Gitignore,
    /// Whether the search reads ignore files.
    pub(crate) with_ignore_files: bool,
}

/// Rules of a search that apply in one folder, with the rules of the folders above.
pub(crate) struct FolderSearchRules {
    above: Option<Rc<FolderSearchRules>>,
    /// Exclusions of the nearest configuration.
    exclude: Option<Arc<Gitignore>>,
    ignore: Gitignore,
    gitignore: Gitignore,
    /// `.git/info/exclude`, if a repository begins in the folder.
    repository: Option<Gitignore>,
}

impl FolderSearchRules {
    /// Loads the rules of `folder`. Without `exclude`, the folder inherits the exclusions of the configuration above.
    pub(crate) fn for_folder(
        folder: &Path,
        above: Option<Rc<Self>>,
        exclude: Option<Arc<Gitignore>>,
        everywhere: &GlobalSearchRules,
    ) -> Rc<Self> {
        let read = |name: &str| match everywhere.with_ignore_files {
            true => load_ignore_file(&folder.join(name), folder),
            false => Gitignore::empty(),
        };
        let is_repository = folder.join(".git").symlink_metadata().is_ok();
        let exclude = exclude.or_else(|| above.as_ref().and_then(|above| above.exclude.clone()));
        Rc::new(Self {
            above,
            exclude,
            ignore: read(".ignore"),
            gitignore: read(".gitignore"),
            repository: is_repository.then(|| read(".git/info/exclude")),
        })
    }

    /// Returns the reason to skip a file or folder in this folder. Returns `None` if the search includes the path.
    /// A pattern with `!` includes the path again.
    pub(crate) fn skip_reason(
        &self,
        path: &Path,
        is_folder: bool,
        everywhere: &GlobalSearchRules,
    ) -> Option<FileSkipReason> {
        let excluded = [Some(&everywhere.exclude), self.exclude.as_deref()]
            .into_iter()
            .flatten();
        for patterns in excluded {
            match patterns.matched(path, is_folder) {
                Match::Ignore(_) => return Some(FileSkipReason::Excluded),
                Match::Whitelist(_) => return None,
                Match::None => {}
            }
        }
        if is_folder && is_tool_or_hidden_folder(path) {
            return Some(FileSkipReason::Foreign);
        }
        match self.match_ignore_files(path, is_folder, everywhere) {
            Match::Ignore(()) => Some(FileSkipReason::Ignored),
            Match::Whitelist(()) | Match::None => None,
        }
    }

    /// Matches the path with the ignore files, the nearest first, and `.ignore` before `.gitignore`, as ripgrep does.
    fn match_ignore_files(&self, path: &Path, is_folder: bool, everywhere: &GlobalSearchRules) -> Match<()> {
        let match_patterns = |patterns: &Gitignore| patterns.matched(path, is_folder).map(|_| ());
        let mut ignore_match = Match::None;
        for rules in self.rules_upward() {
            ignore_match = ignore_match.or(match_patterns(&rules.ignore));
        }
        for rules in self.rules_upward() {
            ignore_match = ignore_match.or(match_patterns(&rules.gitignore));
            // What is above a repository does not belong to it.
            if let Some(patterns) = &rules.repository {
                return ignore_match
                    .or(match_patterns(patterns))
                    .or(match_patterns(&everywhere.user_ignored));
            }
        }
        ignore_match
    }

    /// Iterates over these rules and the rules of each folder above.
    fn rules_upward(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.above.as_deref())
    }
}

/// Returns whether the folder is hidden or filled by a tool, by its name or as a Python virtual environment.
fn is_tool_or_hidden_folder(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    TOOL_FOLDERS.iter().any(|known| name == *known) || is_hidden(folder) || folder.join("pyvenv.cfg").exists()
}

/// Returns whether the name begins with a dot.
fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Loads the patterns of an ignore file for `folder`. Skips invalid lines, like git. Returns no patterns if the file cannot be read.
fn load_ignore_file(file: &Path, folder: &Path) -> Gitignore {
    let Ok(text) = regular_files::read_text(file, MAX_IGNORE_FILE_BYTES) else {
        return Gitignore::empty();
    };
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        let _no_pattern = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Parses the patterns. Also returns the message for each invalid pattern, with the index of the pattern.
pub(crate) fn parse_patterns<'p>(
    folder: &Path,
    patterns: impl IntoIterator<Item = (usize, &'p str)>,
) -> (Gitignore, Vec<(usize, String)>) {
    let mut builder = GitignoreBuilder::new(folder);
    builder.allow_unclosed_class(false);
    let mut faults = Vec::new();
    for (index, pattern) in patterns {
        if pattern.starts_with('#') {
            faults.push((index, "a leading `#` starts a comment; write `\\#`".to_owned()));
        } else if let Err(error) = builder.add_line(None, pattern) {
            faults.push((index, pattern_error(&error)));
        }
    }
    match builder.build() {
        Ok(patterns) => (patterns, faults),
        Err(error) => {
            faults.push((0, pattern_error(&error)));
            (Gitignore::empty(), faults)
        }
    }
}

/// Returns the message of a pattern error, without the pattern.
fn pattern_error(error: &ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err.clone(),
        other => other.to_string(),
    }
}

/// Loads the patterns that the user's git ignores in all repositories.
pub(crate) fn load_global_git_excludes() -> Gitignore {
    Gitignore::global().0
}

/// Splits a pattern for files: returns the leading folder without wildcards, and the number of further levels.
/// The number is `None` for a pattern with `**`.
pub(crate) fn split_pattern_base(pattern: &Path) -> (PathBuf, Option<usize>) {
    let has_wildcard = |part: &std::path::Component<'_>| {
        let text = part.as_os_str().to_string_lossy();
        text.contains(['*', '?', '['])
    };
    let base = pattern.components().take_while(|part| !has_wildcard(part)).collect();
    let wildcard_parts: Vec<_> = pattern.components().skip_while(|part| !has_wildcard(part)).collect();
    let is_endless = wildcard_parts.iter().any(|part| part.as_os_str() == "**");
    (base, (!is_endless).then_some(wildcard_parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(folder: &Path, above: Option<Rc<FolderSearchRules>>) -> Rc<FolderSearchRules> {
        FolderSearchRules::for_folder(folder, above, None, &everywhere(&[]))
    }

    fn everywhere(exclude: &[&str]) -> GlobalSearchRules {
        GlobalSearchRules {
            exclude: parse_patterns(Path::new("/"), exclude.iter().copied().enumerate()).0,
            user_ignored: Gitignore::empty(),
            with_ignore_files: true,
        }
    }

    #[test]
    fn the_nearest_file_decides_and_ignore_comes_before_gitignore() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let inner = root.join("inner");
        std::fs::create_dir(&inner).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("written");
        write(".gitignore", "\u{feff}*.yaml\n!kept.yaml\n[\nfolder/\n/here\n");
        write(".ignore", "kept.yaml\n");
        write("inner/.gitignore", "!inner.yaml\nkept.yml\n");
        write("inner/.ignore", "!kept.yml\n");
        let above = rules(root, None);
        let below = rules(&inner, Some(above.clone()));
        let everywhere = everywhere(&[]);
        let rows = [
            (&above, "a.yaml", false, true),
            (&above, "kept.yaml", false, true),
            (&above, "folder", true, true),
            (&above, "folder", false, false),
            (&above, "here", false, true),
            (&below, "inner/a.yaml", false, true),
            (&below, "inner/inner.yaml", false, false),
            (&below, "inner/kept.yml", false, false),
            (&below, "inner/here", false, false),
        ];
        for (rules, path, is_folder, is_left) in rows {
            let left = rules.skip_reason(&root.join(path), is_folder, &everywhere);
            assert_eq!(left, is_left.then_some(FileSkipReason::Ignored), "{path}");
        }
        std::fs::create_dir_all(root.join("inner/.git/info")).expect("a folder");
        write("inner/.git/info/exclude", "secret.yml\n");
        let below = rules_of_repository(&inner, above);
        let left = |path: &str| below.skip_reason(&root.join(path), false, &everywhere);
        assert_eq!(left("inner/a.yaml"), None, "a repository begins here");
        assert_eq!(left("inner/secret.yml"), Some(FileSkipReason::Ignored));
        assert_eq!(
            left("inner/kept.yaml"),
            Some(FileSkipReason::Ignored),
            "`.ignore` of all folders"
        );
    }

    fn rules_of_repository(folder: &Path, above: Rc<FolderSearchRules>) -> Rc<FolderSearchRules> {
        rules(folder, Some(above))
    }

    #[test]
    fn folders_of_tools_are_left_unless_a_pattern_takes_them_in() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        std::fs::create_dir(root.join("python")).expect("a folder");
        std::fs::write(root.join("python/pyvenv.cfg"), "").expect("written");
        let rules = rules(root, None);
        for (name, is_left) in [
            ("node_modules", true),
            ("target", true),
            (".git", true),
            (".venv", true),
            ("python", true),
            ("targets", false),
        ] {
            let left =
                |exclude: &[&str], is_folder| rules.skip_reason(&root.join(name), is_folder, &everywhere(exclude));
            assert_eq!(left(&[], true), is_left.then_some(FileSkipReason::Foreign), "{name}");
            assert_eq!(left(&[], false), None, "{name}");
            assert_eq!(left(&[&format!("!{name}/")], true), None, "{name}");
            assert_eq!(left(&[name], true), Some(FileSkipReason::Excluded), "{name}");
        }
    }

    #[test]
    fn wrong_patterns_are_named() {
        let (patterns, faults) = parse_patterns(
            Path::new("/p"),
            [(0, "[a"), (1, "b"), (2, "# c"), (3, "{d"), (4, "\\#e")],
        );
        let indices: Vec<usize> = faults.iter().map(|(index, _)| *index).collect();
        assert_eq!(indices, [0, 2, 3], "{faults:?}");
        assert!(faults[0].1.contains("unclosed"), "{faults:?}");
        assert!(patterns.matched("/p/b", false).is_ignore());
        assert!(patterns.matched("/p/#e", false).is_ignore());
    }

    #[test]
    fn what_a_pattern_can_match_is_below_its_plain_parts() {
        for (pattern, base, depth) in [
            ("e/*.yaml", "e", Some(1)),
            ("*.yaml", "", Some(1)),
            ("./e/?/*.yaml", "e", Some(2)),
            ("../e/[ab]/c/d.yaml", "../e", Some(3)),
            ("/e/**/*.yaml", "/e", None),
        ] {
            assert_eq!(
                split_pattern_base(
                    &Path::new(pattern)
                        .components()
                        .filter(|part| *part != std::path::Component::CurDir)
                        .collect::<PathBuf>()
                ),
                (PathBuf::from(base), depth),
                "{pattern}"
            );
        }
    }
}
