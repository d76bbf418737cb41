//! Model profiles that are used but not defined.

use std::collections::HashSet;

use super::profiles::named;
use super::subject::Subject;
use crate::diagnostic::{Finding, did_you_mean};
use crate::loader::codes;

/// Warns of every profile that is neither in the file nor in the configuration; another computer may have the profile.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let (ensemble, Some(configured)) = (subject.ensemble, subject.context.configured()) else {
        return Vec::new();
    };
    let known = |name: &str| name == "simulated" || configured.iter().any(|(known, _)| **known == *name);
    let inline: HashSet<&str> = ensemble.model_profiles.iter().map(|(name, _)| &**name).collect();
    named(ensemble)
        .filter(|(name, _)| !inline.contains(name) && !known(name))
        .map(|(name, at)| {
            let finding = Finding::warning(codes::UNKNOWN_PROFILE, at, format!("unknown model profile `{name}`"));
            match did_you_mean(name, inline.iter().copied()) {
                Some(near) => finding.meant_name(name, near),
                None => finding.help("define it under `model_profiles`, in this file or in `.ensemble/config.yaml`"),
            }
        })
        .collect()
}
