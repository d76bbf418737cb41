//! The texts of Rhai scripts: each file is read and examined once for all folders of a call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ensemble_language::source::Source;
use ensemble_scripts::regular_files::{LARGEST_SCRIPT, read_text};
use ensemble_scripts::{self, Examined};

use super::MOST;

/// Largest script that is examined, in bytes.
const LARGEST: usize = 256 << 10;

/// The facts about the scripts of all folders.
#[derive(Debug, Default)]
pub struct Scripts(Mutex<HashMap<PathBuf, Arc<OnceLock<Known>>>>);

/// The facts about one script.
#[derive(Debug)]
pub(super) struct Known {
    /// Its text, or why it cannot be read.
    pub(super) source: Result<Source, String>,
    /// What its text tells; nothing for a very large script.
    pub(super) examined: Examined,
}

impl Scripts {
    /// Returns the facts about the script in this file, which `name` calls in messages.
    pub(super) fn known(&self, path: &Path, name: impl FnOnce() -> String) -> Arc<OnceLock<Known>> {
        let cell = {
            let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if scripts.len() >= MOST && !scripts.contains_key(path) {
                scripts.clear();
            }
            Arc::clone(scripts.entry(path.to_owned()).or_default())
        };
        cell.get_or_init(|| Known::of(path, &name()));
        cell
    }
}

impl Known {
    fn of(path: &Path, name: &str) -> Self {
        match read_text(path, LARGEST_SCRIPT) {
            Ok(text) => Self {
                examined: match text.len() <= LARGEST {
                    true => ensemble_scripts::examine(name, &text),
                    false => Examined::default(),
                },
                source: Ok(Source::new(name, text)),
            },
            Err(error) => Self {
                source: Err(error.to_string()),
                examined: Examined::default(),
            },
        }
    }
}
