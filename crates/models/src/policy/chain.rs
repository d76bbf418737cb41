//! Requests to a chain of profiles: first the retries, then the fallback.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::policy::paced::Paced;
use crate::request::tool_files;
use crate::{
    LoadScript, ModelError, ModelErrorKind, ModelReply, ModelRequest, Network, Provider, Remote, ReplyPiece, Simulator,
    ToolSpec, key_variable, schema_in_words, source_of_reasoning,
};
use ensemble_core::runner::BoxFuture;
use ensemble_core::thread::{ExecutionRef, LiveOutput, LiveUpdate, Message, Role, StopReason};
use ensemble_language::ensemble::{self, ModelChoice, Price, Profile, Retry};
use ensemble_language::profiles::{Link, ProfileError, Profiles, Resolved, check_provider};

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
    pub(crate) links: Vec<(Link, Arc<dyn Provider>)>,
    simulated: bool,
    network: Network,
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
    pub made: Arc<AtomicU64>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// The reply, or the error of all profiles.
    pub result: Result<ModelReply, ModelError>,
    /// The number of requests that were made, including failed ones.
    pub requests: u64,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The price of tokens of the profile that answered, if it has one.
    pub price: Option<Price>,
    /// `PROVIDER/MODEL` of the profile that answered.
    pub model: Option<String>,
}

impl Model {
    /// Creates the providers of a chain. A provider does expensive work only at its first request.
    pub fn connect(resolved: &Resolved, load: &LoadScript, network: &Network) -> Result<Self, ProfileError> {
        let connect = |link: &Link| -> Result<(Link, Arc<dyn Provider>), ProfileError> {
            check_provider(link)?;
            if let Some(provider) = ensemble::Provider::named(&link.profile.provider) {
                let remote = Arc::new(Remote::new(provider, network.clone()));
                let pace = network.pace(&link.name, &link.profile);
                let paced = Paced::new(remote, pace, retry(&link.profile).pause_after(1));
                return Ok((link.clone(), Arc::new(paced)));
            }
            let simulator = Simulator::new(link.profile.simulated.as_ref(), load);
            let simulator = simulator.map_err(|message| ProfileError::Script {
                profile: Arc::clone(&link.name),
                message,
            })?;
            Ok((link.clone(), Arc::new(simulator)))
        };
        let links = resolved.chain.iter().map(connect).collect::<Result<_, _>>()?;
        Ok(Self {
            links,
            simulated: resolved.is_simulated(),
            network: network.clone(),
            fallen_back: Arc::default(),
        })
    }

    /// Checks that at least one profile of the chain has its key.
    ///
    /// # Errors
    /// All profiles need a key, and the environment has none of the keys; the error is that of the first profile.
    pub fn check_keys(&self) -> Result<(), ProfileError> {
        let missing = self.profiles().map(|link| missing_key(link, &self.network));
        let first = missing.reduce(|first, next| first.filter(|_| next.is_some()));
        first.flatten().map_or(Ok(()), Err)
    }

