//! Model profiles that are defined but not used.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::usable_profiles::list_used_profiles;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::Route;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Gives a hint for every profile of the file that no agent, tool or fallback uses.
pub(super) fn check_unused_profiles(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let ensemble = subject.ensemble;
    let used: HashSet<&str> = list_used_profiles(ensemble).map(|(name, _)| name).collect();
    let profiles = ensemble.model_profiles.iter();
    profiles
        .filter(|(name, _)| !used.contains(&**name))
        .map(|(name, _)| {
            let route = Route::root().with_key("model_profiles").with_key(name.clone());
            Finding::new_hint(
                codes::UNUSED_PROFILE,
                route.clone().into_key_location(),
                format!("the model profile `{name}` is not used"),
            )
            .with_fix(RouteFix::new_unsafe("remove the profile", RouteEdit::Remove(route)))
            .with_help("remove the profile, or use it as the `model_profile` of an agent or as a `fallback`")
        })
        .collect()
}
