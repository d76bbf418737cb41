//! Requests to a chain of profiles: first the retries, then the fallback.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::policy::paced_provider::PacedProvider;
use crate::request::tool_files;
use crate::{
    LoadScript, ModelError, ModelErrorKind, ModelNetwork, ModelProvider, ModelReply, ModelRequest, RemoteProvider,
    ReplyPiece, SimulatedProvider, ToolSpec, describe_schema, key_variable, reasoning_source,
};
use ensemble_core::runner::BoxFuture;
use ensemble_core::thread::{ExecutionRef, LiveOutput, LiveUpdate, Message, Role, StopReason};
use ensemble_language::ensemble::{self, ModelChoice, ModelProfile, RetryPolicy, TokenPrice};
use ensemble_language::profiles::{ChainedProfile, ModelProfiles, ProfileChain, ProfileError, check_provider};

/// The number of attempts of a request to a real provider if the profile has no `retry`.
const ATTEMPTS: NonZeroU32 = NonZeroU32::new(3).expect("is not 0");

/// The maximum pause that a provider may ask for if there is a fallback.
const MAX_PAUSE_WITH_FALLBACK: Duration = Duration::from_secs(60);

/// The maximum pause that a provider may ask for if there is no fallback.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The minimum pause that causes a warning.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// A model that can be asked: profiles with their providers. Clones share the providers.
#[derive(Clone)]
pub struct Model {
    pub(crate) links: Vec<(ChainedProfile, Arc<dyn ModelProvider>)>,
    is_simulated: bool,
    network: ModelNetwork,
    /// The execution that a fallback has answered, and the place of the fallback.
    fallen_back: Arc<Mutex<Option<(ExecutionRef, usize)>>>,
}

