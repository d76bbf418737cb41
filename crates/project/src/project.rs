//! Files of a project: ensembles by name, the project root, configurations.
//!
//! Invariant: relative paths start in the folder of the project, not in the folder of the process.

#![expect(clippy::disallowed_methods, reason = "this room reads the files of a project")]

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::error::ProjectError;
use crate::owner::list_search_folders;
use crate::trust::Trust;
use ensemble_language::diagnostic::find_similar_word;
use ensemble_language::loader::MAX_BYTES;
use ensemble_language::source::SourceText;
use ensemble_scripts::regular_files::open_regular_file;

/// Folder from which a caller sees a project, with the configuration and the trust of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Folder of the caller, in which relative paths start.
    pub folder: PathBuf,
    /// Path of the user's `ensemble/config.yaml`, if known.
    pub user_config: Option<PathBuf>,
    /// Home folder of the user, at which an upward search stops.
    pub home: Option<PathBuf>,
    /// Files of the project that may use keys and values of the environment.
    pub trust: Trust,
    /// Folder that all paths in texts must be inside, with links resolved. `None`: paths have no boundary.
    pub boundary: Option<PathBuf>,
}

impl Project {
    /// Creates the project of a folder, without the configuration of the user. No file is trusted: see [`Self::with_trust`].
    pub fn from_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            user_config: None,
            home: None,
            trust: Trust::trust_nothing(),
            boundary: None,
        }
    }

    /// Makes the project folder the boundary of all paths in texts. Tools that check untrusted texts use the boundary to reveal nothing
    /// about other files.
    #[must_use]
    pub fn with_boundary(self) -> Self {
        Self {
            boundary: Some(self.folder.clone()),
            ..self
        }
    }

    /// Returns whether the path is inside the boundary, with links resolved. A path that does not exist is judged by its nearest existing
    /// ancestor. Returns `true` without a boundary.
    pub fn is_inside_boundary(&self, path: &Path) -> bool {
        let Some(boundary) = &self.boundary else { return true };
        let is_below = |path: PathBuf| boundary.canonicalize().is_ok_and(|boundary| path.starts_with(boundary));
        resolve_existing_part(&self.folder.join(path)).is_some_and(is_below)
    }

    /// Returns the project with this trust in its files.
    #[must_use]
    pub fn with_trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Detects the project of the process: its current folder, the configuration of the user
    /// (`$XDG_CONFIG_HOME/ensemble/config.yaml`, or `~/.config/ensemble/config.yaml`), and the trust of the user (`trust.json` in the
    /// same folder).
    pub fn from_process() -> Self {
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        let config = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| home.as_ref().map(|home| home.join(".config")))
            .map(|config| config.join("ensemble"));
        Self {
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            user_config: config.as_ref().map(|config| config.join("config.yaml")),
            home: home.map(|home| home.canonicalize().unwrap_or(home)),
            trust: config.map_or_else(Trust::trust_nothing, |config| {
                Trust::from_store_file(config.join("trust.json"))
            }),
            boundary: None,
        }
    }

    /// Returns the file of an ensemble, from its path or its name.
    ///
    /// # Errors
    /// There is no such file or name, the path is a folder, or the path is outside of the boundary.
    pub fn resolve_ensemble_file(&self, given: &str) -> Result<PathBuf, ProjectError> {
        self.resolve_ensemble_file_from(given, &self.folder, &self.project_root(&self.folder))
    }

    /// Returns the file of an ensemble, from its path or its name, as seen from `folder` in the project with the root `root`.
    ///
    /// # Errors
    /// See [`Self::resolve_ensemble_file`].
    pub fn resolve_ensemble_file_from(&self, given: &str, folder: &Path, root: &Path) -> Result<PathBuf, ProjectError> {
        let direct = folder.join(given);
        if !self.is_inside_boundary(&direct) {
            return Err(ProjectError::Outside(given.to_owned()));
        }
        if direct.is_file() {
            return Ok(if folder == self.folder {
                PathBuf::from(given)
            } else {
                direct
            });
        }
        if direct.is_dir() {
            return Err(ProjectError::IsFolder(given.to_owned()));
        }
        let is_path = given.contains('/') || given.ends_with(".yaml") || given.ends_with(".yml");
        let is_file_name = is_path && !given.contains('/');
        let places: Vec<PathBuf> = if is_file_name {
            let folders = name_search_folders(folder, root);
            let below_folder = [folder.join(".ensemble/ensembles")];
            let folders = [root.to_owned()].into_iter().chain(folders).chain(below_folder);
            folders.map(|folder| folder.join(given)).collect()
        } else if is_path {
            vec![root.join(given)]
        } else {
            let folders = name_search_folders(folder, root);
            let names = [format!("{given}.yaml"), format!("{given}.yml")];
            folders
                .iter()
                .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
                .collect()
        };
        let places: Vec<PathBuf> = places
            .into_iter()
            .filter(|place| self.is_inside_boundary(place))
            .collect();
        if let Some(existing_file) = places.iter().find(|place| place.is_file()) {
            return Ok(self.relative_path(existing_file));
        }
        let nearby = list_name_candidates(std::iter::once(&direct).chain(&places));
        let mut searched_places: Vec<String> = Vec::new();
        for place in std::iter::once(&direct).chain(&places) {
            let place = self.relative_path(place).display().to_string();
            if !searched_places.contains(&place) {
                searched_places.push(place);
            }
        }
        Err(ProjectError::NotFound {
            given: given.to_owned(),
            is_path,
            similar: find_similar_word(given, nearby.iter().map(String::as_str).filter(|name| *name != given))
                .map(str::to_owned),
            looked: searched_places,
        })
    }

    /// Returns the YAML files that can be selected by name, with their names, sorted by name. Some files might be no ensembles.
    pub fn list_named_files(&self) -> Vec<(String, PathBuf)> {
        let mut named_files: Vec<(String, PathBuf)> = Vec::new();
        for (name, file) in self.find_files_in_name_order() {
            if !named_files.iter().any(|(known, _)| *known == name) {
                named_files.push((name, file));
            }
        }
        named_files.sort();
        named_files
    }

    /// Returns the files that can be selected by name, and the files whose name selects another file, sorted by name and file.
    pub fn list_named_and_shadowed_files(&self) -> Vec<(String, PathBuf)> {
        let mut named_files = self.find_files_in_name_order();
        named_files.sort();
        named_files.dedup();
        named_files
    }

    /// Returns all files with names, in the order in which a name is resolved.
    fn find_files_in_name_order(&self) -> Vec<(String, PathBuf)> {
        let mut named_files: Vec<(String, PathBuf)> = Vec::new();
        for folder in name_search_folders(&self.folder, &self.project_root(&self.folder)) {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut files: Vec<PathBuf> = entries
                .map(|entry| entry.path())
                .filter(|path| path.is_file())
                .collect();
            // `name.yaml` comes before `name.yml`, as where a name is looked for.
            files.sort();
            for path in files {
                let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
                if is_yaml(&path) && !name.is_empty() {
                    named_files.push((name.to_owned(), self.relative_path(&path)));
                }
            }
        }
        named_files
    }

    /// Reads a text file, as [`read_source`] does. A relative path starts in the caller's folder, and names the text.
    ///
    /// # Errors
    /// See [`read_source`].
    pub fn read_file(&self, path: &Path) -> Result<SourceText, ProjectError> {
        let renamed = |error| match error {
            ProjectError::Unreadable { reason, .. } => ProjectError::Unreadable {
                path: path.to_owned(),
                reason,
            },
            other => other,
        };
        let source = read_source(&self.folder.join(path)).map_err(renamed)?;
        Ok(SourceText::new(path.display().to_string(), source.text().clone()))
    }

    /// Returns whether the file is inside the project folder, with links resolved. A missing file is judged by its folder.
    pub fn contains_file(&self, file: &Path) -> bool {
        let file = self.folder.join(file);
        let canonical_parent = || file.parent().unwrap_or(&file).canonicalize();
        let is_below = |file: PathBuf| self.folder.canonicalize().map(|folder| file.starts_with(folder));
        file.canonicalize()
            .or_else(|_| canonical_parent())
            .and_then(is_below)
            .unwrap_or(false)
    }

    /// Returns the path as a user in the project folder writes the path.
    pub fn relative_path(&self, path: &Path) -> PathBuf {
        // Below `/`, a path without its first slash would look like a path relative to another folder.
        let base = self.folder.parent().map(|_| &self.folder);
        let relative = base.and_then(|base| path.strip_prefix(base).ok());
        relative.unwrap_or(path).to_owned()
    }

    /// Returns the nearest folder upward from `folder` that contains `.ensemble/`, or the caller's folder. The home folder and `/`
    /// are project roots only if they are the caller's folder. Reports folders of other users.
    pub fn project_root(&self, folder: &Path) -> PathBuf {
        let caller = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let is_root = |folder: &PathBuf| {
            let is_shared = folder.parent().is_none() || Some(folder) == self.home.as_ref();
            let ensemble_dir = folder.join(".ensemble");
            (!is_shared || *folder == caller) && ensemble_dir.is_dir() && !self.trust.is_foreign_reported(&ensemble_dir)
        };
        let nearest_root = self.project_ancestors(folder).into_iter().find(is_root);
        nearest_root.unwrap_or_else(|| self.folder.clone())
    }

    /// Returns the nearest `.ensemble/config.yaml` upward from `folder`. Skips and reports files of other users.
    pub fn project_config(&self, folder: &Path) -> Option<PathBuf> {
        let is_usable = |place: &PathBuf| {
            let folder = place.parent().unwrap_or(place);
            place.is_file() && !self.trust.is_foreign_reported(folder) && !self.trust.is_foreign_reported(place)
        };
        let folders = self.project_ancestors(folder).into_iter();
        let mut places = folders.map(|folder| folder.join(".ensemble").join("config.yaml"));
        places.find(is_usable)
    }

    /// Returns the folder and its ancestors that can belong to the project, the nearest first.
    pub fn project_ancestors(&self, folder: &Path) -> Vec<PathBuf> {
        let absolute = self.folder.join(folder);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        list_search_folders(&absolute, self.home.as_deref())
    }
}

