//! Search for files in folders, which finds each file and each folder once, even if several links lead to a path.
//!
//! The search reads folders before it follows links, so that a file is shown with its own name and not with the name of a link.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::exclusions::{FileSkipReason, FolderSearchRules, GlobalSearchRules};
use crate::command::check::settings::ValidateConfigCache;
use ensemble_project::Project;

/// Hidden folder that is searched for ensembles.
const PROJECT_FOLDER: &str = ".ensemble";

/// Kind of the files that a search looks for.
#[derive(Clone)]
pub(crate) enum WantedFiles {
    /// Files with a YAML extension.
    Yaml,
    /// Files that match a pattern, and YAML files in folders that match. A pattern without `**` matches in this many levels of folders.
    Matching(Rc<glob::Pattern>, Option<usize>),
}

/// Path of a file or folder in its three forms: for output, for rules, and without links.
#[derive(Clone)]
struct SearchPath {
    /// Path for output.
    shown_path: PathBuf,
    /// Path by which the search reached the file, for the rules.
    rule_path: PathBuf,
    /// Path without links.
    real_path: PathBuf,
}

/// File that a search found, or folder that the search cannot read.
pub(crate) struct FoundPath {
    /// Index of the argument that led to the file.
    pub(crate) group: usize,
    /// Path for output.
    pub(crate) shown_path: PathBuf,
    pub(crate) kind: FoundPathKind,
}

/// Kind of a path that a search found.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum FoundPathKind {
    /// The file is an argument.
    Given,
    /// The search found the file.
    Found,
    /// The search cannot read the folder, for this reason.
    Unreadable(String),
}

/// Link that the search follows after all folders.
struct DeferredLinkSearch {
    group: usize,
    place: SearchPath,
    rules: Rc<FolderSearchRules>,
    is_folder: bool,
    wanted: WantedFiles,
    depth: usize,
}

/// Results of the search for one argument.
#[derive(Default, Clone)]
pub(crate) struct ArgumentSearchTotals {
    /// Number of wanted files, including those that an earlier argument found.
    pub(crate) files: usize,
    /// Number of files and folders that patterns exclude.
    pub(crate) excluded: usize,
    /// Files and folders that rules skip, as paths for output with the kind of the rule.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
    /// Number of files and folders that ignore files ignore.
    pub(crate) ignored: usize,
}

/// Search for the files of all arguments.
pub(crate) struct FileSearch<'w> {
    project: &'w Project,
    settings: &'w ValidateConfigCache<'w>,
    everywhere: GlobalSearchRules,
    folders: HashSet<PathBuf>,
    files: HashMap<PathBuf, usize>,
    links: VecDeque<DeferredLinkSearch>,
    found: Vec<FoundPath>,
    path_totals: Vec<ArgumentSearchTotals>,
}

impl<'w> FileSearch<'w> {
    /// Creates a search without arguments.
    pub(crate) fn new(
        project: &'w Project,
        settings: &'w ValidateConfigCache<'w>,
        everywhere: GlobalSearchRules,
    ) -> Self {
        Self {
            project,
            settings,
            everywhere,
            folders: HashSet::new(),
            files: HashMap::new(),
            links: VecDeque::new(),
            found: Vec::new(),
            path_totals: Vec::new(),
        }
    }

    /// Starts the search for another argument.
    pub(crate) fn start_argument(&mut self) {
        self.path_totals.push(ArgumentSearchTotals::default());
    }

    /// Returns the index of the current argument.
    fn current_argument(&self) -> usize {
        self.path_totals.len().saturating_sub(1)
    }

    /// Adds a file that is itself an argument. `shown` is its path for output.
    pub(crate) fn add_argument_file(&mut self, shown: &Path) {
        let path = self.project.folder.join(shown);
        let real = path.canonicalize().unwrap_or(path);
        self.add_found_once(self.current_argument(), shown.to_owned(), real, FoundPathKind::Given);
    }

    /// Searches the folder for the wanted files, under the rules of the folders above. `shown` is its path for output.
    pub(crate) fn search_folder(&mut self, shown: &Path, wanted: WantedFiles) {
        let path = self.project.folder.join(shown);
        let real = path.canonicalize().unwrap_or(path);
        let above = real.parent().and_then(|_| self.rules_above(&real));
        let place = SearchPath {
            shown_path: shown.to_owned(),
            rule_path: real.clone(),
            real_path: real,
        };
        self.search_entries_once(self.current_argument(), &place, above, &wanted, 1);
    }