/// A query, independent of the profile that answers.
#[derive(Debug, Clone)]
pub struct ModelQuery {
    /// The system message for each profile of the chain; profiles may have instructions of their own.
    pub systems: Vec<Option<String>>,
    /// Everything after the system message; the last one is the user's.
    pub messages: Vec<Message>,
    /// The execution that makes the query.
    pub source: ExecutionRef,
    /// The number of earlier requests of the agent.
    pub requests_made: u64,
    /// The schema that the reply must match.
    pub output_schema: Option<Arc<Value>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// Counts the requests when they are made, from 0, so that the number is known even if the future is dropped.
    pub request_counter: Arc<AtomicU64>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelQueryResult {
    /// The reply, or the error of all profiles.
    pub result: Result<ModelReply, ModelError>,
    /// The number of requests that were made, including failed ones.
    pub requests: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The price of tokens of the profile that answered, if it has one.
    pub price: Option<TokenPrice>,
    /// `PROVIDER/MODEL` of the profile that answered.
    pub model: Option<String>,
    /// The place in the chain of the profile that answered, or that failed last.
    pub link: usize,
}

impl Model {
    /// Creates the providers of a chain. A provider does expensive work only at its first request.
    pub fn connect_profiles(
        resolved: &ProfileChain,
        load: &LoadScript,
        network: &ModelNetwork,
    ) -> Result<Self, ProfileError> {
        let connect = |link: &ChainedProfile| -> Result<(ChainedProfile, Arc<dyn ModelProvider>), ProfileError> {
            check_provider(link)?;
            if let Some(provider) = ensemble::HttpProvider::find_by_name(&link.profile.provider) {
                let remote = Arc::new(RemoteProvider::new(provider, network.clone()));
                let pace = network.pace_for_profile(&link.name, &link.profile);
                let paced = PacedProvider::new(remote, pace, retry_policy(&link.profile).pause_after(1));
                return Ok((link.clone(), Arc::new(paced)));
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
    pub fn check_keys(&self) -> Result<(), ProfileError> {
        let missing = self.profiles().map(|link| find_missing_key(link, &self.network));
        let first = missing.reduce(|first, next| first.filter(|_| next.is_some()));
        first.flatten().map_or(Ok(()), Err)
    }

    /// A model without an ensemble: one profile without a fallback and without access to keys.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn from_profile(profile: ModelProfile) -> Result<Self, ProfileError> {
        Self::from_profile_with_network(profile, &ModelNetwork::default())
    }

    /// A model of one profile without a fallback, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn from_profile_with_network(profile: ModelProfile, network: &ModelNetwork) -> Result<Self, ProfileError> {
        let link = ChainedProfile {
            name: "model".into(),
            profile: Arc::new(profile),
        };
        let resolved = ProfileChain { chain: vec![link] };
        Self::connect_profiles(&resolved, &refuse_script, network)
    }

    /// The model of this name, `PROVIDER/MODEL` or `simulated`, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The name is not valid, the provider does not exist, or `network` has no key for it.
    pub fn from_name(name: &str, network: &ModelNetwork) -> Result<Self, ProfileError> {
        let resolved = ModelProfiles::default().resolve_choice(&parse_model_choice(name)?)?;
        let model = Self::connect_profiles(&resolved, &refuse_script, network)?;
        model.check_keys()?;
        Ok(model)
    }

    /// The access to keys and providers.
    pub fn network(&self) -> &ModelNetwork {
        &self.network
    }

    /// A chain of other providers, which are asked in this order.
    pub fn with_providers(links: Vec<(ChainedProfile, Arc<dyn ModelProvider>)>) -> Self {
        Self {
            links,
            is_simulated: false,
            network: ModelNetwork::default(),
            fallen_back: Arc::default(),
        }
    }

    /// Returns whether a profile of the chain is simulated.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// The profiles, in the order in which they are asked.
    pub fn profiles(&self) -> impl Iterator<Item = &ChainedProfile> {
        self.links.iter().map(|(link, _)| link)
    }

    /// The estimated tokens that a request may have, if a longer one was refused as too long.
    pub fn token_limit(&self) -> Option<u64> {
        self.links
            .first()
            .and_then(|(link, _)| self.network.token_limit(&link.profile))
    }

    /// A request was refused as too long, and one of this number of estimated tokens was accepted. The next requests have
    /// at most as many.
    pub fn set_token_limit(&self, accepted: u64) {
        if let Some((link, _)) = self.links.first() {
            self.network.set_token_limit(&link.profile, accepted);
        }
    }

    /// Asks until someone answers, or all have failed. `live_output` receives the reply as it arrives.
    pub fn answer_query<'f>(
        &'f self,
        ask: ModelQuery,
        live_output: &'f dyn LiveOutput,
    ) -> BoxFuture<'f, ModelQueryResult> {
        Box::pin(async move {
            let mut query = RunningQuery {
                ask: &ask,
                network: &self.network,
                replies: ReplyForwarder::new(&ask.source, live_output),
                warnings: Vec::new(),
            };
            let count_requests = || ask.request_counter.load(Ordering::Relaxed);
            let mut failed: Vec<(&ChainedProfile, ModelError)> = Vec::new();
            let order = self.profile_order(&ask.source);
            for (nth, at) in order.iter().copied().enumerate() {
                let (link, provider) = &self.links[at];
                let is_last = nth + 1 == order.len();
                match query.ask_profile(at, link, &**provider, is_last).await {
                    // Another model may answer.
                    Ok(reply) if reply.stop_reason == StopReason::Refusal && !is_last => {
                        query.replies.discard_reply();
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
    /// The places of the profiles in the order in which they are asked: a fallback that has answered stays for the rest
    /// of the execution.
    fn profile_order(&self, source: &ExecutionRef) -> Vec<usize> {
        let fallen_back = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
        let first = fallen_back
            .as_ref()
            .filter(|(known, _)| is_same_execution(known, source));
        let first = first.map_or(0, |(_, at)| *at);
        (first..self.links.len()).chain(0..first).collect()
    }

    fn remember_fallback(&self, source: &ExecutionRef, at: usize) {
        if at > 0 && !source.run.is_empty() {
            let mut fallen_back = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
            *fallen_back = Some((source.clone(), at));
        }
    }
}

fn is_same_execution(one: &ExecutionRef, other: &ExecutionRef) -> bool {
    (&one.run, &one.agent, one.execution) == (&other.run, &other.agent, other.execution)
}

fn refuse_script(path: &str) -> Result<String, String> {
    Err(format!("{path}: a model without an ensemble has no scripts"))
}

/// The model choice for a name.
fn parse_model_choice(name: &str) -> Result<ModelChoice, ProfileError> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelChoice::Model {
            provider: provider.into(),
            model: model.into(),
        }),
        None if name == ensemble::SIMULATED => Ok(ModelChoice::Profile(name.into())),
        _ => Err(ProfileError::Name { name: name.into() }),
    }
}

fn fallback_warnings(failed: &[(&ChainedProfile, ModelError)], answered: &ChainedProfile) -> Vec<String> {
    let tell = |(link, error): &(&ChainedProfile, ModelError)| {
        let (failed, answered) = (&link.name, &answered.name);
        format!("model profile `{failed}` failed ({error}); its fallback `{answered}` answered")
    };
    failed.iter().map(tell).collect()
}

fn refusal_error(reply: &ModelReply) -> ModelError {
    ModelError {
        kind: ModelErrorKind::ModelRefused,
        ..ModelError::new_fatal(format!("the model refused: {}", reply.refusal_text()))
    }
}

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

/// The key that is not in the environment.
fn find_missing_key(link: &ChainedProfile, network: &ModelNetwork) -> Option<ProfileError> {
    let provider = ensemble::HttpProvider::find_by_name(&link.profile.provider)?;
    let variable = key_variable(&link.profile, provider)?;
    network.read_variable(variable).is_none().then(|| ProfileError::NoKey {
        profile: Arc::clone(&link.name),
        provider: provider.name,
        variable: variable.to_owned(),
    })
}

/// A query while the chain answers it.
struct RunningQuery<'a> {
    ask: &'a ModelQuery,
    network: &'a ModelNetwork,
    replies: ReplyForwarder<'a>,
    warnings: Vec<String>,
}

impl RunningQuery<'_> {
    /// Asks one profile, with the retries that its `retry` allows. An error tells how many requests were made.
    async fn ask_profile(
        &mut self,
        at: usize,
        link: &ChainedProfile,
        provider: &dyn ModelProvider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let before = self.ask.request_counter.load(Ordering::Relaxed);
        let answer = self.ask_with_retries(at, link, provider, is_last).await;
        let requests = self.ask.request_counter.load(Ordering::Relaxed) - before;
        answer.map_err(|error| match requests {
            0 | 1 => error,
            all => ModelError {
                message: format!(
                    "{error}; it was the last of {all} requests (`retry` of model profile `{}`)",
                    link.name
                ),
                ..error
            },
        })
    }