    /// A model without an ensemble: one profile without a fallback and without access to keys.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn of(profile: Profile) -> Result<Self, ProfileError> {
        Self::with_network(profile, &Network::default())
    }

    /// A model of one profile without a fallback, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The profile cannot be used: a script where no file may be read.
    pub fn with_network(profile: Profile, network: &Network) -> Result<Self, ProfileError> {
        let link = Link {
            name: "model".into(),
            profile: Arc::new(profile),
        };
        let resolved = Resolved { chain: vec![link] };
        Self::connect(&resolved, &no_scripts, network)
    }

    /// The model of this name, `PROVIDER/MODEL` or `simulated`, with access to keys and providers through `network`.
    ///
    /// # Errors
    /// The name is not valid, the provider does not exist, or `network` has no key for it.
    pub fn named(name: &str, network: &Network) -> Result<Self, ProfileError> {
        let resolved = Profiles::default().resolve(&choice(name)?)?;
        let model = Self::connect(&resolved, &no_scripts, network)?;
        model.check_keys()?;
        Ok(model)
    }

    /// The access to keys and providers.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A chain of other providers, which are asked in this order.
    pub fn with_providers(links: Vec<(Link, Arc<dyn Provider>)>) -> Self {
        Self {
            links,
            simulated: false,
            network: Network::default(),
            fallen_back: Arc::default(),
        }
    }

    /// Returns whether a profile of the chain is simulated.
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// The profiles, in the order in which they are asked.
    pub fn profiles(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().map(|(link, _)| link)
    }

    /// The estimated tokens that a request may have, if a longer one was refused as too long.
    pub fn room(&self) -> Option<u64> {
        self.links
            .first()
            .and_then(|(link, _)| self.network.room(&link.profile))
    }

    /// A request was refused as too long, and one of this number of estimated tokens was accepted. The next requests have
    /// at most as many.
    pub fn learn_room(&self, accepted: u64) {
        if let Some((link, _)) = self.links.first() {
            self.network.learn_room(&link.profile, accepted);
        }
    }

    /// Asks until someone answers, or all have failed. `live_output` receives the reply as it arrives.
    pub fn ask<'f>(&'f self, ask: ModelQuery, live_output: &'f dyn LiveOutput) -> BoxFuture<'f, ModelAnswer> {
        Box::pin(async move {
            let mut query = Query {
                ask: &ask,
                network: &self.network,
                replies: ReplyForwarder::new(&ask.source, live_output),
                warnings: Vec::new(),
            };
            let made = || ask.made.load(Ordering::Relaxed);
            let mut failed: Vec<(&Link, ModelError)> = Vec::new();
            let order = self.order(&ask.source);
            for (nth, at) in order.iter().copied().enumerate() {
                let (link, provider) = &self.links[at];
                let is_last = nth + 1 == order.len();
                match query.asked(at, link, &**provider, is_last).await {
                    // Another model may answer.
                    Ok(reply) if reply.stop_reason == StopReason::Refusal && !is_last => {
                        query.replies.restart();
                        failed.push((link, refused(&reply)));
                    }
                    Ok(mut reply) => {
                        let mut warnings = fell_back(&failed, link);
                        warnings.append(&mut query.warnings);
                        warnings.append(&mut reply.warnings);
                        self.answered(&ask.source, at);
                        return ModelAnswer {
                            result: Ok(reply),
                            requests: made(),
                            warnings,
                            price: link.profile.cost,
                            model: Some(source_of_reasoning(&link.profile)),
                        };
                    }
                    Err(error) => failed.push((link, error)),
                }
            }
            ModelAnswer {
                result: Err(all_failed(failed)),
                requests: made(),
                warnings: query.warnings,
                price: None,
                model: None,
            }
        })
    }
}

impl Model {
    /// The places of the profiles in the order in which they are asked: a fallback that has answered stays for the rest
    /// of the execution.
    fn order(&self, source: &ExecutionRef) -> Vec<usize> {
        let known = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
        let first = known.as_ref().filter(|(known, _)| is_same_execution(known, source));
        let first = first.map_or(0, |(_, at)| *at);
        (first..self.links.len()).chain(0..first).collect()
    }

    fn answered(&self, source: &ExecutionRef, at: usize) {
        if at > 0 && !source.run.is_empty() {
            let mut known = self.fallen_back.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some((source.clone(), at));
        }
    }
}

fn is_same_execution(one: &ExecutionRef, other: &ExecutionRef) -> bool {
    (&one.run, &one.agent, one.execution) == (&other.run, &other.agent, other.execution)
}

fn no_scripts(path: &str) -> Result<String, String> {
    Err(format!("{path}: a model without an ensemble has no scripts"))
}

/// The model choice for a name.
fn choice(name: &str) -> Result<ModelChoice, ProfileError> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(ModelChoice::Model {
            provider: provider.into(),
            model: model.into(),
        }),
        None if name == ensemble::SIMULATED => Ok(ModelChoice::Profile(name.into())),
        _ => Err(ProfileError::Name { name: name.into() }),
    }
}

fn fell_back(failed: &[(&Link, ModelError)], answered: &Link) -> Vec<String> {
    let tell = |(link, error): &(&Link, ModelError)| {
        let (failed, answered) = (&link.name, &answered.name);
        format!("model profile `{failed}` failed ({error}); its fallback `{answered}` answered")
    };
    failed.iter().map(tell).collect()
}

fn refused(reply: &ModelReply) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Refused,
        ..ModelError::fatal(format!("the model refused: {}", reply.refusal_text()))
    }
}

