//! `ensemble test --update`: replaces failed expectations by the actual values.

use std::path::Path;

use crate::command::check::fixes::replace_unchanged_file;
use crate::command::check::test::TestArgs;
use crate::command::check::test::case::FinishedCaseRun;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_cases::judge::{UnmetExpectation, list_unmet_expectations};
use ensemble_cases::suite::{CheckedSuite, TestSuite};
use ensemble_cases::update::update_contradicted_expectations;
use ensemble_language::cases::{CaseExpectations, TestFile, case_route};
use ensemble_language::source::SourceText;
use ensemble_language::yaml::edit::{TextFix, apply_fixes};
use ensemble_runs::RunHost;

/// Environment variable that CI servers set.
const CI_VARIABLE: &str = "CI";

/// Checks that `--update` is allowed here.
///
/// # Errors
/// The program runs in CI, and `--force-update` is not set.
pub(crate) fn check_update_allowed(args: &TestArgs) -> Result<(), CliError> {
    let is_ci = RunHost::from_system()
        .read_variable(CI_VARIABLE)
        .is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    match args.update && is_ci && !args.force_update {
        true => Err(CliError::usage_error_with_help(
            "`--update` changes no test file in CI (the variable CI is set)",
            "update the files on your own machine, or add `--force-update`",
        )),
        false => Ok(()),
    }
}

/// Writes the actual values over the failed expectations of the cases. Returns the suite of the rewritten file.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn rewrite_expectations(
    suite: TestSuite,
    path: &Path,
    cases: &mut [FinishedCaseRun],
    surroundings: &CliEnvironment,
) -> Result<TestSuite, CliError> {
    let Some(sound) = suite.checked_suite() else {
        return Ok(suite);
    };
    let fixes: Vec<TextFix> = cases.iter().flat_map(|case| case_fixes(&suite, sound, case)).collect();
    if fixes.is_empty() {
        return Ok(suite);
    }
    let before = suite.source();
    let (text, _) = apply_fixes(before.text(), &fixes);
    let after = SourceText::new(before.name(), text);
    let rewritten = TestSuite::load_and_check(&after, path, &surroundings.runs_without_operator());
    let Some(new) = rewritten
        .checked_suite()
        .filter(|new| differs_only_in_expectations(sound.file, new.file))
    else {
        return Err(CliError::Internal(format!(
            "cannot rewrite the expectations of {}; the file was not changed",
            before.name()
        )));
    };
    replace_unchanged_file(&surroundings.project.folder.join(path), before.text(), after.text())?;
    for case in cases {
        let Some(conversation) = &case.result.conversation else {
            continue;
        };
        let (old, expect) = (&sound.file.cases[case.at].expect, &new.file.cases[case.at].expect);
        if old == expect {
            continue;
        }
        let remaining_failures = list_unmet_expectations(case.at, expect, conversation);
        let is_left = |failure: &UnmetExpectation| remaining_failures.iter().any(|one| one.what == failure.what);
        let failures = std::mem::take(&mut case.result.failures);
        case.updated_expectations = failures.into_iter().filter(|failure| !is_left(failure)).collect();
        case.result.failures = remaining_failures;
    }
    Ok(rewritten)
}

/// Returns the edits that rewrite the expectations of a case: one edit for all, or edits for single expectations.
fn case_fixes(suite: &TestSuite, sound: CheckedSuite<'_>, case: &FinishedCaseRun) -> Vec<TextFix> {
    let route = case_route(case.at).with_key("expect");
    let conversation = case
        .result
        .conversation
        .as_ref()
        .filter(|_| !case.result.failures.is_empty());
    let Some((written, conversation)) = suite.load_result().written_value_at(&route).zip(conversation) else {
        return Vec::new();
    };
    let Some(new) = update_contradicted_expectations(&sound.file.cases[case.at], &written, conversation) else {
        return Vec::new();
    };
    if let Some(fix) = suite.load_result().build_rewrite_fix(&route, &new) {
        return vec![fix];
    }
    let keys = written.as_object().into_iter().flat_map(|keys| keys.keys());
    let alone = keys.filter_map(|key| {
        let value = new.get(key)?;
        let is_other = written.get(key) != Some(value);
        is_other.then(|| {
            suite
                .load_result()
                .build_rewrite_fix(&route.with_key(key.as_str()), value)
        })?
    });
    alone.collect()
}

/// Returns whether the two test files are equal except for the expectations.
fn differs_only_in_expectations(one: &TestFile, other: &TestFile) -> bool {
    let without = |file: &TestFile| {
        let mut file = file.clone();
        file.cases
            .iter_mut()
            .for_each(|case| case.expect = CaseExpectations::default());
        file
    };
    without(one) == without(other)
}
