//! One question put to a chain of profiles: retries first, then the fallback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{
    LoadScript, ModelError, ModelReply, ModelRequest, ProfileError, Provider, Resolved, Simulator, ToolSpec,
    profiles::Link,
};
use crate::ensemble::{Profile, Retry};
use crate::thread::{Listener, Message, Role, Said, Speaker};

/// A model that can be asked: profiles with their providers.
pub struct Model {
    links: Vec<(Link, Arc<dyn Provider>)>,
    simulated: bool,
}

/// What is asked, whoever answers.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The system message for each profile of the chain; profiles may have instructions of their own.
    pub systems: Vec<Option<String>>,
    /// Everything after the system message; the last one is the user's.
    pub messages: Vec<Message>,
    /// Who asks.
    pub speaker: Speaker,
    /// Requests that the agent has made before.
    pub requests_made: u64,
    /// The schema that the reply has to match.
    pub output_schema: Option<Arc<Value>>,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The reply, or why nobody gave one.
    pub result: Result<ModelReply, ModelError>,
    /// Requests that were made for it, failed ones included.
    pub requests: u64,
    /// What the person who runs the ensemble should know.
    pub warnings: Vec<String>,
}

impl Model {
    /// Readies the providers of a chain. A provider does its costly work when it is first asked, not here.
    pub fn connect(resolved: &Resolved, load: &LoadScript) -> Result<Self, ProfileError> {
        let connect = |link: &Link| -> Result<(Link, Arc<dyn Provider>), ProfileError> {
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
        })
    }

    /// A model without an ensemble: one profile, and no fallback.
    ///
    /// # Errors
    /// The profile cannot be used: an unknown provider, a script where no file may be read.
    pub fn of(profile: Profile) -> Result<Self, ProfileError> {
        let link = Link {
            name: "model".into(),
            profile: Arc::new(profile),
        };
        let resolved = Resolved { chain: vec![link] };
        Self::connect(&resolved, &|path| {
            Err(format!("{path}: a model without an ensemble has no scripts"))
        })
    }

    /// A chain with providers of one's own, asked in this order.
    pub fn with_providers(links: Vec<(Link, Arc<dyn Provider>)>) -> Self {
        Self {
            links,
            simulated: false,
        }
    }

    /// Does a simulated model take part?
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// The profiles, in the order in which they are asked.
    pub fn profiles(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().map(|(link, _)| link)
    }

    /// Asks until someone answers, or nobody is left. `listener` hears the reply as it comes.
    pub async fn ask(&self, ask: Ask, listener: &dyn Listener) -> Asked {
        let mut requests = 0;
        let mut failed: Vec<(&Link, ModelError)> = Vec::new();
        for (at, (link, provider)) in self.links.iter().enumerate() {
            let voice = Voice::new(&ask.speaker, listener);
            match retried(&ask, at, link, &**provider, &mut requests, &voice).await {
                Ok(reply) => {
                    return Asked {
                        result: Ok(reply),
                        requests,
                        warnings: fell_back(&failed, link),
                    };
                }
                Err(error) => failed.push((link, error)),
            }
        }
        Asked {
            result: Err(nobody(failed)),
            requests,
            warnings: Vec::new(),
        }
    }
}

fn fell_back(failed: &[(&Link, ModelError)], answered: &Link) -> Vec<String> {
    let tell = |(link, error): &(&Link, ModelError)| {
        let (failed, answered) = (&link.name, &answered.name);
        format!("model profile `{failed}` failed ({error}); its fallback `{answered}` answered")
    };
    failed.iter().map(tell).collect()
}

fn nobody(mut failed: Vec<(&Link, ModelError)>) -> ModelError {
    if failed.len() == 1 {
        return failed.remove(0).1;
    }
    let errors: Vec<_> = failed
        .iter()
        .map(|(link, error)| format!("{}: {error}", link.name))
        .collect();
    ModelError {
        message: errors.join("; "),
        retryable: failed.iter().any(|(_, error)| error.retryable),
        retry_after: None,
    }
}

/// One profile, as often as its `retry` allows.
async fn retried(
    ask: &Ask,
    at: usize,
    link: &Link,
    provider: &dyn Provider,
    requests: &mut u64,
    voice: &Voice<'_>,
) -> Result<ModelReply, ModelError> {
    let retry = link.profile.retry.clone().unwrap_or_default();
    let mut attempt = 1;
    loop {
        *requests += 1;
        let request = request(ask, at, link, ask.requests_made + *requests);
        let end = once(link, provider, request, voice).await;
        if end.is_err() {
            voice.again();
        }
        match end {
            Err(error) if error.retryable && attempt < retry.max_attempts.get() => pause(&retry, attempt).await,
            end => return end,
        }
        attempt += 1;
    }
}

async fn pause(retry: &Retry, attempt: u32) {
    tokio::time::sleep(retry.pause_after(attempt)).await;
}

async fn once(
    link: &Link,
    provider: &dyn Provider,
    request: ModelRequest,
    voice: &Voice<'_>,
) -> Result<ModelReply, ModelError> {
    let heard = |text: &str| voice.hear(text);
    let Some(limit) = link.profile.timeout else {
        return provider.complete(request, &heard).await;
    };
    let timed = tokio::time::timeout(limit, provider.complete(request, &heard)).await;
    timed.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        Err(ModelError::passing(format!("no reply within {seconds} s")))
    })
}

/// Passes pieces of a reply on, and knows whether there were any.
struct Voice<'a> {
    speaker: &'a Speaker,
    listener: &'a dyn Listener,
    was_heard: AtomicBool,
}

impl<'a> Voice<'a> {
    fn new(speaker: &'a Speaker, listener: &'a dyn Listener) -> Self {
        Self {
            speaker,
            listener,
            was_heard: AtomicBool::new(false),
        }
    }

    fn hear(&self, text: &str) {
        self.was_heard.store(true, Ordering::Relaxed);
        self.listener.hear(self.speaker, Said::Text(text));
    }

    /// The reply so far does not count; whoever has heard of it is told.
    fn again(&self) {
        if self.was_heard.swap(false, Ordering::Relaxed) {
            self.listener.hear(self.speaker, Said::Again);
        }
    }
}

fn request(ask: &Ask, at: usize, link: &Link, number: u64) -> ModelRequest {
    let system = ask.systems.get(at).cloned().flatten();
    let system = system.map(|content| Message::new(Role::System, content));
    let prompt = ask.messages.iter().rev().find(|message| message.role == Role::User);
    ModelRequest {
        prompt: prompt
            .map(|message| message.content.as_str())
            .unwrap_or_default()
            .into(),
        messages: system.into_iter().chain(ask.messages.iter().cloned()).collect(),
        agent_name: Arc::clone(&ask.speaker.agent),
        request_number: number,
        execution: ask.speaker.execution,
        output_schema: ask.output_schema.clone(),
        tools: Arc::clone(&ask.tools),
        profile: Arc::clone(&link.profile),
    }
}

#[cfg(test)]
mod tests;
