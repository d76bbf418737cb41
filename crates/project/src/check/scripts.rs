//! The texts of Rhai scripts: each file is read and examined once for all folders of a call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ensemble_language::source::SourceText;
use ensemble_scripts::regular_files::{LARGEST_SCRIPT, read_text};
use ensemble_scripts::{self, ScriptAnalysis};

use super::MOST;

/// Largest script that is examined, in bytes.
const LARGEST: usize = 256 << 10;

/// The facts about the scripts of all folders.
#[derive(Debug, Default)]
pub struct ScriptFactsCache(Mutex<HashMap<PathBuf, Arc<OnceLock<ScriptFacts>>>>);

/// The facts about one script.
#[derive(Debug)]
pub(super) struct ScriptFacts {
    /// Its text, or why it cannot be read.
    pub(super) source: Result<SourceText, String>,
    /// What its text tells; nothing for a very large script.
    pub(super) analysis: ScriptAnalysis,
}

impl ScriptFactsCache {
    /// Returns the facts about the script in this file, which `name` calls in messages.
    pub(super) fn facts_for_file(&self, path: &Path, name: impl FnOnce() -> String) -> Arc<OnceLock<ScriptFacts>> {
        let cell = {
            let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if scripts.len() >= MOST && !scripts.contains_key(path) {
                scripts.clear();
            }
            Arc::clone(scripts.entry(path.to_owned()).or_default())
        };
        cell.get_or_init(|| ScriptFacts::from_file(path, &name()));
        cell
    }
}

impl ScriptFacts {
    fn from_file(path: &Path, name: &str) -> Self {
        match read_text(path, LARGEST_SCRIPT) {
            Ok(text) => Self {
                analysis: match text.len() <= LARGEST {
                    true => ensemble_scripts::analyze_script(name, &text),
                    false => ScriptAnalysis::default(),
                },
                source: Ok(SourceText::new(name, text)),
            },
            Err(error) => Self {
                source: Err(error.to_string()),
                analysis: ScriptAnalysis::default(),
            },
        }
    }
}