fn all_failed(mut failed: Vec<(&Link, ModelError)>) -> ModelError {
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
            false => ModelErrorKind::Failed,
        },
        message: errors.join("; "),
        retryable: failed.iter().any(|(_, error)| error.retryable),
        ..ModelError::fatal("")
    }
}

/// The key that is not in the environment.
fn missing_key(link: &Link, network: &Network) -> Option<ProfileError> {
    let provider = ensemble::Provider::named(&link.profile.provider)?;
    let variable = key_variable(&link.profile, provider)?;
    network.variable(variable).is_none().then(|| ProfileError::NoKey {
        profile: Arc::clone(&link.name),
        provider: provider.name,
        variable: variable.to_owned(),
    })
}

/// A query while the chain answers it.
struct Query<'a> {
    ask: &'a ModelQuery,
    network: &'a Network,
    replies: ReplyForwarder<'a>,
    warnings: Vec<String>,
}

impl Query<'_> {
    /// Asks one profile, with the retries that its `retry` allows. An error tells how many requests were made.
    async fn asked(
        &mut self,
        at: usize,
        link: &Link,
        provider: &dyn Provider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let before = self.ask.made.load(Ordering::Relaxed);
        let answer = self.retried(at, link, provider, is_last).await;
        let requests = self.ask.made.load(Ordering::Relaxed) - before;
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

    async fn retried(
        &mut self,
        at: usize,
        link: &Link,
        provider: &dyn Provider,
        is_last: bool,
    ) -> Result<ModelReply, ModelError> {
        let retry = retry(&link.profile);
        let mut attempt = 1;
        let mut in_words = self.network.refuses_schema(&link.profile);
        let mut without_files = self.network.refuses_files(&link.profile);
        let pace = self.network.pace(&link.name, &link.profile);
        let mut successes = pace.successes();
        loop {
            if !is_last && pace.pause() > MAX_PAUSE_WITH_FALLBACK {
                let seconds = pace.pause().as_secs();
                let told = format!("the provider asks for a pause of {seconds} s, which is too long");
                return Err(ModelError::passing(told));
            }
            let number = self.ask.requests_made + self.ask.made.fetch_add(1, Ordering::Relaxed) + 1;
            let request = request(self.ask, at, link, number);
            let request = if in_words { schema_in_words(request) } else { request };
            let request = if without_files {
                tool_files::in_words(request)
            } else {
                request
            };
            let error = match once(link, provider, request, &self.replies).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let was_heard = self.replies.restart();
            if error.kind == ModelErrorKind::RefusedSchema && !in_words {
                let name = &link.name;
                self.warnings.push(format!(
                    "model profile `{name}` was asked again without the output schema, which it does not take ({error}); \
                     the model was told the schema in words"
                ));
                self.network.schema_refused(&link.profile);
                in_words = true;
                continue;
            }
            if error.kind == ModelErrorKind::RefusedFiles && !without_files && tool_files::has_any(&self.ask.messages) {
                self.warnings.push(tool_files::refused(&link.name, &error));
                if tool_files::takes_none(&error) {
                    self.network.files_refused(&link.profile);
                }
                without_files = true;
                continue;
            }
            if error.kind == ModelErrorKind::RateLimited && provider.is_paced() {
                self.pause(&retry, attempt, link, &error, is_last)
                    .ok_or_else(|| too_long(error.clone()))?;
                // While the provider answers others, this request only waits for its turn.
                let is_alive = pace.is_alive(successes);
                successes = pace.successes();
                if !is_alive && attempt >= retry.max_attempts.get() {
                    return Err(error);
                }
                attempt += u32::from(!is_alive);
                if pace.pause() >= LONG_PAUSE {
                    self.warn(link, &error, was_heard, pace.pause());
                }
                self.replies.retrying(pace.pause(), &error);
                continue;
            }
            if !error.retryable || attempt >= retry.max_attempts.get() {
                return Err(error);
            }
            let pause = self.pause(&retry, attempt, link, &error, is_last);
            let pause = pause.ok_or_else(|| too_long(error.clone()))?;
            if was_heard || pause >= LONG_PAUSE {
                self.warn(link, &error, was_heard, pause);
            }
            self.replies.retrying(pause, &error);
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// The pause before the next attempt; `None` if it would be too long.
    fn pause(&self, retry: &Retry, attempt: u32, link: &Link, error: &ModelError, is_last: bool) -> Option<Duration> {
        let max_pause = if is_last { MAX_PAUSE } else { MAX_PAUSE_WITH_FALLBACK };
        match error.retry_after {
            Some(told) => (told <= max_pause).then_some(told),
            None if &*link.profile.provider == ensemble::SIMULATED => Some(retry.pause_after(attempt)),
            None => Some(self.network.jittered(retry.pause_after(attempt))),
        }
    }

    fn warn(&mut self, link: &Link, error: &ModelError, was_heard: bool, pause: Duration) {
        let name = &link.name;
        let what = match was_heard {
            true => "had begun its reply and was asked again".to_owned(),
            false => format!("was asked again after {:.0} s", pause.as_secs_f64()),
        };
        self.warnings.push(format!("model profile `{name}` {what} ({error})"));
    }
}

/// The profile's `retry`; without one, real providers are asked more than once.
fn retry(profile: &Profile) -> Retry {
    profile
        .retry
        .clone()
        .unwrap_or_else(|| match ensemble::Provider::named(&profile.provider) {
            Some(_) => Retry {
                max_attempts: ATTEMPTS,
                ..Retry::default()
            },
            None => Retry::default(),
        })
}

fn too_long(error: ModelError) -> ModelError {
    let seconds = error.retry_after.unwrap_or_default().as_secs();
    ModelError {
        message: format!("{error}; it asks for a pause of {seconds} s, which is too long"),
        ..error
    }
}

async fn once(
    link: &Link,
    provider: &dyn Provider,
    request: ModelRequest,
    replies: &ReplyForwarder<'_>,
) -> Result<ModelReply, ModelError> {
    let on_piece = |piece: ReplyPiece<'_>| replies.forward(piece);
    let Some(limit) = link.profile.timeout.filter(|_| !provider.is_paced()) else {
        return provider.complete(request, &on_piece).await;
    };
    let timed = tokio::time::timeout(limit, provider.complete(request, &on_piece)).await;
    timed.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(ModelError::passing(format!("no reply within {seconds} s")))
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

    fn forward(&self, piece: ReplyPiece<'_>) {
        let (flag, update) = match piece {
            ReplyPiece::Text(text) => (&self.was_heard, LiveUpdate::Text(text)),
            ReplyPiece::Reasoning(text) => (&self.has_reasoned, LiveUpdate::Reasoning(text)),
        };
        flag.store(true, Ordering::Relaxed);
        self.live_output.receive(self.source, update);
    }

    /// Marks the reply so far as void; returns whether any text was forwarded.
    fn restart(&self) -> bool {
        let was_heard = self.was_heard.swap(false, Ordering::Relaxed);
        if self.has_reasoned.swap(false, Ordering::Relaxed) || was_heard {
            self.live_output.receive(self.source, LiveUpdate::Restarted);
        }
        was_heard
    }

    /// Reports that the model is asked again after a pause.
    fn retrying(&self, pause: Duration, error: &ModelError) {
        let error = error.to_string();
        self.live_output
            .receive(self.source, LiveUpdate::Retrying { pause, error: &error });
    }
}

fn request(ask: &ModelQuery, at: usize, link: &Link, number: u64) -> ModelRequest {
    let system = ask.systems.get(at).cloned().flatten();
    let system = system.map(|content| Message::new(Role::System, content));
    let prompt = ask.messages.iter().rev().find(|message| message.role == Role::User);
    ModelRequest {
        prompt: prompt
            .map(|message| message.content.as_str())
            .unwrap_or_default()
            .into(),
        messages: system.into_iter().chain(own(&ask.messages, &link.profile)).collect(),
        agent_name: Arc::clone(&ask.source.agent),
        request_number: number,
        execution: ask.source.execution,
        output_schema: ask.output_schema.clone(),
        tools: Arc::clone(&ask.tools),
        profile: Arc::clone(&link.profile),
    }
}

/// The messages without the reasoning of other models.
fn own<'m>(messages: &'m [Message], profile: &Profile) -> impl Iterator<Item = Message> + use<'m> {
    let from = source_of_reasoning(profile);
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
