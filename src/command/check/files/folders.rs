//! The search for files in folders: each file and each folder once, by whatever links it is reached.
//!
//! Folders are searched before links are followed, so a file has its own name and not that of a link, if both are found.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::exclusions::{Everywhere, Left, Rules};
use crate::command::check::settings::Settings;
use ensemble_project::Project;

/// Where YAML is found below a folder that is hidden otherwise.
const OF_PROJECT: &str = ".ensemble";

/// The files that a search looks for.
#[derive(Clone)]
pub(crate) enum Wanted {
    /// Those with the ending of YAML.
    Yaml,
    /// Those that match a pattern, and YAML in folders that do. A pattern without `**` matches in this many levels of folders.
    Matching(Rc<glob::Pattern>, Option<usize>),
}

/// A file or a folder with its names.
#[derive(Clone)]
struct Place {
    /// As it is shown.
    shown: PathBuf,
    /// As it is reached, by which rules apply.
    named: PathBuf,
    /// Without links.
    real: PathBuf,
}

/// A file that was found, or a folder that cannot be read.
pub(crate) struct Found {
    /// Which of the given paths led to it.
    pub(crate) group: usize,
    /// As it is shown.
    pub(crate) shown: PathBuf,
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file was given itself.
    Given,
    /// It was found.
    Found,
    /// A folder that cannot be read, and why.
    Unreadable(String),
}

/// A link that is followed later.
struct Link {
    group: usize,
    place: Place,
    rules: Rc<Rules>,
    is_folder: bool,
    wanted: Wanted,
    depth: usize,
}

/// The results of the search for one given path.
#[derive(Default, Clone)]
pub(crate) struct Met {
    /// The files that are wanted, also those that were known already.
    pub(crate) files: usize,
    /// The files and folders that were left out because of patterns.
    pub(crate) excluded: usize,
    /// The files and folders that rules leave out, as they are shown, each with the kind of rule.
    pub(crate) left_out: Vec<(PathBuf, &'static str)>,
    /// Likewise because of ignore files.
    pub(crate) ignored: usize,
}

/// A search.
pub(crate) struct Walk<'w> {
    project: &'w Project,
    settings: &'w Settings<'w>,
    everywhere: Everywhere,
    folders: HashSet<PathBuf>,
    files: HashMap<PathBuf, usize>,
    links: VecDeque<Link>,
    found: Vec<Found>,
    met: Vec<Met>,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(project: &'w Project, settings: &'w Settings<'w>, everywhere: Everywhere) -> Self {
        Self {
            project,
            settings,
            everywhere,
            folders: HashSet::new(),
            files: HashMap::new(),
            links: VecDeque::new(),
            found: Vec::new(),
            met: Vec::new(),
        }
    }

    /// Begins the search of another given path.
    pub(crate) fn begin(&mut self) {
        self.met.push(Met::default());
    }

    fn group(&self) -> usize {
        self.met.len().saturating_sub(1)
    }

    /// A file that was given.
    pub(crate) fn file(&mut self, shown: &Path) {
        let path = self.project.folder.join(shown);
        let real = path.canonicalize().unwrap_or(path);
        self.add(self.group(), shown.to_owned(), real, Kind::Given);
    }

    /// The files in a folder.
    pub(crate) fn folder(&mut self, shown: &Path, wanted: Wanted) {
        let path = self.project.folder.join(shown);
        let real = path.canonicalize().unwrap_or(path);
        let above = real.parent().and_then(|_| self.rules_above(&real));
        let place = Place {
            shown: shown.to_owned(),
            named: real.clone(),
            real,
        };
        self.search(self.group(), &place, above, &wanted, 1);
    }

