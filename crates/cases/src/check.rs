//! What is wrong with a test file as seen from its ensemble: names, and what cannot have an effect.
//!
//! Invariant: it is pure.

use std::sync::Arc;

use ensemble_core::request::RequestAddress;
use ensemble_language::cases::{
    AgentStubs, StubOutput, StubReply, StubResult, TestCase, TestFile, case_route, expect_route,
};
use ensemble_language::condition::Condition;
use ensemble_language::diagnostic::{Finding, find_similar_word, render_agents_sentence};
use ensemble_language::ensemble::{Agent, AgentKind, Ensemble, ToolKind, ToolReference};
use ensemble_language::loader::codes::{
    BAD_STUB, CONDITION_AGENT, EXPECTS_NOTHING, UNKNOWN_AGENT, UNKNOWN_INPUT, UNKNOWN_TOOL,
};
use ensemble_language::source::{Route, RouteLocation};
use ensemble_runs::is_possible_permission_name;

/// Checks all cases of a test file against the ensemble. Returns the findings.
pub fn check_test_cases(file: &TestFile, ensemble: &Ensemble) -> Vec<Finding> {
    let mut names = TestCaseChecker {
        ensemble,
        findings: Vec::new(),
    };
    for (at, case) in file.cases.iter().enumerate() {
        names.check_case(&case_route(at), at, case);
    }
    names.findings
}

/// Checker of the cases of a test file, with the findings so far.
struct TestCaseChecker<'e> {
    ensemble: &'e Ensemble,
    findings: Vec<Finding>,
}

