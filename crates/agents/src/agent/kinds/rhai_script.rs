//! Rhai scripts as agents, which run inside the process and need no installed program.
//!
//! An agent can write the script that a later agent runs, so each execution searches for the file. The text is read
//! only if the file has changed, and compiled only if no agent has a script with the same text.

#![expect(
    clippy::disallowed_methods,
    reason = "this room reads scripts, and asks whether they have changed"
)]

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::agent::kinds::scope::rhai_variables;
use crate::agent::{AttemptEnd, AttemptResult, ExecutionInput};
use ensemble_language::data::{ExecutionFailure, FailureKind, JsonMap};
use ensemble_process::output;
use ensemble_scripts::regular_files::{MAX_SCRIPT_BYTES, read_text};
use ensemble_scripts::{Script, ScriptFailure};

/// Precision of file times: two changes within this time may have the same file time.
const MIN_TIMESTAMP_STEP: Duration = Duration::from_millis(20);
/// Precision of file times on file systems with whole seconds.
const WHOLE_SECOND_STEP: Duration = Duration::from_secs(2);

/// Cache of the latest compiled script, valid while its file is unchanged.
#[derive(Debug, Default)]
pub struct CompiledScriptCache(Mutex<Option<CachedScript>>);

/// Error in loading a script: the file is unreadable, or does not compile.
#[derive(Debug)]
pub(crate) enum ScriptLoadError {
    /// The file cannot be read.
    Unreadable(String),
    /// The text is not a Rhai script.
    Broken(String),
}

/// Compiled script with the path and version of its file.
#[derive(Debug)]
struct CachedScript {
    path: PathBuf,
    /// Version of the file before it was read; `None` if the file had just changed, because another change might stay unseen.
    version: Option<FileVersion>,
    script: Arc<Script>,
}

/// Identity, size and times of a file, which change with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    file: (u64, u64),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// Script file that exists, with its version. `name` is its name in messages.
#[derive(Debug)]
pub(crate) struct FoundScriptFile<'a> {
    path: &'a Path,
    /// The name of the script in messages.
    name: &'a str,
    version: FileVersion,
}

/// Finds the first path that is a file. Each path has a name for messages.
pub(crate) fn find_script_file(places: &[(PathBuf, String)]) -> Option<FoundScriptFile<'_>> {
    places.iter().find_map(|(path, name)| {
        let file = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let version = FileVersion::from_metadata(&file);
        Some(FoundScriptFile { path, name, version })
    })
}

/// Runs the script at `path`, which messages call `name`. Loads or reuses its compiled form.
pub async fn run_script_file(
    compiled: &CompiledScriptCache,
    path: &Path,
    name: &str,
    execution: ExecutionInput,
) -> AttemptEnd {
    match fs::metadata(path) {
        Ok(file) => {
            let version = FileVersion::from_metadata(&file);
            run_found_script(compiled, FoundScriptFile { path, name, version }, execution).await
        }
        Err(error) => outcome_with_result(Err(unreadable_error(name, &error).into())),
    }
}

/// Runs the script of a file that was just found.
pub(crate) async fn run_found_script(
    compiled: &CompiledScriptCache,
    found: FoundScriptFile<'_>,
    execution: ExecutionInput,
) -> AttemptEnd {
    let name = found.name;
    outcome_with_result(match compiled.load_cached_script(found) {
        Ok(script) => match script
            .run(rhai_variables(&execution, |name| script.may_read_variable(name)))
            .await
        {
            Ok(value) => output::output_from_value(value),
            Err(failure) => Err(script_failure(name, failure)),
        },
        Err(error) => Err(error.into()),
    })
}

/// Wraps the result in an outcome without usage and messages.
fn outcome_with_result(result: Result<JsonMap, ExecutionFailure>) -> AttemptEnd {
    AttemptEnd::Finished(AttemptResult {
        parts: Vec::new(),
        nested_answers: Vec::new(),
        answer: None,
        result,
        usage: None,
        exchange: Vec::new(),
    })
}

