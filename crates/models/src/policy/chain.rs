//! Requests to a chain of profiles: first the retries, then the fallback.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::model_query::{ModelQuery, ModelQueryResult};
use super::paced_provider::PacedProvider;
use super::reply_forwarder::LiveReplyForwarder;
use super::retry_reasons::retry_policy_or_default;
use super::running_query::ChainQuery;
use crate::{
    ModelError, ModelErrorKind, ModelNetwork, ModelProvider, ModelReply, RemoteProvider, ScriptLoader,
    SimulatedProvider, api_key_variable, reasoning_source,
};
use ensemble_core::runner::BoxFuture;
use ensemble_core::secrets::Secrets;
use ensemble_core::thread::{ExecutionAttemptRef, LiveOutputReceiver, StopReason};
use ensemble_language::ensemble::{self, ModelChoice, ModelProfile};
use ensemble_language::profiles::{ChainedProfile, ModelProfiles, ProfileChain, ProfileError, check_provider};

/// Chain of model profiles with their providers. Clones share the providers.
#[derive(Clone)]
pub struct Model {
    pub(crate) links: Vec<(ChainedProfile, Arc<dyn ModelProvider>)>,
    is_simulated: bool,
    network: ModelNetwork,
    /// The execution that a fallback has answered, and the place of the fallback.
    fallen_back: Arc<Mutex<Option<(ExecutionAttemptRef, usize)>>>,
}

impl Model {
    /// Creates the providers of a chain. They connect only at the first request.
    pub fn connect_profiles(
        resolved: &ProfileChain,
        load: &ScriptLoader,
        network: &ModelNetwork,
    ) -> Result<Self, ProfileError> {
        let connect = |link: &ChainedProfile| -> Result<(ChainedProfile, Arc<dyn ModelProvider>), ProfileError> {
            check_provider(link)?;
            if let Some(provider) = ensemble::HttpProvider::find_by_name(&link.profile.provider) {
                let remote = Arc::new(RemoteProvider::new(provider, network.clone()));
                return Ok((link.clone(), wrap_with_pace(link, remote, network)));
            }
            let simulator = SimulatedProvider::new(link.profile.simulated.as_ref(), load);
            let simulator = simulator.map_err(|message| ProfileError::Script {
                profile: Arc::clone(&link.name),
                message,
            })?;
            Ok((link.clone(), Arc::new(simulator)))
        };
        let links = resolved.chain.iter().map(connect).collect::<Result<_, _>>()?;
        Ok(Self {
            links,
            is_simulated: resolved.is_simulated(),
            network: network.clone(),
            fallen_back: Arc::default(),
        })
    }

    /// Checks that at least one profile of the chain has its key.
    ///
    /// # Errors
    /// All profiles need a key, and the environment has none of the keys; the error is that of the first profile.
    pub fn check_any_profile_has_key(&self) -> Result<(), ProfileError> {
        let missing = self.profiles().map(|link| find_missing_key(link, &self.network));
        let first = missing.reduce(|first, next| first.filter(|_| next.is_some()));
        first.flatten().map_or(Ok(()), Err)
    }

