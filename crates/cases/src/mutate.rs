//! `--mutate`: an ensemble with one small change, and which cases notice it. Nothing is written to a file.
//!
//! Invariant: a change is left out as unnoticeable only if exploration has shown that all conversations are the same
//! (`explore::have_same_conversations`).

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use ensemble_explore::{ExplorationBudget, have_same_conversations};
use ensemble_language::condition::Condition;
use ensemble_language::ensemble::{Agent, BudgetScope, Dependency, Ensemble, ToolDefinition};
use ensemble_language::loader::YamlDocument;
use ensemble_language::plan::Plan;
use ensemble_language::source::{Route, RouteLocation, RouteStep};

use crate::drive::CaseDriver;
use crate::suite::CheckedSuite;

/// Largest number of pairs of states that are compared to show that a mutant is equivalent.
const MAX_COMPARED_STATES: u64 = 2_000;
/// Factor for the time limit of a mutant that lets a conversation take longer.
const TIMEOUT_FACTOR: u32 = 1000;

/// Ensemble with one small change.
#[derive(Debug, Clone)]
pub struct EnsembleMutant {
    /// What is changed: `condition`, `limit`, `timeout`, `budget`, `attempts`, `dependency`, `summary`.
    pub kind: &'static str,
    /// Its place in the ensemble.
    pub at: RouteLocation,
    /// The agent to which it belongs, if it belongs to one.
    pub agent: Option<Arc<str>>,
    /// What stands there.
    pub from: String,
    /// What stands there instead.
    pub to: String,
    ensemble: Ensemble,
}

/// Outcome of a mutant: killed by cases, survived, or equivalent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantOutcome {
    /// These cases fail with it.
    Killed(Vec<Arc<str>>),
    /// No case fails with it.
    Survived,
    /// No case fails with it, and none can: all conversations are the same.
    Equivalent,
}

/// Returns all changes, in the order of the agents, then those of the tools and of the limits of the conversation. What is
/// not written in the file is not changed.
pub fn generate_mutants(ensemble: &Ensemble, document: &YamlDocument) -> Vec<EnsembleMutant> {
    let mut mutants = MutantGenerator {
        ensemble,
        document,
        all: Vec::new(),
    };
    for (at, agent) in ensemble.agents.iter().enumerate() {
        mutants.add_agent_mutants(at, agent);
    }
    mutants.mutate_tool_summaries();
    mutants.add_conversation_limit_mutants();
    mutants.mutate_budget();
    mutants.all
}

/// Generator of the mutants of an ensemble.
struct MutantGenerator<'e> {
    ensemble: &'e Ensemble,
    document: &'e YamlDocument,
    all: Vec<EnsembleMutant>,
}

