//! What a sandbox has refused, as far as the end of the process tells.
//!
//! The kernel tells a refusal only to the process: as "Permission denied" or "Operation not permitted". Programs print
//! these words beside the path. So a failure is one of the sandbox if stderr ends with such a line, and the path in it is
//! one that the rules do not allow.

use std::path::{Component, Path, PathBuf};

use ensemble_language::data::{ExecutionFailure, FailureKind};

use super::helper::find_helper_message;
use super::{ProcessSandbox, SandboxNetwork};

/// Phrases of a refused access, as C libraries, Rust, Python, Node and Go print them.
const REFUSAL_PHRASES: [&str; 7] = [
    "Permission denied",
    "permission denied",
    "Operation not permitted",
    "operation not permitted",
    "EACCES",
    "EPERM",
    "PermissionError",
];

/// Phrases of programs whose system call does not exist in a sandbox.
const UNKNOWN_CALL_PHRASES: [&str; 3] = ["Function not implemented", "function not implemented", "ENOSYS"];

/// Phrases of programs that get no more memory.
const OUT_OF_MEMORY_PHRASES: [&str; 6] = [
    "memory exhausted",
    "Cannot allocate memory",
    "MemoryError",
    "out of memory",
    "Out of memory",
    "memory allocation of",
];

/// Number of last stderr lines that are read.
const MAX_SEARCHED_STDERR_LINES: usize = 20;

/// Converts the failure to kind `sandbox`, with this message.
fn with_sandbox_kind_and_error(error: String, failure: ExecutionFailure) -> ExecutionFailure {
    ExecutionFailure {
        kind: FailureKind::Sandbox,
        error,
        ..failure
    }
}

/// Access to a path that the rules do not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingAccess {
    Read,
    Write,
}

impl ProcessSandbox {
    /// Returns the failure, with an explanation if the stderr shows a refusal by the sandbox.
    pub(crate) fn explain_sandbox_refusal(&self, failure: ExecutionFailure, stderr: &str) -> ExecutionFailure {
        if !matches!(
            failure.kind,
            FailureKind::Exit | FailureKind::Signal | FailureKind::Reported
        ) {
            return failure;
        }
        if let Some(message) = find_helper_message(stderr) {
            return with_sandbox_kind_and_error(format!("the sandbox: {message}"), failure);
        }
        if let Some(limit) = self.rules.memory
            && OUT_OF_MEMORY_PHRASES.iter().any(|words| stderr.contains(words))
        {
            let error = format!(
                "the sandbox allows at most {limit} bytes of memory; to allow more, raise `sandbox: {{memory: …}}`\n{}",
                failure.error
            );
            return with_sandbox_kind_and_error(error, failure);
        }
        let lines: Vec<&str> = stderr
            .trim_end()
            .lines()
            .rev()
            .take(MAX_SEARCHED_STDERR_LINES)
            .collect();
        let refused = || {
            lines
                .iter()
                .filter(|line| REFUSAL_PHRASES.iter().any(|words| line.contains(words)))
        };
        let path = refused().find_map(|line| find_path_candidates(line).find_map(|path| self.find_refused_path(path)));
        if let Some((path, lacking)) = path {
            let line = self.suggest_rule_line(&path, lacking);
            let action = match lacking {
                MissingAccess::Read => "reading",
                MissingAccess::Write => "changing",
            };
            let error = format!(
                "the sandbox does not allow {action} `{}`; to allow it, add {line}\n{}",
                path.display(),
                failure.error
            );
            return with_sandbox_kind_and_error(error, failure);
        }
        let has_unknown_call = lines
            .iter()
            .any(|line| UNKNOWN_CALL_PHRASES.iter().any(|words| line.contains(words)));
        if refused().next().is_none() && !has_unknown_call {
            return failure;
        }
        let calls = match has_unknown_call {
            true => ", not every system call",
            false => "",
        };
        let more = match &self.rules.network {
            SandboxNetwork::All => "",
            SandboxNetwork::None => ", and no network without `sandbox: {network: true}`",
            SandboxNetwork::Ports(_) => ", and no network except TCP to the listed ports",
        };
        ExecutionFailure {
            error: format!(
                "{}\n(it ran in a sandbox, which allows only the paths in `read` and `write`{calls}{more})",
                failure.error
            ),
            ..failure
        }
    }

