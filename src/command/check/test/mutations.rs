//! `ensemble test --mutate`: runs the cases with mutants of ensembles.

use std::sync::Arc;
use std::time::Instant;

use crate::command::check::test::case::FinishedCaseRun;
use ensemble_cases::drive::CaseDriver;
use ensemble_cases::mutate::{EnsembleMutant, MutantOutcome, generate_mutants as all_mutants};
use ensemble_cases::suite::CheckedSuite;
use ensemble_project::PreparedEnsemble;
use ensemble_reports::report::test_report::{EnsembleMutants, MutantStatus, ShownMutant};

/// Runs the cases on each mutant of the ensemble until the time `end`. Runs no mutant if a case fails without a change.
pub(crate) fn run_cases_on_mutants(
    sound: CheckedSuite<'_>,
    cases: &[FinishedCaseRun],
    driver: &CaseDriver,
    end: Option<Instant>,
) -> EnsembleMutants {
    let mut file_mutants = EnsembleMutants {
        ensemble: sound.ensemble.source.name().to_owned(),
        ..EnsembleMutants::default()
    };
    if cases.iter().any(|case| !case.result.failures.is_empty()) {
        file_mutants.not_tried_because = Some("a case fails without a change".to_owned());
        return file_mutants;
    }
    // The cases that need no model and no process come first, because the first case that notices a change suffices.
    let mut tried: Vec<usize> = cases.iter().map(|case| case.at).collect();
    tried.sort_by_key(|at| sound.file.cases[*at].live);
    if tried.is_empty() {
        file_mutants.not_tried_because = Some("there is no case".to_owned());
        return file_mutants;
    }
    let Some(document) = &sound.ensemble.loaded.document else {
        return file_mutants;
    };
    let has_time = || end.is_none_or(|end| Instant::now() < end);
    for mutant in all_mutants(sound.ensemble.plan.ensemble(), document) {
        let fate = mutant.run_cases_on_mutant(driver, sound, &tried, &has_time);
        file_mutants
            .mutants
            .push(to_shown_mutant(&mutant, fate, sound.ensemble));
    }
    file_mutants
}

/// Converts a mutant and its outcome to the form for reports, with its position in the file.
fn to_shown_mutant(
    mutant: &EnsembleMutant,
    fate: Option<MutantOutcome>,
    ensemble: &Arc<PreparedEnsemble>,
) -> ShownMutant {
    let start = ensemble
        .loaded
        .document
        .as_ref()
        .map_or(0, |document| document.resolve_span(&mutant.at).start);
    let place = ensemble.source.line_column(start);
    ShownMutant {
        kind: mutant.kind,
        place: (place.line, place.column),
        agent: mutant.agent.as_ref().map(ToString::to_string),
        from: mutant.from.clone(),
        to: mutant.to.clone(),
        status: match fate {
            Some(MutantOutcome::Killed(cases)) => MutantStatus::Killed(cases.iter().map(ToString::to_string).collect()),
            Some(MutantOutcome::Survived) => MutantStatus::Survived,
            Some(MutantOutcome::Equivalent) => MutantStatus::Equivalent,
            None => MutantStatus::NotTried,
        },
    }
}
