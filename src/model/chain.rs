//! One question put to a chain of profiles: retries first, then the fallback.

use std::sync::Arc;

use serde_json::Value;

use super::{
    LoadScript, ModelError, ModelReply, ModelRequest, ProfileError, Provider, Resolved, Simulator, profiles::Link,
};
use crate::ensemble::Retry;
use crate::thread::{Message, Role};

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
    pub agent_name: Arc<str>,
    /// Requests that the agent has made before.
    pub requests_made: u64,
    /// Which execution of the agent, from 1.
    pub execution: u32,
    /// The schema that the reply has to match.
    pub output_schema: Option<Arc<Value>>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// A chain with providers of the test's own.
    #[cfg(test)]
    pub(crate) fn with_providers(links: Vec<(Link, Arc<dyn Provider>)>) -> Self {
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

    /// Asks until someone answers, or nobody is left.
    pub async fn ask(&self, ask: Ask) -> Asked {
        let mut requests = 0;
        let mut failed: Vec<(&Link, ModelError)> = Vec::new();
        for (at, (link, provider)) in self.links.iter().enumerate() {
            match retried(&ask, at, link, &**provider, &mut requests).await {
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
    }
}

/// One profile, as often as its `retry` allows.
async fn retried(
    ask: &Ask,
    at: usize,
    link: &Link,
    provider: &dyn Provider,
    requests: &mut u64,
) -> Result<ModelReply, ModelError> {
    let retry = link.profile.retry.clone().unwrap_or_default();
    let mut attempt = 1;
    loop {
        *requests += 1;
        let request = request(ask, at, link, ask.requests_made + *requests);
        match once(link, provider, request).await {
            Err(error) if error.retryable && attempt < retry.max_attempts.get() => pause(&retry, attempt).await,
            end => return end,
        }
        attempt += 1;
    }
}

async fn pause(retry: &Retry, attempt: u32) {
    tokio::time::sleep(retry.pause_after(attempt)).await;
}

async fn once(link: &Link, provider: &dyn Provider, request: ModelRequest) -> Result<ModelReply, ModelError> {
    let Some(limit) = link.profile.timeout else {
        return provider.complete(request).await;
    };
    let timed = tokio::time::timeout(limit, provider.complete(request)).await;
    timed.unwrap_or_else(|_| {
        Err(ModelError {
            message: format!("no reply within {} s", limit.as_secs_f64()),
            retryable: true,
        })
    })
}

fn request(ask: &Ask, at: usize, link: &Link, number: u64) -> ModelRequest {
    let system = ask.systems.get(at).cloned().flatten().map(|content| Message {
        role: Role::System,
        content,
    });
    let prompt = ask.messages.iter().rev().find(|message| message.role == Role::User);
    ModelRequest {
        prompt: prompt
            .map(|message| message.content.as_str())
            .unwrap_or_default()
            .into(),
        messages: system.into_iter().chain(ask.messages.iter().cloned()).collect(),
        agent_name: Arc::clone(&ask.agent_name),
        request_number: number,
        execution: ask.execution,
        output_schema: ask.output_schema.clone(),
        profile: Arc::clone(&link.profile),
    }
}

#[cfg(test)]
mod tests;
