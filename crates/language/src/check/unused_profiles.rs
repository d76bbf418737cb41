//! Model profiles that are defined but not used.

use std::collections::HashSet;

use super::profiles::named;
use super::subject::Subject;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::Route;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Gives a hint for every profile of the file that is used by no agent and no fallback.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let used: HashSet<&str> = named(ensemble).map(|(name, _)| name).collect();
    let profiles = ensemble.model_profiles.iter();
    profiles
        .filter(|(name, _)| !used.contains(&**name))
        .map(|(name, _)| {
            let route = Route::root().key("model_profiles").key(name.clone());
            Finding::hint(
                codes::UNUSED_PROFILE,
                route.clone().as_key(),
                format!("the model profile `{name}` is not used"),
            )
            .with_fix(RouteFix::not_safe("remove the profile", RouteEdit::Remove(route)))
            .help("remove the profile, or use it as the `model_profile` of an agent or as a `fallback`")
        })
        .collect()
}
