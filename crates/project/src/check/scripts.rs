//! Cache of the analyses of Rhai scripts. Each file is read and analyzed once for all folders of a call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ensemble_language::source::SourceText;
use ensemble_scripts::regular_files::{MAX_SCRIPT_BYTES, read_text};
use ensemble_scripts::{self, ScriptAnalysis};

use super::MAX_CACHED_FILES;

/// Maximum size of a script that is analyzed, in bytes.
const MAX_ANALYZED_BYTES: usize = 256 << 10;

/// Cache of the texts and analyses of Rhai scripts, for all folders.
#[derive(Debug, Default)]
pub struct RhaiScriptCache(Mutex<HashMap<PathBuf, Arc<OnceLock<RhaiScriptFacts>>>>);

/// Text and analysis of a Rhai script.
#[derive(Debug)]
pub(super) struct RhaiScriptFacts {
    /// Text of the script, or the error in reading the file.
    pub(super) source: Result<SourceText, String>,
    /// Analysis of the text; empty for a very large script.
    pub(super) analysis: ScriptAnalysis,
}

impl RhaiScriptCache {
    /// Returns the facts about the script in this file. Reads and analyzes the file once. `name` returns the file name for messages.
    pub(super) fn load_facts_once(&self, path: &Path, name: impl FnOnce() -> String) -> Arc<OnceLock<RhaiScriptFacts>> {
        let cell = {
            let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if scripts.len() >= MAX_CACHED_FILES && !scripts.contains_key(path) {
                scripts.clear();
            }
            Arc::clone(scripts.entry(path.to_owned()).or_default())
        };
        cell.get_or_init(|| RhaiScriptFacts::from_file(path, &name()));
        cell
    }
}

impl RhaiScriptFacts {
    /// Reads and analyzes the script in this file. `name` is the file name for messages.
    fn from_file(path: &Path, name: &str) -> Self {
        match read_text(path, MAX_SCRIPT_BYTES) {
            Ok(text) => Self {
                analysis: match text.len() <= MAX_ANALYZED_BYTES {
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
