//! Files on which the cases of a test file depend, and the detection of their changes.
//!
//! Every word of a test file, of its ensemble, and of the files that they name counts as a file name, if the file exists or the word has an
//! extension. A wrong file only causes one more test.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::cases::default_ensemble_name;
use ensemble_project::config::find_config_files;
use ensemble_project::prepare::ensemble_folder;
use ensemble_scripts::regular_files::read_text;

/// Maximum size of a file that is searched for the names of other files, in bytes.
const MAX_SEARCHED_BYTES: u64 = 1 << 20;
/// Maximum number of files of a test file.
const MAX_DEPENDENCIES: usize = 2_000;

/// Time of the last change, length and inode number of a file.
type WatchedFileStamp = (Option<SystemTime>, u64, u64);

/// Files on which a test file depends, with their state at the time of loading.
#[derive(Debug)]
pub(crate) struct TestDependencies {
    stamps: BTreeMap<PathBuf, Option<WatchedFileStamp>>,
}

impl TestDependencies {
    /// Finds the files on which the test file depends, and records their state.
    pub(crate) fn load(test_file: &Path, surroundings: &CliEnvironment) -> Self {
        let files = find_dependencies(test_file, surroundings);
        Self {
            stamps: files
                .into_iter()
                .map(|file| (file.clone(), read_file_stamp(&file)))
                .collect(),
        }
    }

    /// Returns the first file that has changed since the files were loaded.
    pub(crate) fn find_changed(&self) -> Option<&Path> {
        let mut stamps = self.stamps.iter();
        let changed = stamps.find(|(file, was)| read_file_stamp(file) != **was);
        changed.map(|(file, _)| file.as_path())
    }

    /// Iterates over the files that existed when the files were loaded.
    pub(crate) fn existing_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.stamps
            .iter()
            .filter(|(_, stamp)| stamp.is_some())
            .map(|(file, _)| file)
    }
}

/// Reads the stamp of a file. Returns `None` if there is no such file.
#[expect(clippy::disallowed_methods, reason = "the files of the user are watched here")]
fn read_file_stamp(file: &Path) -> Option<WatchedFileStamp> {
    let data = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    Some((data.modified().ok(), data.len(), inode_number(&data)))
}

#[cfg(unix)]
fn inode_number(data: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(data)
}

#[cfg(not(unix))]
fn inode_number(_data: &std::fs::Metadata) -> u64 {
    0
}

/// Finds the files on which the test file depends: the ensemble, configurations, and files whose names appear in these files.
fn find_dependencies(test_file: &Path, surroundings: &CliEnvironment) -> BTreeSet<PathBuf> {
    let project = &surroundings.project;
    let folder = ensemble_folder(test_file, project);
    let test_path = project.folder.join(test_file);
    let name = test_path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let beside = default_ensemble_name(name).map(|name| folder.join(name));
    let configs = find_config_files(&folder, project);
    let root = project.project_root(&folder);
    let mut files = BTreeSet::from([test_path.clone()]);
    let mut ahead = VecDeque::from([test_path]);
    let more = beside.into_iter().chain(configs.project).chain(configs.user);
    for file in more {
        if files.insert(file.clone()) {
            ahead.push_back(file);
        }
    }
    while let Some(file) = ahead.pop_front() {
        let around = file.parent().unwrap_or(&folder).to_owned();
        for word in file_name_words(&file) {
            for folder in [&around, &folder, &root, &project.folder] {
                for candidate in candidate_files(folder, &word) {
                    if files.len() < MAX_DEPENDENCIES && files.insert(candidate.clone()) {
                        ahead.push_back(candidate);
                    }
                }
            }
        }
    }
    files
}

/// Returns the files that the word can name: existing files, and a missing file if the word has an extension.
fn candidate_files(folder: &Path, word: &str) -> Vec<PathBuf> {
    let file = folder.join(word);
    let has_ending = file.extension().is_some_and(|ending| (1..=5).contains(&ending.len()));
    if has_ending {
        // It may not be there yet.
        return if file.is_dir() { Vec::new() } else { vec![file] };
    }
    let of_ensemble = [
        format!("{word}.yaml"),
        format!("{word}.yml"),
        format!("ensembles/{word}.yaml"),
    ];
    let candidates = std::iter::once(file).chain(of_ensemble.iter().map(|name| folder.join(name)));
    candidates.filter(|file| file.is_file()).collect()
}

/// Reads a text file and returns its different words that could be file names.
fn file_name_words(file: &Path) -> BTreeSet<String> {
    let text = read_text(file, MAX_SEARCHED_BYTES).unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '@' | '~');
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
    let is_name =
        |word: &&str| word.len() < 256 && word.starts_with(|c: char| c.is_alphanumeric() || "._/".contains(c));
    let has_letter = |word: &&str| word.contains(char::is_alphabetic);
    words.filter(is_name).filter(has_letter).map(str::to_owned).collect()
}