    async fn ask_with_retries(
        &mut self,
        at: usize,
        link: &ChainedProfile,
        provider: &dyn ModelProvider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let retry = retry_policy(&link.profile);
        let mut attempt = 1;
        let mut in_words = self.network.refuses_schema(&link.profile);
        let mut without_files = self.network.refuses_files(&link.profile);
        let pace = self.network.pace_for_profile(&link.name, &link.profile);
        let mut successes = pace.success_count();
        loop {
            if !is_last && pace.remaining_pause() > MAX_PAUSE_WITH_FALLBACK {
                let seconds = pace.remaining_pause().as_secs();
                let message = format!("the provider asks for a pause of {seconds} s, which is too long");
                return Err(ModelError::new_retryable(message));
            }
            let number = self.ask.requests_made + self.ask.request_counter.fetch_add(1, Ordering::Relaxed) + 1;
            let request = build_request(self.ask, at, link, number);
            let request = if in_words { describe_schema(request) } else { request };
            let request = if without_files {
                tool_files::describe_tool_files(request)
            } else {
                request
            };
            let error = match ask_once(link, provider, request, &self.replies).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let was_heard = self.replies.discard_reply();
            if error.kind == ModelErrorKind::RefusedSchema && !in_words {
                let name = &link.name;
                self.warnings.push(format!(
                    "model profile `{name}` does not support the output schema ({error}); the request was repeated with \
                     the schema in the prompt"
                ));
                self.network.record_schema_refusal(&link.profile);
                in_words = true;
                continue;
            }
            if error.kind == ModelErrorKind::RefusedFiles
                && !without_files
                && tool_files::has_tool_files(&self.ask.messages)
            {
                self.warnings
                    .push(tool_files::refused_files_warning(&link.name, &error));
                if tool_files::rejects_all_files(&error) {
                    self.network.record_files_refusal(&link.profile);
                }
                without_files = true;
                continue;
            }
            if error.kind == ModelErrorKind::RateLimited && provider.is_paced() {
                self.retry_pause(&retry, attempt, link, &error, is_last)
                    .ok_or_else(|| pause_too_long_error(error.clone()))?;
                // While the provider answers others, this request only waits for its turn.
                let is_alive = pace.is_alive(successes);
                successes = pace.success_count();
                if !is_alive && attempt >= retry.max_attempts.get() {
                    return Err(error);
                }
                attempt += u32::from(!is_alive);
                if pace.remaining_pause() >= LONG_PAUSE {
                    self.add_retry_warning(link, &error, was_heard, pace.remaining_pause());
                }
                self.replies.report_retry(pace.remaining_pause(), &error);
                continue;
            }
            if !error.retryable || attempt >= retry.max_attempts.get() {
                return Err(error);
            }
            let pause = self.retry_pause(&retry, attempt, link, &error, is_last);
            let pause = pause.ok_or_else(|| pause_too_long_error(error.clone()))?;
            if was_heard || pause >= LONG_PAUSE {
                self.add_retry_warning(link, &error, was_heard, pause);
            }
            self.replies.report_retry(pause, &error);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// The pause before the next attempt; `None` if it would be too long.
    fn retry_pause(
        &self,
        retry: &RetryPolicy,
        attempt: u32,
        link: &ChainedProfile,
        error: &ModelError,
        is_last: bool,
    ) -> Option<Duration> {
        let max_pause = if is_last { MAX_PAUSE } else { MAX_PAUSE_WITH_FALLBACK };
        match error.retry_after {
            Some(pause) => (pause <= max_pause).then_some(pause),
            None if &*link.profile.provider == ensemble::SIMULATED => Some(retry.pause_after(attempt)),
            None => Some(self.network.with_jitter(retry.pause_after(attempt))),
        }
    }

    fn add_retry_warning(&mut self, link: &ChainedProfile, error: &ModelError, was_heard: bool, pause: Duration) {
        let name = &link.name;
        let action = match was_heard {
            true => "failed during its reply, and the request was repeated".to_owned(),
            false => format!(
                "failed, and the request was repeated after {:.0} s",
                pause.as_secs_f64()
            ),
        };
        self.warnings.push(format!("model profile `{name}` {action} ({error})"));
    }
}

/// The profile's `retry`; without one, real providers are asked more than once.
fn retry_policy(profile: &ModelProfile) -> RetryPolicy {
    profile
        .retry
        .clone()
        .unwrap_or_else(|| match ensemble::HttpProvider::find_by_name(&profile.provider) {
            Some(_) => RetryPolicy {
                max_attempts: ATTEMPTS,
                ..RetryPolicy::default()
            },
            None => RetryPolicy::default(),
        })
}

fn pause_too_long_error(error: ModelError) -> ModelError {
    let seconds = error.retry_after.unwrap_or_default().as_secs();
    ModelError {
        message: format!("{error}; it asks for a pause of {seconds} s, which is too long"),
        ..error
    }
}

async fn ask_once(
    link: &ChainedProfile,
    provider: &dyn ModelProvider,
    request: ModelRequest,
    replies: &ReplyForwarder<'_>,
) -> Result<ModelReply, ModelError> {
    let on_piece = |piece: ReplyPiece<'_>| replies.forward_piece(piece);
    let Some(limit) = link.profile.timeout.filter(|_| !provider.is_paced()) else {
        return provider.complete_request(request, &on_piece).await;
    };
    let timed = tokio::time::timeout(limit, provider.complete_request(request, &on_piece)).await;
    timed.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(ModelError::new_retryable(format!("no reply within {seconds} s")))
    })
}

/// Forwards the pieces of a reply as live output, and records whether there were any.
struct ReplyForwarder<'a> {
    source: &'a ExecutionRef,
    live_output: &'a dyn LiveOutput,
    was_heard: AtomicBool,
    has_reasoned: AtomicBool,
}

