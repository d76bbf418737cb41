//! Model profiles that are used but not defined.

use std::collections::HashSet;

use super::check_subject::CheckSubject;
use super::usable_profiles::list_used_profiles;
use crate::diagnostic::{Finding, find_similar_word};
use crate::loader::codes;

/// Warns of every profile that is neither in the file nor in the configuration; another computer may have the profile.
pub(super) fn check_unknown_profiles(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let (ensemble, Some(configured)) = (subject.ensemble, subject.context.configured_profiles()) else {
        return Vec::new();
    };
    let is_configured = |name: &str| name == "simulated" || configured.iter().any(|(known, _)| **known == *name);
    let inline: HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    list_used_profiles(ensemble)
        .filter(|(name, _)| !inline.contains(name) && !is_configured(name))
        .map(|(name, at)| {
            let finding = Finding::new_warning(codes::UNKNOWN_PROFILE, at, format!("unknown model profile `{name}`"));
            match find_similar_word(name, inline.iter().copied()) {
                Some(similar_name) => finding.with_near_name_fix(name, similar_name),
                None => {
                    finding.with_help("define it under `model_profiles`, in this file or in `.ensemble/config.yaml`")
                }
            }
        })
        .collect()
}