/// Returns the folders in which the name of an ensemble is resolved, in this order.
fn name_search_folders(folder: &Path, root: &Path) -> [PathBuf; 4] {
    [
        folder.to_owned(),
        folder.join("ensembles"),
        root.join("ensembles"),
        root.join(".ensemble/ensembles"),
    ]
}

/// Returns whether the extension is `yaml` or `yml`.
pub(crate) fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// Lists the file names and the stems of YAML files in the folders of these paths.
fn list_name_candidates<'p>(places: impl Iterator<Item = &'p PathBuf>) -> Vec<String> {
    let mut names = Vec::new();
    for folder in places.filter_map(|place| place.parent()) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let words = [path.file_name(), path.file_stem()];
            let words = words.into_iter().flatten().filter_map(|word| word.to_str());
            names.extend(words.filter(|_| is_yaml(&path)).map(str::to_owned));
        }
    }
    names
}

/// Returns the path with the links of its existing part resolved. Returns `None` if the rest contains `..`, or a link is broken.
fn resolve_existing_part(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut nearest = path;
    loop {
        if let Ok(existing) = nearest.canonicalize() {
            return Some(missing.iter().rev().fold(existing, |path, name| path.join(name)));
        }
        if nearest.symlink_metadata().is_ok() {
            return None;
        }
        match nearest.components().next_back()? {
            Component::Normal(name) => missing.push(name),
            _ => return None,
        }
        nearest = nearest.parent()?;
    }
}