impl TestCaseChecker<'_> {
    /// Checks the names, stubs, answers and expectations of one case.
    fn check_case(&mut self, route: &Route, at: usize, case: &TestCase) {
        for (name, _) in &case.answers {
            let place = route.with_key("answers").with_key(name.clone());
            if !self.can_name_question(name) {
                self.check_agent_exists(name, true, || place.into_key_location());
            }
        }
        for (name, stubs) in &case.stubs {
            let place = route.with_key("stubs").with_key(name.clone());
            if self.names_script_tool(name) || self.check_if_server_tool(name, &place) {
                continue;
            }
            if name
                .parse()
                .is_ok_and(|address: RequestAddress| address.has_part_keys())
                && self.can_name_question(name)
            {
                continue;
            }
            if self.check_agent_exists(name, true, || place.clone().into_key_location()) {
                let is_answered = case.answers.iter().any(|(answered, _)| answered == name);
                self.check_agent_stubs(name, stubs, is_answered, &place);
            }
        }
        for (name, _) in &case.responders {
            let place = route.with_key("respond").with_key(name.clone());
            if self.check_agent_exists(name, true, || place.clone().into_key_location()) {
                self.check_responder_agent(name, &place);
            }
        }
        for (name, _) in &case.permissions {
            self.check_permission_name(name, &route.with_key("permissions").with_key(name.clone()));
        }
        // Unknown inputs are a reason for a refusal.
        let inputs = self.ensemble.inputs.as_ref();
        if let Some(inputs) = inputs.filter(|_| !case.expect.expects_refusal()) {
            let input_names: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
            for name in case.inputs.keys().filter(|name| !input_names.contains(&name.as_str())) {
                let message = format!("the ensemble declares no input `{name}`");
                let place = route.with_key("inputs").with_key(name.as_str()).into_key_location();
                let finding = Finding::new_error(UNKNOWN_INPUT, place, message);
                self.findings
                    .push(match find_similar_word(name, input_names.iter().copied()) {
                        Some(guess) => finding.with_help(format!("did you mean `{guess}`?")),
                        None => finding.with_help(format!(
                            "use one of the declared inputs: {}",
                            quote_names(input_names.iter().copied())
                        )),
                    });
            }
        }
        if case.expect.is_empty() && case.from.is_none() {
            let finding = Finding::new_warning(
                EXPECTS_NOTHING,
                route.with_key("name").into_value_location(),
                "this case expects nothing",
            );
            let help = "add `expect`, for example `expect: {outcome: completed}`";
            self.findings.push(finding.with_help(help));
        }
        self.check_expected_names(at, case);
    }

    /// Returns whether the name can mean a question of the ensemble, of a part, of a call, or of a nested ensemble.
    /// A bare name of an agent in a nested ensemble is checked when the run is prepared.
    fn can_name_question(&self, name: &str) -> bool {
        let Ok(address) = name.parse::<RequestAddress>() else {
            return false;
        };
        let [first, inner @ ..] = address.segments() else {
            return false;
        };
        let agent = self.ensemble.find_agent(&first.agent);
        let has_part = |agent: &Agent| first.part.is_none() || agent.for_each.is_some();
        let has_calls = first
            .calls
            .iter()
            .all(|call| self.ensemble.find_tool(&call.tool).is_some());
        if inner.is_empty() {
            let is_bare = first.part.is_none() && first.calls.is_empty();
            let is_own = agent.is_some_and(|agent| matches!(agent.kind, AgentKind::Input(_)) && has_part(agent));
            return first.calls.is_empty() && (is_own || (is_bare && agent.is_none() && self.has_nested_ensembles()));
        }
        let is_ensemble = |agent: &Agent| matches!(agent.kind, AgentKind::Ensemble { .. });
        match agent {
            Some(agent) if first.calls.is_empty() => is_ensemble(agent) && has_part(agent),
            Some(agent) => has_calls && has_part(agent),
            None => first.part.is_none() && first.calls.is_empty() && self.ensemble.find_tool(&first.agent).is_some(),
        }
    }

    /// Returns whether an agent or a tool is a nested ensemble.
    fn has_nested_ensembles(&self) -> bool {
        let mut agents = self.ensemble.agents.iter();
        let mut tools = self.ensemble.tools.iter();
        agents.any(|agent| matches!(agent.kind, AgentKind::Ensemble { .. }))
            || tools.any(|(_, tool)| matches!(tool.kind, ToolKind::Ensemble { .. }))
    }

    /// Returns whether the name is that of a script tool, whose stub is the result of each call.
    fn names_script_tool(&self, name: &str) -> bool {
        let tool = self.ensemble.find_tool(name);
        self.ensemble.find_agent(name).is_none()
            && tool.is_some_and(|tool| matches!(tool.kind, ToolKind::Script { .. }))
    }

    /// Returns whether the name is that of a tool of an MCP server (`shop.pay`). Reports an error if no agent can call the tool.
    fn check_if_server_tool(&mut self, name: &str, place: &Route) -> bool {
        let Some((server, member)) = name.split_once('.') else {
            return false;
        };
        let tool = self.ensemble.find_tool(server);
        if self.ensemble.find_agent(server).is_some() || !tool.is_some_and(|tool| matches!(tool.kind, ToolKind::Mcp(_)))
        {
            return false;
        }
        let agents = self.ensemble.agents.iter();
        let uses: Vec<&ToolReference> = agents
            .flat_map(|agent| agent.kind.callable_tools())
            .filter(|used| *used.tool == *server)
            .collect();
        let can_call = |used: &&ToolReference| used.member.as_ref().is_none_or(|one| **one == *member);
        if !uses.iter().any(can_call) {
            let message = format!("no agent can call the tool `{name}`");
            let names = || uses.iter().filter_map(|used| used.member.as_deref());
            let help = match find_similar_word(member, names()) {
                Some(guess) => format!("did you mean `{server}.{guess}`?"),
                None => format!("add `{name}` to the `tools` of an agent, or remove the stub"),
            };
            let finding = Finding::new_error(BAD_STUB, place.clone().into_key_location(), message);
            self.findings.push(finding.with_help(help));
        }
        true
    }

    /// Reports a decision about a tool that does not exist.
    fn check_permission_name(&mut self, name: &str, place: &Route) {
        if is_possible_permission_name(name, self.ensemble) {
            return;
        }
        let message = format!("there is no tool `{name}`");
        let finding = Finding::new_error(UNKNOWN_TOOL, place.clone().into_key_location(), message);
        let names = || self.ensemble.tools.iter().map(|(name, _)| &**name);
        let help = match (find_similar_word(name, names()), names().next()) {
            (Some(guess), _) => format!("did you mean `{guess}`?"),
            (None, Some(_)) => format!("use one of the tools: {}", quote_names(names())),
            (None, None) => "remove it; the ensemble has no tools".to_owned(),
        };
        self.findings.push(finding.with_help(help));
    }

    /// Checks the stubs of the agent with this name: parts, replies, and stubs that are answered as well.
    fn check_agent_stubs(&mut self, name: &str, stubs: &AgentStubs, is_answered: bool, place: &Route) {
        let Some(agent) = self.ensemble.find_agent(name) else {
            return;
        };
        if let AgentKind::Input(_) = agent.kind {
            self.check_answers_beside_stub(name, is_answered, place);
        }
        let each: Vec<(Route, &StubResult)> = match stubs {
            AgentStubs::Always(stub) => vec![(place.clone(), stub)],
            AgentStubs::Each(each) => each
                .iter()
                .enumerate()
                .map(|(at, stub)| (place.with_index(at), stub))
                .collect(),
        };
        for (place, stub) in each {
            self.check_stub_replies(agent, stub, &place);
            if matches!(stub.output, StubOutput::Parts(_)) && agent.for_each.is_none() {
                let message = format!("{name} has no `for_each`, so its executions have no parts");
                self.findings.push(Finding::new_error(
                    BAD_STUB,
                    place.with_key("parts").into_key_location(),
                    message,
                ));
            }
            let is_model = matches!(agent.kind, AgentKind::Llm(_) | AgentKind::Ensemble { .. });
            let used = [("tokens", stub.tokens > 0), ("cost", stub.cost.is_some())];
            for (key, _) in used.into_iter().filter(|(_, is_used)| *is_used && !is_model) {
                let message = format!("{name} calls no model, so its stub cannot have `{key}`");
                let finding = Finding::new_error(BAD_STUB, place.with_key(key).into_key_location(), message);
                self.findings.push(finding.with_help("remove it"));
            }
        }
    }

    /// Reports an input agent that has both answers and a stub.
    fn check_answers_beside_stub(&mut self, name: &str, is_answered: bool, place: &Route) {
        if is_answered {
            let message = format!("{name} has both `answers` and a stub");
            let finding = Finding::new_error(BAD_STUB, place.clone().into_key_location(), message);
            let help = "write the answers into the stub, as a list with one entry per execution";
            self.findings.push(finding.with_help(help));
        }
    }

    /// Reports replies of an agent without a model, and results of tools that cannot have results.
    fn check_stub_replies(&mut self, agent: &Agent, stub: &StubResult, place: &Route) {
        if let StubOutput::Parts(parts) = &stub.output {
            for (key, stub) in parts {
                let place = place.with_key("parts").with_key(key.clone());
                if matches!(stub.output, StubOutput::Replies(_)) {
                    let message = "a part cannot have `replies`".to_owned();
                    self.report_bad_stub(&place, message, "write `replies` as the stub of the agent");
                }
            }
        }
        let StubOutput::Replies(replies) = &stub.output else {
            return;
        };
        let AgentKind::Llm(llm) = &agent.kind else {
            let message = format!("{} calls no model, so its stub cannot have `replies`", agent.name);
            return self.report_bad_stub(place, message, "write `text` or `json`");
        };
        if llm.acp_agent().is_some() {
            let message = format!("{} is an external agent, so its stub cannot have `replies`", agent.name);
            return self.report_bad_stub(place, message, "write `text` or `json`");
        }
        for (at, reply) in replies.iter().enumerate() {
            let StubReply::Calls { calls, .. } = reply else {
                continue;
            };
            let place = place.with_key("replies").with_index(at);
            for call in calls.iter().filter(|call| call.result.is_some()) {
                let tool = self.ensemble.find_tool(&call.tool);
                if tool.is_some_and(|tool| !matches!(tool.kind, ToolKind::Script { .. })) {
                    let message = format!(
                        "`{}` is not a script tool, so the call cannot have a `result`",
                        call.tool
                    );
                    self.report_bad_stub(
                        &place,
                        message,
                        "add a stub for the agent or the ensemble behind the tool",
                    );
                }
            }
        }
    }

    /// Adds an error about a stub.
    fn report_bad_stub(&mut self, place: &Route, message: String, help: &str) {
        let finding = Finding::new_error(BAD_STUB, place.clone().into_value_location(), message);
        self.findings.push(finding.with_help(help));
    }

    /// Reports a model profile as responder for an agent that is neither an input agent nor a script agent.
    fn check_responder_agent(&mut self, name: &str, place: &Route) {
        let kind = self.ensemble.find_agent(name).map(|agent| &agent.kind);
        if kind.is_some_and(|kind| !matches!(kind, AgentKind::Input(_) | AgentKind::Script { .. })) {
            let message = format!("{name} is neither an input agent nor a script agent, so no model can answer for it");
            let finding = Finding::new_error(BAD_STUB, place.clone().into_key_location(), message);
            self.findings.push(finding.with_help("write a stub for the agent"));
        }
    }

    /// Checks the agent names in the expectations of a case.
    fn check_expected_names(&mut self, at: usize, case: &TestCase) {
        let expect = &case.expect;
        let route = |key: &str| expect_route(at, key);
        for (turn, agents) in expect.turns.iter().flatten().enumerate() {
            for (position, name) in agents.iter().enumerate() {
                // A turn of one agent may be written without a list; then the route ends at the turn.
                self.check_agent_exists(name, false, || {
                    route("turns")
                        .with_index(turn)
                        .with_index(position)
                        .into_value_location()
                });
            }
        }
        let exhausted = expect.exhausted.clone().unwrap_or_default();
        let lists = [
            ("order", &expect.order),
            ("never", &expect.never),
            ("exhausted", &exhausted),
        ];
        for (key, name, position) in lists.iter().flat_map(|(key, names)| {
            names
                .iter()
                .enumerate()
                .map(move |(position, name)| (*key, name, position))
        }) {
            self.check_agent_exists(name, false, || route(key).with_index(position).into_value_location());
        }
        let by_name = [
            ("executions", list_names(&expect.executions)),
            ("outputs", list_names(&expect.outputs)),
            ("schemas", list_names(&expect.schemas)),
        ];
        for (key, name) in by_name
            .iter()
            .flat_map(|(key, names)| names.iter().map(move |name| (*key, name)))
        {
            self.check_agent_exists(name, false, || route(key).with_key(name.clone()).into_key_location());
        }
        for (position, group) in expect.same_turn.iter().enumerate() {
            for (at_member, name) in group.iter().enumerate() {
                self.check_agent_exists(name, false, || {
                    route("same_turn")
                        .with_index(position)
                        .with_index(at_member)
                        .into_value_location()
                });
            }
        }
        let by_path = [
            ("at_once", list_names(&expect.at_once)),
            ("asked", list_names(&expect.asked)),
        ];
        for (key, name) in by_path
            .iter()
            .flat_map(|(key, names)| names.iter().map(move |name| (*key, name)))
        {
            let place = || route(key).with_key(name.clone()).into_key_location();
            if self.check_agent_exists(name, true, place) && key == "asked" {
                self.check_prompted_agent(case, name, place);
            }
        }
        for (position, judge) in expect.judges.iter().enumerate() {
            if let Some(name) = &judge.agent {
                self.check_agent_exists(name, false, || {
                    route("judge")
                        .with_index(position)
                        .with_key("agent")
                        .into_value_location()
                });
            }
        }
        for (name, _) in &expect.not_run {
            self.check_agent_exists(name, false, || locate_not_run_agent(at, name));
        }
        for (position, text) in expect.conditions.iter().enumerate() {
            self.check_condition_agents(&route("conditions").with_index(position), text);
        }
    }

    /// Reports expected prompts of an agent that asks neither a model nor a person.
    fn check_prompted_agent(&mut self, case: &TestCase, name: &str, place: impl FnOnce() -> RouteLocation) {
        let asks = |agent: &Agent| match agent.kind {
            AgentKind::Llm(_) | AgentKind::Input(_) => true,
            AgentKind::Script { .. } => case.responders.iter().any(|(agent, _)| **agent == *name),
            AgentKind::Ensemble { .. } | AgentKind::Tool { .. } => false,
        };
        if self.ensemble.find_agent(name).is_some_and(|agent| !asks(agent)) {
            let message = format!("{name} asks neither a model nor a person, so it has no prompt");
            let finding = Finding::new_error(BAD_STUB, place(), message);
            self.findings.push(finding.with_help("remove it"));
        }
    }

    /// Reports unknown agents in an expected condition.
    fn check_condition_agents(&mut self, route: &Route, text: &str) {
        let Ok(condition) = Condition::compile(text) else {
            return;
        };
        for (name, span) in condition.list_named_agents() {
            if self.ensemble.find_agent(&name).is_none() {
                let message = format!("there is no agent `{name}`");
                let finding = Finding::new_error(CONDITION_AGENT, route.clone().into_text_location(span), message);
                let advice = self.suggest_agent_name(&name);
                self.findings.push(finding.with_help(advice));
            }
        }
    }

    /// Returns whether the agent exists, or can exist in a nested ensemble. Reports an error otherwise.
    fn check_agent_exists(&mut self, name: &str, may_be_inside: bool, at: impl FnOnce() -> RouteLocation) -> bool {
        let is_inside = || {
            name.match_indices('.').any(|(end, _)| {
                let outer = self.ensemble.find_agent(&name[..end]);
                outer.is_some_and(|agent| matches!(agent.kind, AgentKind::Ensemble { .. }))
                    || self.ensemble.find_tool(&name[..end]).is_some()
            })
        };
        if self.ensemble.find_agent(name).is_some() || (may_be_inside && is_inside()) {
            return true;
        }
        let message = format!("there is no agent `{name}` in {}", self.ensemble.name);
        let finding = Finding::new_error(UNKNOWN_AGENT, at(), message);
        let advice = self.suggest_agent_name(name);
        self.findings.push(finding.with_help(advice));
        false
    }

    /// Returns advice about an unknown agent: a similar name, or all names.
    fn suggest_agent_name(&self, name: &str) -> String {
        let names = || self.ensemble.agents.iter().map(|agent| &*agent.name);
        match find_similar_word(name, names()) {
            Some(guess) => format!("did you mean `{guess}`?"),
            None => render_agents_sentence(names()),
        }
    }
}

/// Returns the location of an agent under `not_run`, which is a list or a map.
pub(crate) fn locate_not_run_agent(at: usize, name: &Arc<str>) -> RouteLocation {
    // A route that does not exist is resolved to the last node that does.
    expect_route(at, "not_run").with_key(name.clone()).into_key_location()
}

/// Returns the names of the entries.
fn list_names<T>(entries: &[(Arc<str>, T)]) -> Vec<Arc<str>> {
    entries.iter().map(|(name, _)| name.clone()).collect()
}

/// Joins the names in backticks with commas.
fn quote_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