impl MutantGenerator<'_> {
    /// Adds a mutant with this change, unless the file does not contain the changed route.
    fn add_mutant_if_written(
        &mut self,
        kind: &'static str,
        at: RouteLocation,
        agent: Option<&Agent>,
        (from, to): (String, String),
        change: impl FnOnce(&mut Ensemble),
    ) {
        if self.document.find_node(&at.route).is_none() {
            return;
        }
        let mut ensemble = self.ensemble.clone();
        change(&mut ensemble);
        self.all.push(EnsembleMutant {
            kind,
            at,
            agent: agent.map(|agent| agent.name.clone()),
            from,
            to,
            ensemble,
        });
    }

    /// Adds mutants with a limit that is one higher and one lower.
    fn add_limit_mutants(
        &mut self,
        route: &Route,
        agent: Option<&Agent>,
        limit: NonZeroU32,
        change: impl Fn(&mut Ensemble, NonZeroU32),
    ) {
        self.add_number_mutants("limit", route, agent, limit.into(), |ensemble, other| {
            if let Ok(new_limit) = NonZeroU32::try_from(other) {
                change(ensemble, new_limit);
            }
        });
    }

    /// Adds mutants with a number that is one higher and one lower.
    fn add_number_mutants(
        &mut self,
        kind: &'static str,
        route: &Route,
        agent: Option<&Agent>,
        number: NonZeroU64,
        change: impl Fn(&mut Ensemble, NonZeroU64),
    ) {
        let new_numbers = [number.get().checked_sub(1), number.get().checked_add(1)];
        for new_number in new_numbers.into_iter().flatten().filter_map(NonZeroU64::new) {
            let change_texts = (format!("{}: {number}", last_route_key(route)), new_number.to_string());
            self.add_mutant_if_written(
                kind,
                route.clone().into_value_location(),
                agent,
                change_texts,
                |ensemble| {
                    change(ensemble, new_number);
                },
            );
        }
    }

    /// Adds a mutant without this time limit.
    fn add_timeout_mutant(
        &mut self,
        route: &Route,
        agent: Option<&Agent>,
        limit: Option<Duration>,
        change: impl FnOnce(&mut Ensemble),
    ) {
        let Some(limit) = limit else { return };
        let change_texts = (
            format!("{}: {}", last_route_key(route), limit.as_secs_f64()),
            "no limit".to_owned(),
        );
        self.add_mutant_if_written(
            "timeout",
            route.clone().into_value_location(),
            agent,
            change_texts,
            change,
        );
    }

    /// Adds the mutants of an agent: its dependencies, `max_turns`, time limit and attempts.
    fn add_agent_mutants(&mut self, at: usize, agent: &Agent) {
        let route = Agent::route_at(at);
        for (position, dependency) in agent.dependencies.iter().enumerate() {
            self.add_dependency_mutants(at, agent, position, dependency);
        }
        let needed = agent.dependencies.iter().filter(|dependency| !dependency.feedback);
        if needed.clone().count() > 1 {
            self.add_requirement_mutant(at, agent);
        }
        let turns = route.with_key("conversation").with_key("max_turns");
        self.add_limit_mutants(&turns, Some(agent), agent.conversation.max_turns, |ensemble, other| {
            ensemble.agents[at].conversation.max_turns = other;
        });
        self.add_timeout_mutant(
            &route.with_key("timeout_seconds"),
            Some(agent),
            agent.timeout,
            |ensemble| {
                ensemble.agents[at].timeout = None;
            },
        );
        let attempts = route.with_key("retry").with_key("max_attempts");
        let max_attempts = agent.retry.max_attempts;
        self.add_number_mutants(
            "attempts",
            &attempts,
            Some(agent),
            max_attempts.into(),
            |ensemble, other| {
                if let Ok(new_limit) = u32::try_from(other.get()).and_then(NonZeroU32::try_from) {
                    ensemble.agents[at].retry.max_attempts = new_limit;
                }
            },
        );
    }

    /// Adds the mutants of a dependency: changed conditions, a changed `max_executions`, and the ensemble without the dependency.
    fn add_dependency_mutants(&mut self, at: usize, agent: &Agent, position: usize, dependency: &Dependency) {
        let route = dependency.route_in(&Agent::route_at(at));
        let condition = dependency.condition.as_deref();
        let changed = condition.and_then(|text| Condition::list_mutants(text).ok());
        for mutant in changed.into_iter().flatten() {
            let place = route.with_key("condition").into_text_location(mutant.span);
            self.add_mutant_if_written("condition", place, Some(agent), (mutant.from, mutant.to), |ensemble| {
                ensemble.agents[at].dependencies[position].condition = Some(mutant.text.into());
            });
        }
        if let Some(limit) = dependency.max_executions {
            let route = route.with_key("max_executions");
            self.add_limit_mutants(&route, Some(agent), limit, |ensemble, other| {
                ensemble.agents[at].dependencies[position].max_executions = Some(other);
            });
        }
        let change_texts = (format!("dependency on {}", dependency.agent_name), "none".to_owned());
        self.add_mutant_if_written(
            "dependency",
            route.into_value_location(),
            Some(agent),
            change_texts,
            |ensemble| {
                ensemble.agents[at].dependencies.remove(position);
            },
        );
    }

    /// Adds the mutant that requires any dependency instead of all, or all instead of any.
    fn add_requirement_mutant(&mut self, at: usize, agent: &Agent) {
        let is_all = agent.dependencies.iter().all(|dependency| dependency.requires_all);
        let change_texts = match is_all {
            true => ("all dependencies", "any dependency"),
            false => ("any dependency", "all dependencies"),
        };
        let first = agent.dependencies.iter().find(|dependency| !dependency.feedback);
        let Some(first) = first else { return };
        let mut route = first.route_in(&Agent::route_at(at));
        route.0.pop();
        let change_texts = (change_texts.0.to_owned(), change_texts.1.to_owned());
        self.add_mutant_if_written(
            "dependency",
            route.into_key_location(),
            Some(agent),
            change_texts,
            |ensemble| {
                for dependency in &mut ensemble.agents[at].dependencies {
                    dependency.requires_all = !is_all;
                }
            },
        );
    }

    /// Adds the mutants of the limits of the conversation.
    fn add_conversation_limit_mutants(&mut self) {
        let limits = &self.ensemble.limits;
        let route = Route::root().with_key("conversation_limits");
        let turns = route.with_key("max_total_turns");
        self.add_limit_mutants(&turns, None, limits.max_total_turns, |ensemble, other| {
            ensemble.limits.max_total_turns = other;
        });
        for (at, (name, most)) in limits.max_agent_executions.iter().enumerate() {
            let route = route.with_key("max_agent_executions").with_key(name.clone());
            self.add_limit_mutants(&route, None, *most, |ensemble, other| {
                ensemble.limits.max_agent_executions[at].1 = other;
            });
        }
        let timeout = Some(limits.timeout);
        self.add_timeout_mutant(&route.with_key("timeout_seconds"), None, timeout, |ensemble| {
            ensemble.limits.timeout = ensemble.limits.timeout.saturating_mul(TIMEOUT_FACTOR);
        });
        self.add_timeout_mutant(
            &route.with_key("turn_timeout_seconds"),
            None,
            limits.turn_timeout,
            |ensemble| {
                ensemble.limits.turn_timeout = None;
            },
        );
    }

    /// Adds the mutants of the budget: other limits, and other messages that share it.
    fn mutate_budget(&mut self) {
        let limits = &self.ensemble.limits;
        let route = Route::root().with_key("conversation_limits");
        if let Some(tokens) = limits.max_total_tokens.and_then(NonZeroU64::new) {
            let route = route.with_key("max_total_tokens");
            self.add_number_mutants("budget", &route, None, tokens, |ensemble, other| {
                ensemble.limits.max_total_tokens = Some(other.get());
            });
        }
        if let Some(cost) = limits.max_cost {
            let route = route.with_key("max_cost");
            let change_texts = (format!("max_cost: {cost}"), "no limit".to_owned());
            self.add_mutant_if_written("budget", route.into_value_location(), None, change_texts, |ensemble| {
                ensemble.limits.max_cost = None;
            });
        }
        let other_scope = match limits.budget_scope() {
            BudgetScope::Conversation => BudgetScope::Message,
            BudgetScope::Message => BudgetScope::Conversation,
        };
        let change_texts = (
            format!("budget: {}", limits.budget_scope().as_str()),
            other_scope.as_str().to_owned(),
        );
        let route = route.with_key("budget");
        self.add_mutant_if_written("budget", route.into_value_location(), None, change_texts, |ensemble| {
            ensemble.limits.budget = Some(other_scope);
        });
    }

    /// Adds the mutants that summarize no result of a tool.
    fn mutate_tool_summaries(&mut self) {
        for (at, (name, tool)) in self.ensemble.tools.iter().enumerate() {
            let Some(above) = tool.summarize_above else { continue };
            let route = ToolDefinition::route_for(name).with_key("summarize_above");
            let change_texts = (format!("summarize_above: {above}"), "no summary".to_owned());
            self.add_mutant_if_written("summary", route.into_value_location(), None, change_texts, |ensemble| {
                ensemble.tools[at].1.summarize_above = None;
            });
        }
    }
}