/// Reads a text file that a user wrote: a regular file in UTF-8 of limited size.
///
/// # Errors
/// The file cannot be read, is too large, or is not UTF-8.
pub fn read_source(path: &Path) -> Result<SourceText, ProjectError> {
    let unreadable = |reason: String| ProjectError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let file = open_regular_file(path).map_err(|error| unreadable(error.to_string()))?;
    let text = read_limited_text(file).map_err(|error| unreadable(error.to_string()))?;
    Ok(SourceText::new(path.display().to_string(), text))
}

/// Reads a text from a stream, such as standard input, with the limits of [`read_source`]. `name` names the stream in errors.
///
/// # Errors
/// The stream cannot be read, is too long, or is not UTF-8.
pub fn read_text_stream(stream: impl Read, name: &str) -> Result<String, ProjectError> {
    let unreadable = |reason: String| ProjectError::Unreadable {
        path: name.into(),
        reason,
    };
    read_limited_text(stream).map_err(|error| unreadable(error.to_string()))
}

/// Error in reading a text that a user wrote.
#[derive(Debug, thiserror::Error)]
enum SourceTextError {
    /// The text cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The text is too long.
    #[error("it is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// The bytes are not UTF-8; line and column from 1.
    #[error("it is not UTF-8: the byte at line {line}, column {column} is invalid; save the file as UTF-8")]
    NotUtf8 { line: usize, column: usize },
}

/// Reads a UTF-8 text of limited size.
fn read_limited_text(from: impl Read) -> Result<String, SourceTextError> {
    let max_bytes = MAX_BYTES as u64;
    let mut bytes = Vec::new();
    from.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(SourceTextError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&valid[start..]).chars().count() + 1;
        SourceTextError::NotUtf8 { line, column }
    })
}