    /// Returns whether rules skip the argument, or a folder between the argument and the folder of the caller.
    pub(crate) fn is_skipped_by_rules(&self, shown: &Path) -> bool {
        let path = self.project.folder.join(shown);
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let (Some(parent), Some(name)) = (parent, path.file_name()) else {
            return false;
        };
        let path = parent.join(name);
        let folder = self.project.folder.canonicalize();
        let folder = folder.unwrap_or_else(|_| self.project.folder.clone());
        let upward = self.project.project_ancestors(&parent);
        let top = upward.iter().find(|above| **above == folder).or(upward.last());
        let Some(top) = top else {
            return false;
        };
        let mut rules = self.build_rules(top, self.rules_above(top));
        let below = path.strip_prefix(top).unwrap_or(&path);
        let mut current_path = top.clone();
        for part in below.components() {
            current_path.push(part);
            let is_folder = current_path.is_dir();
            if rules.skip_reason(&current_path, is_folder, &self.everywhere).is_some() {
                return true;
            }
            if is_folder {
                rules = self.build_rules(&current_path, Some(rules));
            }
        }
        false
    }

    /// Follows the deferred links. Returns the found paths in the order of the arguments, and the totals of each argument.
    pub(crate) fn finish_search(mut self) -> (Vec<FoundPath>, Vec<ArgumentSearchTotals>) {
        while let Some(link) = self.links.pop_front() {
            if link.is_folder {
                self.search_entries_once(link.group, &link.place, Some(link.rules), &link.wanted, link.depth);
            } else {
                self.add_found_once(
                    link.group,
                    link.place.shown_path,
                    link.place.real_path,
                    FoundPathKind::Found,
                );
            }
        }
        self.found
            .sort_by(|one, other| (one.group, &one.shown_path).cmp(&(other.group, &other.shown_path)));
        (self.found, self.path_totals)
    }

    /// Counts the file and adds the path, unless the search has found the file before. An argument stays an argument.
    fn add_found_once(&mut self, group: usize, shown: PathBuf, real: PathBuf, kind: FoundPathKind) {
        if let Some(met) = self.path_totals.get_mut(group) {
            met.files += 1;
        }
        if let Some(index) = self.files.get(&real) {
            // Whoever names a file means it, also if it was found before.
            if let Some(found_file) = self.found.get_mut(*index).filter(|_| kind == FoundPathKind::Given) {
                found_file.kind = kind;
            }
            return;
        }
        self.files.insert(real, self.found.len());
        self.found.push(FoundPath {
            group,
            shown_path: shown,
            kind,
        });
    }

    /// Builds the rules of the folders above this folder.
    fn rules_above(&self, folder: &Path) -> Option<Rc<FolderSearchRules>> {
        let upward = self.project.project_ancestors(folder);
        let above = upward.iter().skip(1).rev();
        above.fold(None, |above, folder| Some(self.build_rules(folder, above)))
    }

    /// Builds the rules of the folder, with the exclusions of its configuration.
    fn build_rules(&self, folder: &Path, above: Option<Rc<FolderSearchRules>>) -> Rc<FolderSearchRules> {
        let exclude = self.settings.exclusions_of_folder(folder);
        FolderSearchRules::for_folder(folder, above, exclude, &self.everywhere)
    }