/// Returns the last key of the route. Returns an empty text if the route ends with an index.
fn last_route_key(route: &Route) -> String {
    match route.0.last() {
        Some(RouteStep::Key(key)) => key.to_string(),
        _ => String::new(),
    }
}

impl EnsembleMutant {
    /// Returns the changed ensemble.
    pub fn mutated_ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    /// Runs these cases with the mutant. Returns `None` if the time does not suffice.
    pub fn run_cases_on_mutant(
        &self,
        driver: &CaseDriver,
        sound: CheckedSuite<'_>,
        cases: &[usize],
        has_time: &dyn Fn() -> bool,
    ) -> Option<MutantOutcome> {
        let Ok(plan) = Plan::build(Arc::new(self.ensemble.clone())) else {
            return Some(MutantOutcome::Equivalent);
        };
        let plan = Arc::new(plan);
        let changed = Arc::new(sound.ensemble.with_plan(plan.clone()));
        let changed = CheckedSuite {
            ensemble: &changed,
            ..sound
        };
        let mut noticed = Vec::new();
        for at in cases {
            if !has_time() {
                return None;
            }
            let case = &sound.file.cases[*at];
            // A live case costs time and money, and one case that notices the change is enough.
            if case.live && !noticed.is_empty() {
                continue;
            }
            if !driver.run_and_judge_case(changed, *at).failures.is_empty() {
                noticed.push(case.name.clone());
            }
        }
        if !noticed.is_empty() {
            return Some(MutantOutcome::Killed(noticed));
        }
        if matches!(self.kind, "timeout" | "budget" | "attempts" | "summary") {
            // Exploration knows no time, no numbers of tokens, no attempts and no results of tools.
            return Some(MutantOutcome::Survived);
        }
        let budget = ExplorationBudget::with_max_states(MAX_COMPARED_STATES);
        match have_same_conversations(&sound.ensemble.plan, &plan, budget, has_time) {
            Some(true) => Some(MutantOutcome::Equivalent),
            _ => Some(MutantOutcome::Survived),
        }
    }
}
