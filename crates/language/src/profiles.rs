//! Resolving model profiles: first overrides, then the sources of profiles in their order.

use std::str::FromStr;
use std::sync::Arc;

use crate::data::JsonMap;
use crate::diagnostic::find_similar_word;
use crate::ensemble::{HttpProvider, ModelChoice, ModelProfile, SIMULATED_PROVIDER, TokenPrice, list_provider_names};

/// All model profiles that a run can use, with the overrides of the user.
#[derive(Debug, Clone, Default)]
pub struct ModelProfiles {
    overrides: Vec<ModelOverride>,
    sources: Vec<ProfileSource>,
    /// Names of profiles that are written in a place that is not trusted.
    untrusted_profiles: Vec<(Arc<str>, String)>,
}

/// A named source of profiles, such as a configuration file.
#[derive(Debug, Clone)]
struct ProfileSource {
    name: String,
    profiles: Vec<(Arc<str>, ModelProfile)>,
}

/// An override of a profile: `--model profile=provider/model`, `--model '*=provider/model'`.
///
/// An override replaces provider and model. It also removes the settings of the replaced provider (`base_url`,
/// `api_key_env`, `headers`, prepared replies) and the fallback. A profile that already has this provider keeps all of
/// these, so that `'*=simulated'` runs everything offline with the prepared replies. The price of the profile stays, unless
/// a profile with the new model has a price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOverride {
    /// The profile's name, or `provider/model` of agents that name a model; `*` is all.
    pub profile: Arc<str>,
    /// The provider.
    pub provider: Arc<str>,
    /// The provider's name of the model; empty for plain `simulated`.
    pub model: Arc<str>,
}

/// The profile that answers, followed by its fallbacks.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileChain {
    /// Never empty; no name twice.
    pub chain: Vec<ChainedProfile>,
}

/// A profile of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainedProfile {
    /// The name of the profile, or `provider/model` if an agent names a model.
    pub name: Arc<str>,
    /// The profile.
    pub profile: Arc<ModelProfile>,
}

/// An error in the choice of a model.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No source contains the profile.
    #[error("unknown model profile `{name}`{}; looked in {}", describe_fallback_origin(.fallback_of), .places.join(", "))]
    Unknown {
        /// As written.
        name: Arc<str>,
        /// The profile that names this one as its `fallback`.
        fallback_of: Option<Arc<str>>,
        /// The known name that was probably meant.
        suggestion: Option<Arc<str>>,
        /// Where profiles were looked for.
        places: Vec<String>,
    },
    /// Only a source that is not trusted contains the profile.
    #[error("model profile `{name}` of {place} is ignored, because that file is not trusted")]
    Untrusted {
        /// As written.
        name: Arc<str>,
        /// The source.
        place: String,
    },
    /// The name is not a model.
    #[error("`{name}` is not a model: expected `PROVIDER/MODEL`, such as `ollama/llama3.2:1b`, or `simulated`")]
    Name {
        /// As written.
        name: Arc<str>,
    },
    /// There is no such provider.
    #[error("model profile `{profile}` has the unknown provider `{provider}`")]
    UnknownProvider {
        /// The profile, or `provider/model`.
        profile: Arc<str>,
        /// The provider that the profile names.
        provider: Arc<str>,
    },
    /// The keys of all profiles in the chain are missing; this is the first.
    #[error("model profile `{profile}` has no key for {provider}: set the environment variable {variable}")]
    NoKey {
        /// The profile.
        profile: Arc<str>,
        /// The provider that needs the key.
        provider: &'static str,
        /// The environment variable of the key.
        variable: String,
    },
    /// The script of a simulated profile cannot be used.
    #[error("model profile `{profile}`: {message}")]
    Script {
        /// The profile.
        profile: Arc<str>,
        /// The problem.
        message: String,
    },
}

/// An error in the text of an override.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a model override; write `PROFILE=PROVIDER/MODEL` or `PROFILE=simulated`")]
pub struct ModelOverrideError {
    /// The text.
    pub given: String,
}

impl ProfileError {
    /// Returns a suggestion for the user, if there is one.
    pub fn help_text(&self) -> Option<String> {
        match self {
            Self::Unknown {
                suggestion: Some(name), ..
            } => Some(format!("did you mean `{name}`?")),
            Self::Unknown { name, .. } | Self::NoKey { profile: name, .. } => {
                Some(format!("use `--model {name}=simulated` for simulated replies"))
            }
            Self::UnknownProvider { provider, .. } => Some(match find_similar_word(provider, list_provider_names()) {
                Some(similar_name) => format!("did you mean `{similar_name}`?"),
                None => format!("there are {}", list_provider_names().collect::<Vec<_>>().join(", ")),
            }),
            Self::Untrusted { place, .. } => Some(format!("run `ensemble trust {place}` to review and trust the file")),
            Self::Script { .. } | Self::Name { .. } => None,
        }
    }
}

