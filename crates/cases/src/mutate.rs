//! `--mutate`: an ensemble with one small change, and which cases notice it. Nothing is written to a file.
//!
//! Invariant: a change is left out as unnoticeable only if exploration has shown that all conversations are the same
//! (`explore::same_conversations`).

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use ensemble_explore::{Budget, same_conversations};
use ensemble_language::condition::Condition;
use ensemble_language::ensemble::{Agent, Dependency, Ensemble};
use ensemble_language::loader::Document;
use ensemble_language::plan::Plan;
use ensemble_language::source::{At, Route, Step};

use crate::drive::Driver;
use crate::suite::Sound;

/// The number of pairs of states that are walked through to show that a change makes no difference.
const MAX_STATES: u64 = 2_000;
/// How much longer a conversation may take whose time limit is changed.
const LONGER: u32 = 1000;

/// A change of an ensemble.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// What is changed: `condition`, `limit`, `timeout`, `budget`, `attempts`, `dependency`.
    pub kind: &'static str,
    /// Its place in the ensemble.
    pub at: At,
    /// The agent to which it belongs, if it belongs to one.
    pub agent: Option<Arc<str>>,
    /// What stands there.
    pub from: String,
    /// What stands there instead.
    pub to: String,
    ensemble: Ensemble,
}

/// The outcome of a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// These cases fail with it.
    Noticed(Vec<Arc<str>>),
    /// No case fails with it.
    Survived,
    /// No case fails with it, and none can: all conversations are the same.
    Equivalent,
}

/// All changes, in the order of the agents, then those of the limits of the conversation. What is not written in the file
/// is not changed.
pub fn mutants(ensemble: &Ensemble, document: &Document) -> Vec<Mutant> {
    let mut mutants = Mutants {
        ensemble,
        document,
        all: Vec::new(),
    };
    for (at, agent) in ensemble.agents.iter().enumerate() {
        mutants.agent(at, agent);
    }
    mutants.limits();
    mutants.all
}

struct Mutants<'e> {
    ensemble: &'e Ensemble,
    document: &'e Document,
    all: Vec<Mutant>,
}

