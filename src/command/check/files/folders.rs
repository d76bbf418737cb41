//! The search for files in folders: each file and each folder once, by whatever links it is reached.
//!
//! Folders are searched before links are followed, so a file has its own name and not that of a link, if both are found.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::exclusions::{FileSkipReason, FolderSearchRules, GlobalSearchRules};
use crate::command::check::settings::ValidateConfigCache;
use ensemble_project::Project;

/// Where YAML is found below a folder that is hidden otherwise.
const PROJECT_FOLDER: &str = ".ensemble";

/// The files that a search looks for.
#[derive(Clone)]
pub(crate) enum WantedFiles {
    /// Those with the ending of YAML.
    Yaml,
    /// Those that match a pattern, and YAML in folders that do. A pattern without `**` matches in this many levels of folders.
    Matching(Rc<glob::Pattern>, Option<usize>),
}

/// A file or a folder with its names.
#[derive(Clone)]
struct SearchPath {
    /// As it is shown.
    shown_path: PathBuf,
    /// As it is reached, by which rules apply.
    rule_path: PathBuf,
    /// Without links.
    real_path: PathBuf,
}

/// A file that was found, or a folder that cannot be read.
pub(crate) struct FoundPath {
    /// Which of the given paths led to it.
    pub(crate) group: usize,
    /// As it is shown.
    pub(crate) shown_path: PathBuf,
    pub(crate) kind: FoundPathKind,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum FoundPathKind {
    /// The file was given itself.
    Given,
    /// It was found.
    Found,
    /// A folder that cannot be read, and why.
    Unreadable(String),
}

/// A link that is followed later.
struct DeferredLinkSearch {
    group: usize,
    place: SearchPath,
    rules: Rc<FolderSearchRules>,
    is_folder: bool,
    wanted: WantedFiles,
    depth: usize,
}

/// The results of the search for one given path.
#[derive(Default, Clone)]
pub(crate) struct ArgumentSearchTotals {
    /// The files that are wanted, also those that were known already.
    pub(crate) files: usize,
    /// The files and folders that were left out because of patterns.
    pub(crate) excluded: usize,
    /// The files and folders that rules leave out, as they are shown, each with the kind of rule.
    pub(crate) skipped: Vec<(PathBuf, &'static str)>,
    /// Likewise because of ignore files.
    pub(crate) ignored: usize,
}

/// A search.
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

    /// Begins the search of another given path.
    pub(crate) fn start_argument(&mut self) {
        self.path_totals.push(ArgumentSearchTotals::default());
    }

    fn current_argument(&self) -> usize {
        self.path_totals.len().saturating_sub(1)
    }

    /// A file that was given.
    pub(crate) fn add_argument_file(&mut self, shown: &Path) {
        let path = self.project.folder.join(shown);
        let real = path.canonicalize().unwrap_or(path);
        self.add_found_once(self.current_argument(), shown.to_owned(), real, FoundPathKind::Given);
    }

    /// The files in a folder.
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

    /// Returns whether a given file or folder is left out, or one that is between it and the folder of the caller.
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

    /// Follows the links, and returns what was found in the order of the given paths, and what was met of each.
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

    /// Returns the rules of the folders above this one.
    fn rules_above(&self, folder: &Path) -> Option<Rc<FolderSearchRules>> {
        let upward = self.project.project_ancestors(folder);
        let above = upward.iter().skip(1).rev();
        above.fold(None, |above, folder| Some(self.build_rules(folder, above)))
    }

    fn build_rules(&self, folder: &Path, above: Option<Rc<FolderSearchRules>>) -> Rc<FolderSearchRules> {
        let exclude = self.settings.exclusions_of_folder(folder);
        FolderSearchRules::for_folder(folder, above, exclude, &self.everywhere)
    }

    /// `depth`: which part of a pattern without `**` the names in this folder stand for.
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

    /// In `.ensemble`, ensembles are in one folder only; everything else is records of runs.
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

    /// Returns whether it is not left out; what is left out is counted.
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

const GLOB_OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

fn matches_pattern(place: &SearchPath, pattern: &glob::Pattern, folder: &Path) -> bool {
    pattern.matches_path_with(&folder.join(&place.shown_path), GLOB_OPTIONS)
}

fn is_wanted(place: &SearchPath, wanted: &WantedFiles, folder: &Path) -> bool {
    match wanted {
        WantedFiles::Yaml => is_yaml(&place.shown_path),
        WantedFiles::Matching(pattern, _) => matches_pattern(place, pattern, folder),
    }
}

/// Returns the kind of files to search for in a folder, and which part of the pattern their names match.
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

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}