/// Returns the part of an error message that names the profile with this fallback, or an empty text.
fn describe_fallback_origin(fallback_of: &Option<Arc<str>>) -> String {
    match fallback_of {
        Some(name) => format!(", the fallback of `{name}`"),
        None => String::new(),
    }
}

impl ModelProfiles {
    /// Creates the built-in profile `simulated` with these overrides. Of two overrides for one profile, the later one counts.
    pub fn new(overrides: Vec<ModelOverride>) -> Self {
        Self {
            overrides,
            ..Self::default()
        }
    }

    /// Adds a source that is searched after the earlier sources. `name`: the source in messages (`config.yaml`, `the ensemble file`).
    #[must_use]
    pub fn with_source(mut self, name: impl Into<String>, profiles: Vec<(Arc<str>, ModelProfile)>) -> Self {
        let name = name.into();
        self.sources.push(ProfileSource { name, profiles });
        self
    }

    /// Registers the profiles of an untrusted source. They are not used, and naming one is an error with this reason.
    #[must_use]
    pub fn with_untrusted_profiles(mut self, place: &str, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        self.untrusted_profiles
            .extend(names.into_iter().map(|name| (name, place.to_owned())));
        self
    }

    /// Returns the overrides, for example to find those that match no profile.
    pub fn overrides(&self) -> &[ModelOverride] {
        &self.overrides
    }

    /// Resolves the profile for this choice, with its fallbacks.
    ///
    /// A cycle of fallbacks ends before its first repetition.
    pub fn resolve_chain(&self, choice: &ModelChoice) -> Result<ProfileChain, ProfileError> {
        let mut chain: Vec<ChainedProfile> = Vec::new();
        let mut next = Some(self.resolve_first(choice)?);
        while let Some(link) = next {
            check_provider(&link)?;
            let fallback = link.profile.fallback.clone();
            let fallback_of = Arc::clone(&link.name);
            chain.push(link);
            next = match fallback {
                Some(name) if chain.iter().all(|link| link.name != name) => {
                    Some(self.resolve_name(&name, Some(fallback_of))?)
                }
                _ => None,
            };
        }
        Ok(ProfileChain { chain })
    }

    /// Resolves the first profile of the chain.
    fn resolve_first(&self, choice: &ModelChoice) -> Result<ChainedProfile, ProfileError> {
        match choice {
            ModelChoice::Profile(name) => self.resolve_name(name, None),
            // An external program has a model of its own, of which nothing is known.
            ModelChoice::Acp(acp) => Err(ProfileError::Unknown {
                name: acp.program.display_name().into(),
                fallback_of: None,
                suggestion: None,
                places: Vec::new(),
            }),
            ModelChoice::Model { provider, model } => {
                let profile = ModelProfile {
                    provider: Arc::clone(provider),
                    model: Arc::clone(model),
                    ..ModelProfile::default()
                };
                let name: Arc<str> = format!("{provider}/{model}").into();
                Ok(self.apply_overrides(name, Some(profile)).expect("a profile is given"))
            }
        }
    }

    /// Resolves a profile by name: from the sources, the built-in profile, and the overrides. `fallback_of`: the profile that names it.
    fn resolve_name(&self, name: &Arc<str>, fallback_of: Option<Arc<str>>) -> Result<ChainedProfile, ProfileError> {
        let named_profile = self.named_profiles().find(|(known, _)| known == name);
        let profile = named_profile
            .map(|(_, profile)| profile.clone())
            .or_else(|| built_in_profile(name));
        if let Some(link) = self.apply_overrides(Arc::clone(name), profile) {
            return Ok(link);
        }
        if let Some((name, place)) = self.untrusted_profiles.iter().find(|(known, _)| known == name) {
            let (name, place) = (Arc::clone(name), place.clone());
            return Err(ProfileError::Untrusted { name, place });
        }
        Err(ProfileError::Unknown {
            name: Arc::clone(name),
            fallback_of,
            suggestion: self.find_similar_name(name),
            places: self.sources.iter().map(|place| place.name.clone()).collect(),
        })
    }