impl Mutants<'_> {
    fn add(
        &mut self,
        kind: &'static str,
        at: At,
        agent: Option<&Agent>,
        (from, to): (String, String),
        change: impl FnOnce(&mut Ensemble),
    ) {
        if self.document.get(&at.route).is_none() {
            return;
        }
        let mut ensemble = self.ensemble.clone();
        change(&mut ensemble);
        self.all.push(Mutant {
            kind,
            at,
            agent: agent.map(|agent| agent.name.clone()),
            from,
            to,
            ensemble,
        });
    }

    /// A limit that is one higher and one lower.
    fn limit(
        &mut self,
        route: &Route,
        agent: Option<&Agent>,
        limit: NonZeroU32,
        change: impl Fn(&mut Ensemble, NonZeroU32),
    ) {
        self.neighbours("limit", route, agent, limit.into(), |ensemble, other| {
            if let Ok(other) = NonZeroU32::try_from(other) {
                change(ensemble, other);
            }
        });
    }

    /// A number that is one higher and one lower.
    fn neighbours(
        &mut self,
        kind: &'static str,
        route: &Route,
        agent: Option<&Agent>,
        number: NonZeroU64,
        change: impl Fn(&mut Ensemble, NonZeroU64),
    ) {
        let others = [number.get().checked_sub(1), number.get().checked_add(1)];
        for other in others.into_iter().flatten().filter_map(NonZeroU64::new) {
            let told = (format!("{}: {number}", name_of(route)), other.to_string());
            self.add(kind, route.clone().value(), agent, told, |ensemble| {
                change(ensemble, other);
            });
        }
    }

    fn timeout(
        &mut self,
        route: &Route,
        agent: Option<&Agent>,
        limit: Option<Duration>,
        change: impl FnOnce(&mut Ensemble),
    ) {
        let Some(limit) = limit else { return };
        let told = (
            format!("{}: {}", name_of(route), limit.as_secs_f64()),
            "no limit".to_owned(),
        );
        self.add("timeout", route.clone().value(), agent, told, change);
    }

    fn agent(&mut self, at: usize, agent: &Agent) {
        let route = Agent::route(at);
        for (position, dependency) in agent.dependencies.iter().enumerate() {
            self.dependency(at, agent, position, dependency);
        }
        let needed = agent.dependencies.iter().filter(|dependency| !dependency.feedback);
        if needed.clone().count() > 1 {
            self.any_or_all(at, agent);
        }
        let turns = route.key("conversation").key("max_turns");
        self.limit(&turns, Some(agent), agent.conversation.max_turns, |ensemble, other| {
            ensemble.agents[at].conversation.max_turns = other;
        });
        self.timeout(&route.key("timeout_seconds"), Some(agent), agent.timeout, |ensemble| {
            ensemble.agents[at].timeout = None;
        });
        let attempts = route.key("retry").key("max_attempts");
        let most = agent.retry.max_attempts;
        self.neighbours("attempts", &attempts, Some(agent), most.into(), |ensemble, other| {
            if let Ok(other) = u32::try_from(other.get()).and_then(NonZeroU32::try_from) {
                ensemble.agents[at].retry.max_attempts = other;
            }
        });
    }

    fn dependency(&mut self, at: usize, agent: &Agent, position: usize, dependency: &Dependency) {
        let route = dependency.route(&Agent::route(at));
        let condition = dependency.condition.as_deref();
        let changed = condition.and_then(|text| Condition::mutants(text).ok());
        for mutant in changed.into_iter().flatten() {
            let place = route.key("condition").text(mutant.span);
            self.add("condition", place, Some(agent), (mutant.from, mutant.to), |ensemble| {
                ensemble.agents[at].dependencies[position].condition = Some(mutant.text.into());
            });
        }
        if let Some(most) = dependency.max_executions {
            let route = route.key("max_executions");
            self.limit(&route, Some(agent), most, |ensemble, other| {
                ensemble.agents[at].dependencies[position].max_executions = Some(other);
            });
        }
        let told = (format!("dependency on {}", dependency.agent_name), "none".to_owned());
        self.add("dependency", route.value(), Some(agent), told, |ensemble| {
            ensemble.agents[at].dependencies.remove(position);
        });
    }

    /// Adds the mutant that swaps "one of the dependencies" and "all of them".
    fn any_or_all(&mut self, at: usize, agent: &Agent) {
        let is_all = agent.dependencies.iter().all(|dependency| dependency.requires_all);
        let told = match is_all {
            true => ("all dependencies", "any of them"),
            false => ("any of the dependencies", "all"),
        };
        let first = agent.dependencies.iter().find(|dependency| !dependency.feedback);
        let Some(first) = first else { return };
        let mut route = first.route(&Agent::route(at));
        route.0.pop();
        let told = (told.0.to_owned(), told.1.to_owned());
        self.add("dependency", route.as_key(), Some(agent), told, |ensemble| {
            for dependency in &mut ensemble.agents[at].dependencies {
                dependency.requires_all = !is_all;
            }
        });
    }

    fn limits(&mut self) {
        let limits = &self.ensemble.limits;
        let route = Route::root().key("conversation_limits");
        let turns = route.key("max_total_turns");
        self.limit(&turns, None, limits.max_total_turns, |ensemble, other| {
            ensemble.limits.max_total_turns = other;
        });
        for (at, (name, most)) in limits.max_agent_executions.iter().enumerate() {
            let route = route.key("max_agent_executions").key(name.clone());
            self.limit(&route, None, *most, |ensemble, other| {
                ensemble.limits.max_agent_executions[at].1 = other;
            });
        }
        if let Some(tokens) = limits.max_total_tokens.and_then(NonZeroU64::new) {
            let route = route.key("max_total_tokens");
            self.neighbours("budget", &route, None, tokens, |ensemble, other| {
                ensemble.limits.max_total_tokens = Some(other.get());
            });
        }
        if let Some(cost) = limits.max_cost {
            let route = route.key("max_cost");
            let told = (format!("max_cost: {cost}"), "no limit".to_owned());
            self.add("budget", route.value(), None, told, |ensemble| {
                ensemble.limits.max_cost = None;
            });
        }
        let whole = Some(limits.timeout);
        self.timeout(&route.key("timeout_seconds"), None, whole, |ensemble| {
            ensemble.limits.timeout = ensemble.limits.timeout.saturating_mul(LONGER);
        });
        self.timeout(
            &route.key("turn_timeout_seconds"),
            None,
            limits.turn_timeout,
            |ensemble| {
                ensemble.limits.turn_timeout = None;
            },
        );
    }
}

/// The last key of a route.
fn name_of(route: &Route) -> String {
    match route.0.last() {
        Some(Step::Key(key)) => key.to_string(),
        _ => String::new(),
    }
}

impl Mutant {
    /// The ensemble with the change.
    pub fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// Holds these cases with the change. `None`: there was no time for all that is needed to know.
    pub fn fate(
        &self,
        driver: &Driver,
        sound: Sound<'_>,
        cases: &[usize],
        has_time: &dyn Fn() -> bool,
    ) -> Option<Fate> {
        let Ok(plan) = Plan::build(Arc::new(self.ensemble.clone())) else {
            return Some(Fate::Equivalent);
        };
        let plan = Arc::new(plan);
        let changed = Arc::new(sound.ensemble.with_plan(plan.clone()));
        let changed = Sound {
            ensemble: &changed,
            ..sound
        };
        let mut noticed = Vec::new();
        for at in cases {
            if !has_time() {
                return None;
            }
            if !driver.run(changed, *at).failures.is_empty() {
                noticed.push(sound.file.cases[*at].name.clone());
            }
        }
        if !noticed.is_empty() {
            return Some(Fate::Noticed(noticed));
        }
        if matches!(self.kind, "timeout" | "budget" | "attempts") {
            // Exploration knows no time, no numbers of tokens and no attempts.
            return Some(Fate::Survived);
        }
        let budget = Budget::of_states(MAX_STATES);
        match same_conversations(&sound.ensemble.plan, &plan, budget, has_time) {
            Some(true) => Some(Fate::Equivalent),
            _ => Some(Fate::Survived),
        }
    }
}