    /// Returns whether a given file or folder is left out, or one that is between it and the folder of the caller.
    pub(crate) fn is_left(&self, shown: &Path) -> bool {
        let path = self.project.folder.join(shown);
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let (Some(parent), Some(name)) = (parent, path.file_name()) else {
            return false;
        };
        let path = parent.join(name);
        let folder = self.project.folder.canonicalize();
        let folder = folder.unwrap_or_else(|_| self.project.folder.clone());
        let upward = self.project.upward(&parent);
        let top = upward.iter().find(|above| **above == folder).or(upward.last());
        let Some(top) = top else {
            return false;
        };
        let mut rules = self.rules_of(top, self.rules_above(top));
        let below = path.strip_prefix(top).unwrap_or(&path);
        let mut here = top.clone();
        for part in below.components() {
            here.push(part);
            let is_folder = here.is_dir();
            if rules.left(&here, is_folder, &self.everywhere).is_some() {
                return true;
            }
            if is_folder {
                rules = self.rules_of(&here, Some(rules));
            }
        }
        false
    }

    /// Follows the links, and returns what was found in the order of the given paths, and what was met of each.
    pub(crate) fn end(mut self) -> (Vec<Found>, Vec<Met>) {
        while let Some(link) = self.links.pop_front() {
            if link.is_folder {
                self.search(link.group, &link.place, Some(link.rules), &link.wanted, link.depth);
            } else {
                self.add(link.group, link.place.shown, link.place.real, Kind::Found);
            }
        }
        self.found
            .sort_by(|one, other| (one.group, &one.shown).cmp(&(other.group, &other.shown)));
        (self.found, self.met)
    }

    fn add(&mut self, group: usize, shown: PathBuf, real: PathBuf, kind: Kind) {
        if let Some(met) = self.met.get_mut(group) {
            met.files += 1;
        }
        if let Some(known) = self.files.get(&real) {
            // Whoever names a file means it, also if it was found before.
            if let Some(found) = self.found.get_mut(*known).filter(|_| kind == Kind::Given) {
                found.kind = kind;
            }
            return;
        }
        self.files.insert(real, self.found.len());
        self.found.push(Found { group, shown, kind });
    }

    /// The rules of the folders above this one.
    fn rules_above(&self, folder: &Path) -> Option<Rc<Rules>> {
        let upward = self.project.upward(folder);
        let above = upward.iter().skip(1).rev();
        above.fold(None, |above, folder| Some(self.rules_of(folder, above)))
    }

    fn rules_of(&self, folder: &Path, above: Option<Rc<Rules>>) -> Rc<Rules> {
        let exclude = self.settings.exclude_in(folder);
        Rules::of(folder, above, exclude, &self.everywhere)
    }