    /// Finds the path in the text whose access the rules do not allow, and the missing access. Returns `None` if the rules allow it.
    fn find_refused_path(&self, text: &str) -> Option<(PathBuf, MissingAccess)> {
        let path = Path::new(text);
        let is_plain = !text.is_empty() && !text.contains(['*', '\n']);
        let path = is_plain.then(|| resolve_existing_links(&self.folder.join(path)))?;
        let is_within = |allowed: &[PathBuf]| allowed.iter().any(|allowed| path.starts_with(allowed));
        let is_any_word = !text.contains(['/', '.']) && !path.exists();
        if is_any_word || path.starts_with("/dev") || path.starts_with("/proc/self") || is_within(&self.rules.write) {
            return None;
        }
        let readable = is_within(&self.rules.read) || is_system_path(&path);
        let lacking = match readable || !path.exists() {
            true => MissingAccess::Write,
            false => MissingAccess::Read,
        };
        Some((path, lacking))
    }

    /// Renders the line that allows the access in the ensemble file.
    fn suggest_rule_line(&self, path: &Path, lacking: MissingAccess) -> String {
        let word = |path: &Path| {
            let path_text = match path.strip_prefix(&self.ensemble_folder) {
                Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
                Ok(inside) => inside.display().to_string(),
                Err(_) => path.display().to_string(),
            };
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
            match path_text.chars().all(plain) {
                true => path_text,
                false => serde_json::Value::String(path_text).to_string(),
            }
        };
        // What is not there yet cannot be named: the folder must be.
        let place = match path.exists() {
            true => path,
            false => path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(path),
        };
        match lacking {
            MissingAccess::Read => format!(
                "`sandbox: {{read: [{0}]}}`, or `sandbox: {{write: [{0}]}}` if it is to be changed",
                word(place)
            ),
            MissingAccess::Write => format!("`sandbox: {{write: [{}]}}`", word(place)),
        }
    }
}

/// Returns whether every program in a sandbox can read the path.
#[cfg(target_os = "linux")]
fn is_system_path(path: &Path) -> bool {
    super::landlock_rules::is_readable_by_all(path)
}

/// Returns whether every program in a sandbox can read the path: never on other systems.
#[cfg(not(target_os = "linux"))]
fn is_system_path(_: &Path) -> bool {
    false
}

/// Resolves the links in the existing part of the path, and removes `..`.
fn resolve_existing_links(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    for folder in plain.ancestors() {
        if let Ok(real) = folder.canonicalize() {
            let relative_path = plain.strip_prefix(folder).unwrap_or(Path::new(""));
            return if relative_path.as_os_str().is_empty() {
                real
            } else {
                real.join(relative_path)
            };
        }
    }
    plain
}

