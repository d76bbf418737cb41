//! `ensemble test --mutate`: tries the cases with changed ensembles.

use std::sync::Arc;
use std::time::Instant;

use crate::command::check::test::case::CaseTried;
use ensemble_cases::drive::Driver;
use ensemble_cases::mutate::{Fate, Mutant, mutants as all_mutants};
use ensemble_cases::suite::Sound;
use ensemble_project::Prepared;
use ensemble_reports::report::tested::{FileMutants, ShownMutant, Standing};

/// Tests the mutants until the time is over.
pub(crate) fn mutants(sound: Sound<'_>, cases: &[CaseTried], driver: &Driver, end: Option<Instant>) -> FileMutants {
    let mut shown = FileMutants {
        ensemble: sound.ensemble.source.name().to_owned(),
        ..FileMutants::default()
    };
    let offline = cases.iter().filter(|case| !sound.file.cases[case.at].live);
    if offline.clone().any(|case| !case.tried.failures.is_empty()) {
        shown.not_tried_because = Some("a case fails without a change".to_owned());
        return shown;
    }
    let offline: Vec<usize> = offline.map(|case| case.at).collect();
    if offline.is_empty() {
        shown.not_tried_because = Some("all cases are live".to_owned());
        return shown;
    }
    let Some(document) = &sound.ensemble.loaded.document else {
        return shown;
    };
    let has_time = || end.is_none_or(|end| Instant::now() < end);
    for mutant in all_mutants(sound.ensemble.plan.ensemble(), document) {
        let fate = mutant.fate(driver, sound, &offline, &has_time);
        shown.mutants.push(shown_mutant(&mutant, fate, sound.ensemble));
    }
    shown
}

fn shown_mutant(mutant: &Mutant, fate: Option<Fate>, ensemble: &Arc<Prepared>) -> ShownMutant {
    let start = ensemble
        .loaded
        .document
        .as_ref()
        .map_or(0, |document| document.resolve(&mutant.at).start);
    let place = ensemble.source.place(start);
    ShownMutant {
        kind: mutant.kind,
        place: (place.line, place.column),
        agent: mutant.agent.as_ref().map(ToString::to_string),
        from: mutant.from.clone(),
        to: mutant.to.clone(),
        standing: match fate {
            Some(Fate::Noticed(cases)) => Standing::Noticed(cases.iter().map(ToString::to_string).collect()),
            Some(Fate::Survived) => Standing::Survived,
            Some(Fate::Equivalent) => Standing::Equivalent,
            None => Standing::NotTried,
        },
    }
}