impl CompiledScriptCache {
    /// Loads and compiles the script at `path`, which messages call `name`, and caches it.
    ///
    /// # Errors
    /// The file cannot be read, or is not a Rhai script.
    pub(crate) fn load_script_file(&self, path: &Path, name: &str) -> Result<(), ScriptLoadError> {
        let file = fs::metadata(path).map_err(|error| unreadable_error(name, &error))?;
        let version = FileVersion::from_metadata(&file);
        self.load_cached_script(FoundScriptFile { path, name, version })
            .map(drop)
    }

    /// Returns the cached script if the file is unchanged. Otherwise loads, compiles and caches the script.
    fn load_cached_script(&self, found: FoundScriptFile<'_>) -> Result<Arc<Script>, ScriptLoadError> {
        let FoundScriptFile { path, name, version } = found;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded_script) = &*last
            && loaded_script.version.as_ref() == Some(&version)
            && loaded_script.path == path
        {
            return Ok(Arc::clone(&loaded_script.script));
        }
        let now = SystemTime::now();
        let text = read_text(path, MAX_SCRIPT_BYTES).map_err(|error| unreadable_error(name, &error))?;
        let script = Script::compile(&text);
        let script = script.map_err(|error| ScriptLoadError::Broken(error.message_with_position(name)))?;
        *last = Some(CachedScript {
            path: path.to_owned(),
            version: version.has_distinguishable_times(now).then_some(version),
            script: Arc::clone(&script),
        });
        Ok(script)
    }
}

/// Creates the error of a script file that cannot be read.
fn unreadable_error(name: &str, error: &io::Error) -> ScriptLoadError {
    ScriptLoadError::Unreadable(format!("cannot read `{name}`: {error}"))
}

impl From<ScriptLoadError> for ExecutionFailure {
    fn from(error: ScriptLoadError) -> Self {
        let (ScriptLoadError::Unreadable(message) | ScriptLoadError::Broken(message)) = error;
        Self::new(FailureKind::Unavailable, message)
    }
}