    /// Applies the overrides to a profile. Returns `None` if there is neither a profile nor an override.
    fn apply_overrides(&self, name: Arc<str>, profile: Option<ModelProfile>) -> Option<ChainedProfile> {
        let profile = match (ModelOverride::find_for_profile(&self.overrides, &name), profile) {
            (None, profile) => profile?,
            (Some(over), profile) => {
                let profile = over.apply_to(profile.unwrap_or_default());
                ModelProfile {
                    cost: self.find_model_price(over).or(profile.cost),
                    ..profile
                }
            }
        };
        Some(ChainedProfile {
            name,
            profile: Arc::new(profile),
        })
    }

    /// Returns the price of the model that an override chooses, if a profile with this model has a price.
    fn find_model_price(&self, over: &ModelOverride) -> Option<TokenPrice> {
        let mut profiles = self.named_profiles().map(|(_, profile)| profile);
        profiles.find_map(|profile| {
            let is_same = profile.provider == over.provider && profile.model == over.model;
            profile.cost.filter(|_| is_same)
        })
    }

    /// Returns the profiles of all sources, without the built-in profile.
    pub fn source_profiles(&self) -> impl Iterator<Item = &ModelProfile> {
        self.named_profiles().map(|(_, profile)| profile)
    }

    /// Returns the profiles of all sources with their names, in search order.
    fn named_profiles(&self) -> impl Iterator<Item = &(Arc<str>, ModelProfile)> {
        self.sources.iter().flat_map(|place| &place.profiles)
    }

    /// Returns the name of a profile that is similar to `name`.
    fn find_similar_name(&self, name: &str) -> Option<Arc<str>> {
        find_similar_word(name, self.named_profiles().map(|(known, _)| &**known)).map(Arc::from)
    }
}

impl ModelOverride {
    /// Applies the override for this name to the profile, if there is one.
    pub fn apply_matching(overrides: &[Self], name: &str, profile: ModelProfile) -> ModelProfile {
        match Self::find_for_profile(overrides, name) {
            Some(over) => over.apply_to(profile),
            None => profile,
        }
    }

    /// Returns the override for this name: the last one with the name, otherwise the last one for `*`.
    fn find_for_profile<'o>(overrides: &'o [Self], name: &str) -> Option<&'o Self> {
        let exact = overrides.iter().rev().find(|over| &*over.profile == name);
        exact.or_else(|| overrides.iter().rev().find(|over| &*over.profile == "*"))
    }

    /// Applies this override to a profile.
    fn apply_to(&self, profile: ModelProfile) -> ModelProfile {
        let stays = profile.provider == self.provider;
        ModelProfile {
            provider: Arc::clone(&self.provider),
            model: Arc::clone(&self.model),
            base_url: profile.base_url.filter(|_| stays),
            api_key_env: profile.api_key_env.filter(|_| stays),
            headers: if stays { profile.headers } else { Vec::new() },
            context_window: profile.context_window.filter(|_| stays && profile.model == self.model),
            options: if stays { profile.options } else { JsonMap::new() },
            simulated: profile.simulated.filter(|_| stays),
            fallback: profile.fallback.filter(|_| stays),
            ..profile
        }
    }
}

impl FromStr for ModelOverride {
    type Err = ModelOverrideError;

    fn from_str(text: &str) -> Result<Self, ModelOverrideError> {
        let wrong = || ModelOverrideError { given: text.to_owned() };
        let (profile, answers) = text.split_once('=').ok_or_else(wrong)?;
        let (provider, model) = match answers.trim().split_once('/') {
            Some((provider, model)) if !model.is_empty() => (provider, model),
            None if answers.trim() == SIMULATED_PROVIDER => (SIMULATED_PROVIDER, ""),
            _ => return Err(wrong()),
        };
        if profile.trim().is_empty() || provider.is_empty() {
            return Err(wrong());
        }
        Ok(Self {
            profile: profile.trim().into(),
            provider: provider.into(),
            model: model.into(),
        })
    }
}

impl ProfileChain {
    /// Returns whether a profile of the chain is simulated, which every report of the run must mention.
    pub fn is_simulated(&self) -> bool {
        self.chain
            .iter()
            .any(|link| &*link.profile.provider == SIMULATED_PROVIDER)
    }

    /// Returns `PROVIDER/MODEL` of the first profile of the chain that is not simulated.
    pub fn first_remote_model(&self) -> Option<String> {
        let remote = self
            .chain
            .iter()
            .find(|link| &*link.profile.provider != SIMULATED_PROVIDER)?;
        Some(format!("{}/{}", remote.profile.provider, remote.profile.model))
    }
}

