//! Test files that the arguments of `ensemble test` select.

use std::path::PathBuf;

use crate::command::check::ValidateArgs;
use crate::command::check::files::inputs::{ValidateInput, collect_inputs};
use crate::command::check::settings::ValidateConfigCache;
use crate::command::check::test::TestArgs;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::cases::{TEST_FILE_ENDINGS, is_test_file};
use ensemble_project::ProjectError;

/// Collects the test files that the arguments select.
///
/// # Errors
/// No test file was found, or a folder cannot be read.
pub(crate) fn collect_test_files(args: &TestArgs, surroundings: &CliEnvironment) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let search = ValidateArgs {
        paths: args.paths.clone(),
        ..ValidateArgs::default()
    };
    let settings = ValidateConfigCache::new(&search, &surroundings.project)?;
    for input in collect_inputs(&search, &settings, surroundings)?.list {
        match input {
            ValidateInput::Stdin(_) => {
                return Err(CliError::usage_error("test files cannot be read from standard input"));
            }
            ValidateInput::Found(path) if is_test_file(&path.to_string_lossy()) => files.push(path),
            ValidateInput::Found(_) => {}
            ValidateInput::Unreadable(path, reason) => {
                return Err(CliError::from(ProjectError::Unreadable { path, reason }));
            }
            ValidateInput::File(path) if is_test_file(&path.to_string_lossy()) => files.push(path),
            ValidateInput::File(path) => files.push(find_test_file_of_ensemble(path, args.suggest, surroundings)?),
        }
    }
    match files.is_empty() {
        true => Err(CliError::usage_error_with_help(
            "there is no test file",
            "create a test file next to the ensemble: `team.test.yaml` tests `team.yaml`",
        )),
        false => Ok(files),
    }
}

/// Returns the test file next to the ensemble. If `may_be_missing`, returns the path for a new test file.
fn find_test_file_of_ensemble(
    path: PathBuf,
    may_be_missing: bool,
    surroundings: &CliEnvironment,
) -> Result<PathBuf, CliError> {
    let candidates = TEST_FILE_ENDINGS.map(|ending| path.with_extension(ending.trim_start_matches('.')));
    let existing_file = candidates
        .iter()
        .find(|path| surroundings.project.folder.join(path).is_file());
    let test_file = existing_file.or(may_be_missing.then_some(&candidates[0]));
    test_file.cloned().ok_or_else(|| {
        let message = format!("{} has no test file", path.display());
        CliError::usage_error_with_help(message, format!("create the test file {}", candidates[0].display()))
    })
}