impl FileVersion {
    /// Reads the version from the metadata of the file.
    fn from_metadata(file: &Metadata) -> Self {
        Self {
            file: (file.dev(), file.ino()),
            size: file.size(),
            written: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Returns whether every change after `now` will result in different file times.
    fn has_distinguishable_times(&self, now: SystemTime) -> bool {
        [self.written, self.changed].into_iter().all(|(seconds, nanos)| {
            let tick = if nanos == 0 {
                WHOLE_SECOND_STEP
            } else {
                MIN_TIMESTAMP_STEP
            };
            let since = Duration::new(seconds.try_into().unwrap_or(0), nanos.try_into().unwrap_or(0));
            now > UNIX_EPOCH + since + tick
        })
    }
}

/// Converts a failure of the script to a failure of the execution.
fn script_failure(name: &str, failure: ScriptFailure) -> ExecutionFailure {
    match failure {
        ScriptFailure::Reported(error) => {
            ExecutionFailure::new(FailureKind::Reported, error.message_with_position(name))
        }
        ScriptFailure::Limit(error) => ExecutionFailure::new(FailureKind::Exit, error.message_with_position(name)),
        ScriptFailure::Stopped => ExecutionFailure::new(FailureKind::Exit, format!("{name}: it was stopped")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use ensemble_language::data::{AgentRequest, RunContext};
    use ensemble_process::test_support::{an_execution, stdin_of};
    use ensemble_scripts::ScriptError;

    fn error(line: usize) -> ScriptError {
        ScriptError {
            message: "boom".to_owned(),
            line,
            column: 7,
        }
    }

    #[tokio::test]
    async fn its_variables_are_what_others_find_on_stdin() {
        let mut execution = an_execution();
        let plain = execution.clone();
        execution.context = Arc::new(RunContext::from_iter([(Arc::from("k"), Arc::new(json!([1])))]));
        execution.dependencies = vec![(Arc::from("w"), Arc::new(json!({"n": 1})))];
        execution.failures = vec![(Arc::from("v"), Arc::new(json!({"error": "no"})))];
        execution.news = vec![Arc::from("w")];
        execution.parameters = Arc::new(JsonMap::from_iter([("p".to_owned(), json!(true))]));
        execution.request = Some(Arc::new(AgentRequest {
            from: Arc::from("boss"),
            parameters: json!({"q": 1}),
            priority: 2,
        }));
        for execution in [plain, execution] {
            let expected = stdin_of(&execution).await;
            let names = expected.as_object().expect("an object").keys();
            let entries: Vec<String> = names.map(|name| format!("{name}: {name}")).collect();
            let script = Script::compile(&format!("#{{{}}}", entries.join(", "))).expect("a script");
            assert_eq!(script.run(rhai_variables(&execution, |_| true)).await, Ok(expected));
            assert_eq!(rhai_variables(&execution, |_| true).len(), entries.len());
            let names: Vec<_> = rhai_variables(&execution, |_| true)
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            assert_eq!(names, ensemble_language::check::SCRIPT_VARIABLES);
        }
    }

    #[test]
    fn a_failure_has_its_kind_and_its_place() {
        let reported = script_failure("scripts/a.rhai", ScriptFailure::Reported(error(3)));
        assert_eq!(
            reported,
            ExecutionFailure::new(FailureKind::Reported, "scripts/a.rhai:3:7: boom")
        );
        let limit = script_failure("a.rhai", ScriptFailure::Limit(error(0)));
        assert_eq!(limit, ExecutionFailure::new(FailureKind::Exit, "a.rhai: boom"));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_unavailable() {
        let folder = TempDir::new().expect("a folder");
        let observed = run_script_file(
            &CompiledScriptCache::default(),
            &folder.path().join("a.rhai"),
            "a.rhai",
            an_execution(),
        )
        .await;
        let AttemptEnd::Finished(AttemptResult {
            result: Err(failure), ..
        }) = observed
        else {
            panic!("{observed:?}");
        };
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert!(failure.error.starts_with("cannot read `a.rhai`: "), "{failure:?}");
    }

    /// Returns a file as it was at that time.
    fn version(size: u64, at: SystemTime) -> FileVersion {
        let since = at.duration_since(UNIX_EPOCH).expect("after 1970");
        let time = (since.as_secs().try_into().expect("small"), since.subsec_nanos().into());
        FileVersion {
            file: (1, 2),
            size,
            written: time,
            changed: time,
        }
    }

    #[test]
    fn a_file_is_read_again_only_if_it_may_have_changed() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("a.rhai");
        let before = SystemTime::now() - Duration::from_secs(5);
        for (written, is_read_again) in [(before, false), (SystemTime::now(), true)] {
            let compiled = CompiledScriptCache::default();
            let found = |size| FoundScriptFile {
                path: &path,
                name: "a.rhai",
                version: version(size, written),
            };
            fs::write(&path, "1").expect("written");
            let first = compiled.load_cached_script(found(1)).expect("a script");
            fs::write(&path, "2").expect("written");
            let second = compiled.load_cached_script(found(1)).expect("a script");
            assert_eq!(!Arc::ptr_eq(&first, &second), is_read_again);
            let third = compiled.load_cached_script(found(2)).expect("a script");
            assert!(!Arc::ptr_eq(&first, &third), "another size");
        }
    }

    #[test]
    fn times_without_parts_of_a_second_are_trusted_later() {
        let at = UNIX_EPOCH + Duration::from_secs(1_000);
        let settled =
            |at: SystemTime, after: u64| version(1, at).has_distinguishable_times(at + Duration::from_millis(after));
        assert!(!settled(at, 1_900) && settled(at, 2_100));
        let at = at + Duration::from_nanos(1);
        assert!(!settled(at, 19) && settled(at, 21));
        assert!(
            !version(1, at + Duration::from_secs(9)).has_distinguishable_times(at),
            "the clocks differ"
        );
    }

    #[tokio::test]
    async fn a_script_that_is_rewritten_at_once_is_run_as_it_is() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("a.rhai");
        let compiled = CompiledScriptCache::default();
        for n in 0..50 {
            fs::write(&path, format!("#{{n: {:02}}}", n + 10)).expect("written");
            let observed = run_script_file(&compiled, &path, "a.rhai", an_execution()).await;
            let AttemptEnd::Finished(AttemptResult { result, .. }) = observed else {
                panic!("{observed:?}");
            };
            assert_eq!(result.map(Value::Object), Ok(json!({"n": n + 10})));
        }
    }
}