    /// `depth`: which part of a pattern without `**` the names in this folder stand for.
    fn search(&mut self, group: usize, place: &Place, above: Option<Rc<Rules>>, wanted: &Wanted, depth: usize) {
        if !self.folders.insert(place.real.clone()) {
            // What is in it was found already.
            if let Some(met) = self.met.get_mut(group) {
                met.files += 1;
            }
            return;
        }
        let entries = match std::fs::read_dir(&place.real) {
            Ok(entries) => entries,
            Err(error) => {
                let kind = Kind::Unreadable(error.to_string());
                let shown = place.shown.clone();
                self.found.push(Found { group, shown, kind });
                return;
            }
        };
        let rules = self.rules_of(&place.named, above);
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let inner = Place {
                shown: place.shown.join(&name),
                named: place.named.join(&name),
                real: place.real.join(&name),
            };
            // The folder entry contains the type of the file; only a link must be followed.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() {
                self.link(group, inner, &rules, wanted, depth);
            } else if kind.is_dir() {
                self.inner_folder(group, &inner, &rules, wanted, depth);
            } else if kind.is_file()
                && is_wanted(&inner, wanted, &self.project.folder)
                && self.is_kept(group, &inner, false, &rules)
            {
                self.add(group, inner.shown, inner.real, Kind::Found);
            }
        }
    }

    fn inner_folder(&mut self, group: usize, place: &Place, rules: &Rc<Rules>, wanted: &Wanted, depth: usize) {
        if place.named.file_name().is_some_and(|name| name == OF_PROJECT) {
            self.ensembles_of_project(group, place, rules, wanted);
            return;
        }
        let Some((wanted, depth)) = below(place, wanted, depth, &self.project.folder) else {
            return;
        };
        if self.is_kept(group, place, true, rules) {
            self.search(group, place, Some(rules.clone()), &wanted, depth);
        }
    }

    /// In `.ensemble`, ensembles are in one folder only; everything else is records of runs.
    fn ensembles_of_project(&mut self, group: usize, place: &Place, rules: &Rc<Rules>, wanted: &Wanted) {
        let inner = Place {
            shown: place.shown.join("ensembles"),
            named: place.named.join("ensembles"),
            real: place.real.join("ensembles"),
        };
        let is_there = std::fs::symlink_metadata(&inner.real).is_ok_and(|data| data.is_dir());
        let is_ignored = |path: &Path| {
            rules
                .left(path, true, &self.everywhere)
                .is_some_and(|left| left != Left::Foreign)
        };
        if is_there && matches!(wanted, Wanted::Yaml) && !is_ignored(&place.named) && !is_ignored(&inner.named) {
            self.search(group, &inner, Some(rules.clone()), wanted, 1);
        }
    }

    fn link(&mut self, group: usize, place: Place, rules: &Rc<Rules>, wanted: &Wanted, depth: usize) {
        let Ok(real) = place.real.canonicalize() else { return };
        let place = Place { real, ..place };
        let is_folder = place.real.is_dir();
        let wanted = match is_folder {
            true => below(&place, wanted, depth, &self.project.folder),
            false => {
                (place.real.is_file() && is_wanted(&place, wanted, &self.project.folder)).then(|| (wanted.clone(), 1))
            }
        };
        let Some((wanted, depth)) = wanted else { return };
        if place.named.file_name().is_some_and(|name| name == OF_PROJECT)
            || !self.is_kept(group, &place, is_folder, rules)
        {
            return;
        }
        self.links.push_back(Link {
            group,
            place,
            rules: rules.clone(),
            is_folder,
            wanted,
            depth,
        });
    }

    /// Returns whether it is not left out; what is left out is counted.
    fn is_kept(&mut self, group: usize, place: &Place, is_folder: bool, rules: &Rules) -> bool {
        let left = rules.left(&place.named, is_folder, &self.everywhere);
        if let Some(met) = self.met.get_mut(group) {
            let by = match left {
                Some(Left::Excluded) => {
                    met.excluded += 1;
                    Some("excluded")
                }
                Some(Left::Ignored) => {
                    met.ignored += 1;
                    Some("ignored by a `.gitignore` or `.ignore`")
                }
                Some(Left::Foreign) => Some("a folder of other programs"),
                None => None,
            };
            met.left_out.extend(by.map(|by| (place.shown.clone(), by)));
        }
        left.is_none()
    }
}

const OPTIONS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

fn matches(place: &Place, pattern: &glob::Pattern, folder: &Path) -> bool {
    pattern.matches_path_with(&folder.join(&place.shown), OPTIONS)
}

fn is_wanted(place: &Place, wanted: &Wanted, folder: &Path) -> bool {
    match wanted {
        Wanted::Yaml => is_yaml(&place.shown),
        Wanted::Matching(pattern, _) => matches(place, pattern, folder),
    }
}

/// Returns the kind of files to search for in a folder, and which part of the pattern their names match.
fn below(place: &Place, wanted: &Wanted, depth: usize, folder: &Path) -> Option<(Wanted, usize)> {
    match wanted {
        Wanted::Yaml => Some((Wanted::Yaml, 1)),
        Wanted::Matching(pattern, _) if matches(place, pattern, folder) => Some((Wanted::Yaml, 1)),
        Wanted::Matching(_, deepest) => {
            let is_deep_enough = deepest.is_none_or(|deepest| depth < deepest);
            is_deep_enough.then(|| (wanted.clone(), depth + 1))
        }
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}