    /// Searches the entries of a folder, unless the folder was searched before. Defers links.
    /// `depth` is the part of a pattern without `**` that the names in the folder must match.
    fn search_entries_once(
        &mut self,
        group: usize,
        place: &SearchPath,
        above: Option<Rc<FolderSearchRules>>,
        wanted: &WantedFiles,
        depth: usize,
    ) {
        if !self.folders.insert(place.real_path.clone()) {
            // What is in it was found already.
            if let Some(met) = self.path_totals.get_mut(group) {
                met.files += 1;
            }
            return;
        }
        let entries = match std::fs::read_dir(&place.real_path) {
            Ok(entries) => entries,
            Err(error) => {
                let kind = FoundPathKind::Unreadable(error.to_string());
                let shown_path = place.shown_path.clone();
                self.found.push(FoundPath {
                    group,
                    shown_path,
                    kind,
                });
                return;
            }
        };
        let rules = self.build_rules(&place.rule_path, above);
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let inner = SearchPath {
                shown_path: place.shown_path.join(&name),
                rule_path: place.rule_path.join(&name),
                real_path: place.real_path.join(&name),
            };
            // The folder entry contains the type of the file; only a link must be followed.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                self.defer_link(group, inner, &rules, wanted, depth);
            } else if kind.is_dir() {
                self.search_subfolder(group, &inner, &rules, wanted, depth);
            } else if kind.is_file()
                && is_wanted(&inner, wanted, &self.project.folder)
                && self.count_and_check_rules(group, &inner, false, &rules)
            {
                self.add_found_once(group, inner.shown_path, inner.real_path, FoundPathKind::Found);
            }
        }
    }

    /// Searches a folder inside the search, if no rule skips the folder and the pattern reaches its level.
    fn search_subfolder(
        &mut self,
        group: usize,
        place: &SearchPath,
        rules: &Rc<FolderSearchRules>,
        wanted: &WantedFiles,
        depth: usize,
    ) {
        if place.rule_path.file_name().is_some_and(|name| name == PROJECT_FOLDER) {
            self.search_project_ensembles(group, place, rules, wanted);
            return;
        }
        let Some((wanted, depth)) = wanted_in_subfolder(place, wanted, depth, &self.project.folder) else {
            return;
        };
        if self.count_and_check_rules(group, place, true, rules) {
            self.search_entries_once(group, place, Some(rules.clone()), &wanted, depth);
        }
    }

    /// Searches `.ensemble` for ensembles, which are in the subfolder `ensembles` only. The rest contains records of runs.
    fn search_project_ensembles(
        &mut self,
        group: usize,
        place: &SearchPath,
        rules: &Rc<FolderSearchRules>,
        wanted: &WantedFiles,
    ) {
        let inner = SearchPath {
            shown_path: place.shown_path.join("ensembles"),
            rule_path: place.rule_path.join("ensembles"),
            real_path: place.real_path.join("ensembles"),
        };
        let is_there = std::fs::symlink_metadata(&inner.real_path).is_ok_and(|data| data.is_dir());
        let is_ignored = |path: &Path| {
            rules
                .skip_reason(path, true, &self.everywhere)
                .is_some_and(|left| left != FileSkipReason::Foreign)
        };
        if is_there
            && matches!(wanted, WantedFiles::Yaml)
            && !is_ignored(&place.rule_path)
            && !is_ignored(&inner.rule_path)
        {
            self.search_entries_once(group, &inner, Some(rules.clone()), wanted, 1);
        }
    }

    /// Defers the search of the target of a link, if the target can contain wanted files.
    fn defer_link(
        &mut self,
        group: usize,
        place: SearchPath,
        rules: &Rc<FolderSearchRules>,
        wanted: &WantedFiles,
        depth: usize,
    ) {
        let Ok(real) = place.real_path.canonicalize() else {
            return;
        };
        let place = SearchPath {
            real_path: real,
            ..place
        };
        let is_folder = place.real_path.is_dir();
        let link_search = match is_folder {
            true => wanted_in_subfolder(&place, wanted, depth, &self.project.folder),
            false => (place.real_path.is_file() && is_wanted(&place, wanted, &self.project.folder))
                .then(|| (wanted.clone(), 1)),
        };
        let Some((wanted, depth)) = link_search else { return };
        if place.rule_path.file_name().is_some_and(|name| name == PROJECT_FOLDER)
            || !self.count_and_check_rules(group, &place, is_folder, rules)
        {
            return;
        }
        self.links.push_back(DeferredLinkSearch {
            group,
            place,
            rules: rules.clone(),
            is_folder,
            wanted,
            depth,
        });
    }

    /// Returns whether no rule skips the path. Counts a skipped path.
    fn count_and_check_rules(
        &mut self,
        group: usize,
        place: &SearchPath,
        is_folder: bool,
        rules: &FolderSearchRules,
    ) -> bool {
        let skip_reason = rules.skip_reason(&place.rule_path, is_folder, &self.everywhere);
        if let Some(met) = self.path_totals.get_mut(group) {
            let by = match skip_reason {
                Some(FileSkipReason::Excluded) => {
                    met.excluded += 1;
                    Some("excluded")
                }
                Some(FileSkipReason::Ignored) => {
                    met.ignored += 1;
                    Some("ignored by a `.gitignore` or `.ignore`")
                }
                Some(FileSkipReason::Foreign) => Some("a folder of other programs"),
                None => None,
            };
            met.skipped.extend(by.map(|by| (place.shown_path.clone(), by)));
        }
        skip_reason.is_none()
    }
}

/// Options for the match of path patterns.
const GLOB_OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Returns whether the absolute path for output matches the pattern.
fn matches_pattern(place: &SearchPath, pattern: &glob::Pattern, folder: &Path) -> bool {
    pattern.matches_path_with(&folder.join(&place.shown_path), GLOB_OPTIONS)
}

/// Returns whether the file is one of the wanted files.
fn is_wanted(place: &SearchPath, wanted: &WantedFiles, folder: &Path) -> bool {
    match wanted {
        WantedFiles::Yaml => is_yaml(&place.shown_path),
        WantedFiles::Matching(pattern, _) => matches_pattern(place, pattern, folder),
    }
}

/// Returns the files to search for in a subfolder, and the part of the pattern for their names.
/// Returns `None` if the pattern does not reach the subfolder.
fn wanted_in_subfolder(
    place: &SearchPath,
    wanted: &WantedFiles,
    depth: usize,
    folder: &Path,
) -> Option<(WantedFiles, usize)> {
    match wanted {
        WantedFiles::Yaml => Some((WantedFiles::Yaml, 1)),
        WantedFiles::Matching(pattern, _) if matches_pattern(place, pattern, folder) => Some((WantedFiles::Yaml, 1)),
        WantedFiles::Matching(_, deepest) => {
            let is_deep_enough = deepest.is_none_or(|deepest| depth < deepest);
            is_deep_enough.then(|| (wanted.clone(), depth + 1))
        }
    }
}

/// Returns whether the extension is `yaml` or `yml`.
fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}