impl<'a> ReplyForwarder<'a> {
    fn new(source: &'a ExecutionRef, live_output: &'a dyn LiveOutput) -> Self {
        Self {
            source,
            live_output,
            was_heard: AtomicBool::new(false),
            has_reasoned: AtomicBool::new(false),
        }
    }

    fn forward_piece(&self, piece: ReplyPiece<'_>) {
        let (flag, update) = match piece {
            ReplyPiece::Text(text) => (&self.was_heard, LiveUpdate::Text(text)),
            ReplyPiece::Reasoning(text) => (&self.has_reasoned, LiveUpdate::Reasoning(text)),
        };
        flag.store(true, Ordering::Relaxed);
        self.live_output.receive_update(self.source, update);
    }

    /// Marks the reply so far as void; returns whether any text was forwarded.
    fn discard_reply(&self) -> bool {
        let was_heard = self.was_heard.swap(false, Ordering::Relaxed);
        if self.has_reasoned.swap(false, Ordering::Relaxed) || was_heard {
            self.live_output.receive_update(self.source, LiveUpdate::Restarted);
        }
        was_heard
    }

    /// Reports that the model is asked again after a pause.
    fn report_retry(&self, pause: Duration, error: &ModelError) {
        let error = error.to_string();
        self.live_output
            .receive_update(self.source, LiveUpdate::Retrying { pause, error: &error });
    }
}

