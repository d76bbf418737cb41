//! Where things stand: the folder, the environment, the project root, and the files in them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::args::ColorChoice;
use super::error::CliError;
use super::streams::Streams;
use ensemble_language::diagnostic::did_you_mean;
use ensemble_language::loader::MAX_BYTES;
use ensemble_language::source::Source;

/// The program's surroundings, read once.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    /// The caller's folder.
    pub folder: PathBuf,
    /// The user's `ensemble/config.yaml`, if the environment says where it would be.
    pub user_config: Option<PathBuf>,
    /// Standard streams.
    pub streams: Streams,
}

impl Surroundings {
    /// Looks round.
    pub(super) fn capture(color: ColorChoice) -> Self {
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        let config = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| home.map(|home| home.join(".config")));
        Self {
            folder,
            user_config: config.map(|config| config.join("ensemble").join("config.yaml")),
            streams: Streams::capture(color),
        }
    }

    /// Prints a result.
    pub(super) fn print(&self, text: &str) {
        let mut out = self.streams.out();
        // Whoever closed the pipe has seen enough.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Says something beside the result.
    pub(super) fn complain(&self, text: &str) {
        let mut err = self.streams.err();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Does standard error show colours?
    pub(super) fn colors_on_stderr(&self) -> bool {
        self.streams.colors_on_stderr()
    }

    /// The file of an ensemble that was given as a file or by name.
    pub(super) fn ensemble_file(&self, given: &str) -> Result<PathBuf, CliError> {
        self.ensemble_file_from(given, &self.folder, &self.project_root(&self.folder))
    }

    /// Likewise, as seen from a folder of a project.
    pub(super) fn ensemble_file_from(&self, given: &str, folder: &Path, root: &Path) -> Result<PathBuf, CliError> {
        let direct = folder.join(given);
        if direct.is_file() {
            return Ok(if folder == self.folder {
                PathBuf::from(given)
            } else {
                direct
            });
        }
        if direct.is_dir() {
            let message = format!("{given} is a folder, and one ensemble is wanted");
            return Err(CliError::usage_with_help(message, "`ensemble validate` takes folders"));
        }
        let is_path = given.contains('/') || given.ends_with(".yaml") || given.ends_with(".yml");
        let places: Vec<PathBuf> = if is_path {
            vec![root.join(given)]
        } else {
            let folders = [
                folder.to_owned(),
                folder.join("ensembles"),
                root.join("ensembles"),
                root.join(".ensemble/ensembles"),
            ];
            let names = [format!("{given}.yaml"), format!("{given}.yml")];
            folders
                .iter()
                .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
                .collect()
        };
        if let Some(found) = places.iter().find(|place| place.is_file()) {
            return Ok(self.relative(found));
        }
        let what = if is_path { "file" } else { "ensemble" };
        let message = format!("there is no {what} `{given}`");
        let nearby = files_beside(std::iter::once(&direct).chain(&places));
        if let Some(near) = did_you_mean(given, nearby.iter().map(String::as_str)) {
            return Err(CliError::usage_with_help(message, format!("did you mean `{near}`?")));
        }
        let mut looked: Vec<String> = Vec::new();
        for place in std::iter::once(&direct).chain(&places) {
            let place = self.relative(place).display().to_string();
            if !looked.contains(&place) {
                looked.push(place);
            }
        }
        let help = format!("looked for {}", looked.join(", "));
        Err(CliError::usage_with_help(message, help))
    }

    /// The path as a person in this folder would write it.
    pub(super) fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.folder)
            .map_or_else(|_| path.to_owned(), Path::to_owned)
    }

    /// The nearest folder upward from `folder` that holds `.ensemble/`, else the caller's folder.
    pub(super) fn project_root(&self, folder: &Path) -> PathBuf {
        let absolute = self.folder.join(folder);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        let found = absolute.ancestors().find(|folder| folder.join(".ensemble").is_dir());
        found.unwrap_or(&self.folder).to_owned()
    }

    /// The nearest `.ensemble/config.yaml` upward from `folder`.
    pub(super) fn project_config(&self, folder: &Path) -> Option<PathBuf> {
        let absolute = self.folder.join(folder);
        let absolute = absolute.canonicalize().unwrap_or(absolute);
        let mut places = absolute
            .ancestors()
            .map(|folder| folder.join(".ensemble").join("config.yaml"));
        places.find(|place| place.is_file())
    }
}

/// What ensembles in the folders of these places are called: their files, and their names.
fn files_beside<'p>(places: impl Iterator<Item = &'p PathBuf>) -> Vec<String> {
    let mut names = Vec::new();
    for folder in places.filter_map(|place| place.parent()) {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            let words = [path.file_name(), path.file_stem()];
            let words = words.into_iter().flatten().filter_map(|word| word.to_str());
            names.extend(words.filter(|_| is_yaml).map(str::to_owned));
        }
    }
    names
}

/// Reads a text file that a person wrote: not larger than any such file is, and in UTF-8.
pub(super) fn read_source(path: &Path) -> Result<Source, CliError> {
    let unreadable = |reason: String| CliError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let bytes = read_capped(file).map_err(unreadable)?;
    Ok(Source::new(
        path.display().to_string(),
        text(bytes).map_err(|why| unreadable(why.0))?,
    ))
}

/// Reads standard input as such a text.
pub(super) fn read_stdin() -> Result<String, CliError> {
    let unreadable = |reason: String| CliError::Unreadable {
        path: "standard input".into(),
        reason,
    };
    let bytes = read_capped(std::io::stdin().lock()).map_err(unreadable)?;
    text(bytes).map_err(|why| unreadable(why.0))
}

fn read_capped(from: impl Read) -> Result<Vec<u8>, String> {
    let most = MAX_BYTES as u64;
    let mut bytes = Vec::new();
    let read = from.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {} MiB", most >> 20));
    }
    Ok(bytes)
}

/// Why bytes are no text.
struct NotText(String);

fn text(bytes: Vec<u8>) -> Result<String, NotText> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = valid.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&valid[start..]).chars().count() + 1;
        NotText(format!(
            "it is not UTF-8: the byte at line {line}, column {column} begins no character; save the file as UTF-8"
        ))
    })
}
