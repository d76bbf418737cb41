//! Exploration of an ensemble and of all ensembles that it names.
//!
//! Invariant: an ensemble is explored after its nested ensembles.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ensemble_explore::{Exploration, KnownNestedResults, NestedResults};
use ensemble_project::nested::{LoadedNestedEnsemble, absolute_ensemble_path};
use ensemble_project::project::Project;

/// Explores the outer and all nested ensembles. Each ensemble is explored after its own nested ensembles, whose results `explore` receives.
/// Returns the exploration of the outer ensemble, and those of the nested ensembles in their order.
pub fn explore_with_nested(
    outer: &LoadedNestedEnsemble,
    inner: &[LoadedNestedEnsemble],
    project: &Project,
    explore: &mut dyn FnMut(&LoadedNestedEnsemble, &KnownNestedResults) -> Exploration,
) -> (Exploration, Vec<Exploration>) {
    let mut known_results: BTreeMap<PathBuf, NestedResults> = BTreeMap::new();
    let mut explorations: Vec<Option<Exploration>> = inner.iter().map(|_| None).collect();
    let files: Vec<PathBuf> = inner
        .iter()
        .map(|named| absolute_ensemble_path(&named.path, project))
        .collect();
    let inside = |named: &LoadedNestedEnsemble, known: &BTreeMap<PathBuf, NestedResults>| {
        let results = named.inner_files.iter();
        let results = results.filter_map(|(agent, file)| Some((agent.clone(), *known.get(file)?)));
        results.collect::<KnownNestedResults>()
    };
    while let Some(next) = {
        let waits = |file: &PathBuf| files.contains(file) && !known_results.contains_key(file);
        let is_ready = |at: usize| !inner[at].inner_files.iter().any(|(_, file)| waits(file));
        let mut unexplored = (0..inner.len()).filter(|at| explorations[*at].is_none());
        // No ensemble contains itself, so one is ready.
        unexplored
            .clone()
            .find(|at| is_ready(*at))
            .or_else(|| unexplored.next())
    } {
        let exploration = explore(&inner[next], &inside(&inner[next], &known_results));
        known_results.insert(files[next].clone(), exploration.to_nested_results());
        explorations[next] = Some(exploration);
    }
    let of_outer = explore(outer, &inside(outer, &known_results));
    (of_outer, explorations.into_iter().flatten().collect())
}
