//! `ensemble test --watch`: tests the files again that a change affects, until a signal.
//!
//! The command polls the files several times a second. Notifications of the system would be slightly faster, but do not exist on network
//! drives and in some containers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::command::check::test::TestArgs;
use crate::command::check::test::dependencies::TestDependencies;
use crate::command::check::test::files::collect_test_files;
use crate::command::check::test::report::test_files_and_print;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals::{self, SignalReceiver};
use ensemble_core::conversation::RunCanceller;
use ensemble_reports::report::format_count;

/// Pause between two checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time without a change after which a file counts as completely written.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of checks whether a file is completely written.
const MAX_SETTLE_CHECKS: u32 = 20;
/// Number of checks of the files between two searches for new test files.
const POLLS_PER_SEARCH: u32 = 5;

/// Tests all files, and then the files that a change affects, until a signal. Returns the exit code of the signal.
pub(crate) fn watch_tests(args: &TestArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?;
    let mut signals = runtime.block_on(async { signals::listen_for_signals() });
    let mut watching = TestWatcher {
        args,
        surroundings,
        watched: BTreeMap::new(),
    };
    let all = collect_test_files(args, surroundings)?;
    watching.reload_and_test(&all);
    let by = loop {
        watching.print_watched_count();
        match watching.wait_for_change(&runtime, &mut signals) {
            Ok(changed) => {
                watching.wait_until_unchanged(&changed);
                watching.reload_and_test(&changed);
            }
            Err(by) => break by,
        }
    };
    surroundings.print_err("watching has ended\n");
    Ok(if by == RunCanceller::Signal { 143 } else { 130 })
}

/// Watcher of test files and of the files on which they depend.
struct TestWatcher<'w> {
    args: &'w TestArgs,
    surroundings: &'w CliEnvironment,
    watched: BTreeMap<PathBuf, TestDependencies>,
}

impl TestWatcher<'_> {
    /// Records the state of the files on which the test files depend, and tests the files. Prints an error instead of returning it.
    fn reload_and_test(&mut self, test_files: &[PathBuf]) {
        // What changes during the test is a change after it.
        for file in test_files {
            self.watched
                .insert(file.clone(), TestDependencies::load(file, self.surroundings));
        }
        if test_files.is_empty() {
            return;
        }
        if let Err(error) = test_files_and_print(self.args, test_files, self.surroundings) {
            self.surroundings
                .print_err(&error.render_for_terminal(self.surroundings.colors_on_stderr()));
        }
    }

    /// Waits until no program changes the files any more, because many programs write a file in several steps.
    fn wait_until_unchanged(&mut self, test_files: &[PathBuf]) {
        for _ in 0..MAX_SETTLE_CHECKS {
            for file in test_files {
                self.watched
                    .insert(file.clone(), TestDependencies::load(file, self.surroundings));
            }
            std::thread::sleep(SETTLE_INTERVAL);
            let is_still = |file: &PathBuf| {
                self.watched
                    .get(file)
                    .is_none_or(|watched| watched.find_changed().is_none())
            };
            if test_files.iter().all(is_still) {
                return;
            }
        }
    }

    /// Prints the number of watched files.
    fn print_watched_count(&self) {
        let files: BTreeSet<&PathBuf> = self
            .watched
            .values()
            .flat_map(TestDependencies::existing_files)
            .collect();
        let files = format_count(files.len() as u64, "file");
        self.surroundings
            .print_err(&format!("watching {files}; Ctrl-C ends the command\n"));
    }

    /// Waits for a change. Returns the affected test files, or the signal that ended the wait.
    fn wait_for_change(
        &mut self,
        runtime: &Runtime,
        signals: &mut SignalReceiver,
    ) -> Result<Vec<PathBuf>, RunCanceller> {
        let mut looks = 0;
        loop {
            let pause = async { tokio::time::timeout(POLL_INTERVAL, signals.wait_for_signal()).await };
            if let Ok(by) = runtime.block_on(pause) {
                return Err(by);
            }
            looks += 1;
            let mut changed = self.report_changed_test_files();
            if looks % POLLS_PER_SEARCH == 0 {
                changed.extend(self.find_new_test_files());
            }
            if !changed.is_empty() {
                return Ok(changed);
            }
        }
    }

    /// Returns the test files that a change affects. Prints each changed file once.
    fn report_changed_test_files(&self) -> Vec<PathBuf> {
        let mut reported_files: BTreeSet<&Path> = BTreeSet::new();
        let mut changed = Vec::new();
        for (test_file, watched) in &self.watched {
            let Some(file) = watched.find_changed() else { continue };
            changed.push(test_file.clone());
            if reported_files.insert(file) {
                let shown_path = self.surroundings.project.relative_path(file);
                self.surroundings
                    .print_err(&format!("\nchanged: {}\n", shown_path.display()));
            }
        }
        changed
    }

    /// Returns the new test files and prints their names. Stops watching deleted test files.
    fn find_new_test_files(&mut self) -> Vec<PathBuf> {
        let Ok(all) = collect_test_files(self.args, self.surroundings) else {
            return Vec::new();
        };
        self.watched.retain(|file, _| all.contains(file));
        let is_new = |file: &PathBuf| !self.watched.contains_key(file);
        let new: Vec<PathBuf> = all.into_iter().filter(is_new).collect();
        for file in &new {
            self.surroundings.print_err(&format!("\nnew: {}\n", file.display()));
        }
        new
    }
}