/// Iterates over possible paths in the line: quoted texts and words, from the end.
fn find_path_candidates(line: &str) -> impl Iterator<Item = &str> {
    let quoted = ['\'', '"', '`', '\u{2018}'].into_iter().flat_map(move |quote| {
        let close = if quote == '\u{2018}' { '\u{2019}' } else { quote };
        let mut parts = Vec::new();
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(quote)
            && let Some((inside, next)) = after.split_once(close)
        {
            parts.push(inside);
            rest = next;
        }
        parts
    });
    let words = line.split([' ', '\t', ':', ',', '(', ')']).rev();
    quoted
        .chain(words)
        .filter(|word| !word.is_empty() && !word.ends_with('.') && !REFUSAL_PHRASES.contains(word))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::SandboxRules;
    use super::*;
    use crate::ProgramInvocation;

    /// Returns a sandbox in a folder with `in/`, which is readable, `out/`, which is writable, and `secret`, which is
    /// neither.
    fn sandbox(network: SandboxNetwork) -> (tempfile::TempDir, ProcessSandbox) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there");
        for name in ["in", "out"] {
            fs::create_dir(root.join(name)).expect("made");
            fs::write(root.join(name).join("a b"), "").expect("written");
        }
        fs::write(root.join("secret"), "").expect("written");
        let rules = SandboxRules {
            read: vec![root.join("in")],
            write: vec![root.join("out")],
            network,
            env: Vec::new(),
            memory: Some(1 << 30),
            cpu_seconds: None,
            processes: 9,
            best_effort: false,
        };
        let sandbox = ProcessSandbox {
            helper: ProgramInvocation {
                program: "x".into(),
                arguments: Vec::new(),
            },
            rules,
            folder: root.clone(),
            ensemble_folder: root,
        };
        (folder, sandbox)
    }

    fn explained(sandbox: &ProcessSandbox, stderr: &str) -> ExecutionFailure {
        let failure = ExecutionFailure::new(FailureKind::Exit, "the script ended with exit code 1");
        sandbox.explain_sandbox_refusal(failure, stderr)
    }

    #[test]
    fn a_path_that_the_rules_do_not_allow_is_named_with_the_line_to_add() {
        let (_folder, sandbox) = sandbox(SandboxNetwork::None);
        let rows = [
            ("cat: secret: Permission denied", Some("{read: [secret]}")),
            ("cat: ./secret: Permission denied", Some("{read: [secret]}")),
            ("cat: in/../secret: Permission denied", Some("{read: [secret]}")),
            ("sh: 1: cannot create in/new: Permission denied", Some("{write: [in]}")),
            (
                "cp: cannot create regular file 'in/a b': Permission denied",
                Some("{write: [\"in/a b\"]}"),
            ),
            (
                "touch: cannot touch \u{2018}new/x\u{2019}: Permission denied",
                Some("{write: [.]}"),
            ),
            (
                "PermissionError: [Errno 13] Permission denied: 'in/x.txt'",
                Some("{write: [in]}"),
            ),
            (
                "Error: EACCES: permission denied, open '/etc/ssl/new.pem'",
                Some("{write: [/etc/ssl]}"),
            ),
            ("open in/y: permission denied", Some("{write: [in]}")),
            ("touch: out/x: Permission denied", None),
            ("cat: in/nothing: No such file or directory", None),
        ];
        for (stderr, line) in rows {
            let failure = explained(&sandbox, &format!("before\n{stderr}\nafter"));
            match line {
                Some(line) => {
                    assert_eq!(failure.kind, FailureKind::Sandbox, "{stderr}");
                    assert!(
                        failure.error.contains(&format!("`sandbox: {line}`")),
                        "{stderr}: {}",
                        failure.error
                    );
                }
                None => assert_eq!(failure.kind, FailureKind::Exit, "{stderr}: {}", failure.error),
            }
        }
    }

    #[test]
    fn a_refusal_without_a_path_is_a_hint() {
        let (_folder, closed) = sandbox(SandboxNetwork::None);
        let failure = explained(&closed, "socket: Operation not permitted");
        assert_eq!(failure.kind, FailureKind::Exit);
        assert!(
            failure.error.contains("`sandbox: {network: true}`"),
            "{}",
            failure.error
        );
        let (_folder, open) = sandbox(SandboxNetwork::All);
        let failure = explained(&open, "ptrace: Operation not permitted");
        assert!(
            failure.error.contains("in a sandbox") && !failure.error.contains("network"),
            "{}",
            failure.error
        );
        let failure = explained(&open, "OSError: [Errno 38] Function not implemented");
        assert!(failure.error.contains("not every system call"), "{}", failure.error);
        assert_eq!(
            explained(&open, "no such luck").error,
            "the script ended with exit code 1"
        );
    }

    #[test]
    fn a_limit_is_told_by_the_helper_or_by_the_program() {
        let (_folder, sandbox) = sandbox(SandboxNetwork::None);
        let failure = explained(&sandbox, "x\nensemble sandbox: it used 2 s\n");
        assert_eq!(
            (failure.kind, &*failure.error),
            (FailureKind::Sandbox, "the sandbox: it used 2 s")
        );
        let failure = explained(&sandbox, "tail: memory exhausted");
        assert_eq!(failure.kind, FailureKind::Sandbox);
        let timeout = ExecutionFailure::new(FailureKind::Timeout, "no end");
        assert_eq!(
            sandbox.explain_sandbox_refusal(timeout, "ensemble sandbox: x").kind,
            FailureKind::Timeout
        );
    }
}