fn build_request(ask: &ModelQuery, at: usize, link: &ChainedProfile, number: u64) -> ModelRequest {
    let system = ask.systems.get(at).cloned().flatten();
    let system = system.map(|content| Message::new(Role::System, content));
    let prompt = ask.messages.iter().rev().find(|message| message.role == Role::User);
    ModelRequest {
        prompt: prompt
            .map(|message| message.content.as_str())
            .unwrap_or_default()
            .into(),
        messages: system
            .into_iter()
            .chain(own_messages(&ask.messages, &link.profile))
            .collect(),
        agent_name: Arc::clone(&ask.source.agent),
        request_number: number,
        execution: ask.source.execution,
        output_schema: ask.output_schema.clone(),
        tools: Arc::clone(&ask.tools),
        profile: Arc::clone(&link.profile),
    }
}

/// The messages without the reasoning of other models.
fn own_messages<'m>(messages: &'m [Message], profile: &ModelProfile) -> impl Iterator<Item = Message> + use<'m> {
    let from = reasoning_source(profile);
    messages.iter().cloned().map(move |mut message| {
        if message
            .reasoning
            .as_ref()
            .is_some_and(|reasoning| reasoning.from != from)
        {
            message.reasoning = None;
            message.tool_calls.iter_mut().for_each(|call| call.signatures.clear());
        }
        message
    })
}

#[cfg(test)]
mod tests;
