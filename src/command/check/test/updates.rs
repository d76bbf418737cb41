//! `ensemble test --update`: writes what happened in the place of expectations that it contradicts.

use std::path::Path;

use crate::command::check::fixes::replace;
use crate::command::check::test::TestArgs;
use crate::command::check::test::case::CaseTried;
use crate::command::shared::error::CliError;
use crate::command::shared::surroundings::Surroundings;
use ensemble_cases::judge::{Failure, judge};
use ensemble_cases::suite::{Sound, Suite};
use ensemble_cases::update::updated;
use ensemble_language::cases::{Expect, TestFile, case_route};
use ensemble_language::source::Source;
use ensemble_language::yaml::edit::{Fix, apply_fixes};
use ensemble_runs::Host;

/// The variable that CI servers set.
const CI: &str = "CI";

/// Refuses to write where nobody looks at what is written.
///
/// # Errors
/// This is CI, and writing is not forced.
pub(crate) fn allowed(args: &TestArgs) -> Result<(), CliError> {
    let is_ci = Host::system()
        .variable(CI)
        .is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    match args.update && is_ci && !args.force_update {
        true => Err(CliError::usage_with_help(
            "`--update` changes no test file in CI (the variable CI is set)",
            "update the files where you look at the changes, or add `--force-update`",
        )),
        false => Ok(()),
    }
}

/// Rewrites the expectations of the cases that fail. The result is the file as it is afterwards.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn update(
    suite: Suite,
    path: &Path,
    cases: &mut [CaseTried],
    surroundings: &Surroundings,
) -> Result<Suite, CliError> {
    let Some(sound) = suite.sound() else { return Ok(suite) };
    let fixes: Vec<Fix> = cases.iter().flat_map(|case| fixes(&suite, sound, case)).collect();
    if fixes.is_empty() {
        return Ok(suite);
    }
    let before = suite.source();
    let (text, _) = apply_fixes(before.text(), &fixes);
    let after = Source::new(before.name(), text);
    let rewritten = Suite::read(&after, path, &surroundings.runs());
    let Some(new) = rewritten
        .sound()
        .filter(|new| is_same_but_expectations(sound.file, new.file))
    else {
        return Err(CliError::Internal(format!(
            "the expectations of {} cannot be rewritten; the file is as it was",
            before.name()
        )));
    };
    replace(&surroundings.project.folder.join(path), before.text(), after.text())?;
    for case in cases {
        let Some(conversation) = &case.tried.conversation else {
            continue;
        };
        let (old, expect) = (&sound.file.cases[case.at].expect, &new.file.cases[case.at].expect);
        if old == expect {
            continue;
        }
        let left = judge(case.at, expect, conversation);
        let is_left = |failure: &Failure| left.iter().any(|one| one.what == failure.what);
        let failures = std::mem::take(&mut case.tried.failures);
        case.updated = failures.into_iter().filter(|failure| !is_left(failure)).collect();
        case.tried.failures = left;
    }
    Ok(rewritten)
}

/// The edits of a case: all of them, or those of the expectations that can be written alone.
fn fixes(suite: &Suite, sound: Sound<'_>, case: &CaseTried) -> Vec<Fix> {
    let route = case_route(case.at).key("expect");
    let conversation = case
        .tried
        .conversation
        .as_ref()
        .filter(|_| !case.tried.failures.is_empty());
    let Some((written, conversation)) = suite.loaded().value(&route).zip(conversation) else {
        return Vec::new();
    };
    let Some(new) = updated(&sound.file.cases[case.at], &written, conversation) else {
        return Vec::new();
    };
    if let Some(fix) = suite.loaded().rewritten(&route, &new) {
        return vec![fix];
    }
    let keys = written.as_object().into_iter().flat_map(|keys| keys.keys());
    let alone = keys.filter_map(|key| {
        let value = new.get(key)?;
        let is_other = written.get(key) != Some(value);
        is_other.then(|| suite.loaded().rewritten(&route.key(key.as_str()), value))?
    });
    alone.collect()
}

fn is_same_but_expectations(one: &TestFile, other: &TestFile) -> bool {
    let without = |file: &TestFile| {
        let mut file = file.clone();
        file.cases.iter_mut().for_each(|case| case.expect = Expect::default());
        file
    };
    without(one) == without(other)
}
