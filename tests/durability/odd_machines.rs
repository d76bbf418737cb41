//! Machines that are not as usual: a file system without locks, a clock before 1970, files that may not grow.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests make files and start programs")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::replaced::{SECOND, workspace};
use crate::support::{Outcome, Running, Workspace, binary};

/// A library that stands before that of the system; `None`: there is no C compiler that makes it.
fn library(workspace: &Workspace, text: &str) -> Option<PathBuf> {
    let (source, library) = (workspace.write("before.c", text), workspace.path().join("before.so"));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .stderr(Stdio::null())
        .status();
    if built.is_ok_and(|status| status.success()) {
        return Some(library);
    }
    eprintln!("skipped: there is no C compiler that makes a library");
    None
}

/// `flock`, on a file system that does not know it.
const WITHOUT_LOCKS: &str = "#include <errno.h>\nint flock(int file, int how) { errno = ENOLCK; return -1; }\n";

#[test]
fn without_locks_a_run_goes_on_and_its_process_keeps_it() {
    let workspace = workspace(SECOND);
    let Some(library) = library(&workspace, WITHOUT_LOCKS) else {
        return;
    };
    let mut command = workspace.command(["run", "replaced.yaml"]);
    command.env("PROGRAM", binary()).env("LD_PRELOAD", &library);
    Running(command.spawn().expect("the program starts"))
        .finish()
        .expect_code(0);
    let told = workspace.read("second.txt");
    assert!(
        told.contains("another process (pid ") && told.ends_with("code 1\n"),
        "{told}"
    );
}

/// A clock that stands before 1970.
const EARLY: &str = "#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    int result = syscall(SYS_clock_gettime, which, at);
    if (which == CLOCK_REALTIME) at->tv_sec = -1000;
    return result;
}
";

#[test]
fn before_1970_everything_works() {
    let workspace = workspace("true");
    let Some(library) = library(&workspace, EARLY) else {
        return;
    };
    for words in [
        &["run", "replaced.yaml"][..],
        &["runs", "list"],
        &["runs", "show", "--last"],
        &["runs", "export", "--last"],
        &["replay", "--last"],
        &["continue", "--last", "more"],
        &["fork", "--last", "--at-turn", "1"],
        &["runs", "prune", "--older-than", "1d"],
    ] {
        let mut command = workspace.command(words);
        let ran = command.env("LD_PRELOAD", &library).spawn().expect("the program starts");
        let ran = Running(ran).finish().expect_code(0);
        assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
    }
    let run = workspace.runs().remove(0);
    assert!(run.display().to_string().contains("-1969"), "{}", run.display());
}

/// Runs the program where a file may have so many blocks of 512 bytes.
fn with_small_files(workspace: &Workspace, blocks: u32, words: &str) -> Outcome {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" {words}")])
        .arg(binary())
        .current_dir(workspace.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(command.spawn().expect("a shell")).finish()
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_leaves_no_folder() {
    for (blocks, words) in [
        // The copy of the ensemble, and then the journal, cannot be written.
        (0, "run replaced.yaml".to_owned()),
        (1, format!("run replaced.yaml -i {}", "x".repeat(600))),
    ] {
        let workspace = workspace("true");
        let told = with_small_files(&workspace, blocks, &words).expect_code(1);
        assert!(told.stderr.contains("File too large"), "{words}: {}", told.stderr);
        assert!(!told.stderr.contains("ensemble resume"), "{words}: {}", told.stderr);
        assert_eq!(workspace.runs().len(), 0, "{words}");
        let is_left = workspace.path().join(".ensemble").exists();
        assert_eq!(is_left, blocks > 0, "{words}");
    }
    let workspace = workspace("true");
    for words in [
        "schema",
        "graph replaced.yaml",
        "--help",
        "man",
        "completions bash",
        "explain E021",
    ] {
        let told = with_small_files(&workspace, 0, &format!("{words} > out")).expect_code(1);
        let last = told.stderr.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: cannot write to standard output: File too large"),
            "{words}: {}",
            told.stderr
        );
    }
}