    /// Creates a model of one profile, without fallback and without access to keys.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn from_profile_without_keys(profile: ModelProfile) -> Result<Self, ProfileError> {
        Self::from_profile_with_network(profile, &ModelNetwork::default())
    }

    /// Returns the values that no output can contain: keys that requests have read, and values of the caller.
    pub fn secrets(&self) -> &Secrets {
        self.network.secrets()
    }

    /// Creates a model of one profile without fallback, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn from_profile_with_network(profile: ModelProfile, network: &ModelNetwork) -> Result<Self, ProfileError> {
        let link = ChainedProfile {
            name: "model".into(),
            profile: Arc::new(profile),
        };
        let resolved = ProfileChain { chain: vec![link] };
        Self::connect_profiles(&resolved, &refuse_script_loading, network)
    }

    /// Creates a model from a name, `PROVIDER/MODEL` or `simulated`, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The name is not valid, the provider does not exist, or `network` has no key for it.
    pub fn from_name(name: &str, network: &ModelNetwork) -> Result<Self, ProfileError> {
        let resolved = ModelProfiles::default().resolve_chain(&parse_model_choice(name)?)?;
        let model = Self::connect_profiles(&resolved, &refuse_script_loading, network)?;
        model.check_any_profile_has_key()?;
        Ok(model)
    }

    /// Returns the access to keys and providers.
    pub fn network(&self) -> &ModelNetwork {
        &self.network
    }

    /// Creates a chain of custom providers, in the order of requests.
    pub fn with_providers(links: Vec<(ChainedProfile, Arc<dyn ModelProvider>)>) -> Self {
        Self {
            links,
            is_simulated: false,
            network: ModelNetwork::default(),
            fallen_back: Arc::default(),
        }
    }

    /// Creates a chain of custom providers that keep the rate limits of their profiles.
    pub fn with_paced_providers(links: Vec<(ChainedProfile, Arc<dyn ModelProvider>)>, network: &ModelNetwork) -> Self {
        let pace = |(link, provider): (ChainedProfile, Arc<dyn ModelProvider>)| {
            let paced = wrap_with_pace(&link, provider, network);
            (link, paced)
        };
        Self {
            network: network.clone(),
            ..Self::with_providers(links.into_iter().map(pace).collect())
        }
    }

    /// Returns whether a profile of the chain is simulated.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Iterates over the profiles in the order of requests.
    pub fn profiles(&self) -> impl Iterator<Item = &ChainedProfile> {
        self.links.iter().map(|(link, _)| link)
    }

    /// Returns the limit of estimated request tokens that an earlier refusal has shown, if there was one.
    pub fn learned_token_limit(&self) -> Option<u64> {
        self.links
            .first()
            .and_then(|(link, _)| self.network.learned_token_limit(&link.profile))
    }

    /// Limits later requests to this number of estimated tokens, because a longer request was refused and this one was accepted.
    pub fn limit_later_request_tokens(&self, accepted: u64) {
        if let Some((link, _)) = self.links.first() {
            self.network.record_accepted_tokens(&link.profile, accepted);
        }
    }

    /// Asks the profiles in order until one answers or all have failed. Sends the reply to `live_output` while it arrives.
    pub fn answer_query<'f>(
        &'f self,
        ask: ModelQuery,
        live_output: &'f dyn LiveOutputReceiver,
    ) -> BoxFuture<'f, ModelQueryResult> {
        Box::pin(async move {
            let mut query = ChainQuery {
                ask: &ask,
                network: &self.network,
                replies: LiveReplyForwarder::new(&ask.source, live_output),
                warnings: Vec::new(),
            };
            let count_requests = || ask.request_counter.load(Ordering::Relaxed);
            let mut failed: Vec<(&ChainedProfile, ModelError)> = Vec::new();
            let order = self.profile_request_order(&ask.source);
            for (nth, at) in order.iter().copied().enumerate() {
                let (link, provider) = &self.links[at];
                let is_last = nth + 1 == order.len();
                match query.ask_profile_with_retries(at, link, &**provider, is_last).await {
                    // Another model may answer.
                    Ok(reply) if reply.stop_reason == StopReason::Refusal && !is_last => {
                        query.replies.mark_sent_reply_void();
                        failed.push((link, refusal_error(&reply)));
                    }
                    Ok(mut reply) => {
                        let mut warnings = fallback_warnings(&failed, link);
                        warnings.append(&mut query.warnings);
                        warnings.append(&mut reply.warnings);
                        self.remember_fallback(&ask.source, at);
                        return ModelQueryResult {
                            result: Ok(reply),
                            requests: count_requests(),
                            warnings,
                            price: link.profile.cost,
                            model: Some(reasoning_source(&link.profile)),
                            link: at,
                        };
                    }
                    Err(error) => failed.push((link, error)),
                }
            }
            ModelQueryResult {
                result: Err(combine_errors(failed)),
                requests: count_requests(),
                warnings: query.warnings,
                price: None,
                model: None,
                link: order.last().copied().unwrap_or_default(),
            }
        })
    }
}

