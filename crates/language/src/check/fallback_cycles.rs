//! Fallbacks of model profiles that form a cycle over several files.

use std::collections::{HashMap, HashSet};

use super::check_subject::CheckSubject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::Route;

/// Warns of fallbacks that lead from a profile of this file over `configured` profiles back to that profile.
///
/// A cycle within one file is an error that the loader reports.
pub(super) fn check_fallback_cycles(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let (ensemble, Some(configured)) = (subject.ensemble, subject.context.configured_profiles()) else {
        return Vec::new();
    };
    let mut fallbacks: HashMap<&str, Option<&str>> = HashMap::new();
    for (name, profile) in ensemble.model_profiles.iter().chain(configured) {
        fallbacks.entry(name).or_insert(profile.fallback.as_deref());
    }
    let own_profiles: HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    // The number of the walk that visited a profile first. A walk that visits a profile twice has found a cycle.
    let mut walked: HashMap<&str, usize> = HashMap::new();
    let mut findings = Vec::new();
    for (walk, (start, _)) in ensemble.model_profiles.iter().enumerate() {
        let mut way: Vec<&str> = Vec::new();
        let mut next = Some(&**start);
        while let Some(profile_name) = next.filter(|here| !walked.contains_key(here)) {
            walked.insert(profile_name, walk);
            way.push(profile_name);
            next = fallbacks.get(profile_name).copied().flatten();
        }
        let Some(from) = next.and_then(|met| way.iter().position(|name| *name == met)) else {
            continue;
        };
        let circle = &mut way[from..];
        // A cycle within the configuration is not a finding about this file.
        if let Some(first) = circle.iter().position(|name| own_profiles.contains(name)) {
            circle.rotate_left(first);
            let message = format!(
                "the fallbacks of these profiles form a cycle: {} → {}",
                circle.join(" → "),
                circle[0]
            );
            let place = Route::root()
                .with_key("model_profiles")
                .with_key(circle[0])
                .with_key("fallback");
            findings.push(
                Finding::new_warning(codes::FALLBACK_AROUND, place.into_value_location(), message)
                    .with_help("remove the `fallback` of one of these profiles"),
            );
        }
    }
    findings
}