/// Returns the built-in profile `simulated`, if the name is this name.
fn built_in_profile(name: &str) -> Option<ModelProfile> {
    (name == SIMULATED_PROVIDER).then(|| ModelProfile {
        provider: SIMULATED_PROVIDER.into(),
        ..ModelProfile::default()
    })
}

/// Checks that the provider of the profile exists.
///
/// # Errors
/// There is no provider of that name.
pub fn check_provider(link: &ChainedProfile) -> Result<(), ProfileError> {
    if &*link.profile.provider == SIMULATED_PROVIDER || HttpProvider::find_by_name(&link.profile.provider).is_some() {
        return Ok(());
    }
    Err(ProfileError::UnknownProvider {
        profile: Arc::clone(&link.name),
        provider: Arc::clone(&link.profile.provider),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::{SimulatedReply, SimulatedReplySource};

    fn profile(provider: &str, says: &str) -> ModelProfile {
        ModelProfile {
            provider: provider.into(),
            system_prompt: Some(says.into()),
            simulated: (provider == SIMULATED_PROVIDER)
                .then(|| SimulatedReplySource::Replies(vec![SimulatedReply::Text(says.into())])),
            base_url: Some("http://here".into()),
            ..ModelProfile::default()
        }
    }

    fn with_fallback(profile: ModelProfile, fallback: &str) -> ModelProfile {
        ModelProfile {
            fallback: Some(fallback.into()),
            ..profile
        }
    }

    fn profiles(overrides: &[&str]) -> ModelProfiles {
        let overrides = overrides
            .iter()
            .map(|text| text.parse().expect("an override"))
            .collect();
        ModelProfiles::new(overrides)
            .with_source(
                "the ensemble file",
                vec![
                    ("fast".into(), profile(SIMULATED_PROVIDER, "from the file")),
                    ("far".into(), with_fallback(profile("openai", "far"), "fast")),
                    (
                        "safe".into(),
                        with_fallback(profile(SIMULATED_PROVIDER, "safe"), "fast"),
                    ),
                    (
                        "ring".into(),
                        with_fallback(profile(SIMULATED_PROVIDER, "ring"), "ring-2"),
                    ),
                    (
                        "ring-2".into(),
                        with_fallback(profile(SIMULATED_PROVIDER, "ring-2"), "ring"),
                    ),
                    (
                        "lost".into(),
                        with_fallback(profile(SIMULATED_PROVIDER, "lost"), "nowhere"),
                    ),
                ],
            )
            .with_source(
                "/home/me/config.yaml",
                vec![
                    ("fast".into(), profile(SIMULATED_PROVIDER, "from the config")),
                    ("slow".into(), profile(SIMULATED_PROVIDER, "slow")),
                ],
            )
    }

    fn named(name: &str) -> ModelChoice {
        ModelChoice::Profile(name.into())
    }

    fn names(resolved: &ProfileChain) -> Vec<&str> {
        resolved.chain.iter().map(|link| &*link.name).collect()
    }

    fn says(profiles: &ModelProfiles, name: &str) -> String {
        let resolved = profiles.resolve_chain(&named(name)).expect("resolves");
        resolved.chain[0].profile.system_prompt.clone().unwrap_or_default()
    }

    #[test]
    fn earlier_places_win() {
        assert_eq!(says(&profiles(&[]), "fast"), "from the file");
        assert_eq!(says(&profiles(&[]), "slow"), "slow");
        assert_eq!(says(&profiles(&[]), "simulated"), "");
    }

    #[test]
    fn fallbacks_follow_and_a_circle_ends() {
        let profiles = profiles(&[]);
        assert_eq!(
            names(&profiles.resolve_chain(&named("safe")).unwrap()),
            ["safe", "fast"]
        );
        assert_eq!(
            names(&profiles.resolve_chain(&named("ring")).unwrap()),
            ["ring", "ring-2"]
        );
    }

    #[test]
    fn an_override_keeps_the_price_unless_the_new_model_has_one() {
        let price = |cost: f64| {
            Some(TokenPrice {
                input_per_million: cost,
                cached_per_million: None,
                output_per_million: cost,
            })
        };
        let priced = |model: &str, cost| ModelProfile {
            model: model.into(),
            cost,
            ..profile("openai", "x")
        };
        for (over, expected) in [
            ("a=openai/new", price(1.0)),
            ("a=openai/known", price(2.0)),
            ("b=openai/new", None),
        ] {
            let profiles = ModelProfiles::new(vec![over.parse().expect("an override")]).with_source(
                "the ensemble file",
                vec![
                    ("a".into(), priced("old", price(1.0))),
                    ("b".into(), priced("free", None)),
                    ("c".into(), priced("known", price(2.0))),
                ],
            );
            let name = over.split('=').next().expect("a name");
            let resolved = profiles.resolve_chain(&named(name)).expect("resolves");
            assert_eq!(resolved.chain[0].profile.cost, expected, "{over}");
        }
    }

    #[test]
    fn overrides_replace_provider_and_model() {
        let resolved = profiles(&["far=simulated"]).resolve_chain(&named("far")).unwrap();
        let link = &resolved.chain[0];
        assert_eq!((&*link.profile.provider, &*link.profile.model), ("simulated", ""));
        assert_eq!(
            link.profile.system_prompt.as_deref(),
            Some("far"),
            "it keeps its instructions"
        );
        assert_eq!((&link.profile.base_url, names(&resolved)), (&None, vec!["far"]));
        assert!(resolved.is_simulated());

        let kept = profiles(&["*=simulated"]).resolve_chain(&named("fast")).unwrap();
        assert!(kept.chain[0].profile.simulated.is_some(), "prepared replies stay");
        let kept = profiles(&["*=simulated"]).resolve_chain(&named("safe")).unwrap();
        assert_eq!(names(&kept), ["safe", "fast"], "and so does a prepared fallback");

        let exact = profiles(&["fast=simulated/exact", "*=simulated/all", "fast=simulated/later"]);
        assert_eq!(
            &*exact.resolve_chain(&named("fast")).unwrap().chain[0].profile.model,
            "later"
        );
        assert_eq!(
            &*exact.resolve_chain(&named("slow")).unwrap().chain[0].profile.model,
            "all"
        );
        assert_eq!(
            &*exact.resolve_chain(&named("unheard-of")).unwrap().chain[0]
                .profile
                .model,
            "all"
        );

        let other = profiles(&["fast=openai/gpt/5"]).resolve_chain(&named("fast")).unwrap();
        assert_eq!(&*other.chain[0].profile.model, "gpt/5");
        let error = profiles(&["fast=opneai/gpt/5"])
            .resolve_chain(&named("fast"))
            .unwrap_err();
        assert_eq!(error.help_text().as_deref(), Some("did you mean `openai`?"), "{error}");
    }

    #[test]
    fn a_model_without_a_profile_can_be_overridden() {
        let choice = ModelChoice::Model {
            provider: "ollama".into(),
            model: "llama3.2:1b".into(),
        };
        assert!(!profiles(&[]).resolve_chain(&choice).unwrap().is_simulated());
        for over in ["*=simulated", "ollama/llama3.2:1b=simulated"] {
            assert!(
                profiles(&[over]).resolve_chain(&choice).unwrap().is_simulated(),
                "{over}"
            );
        }
    }

    #[test]
    fn an_unknown_profile_is_told_with_places_and_a_guess() {
        let error = profiles(&[]).resolve_chain(&named("slwo")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown model profile `slwo`; looked in the ensemble file, /home/me/config.yaml"
        );
        assert_eq!(error.help_text().as_deref(), Some("did you mean `slow`?"));
        let error = profiles(&[]).resolve_chain(&named("zzz")).unwrap_err();
        assert_eq!(
            error.help_text().as_deref(),
            Some("use `--model zzz=simulated` for simulated replies")
        );
        let error = profiles(&[]).resolve_chain(&named("lost")).unwrap_err();
        assert!(
            error.to_string().contains("`nowhere`, the fallback of `lost`; "),
            "{error}"
        );
    }

    #[test]
    fn overrides_are_read() {
        let over: ModelOverride = "a=openai/gpt/x=1".parse().unwrap();
        assert_eq!(
            (&*over.profile, &*over.provider, &*over.model),
            ("a", "openai", "gpt/x=1")
        );
        let over: ModelOverride = "*=simulated".parse().unwrap();
        assert_eq!((&*over.profile, &*over.provider, &*over.model), ("*", "simulated", ""));
        for wrong in ["", "a", "a=", "=simulated", "a=openai", "a=openai/", "a=/gpt"] {
            assert!(wrong.parse::<ModelOverride>().is_err(), "{wrong}");
        }
    }
}