impl Model {
    /// Returns the indexes of the profiles in the order of requests. A fallback that answered stays first for the rest of the execution.
    fn profile_request_order(&self, source: &ExecutionAttemptRef) -> Vec<usize> {
        let fallen_back = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
        let first = fallen_back
            .as_ref()
            .filter(|(known, _)| is_same_execution(known, source));
        let first = first.map_or(0, |(_, at)| *at);
        (first..self.links.len()).chain(0..first).collect()
    }

    /// Stores the fallback that answered, for the rest of the execution.
    fn remember_fallback(&self, source: &ExecutionAttemptRef, at: usize) {
        if at > 0 && !source.run.is_empty() {
            let mut fallen_back = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
            *fallen_back = Some((source.clone(), at));
        }
    }
}

/// Wraps the provider so that it keeps the rate limit of its profile.
fn wrap_with_pace(
    link: &ChainedProfile,
    provider: Arc<dyn ModelProvider>,
    network: &ModelNetwork,
) -> Arc<dyn ModelProvider> {
    let pace = network.shared_pace_for_profile(&link.name, &link.profile);
    let pause = retry_policy_or_default(&link.profile).pause_after(1);
    Arc::new(PacedProvider::new(provider, pace, pause))
}

/// Returns whether both belong to the same execution, also in different attempts.
fn is_same_execution(one: &ExecutionAttemptRef, other: &ExecutionAttemptRef) -> bool {
    (&one.run, &one.agent, one.execution) == (&other.run, &other.agent, other.execution)
}

/// Fails: a model without an ensemble cannot load scripts.
fn refuse_script_loading(path: &str) -> Result<String, String> {
    Err(format!("{path}: a model without an ensemble has no scripts"))
}

/// Parses a model name.
fn parse_model_choice(name: &str) -> Result<ModelChoice, ProfileError> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelChoice::Model {
            provider: provider.into(),
            model: model.into(),
        }),
        None if name == ensemble::SIMULATED_PROVIDER => Ok(ModelChoice::Profile(name.into())),
        _ => Err(ProfileError::Name { name: name.into() }),
    }
}

/// Renders a warning for each failed profile before the one that answered.
fn fallback_warnings(failed: &[(&ChainedProfile, ModelError)], answered: &ChainedProfile) -> Vec<String> {
    let tell = |(link, error): &(&ChainedProfile, ModelError)| {
        let (failed, answered) = (&link.name, &answered.name);
        format!("model profile `{failed}` failed ({error}); its fallback `{answered}` answered")
    };
    failed.iter().map(tell).collect()
}

/// Creates the error for a refusal by the model.
fn refusal_error(reply: &ModelReply) -> ModelError {
    ModelError {
        kind: ModelErrorKind::ModelRefused,
        ..ModelError::new_fatal(format!("the model refused: {}", reply.refusal_reason_and_text()))
    }
}

/// Combines the errors of all profiles into one.
fn combine_errors(mut failed: Vec<(&ChainedProfile, ModelError)>) -> ModelError {
    if failed.len() == 1 {
        return failed.remove(0).1;
    }
    let errors: Vec<_> = failed
        .iter()
        .map(|(link, error)| format!("{}: {error}", link.name))
        .collect();
    let kind = failed[0].1.kind;
    ModelError {
        kind: match failed.iter().all(|(_, error)| error.kind == kind) {
            true => kind,
            // A shorter request may succeed with one of them.
            false
                if failed
                    .iter()
                    .any(|(_, error)| error.kind == ModelErrorKind::ContextTooLong) =>
            {
                ModelErrorKind::ContextTooLong
            }
            false => ModelErrorKind::OtherFailure,
        },
        message: errors.join("; "),
        retryable: failed.iter().any(|(_, error)| error.retryable),
        ..ModelError::new_fatal("")
    }
}

/// Returns an error if the key of the profile is not in the environment.
fn find_missing_key(link: &ChainedProfile, network: &ModelNetwork) -> Option<ProfileError> {
    let provider = ensemble::HttpProvider::find_by_name(&link.profile.provider)?;
    let variable = api_key_variable(&link.profile, provider)?;
    network.read_variable(variable).is_none().then(|| ProfileError::NoKey {
        profile: Arc::clone(&link.name),
        provider: provider.name,
        variable: variable.to_owned(),
    })
}

#[cfg(test)]
mod tests;
