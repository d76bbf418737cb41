//! What is wrong with a test file as seen from its ensemble: names, and what cannot have an effect.
//!
//! Invariant: it is pure.

use std::sync::Arc;

use ensemble_language::cases::{Case, Gives, Stub, Stubs, TestFile, case_route, expect_route};
use ensemble_language::condition::Condition;
use ensemble_language::diagnostic::{Finding, did_you_mean, list_agents};
use ensemble_language::ensemble::{AgentKind, Ensemble};
use ensemble_language::loader::codes::{BAD_STUB, CONDITION_AGENT, EXPECTS_NOTHING, UNKNOWN_AGENT, UNKNOWN_INPUT};
use ensemble_language::source::{At, Route};

/// All findings about the cases.
pub fn check(file: &TestFile, ensemble: &Ensemble) -> Vec<Finding> {
    let mut names = Names {
        ensemble,
        findings: Vec::new(),
    };
    for (at, case) in file.cases.iter().enumerate() {
        names.case(&case_route(at), at, case);
    }
    names.findings
}

struct Names<'e> {
    ensemble: &'e Ensemble,
    findings: Vec<Finding>,
}

impl Names<'_> {
    fn case(&mut self, route: &Route, at: usize, case: &Case) {
        for (name, _) in &case.answers {
            self.agent(name, true, || route.key("answers").key(name.clone()).as_key());
        }
        for (name, stubs) in &case.stubs {
            let place = route.key("stubs").key(name.clone());
            if self.agent(name, true, || place.clone().as_key()) {
                let is_answered = case.answers.iter().any(|(answered, _)| answered == name);
                self.stubs(name, stubs, is_answered, &place);
            }
        }
        if let Some(inputs) = &self.ensemble.inputs {
            let known: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
            for name in case.inputs.keys().filter(|name| !known.contains(&name.as_str())) {
                let message = format!("the ensemble declares no input `{name}`");
                let place = route.key("inputs").key(name.as_str()).as_key();
                let finding = Finding::error(UNKNOWN_INPUT, place, message);
                self.findings.push(match did_you_mean(name, known.iter().copied()) {
                    Some(guess) => finding.help(format!("did you mean `{guess}`?")),
                    None => finding.help(format!("its inputs are {}", listed(known.iter().copied()))),
                });
            }
        }
        if case.expect.is_empty() && case.from.is_none() {
            let finding = Finding::warning(EXPECTS_NOTHING, route.key("name").value(), "this case expects nothing");
            let help = "add `expect`, for example `expect: {outcome: completed}`";
            self.findings.push(finding.help(help));
        }
        self.expected(at, case);
    }

    fn stubs(&mut self, name: &str, stubs: &Stubs, is_answered: bool, place: &Route) {
        let Some(agent) = self.ensemble.agent(name) else { return };
        if let AgentKind::Input(_) = agent.kind {
            self.stubs_of_person(name, stubs, is_answered, place);
        }
        let each: Vec<(Route, &Stub)> = match stubs {
            Stubs::Always(stub) => vec![(place.clone(), stub)],
            Stubs::Each(each) => each
                .iter()
                .enumerate()
                .map(|(at, stub)| (place.index(at), stub))
                .collect(),
        };
        for (place, stub) in each {
            if matches!(stub.gives, Gives::Parts(_)) && agent.for_each.is_none() {
                let message = format!("{name} has no `for_each`, so its executions have no parts");
                self.findings
                    .push(Finding::error(BAD_STUB, place.key("parts").as_key(), message));
            }
            let is_model = matches!(agent.kind, AgentKind::Llm(_) | AgentKind::Ensemble { .. });
            let used = [("tokens", stub.tokens > 0), ("cost", stub.cost.is_some())];
            for (key, _) in used.into_iter().filter(|(_, is_used)| *is_used && !is_model) {
                let message = format!("{name} is no model, and uses no {key}");
                let finding = Finding::error(BAD_STUB, place.key(key).as_key(), message);
                self.findings.push(finding.help("remove it"));
            }
        }
    }

    /// A person has answers; a stub stands for one who does not answer, and has all executions of the agent then.
    fn stubs_of_person(&mut self, name: &str, stubs: &Stubs, is_answered: bool, place: &Route) {
        let each = match stubs {
            Stubs::Always(stub) => std::slice::from_ref(stub),
            Stubs::Each(each) => each.as_slice(),
        };
        let fails = each.iter().any(|stub| matches!(stub.gives, Gives::Fail(_)));
        let (message, help) = match (fails, is_answered) {
            (true, false) => return,
            (true, true) => (
                format!("{name} has answers and a stub"),
                "write its answers into the stub, in a list by execution".to_owned(),
            ),
            (false, _) => (
                format!("{name} asks a person, and takes no stub that does not fail"),
                format!("write `answers: {{{name}: TEXT}}`"),
            ),
        };
        let finding = Finding::error(BAD_STUB, place.clone().as_key(), message);
        self.findings.push(finding.help(help));
    }

    fn expected(&mut self, at: usize, case: &Case) {
        let expect = &case.expect;
        let route = |key: &str| expect_route(at, key);
        for (turn, agents) in expect.turns.iter().flatten().enumerate() {
            for (position, name) in agents.iter().enumerate() {
                // A turn of one agent may be written without a list; then the route ends at the turn.
                self.agent(name, false, || route("turns").index(turn).index(position).value());
            }
        }
        let lists = [("order", &expect.order), ("never", &expect.never)];
        for (key, name, position) in lists.iter().flat_map(|(key, names)| {
            names
                .iter()
                .enumerate()
                .map(move |(position, name)| (*key, name, position))
        }) {
            self.agent(name, false, || route(key).index(position).value());
        }
        let by_name = [
            ("executions", names(&expect.executions)),
            ("outputs", names(&expect.outputs)),
            ("schemas", names(&expect.schemas)),
        ];
        for (key, name) in by_name
            .iter()
            .flat_map(|(key, names)| names.iter().map(move |name| (*key, name)))
        {
            self.agent(name, false, || route(key).key(name.clone()).as_key());
        }
        for (position, judge) in expect.judges.iter().enumerate() {
            if let Some(name) = &judge.agent {
                self.agent(name, false, || route("judge").index(position).key("agent").value());
            }
        }
        for (name, _) in &expect.not_run {
            self.agent(name, false, || not_run_place(at, name));
        }
        for (position, text) in expect.conditions.iter().enumerate() {
            self.condition(&route("conditions").index(position), text);
        }
    }

    /// The names of agents in a condition.
    fn condition(&mut self, route: &Route, text: &str) {
        let Ok(condition) = Condition::compile(text) else {
            return;
        };
        for (name, span) in condition.agents_read() {
            if self.ensemble.agent(&name).is_none() {
                let message = format!("there is no agent `{name}`");
                let finding = Finding::error(CONDITION_AGENT, route.clone().text(span), message);
                let advice = self.advice(&name);
                self.findings.push(finding.help(advice));
            }
        }
    }

    /// Returns whether there is such an agent; perhaps inside one that is an ensemble.
    fn agent(&mut self, name: &str, may_be_inside: bool, at: impl FnOnce() -> At) -> bool {
        let is_inside = || {
            name.match_indices('.').any(|(end, _)| {
                let outer = self.ensemble.agent(&name[..end]);
                outer.is_some_and(|agent| matches!(agent.kind, AgentKind::Ensemble { .. }))
                    || self.ensemble.tool(&name[..end]).is_some()
            })
        };
        if self.ensemble.agent(name).is_some() || (may_be_inside && is_inside()) {
            return true;
        }
        let message = format!("there is no agent `{name}` in {}", self.ensemble.name);
        let finding = Finding::error(UNKNOWN_AGENT, at(), message);
        let advice = self.advice(name);
        self.findings.push(finding.help(advice));
        false
    }

    fn advice(&self, name: &str) -> String {
        let names = || self.ensemble.agents.iter().map(|agent| &*agent.name);
        match did_you_mean(name, names()) {
            Some(guess) => format!("did you mean `{guess}`?"),
            None => list_agents(names()),
        }
    }
}

/// The place of an agent under `not_run`, which is a list or a map.
pub(crate) fn not_run_place(at: usize, name: &Arc<str>) -> At {
    // A route that does not exist is resolved to the last node that does.
    expect_route(at, "not_run").key(name.clone()).as_key()
}

fn names<T>(entries: &[(Arc<str>, T)]) -> Vec<Arc<str>> {
    entries.iter().map(|(name, _)| name.clone()).collect()
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
