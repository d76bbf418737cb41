//! Errors in the files around an ensemble that refuse a run before it starts.
//!
//! Invariant: an error that `validate` reports about a file refuses a run, unless only replaced agents need the file.

use ensemble_language::check::check_file_errors;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, ModelChoice, PreparedResponses, QuestionSpec, ToolDefinition};
use ensemble_language::source::{Route, RouteStep};
use ensemble_project::check::EnsembleFolder;

use crate::runners::shared_parts::AgentBuildContext;

/// The parts of an agent that a run executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutedParts {
    /// The whole agent.
    All,
    /// The agent and its tools, but a stub replaces its model.
    WithoutModel,
    /// An input agent whose answers a stub or a model gives instead of its `responses`.
    WithoutResponses,
    /// Nothing: the agent is replaced.
    Nothing,
}

/// Returns the errors in files that the run needs. `executed_parts` has one entry per agent, in the order of the file.
pub(crate) fn find_needed_file_errors(parts: &AgentBuildContext<'_>, executed_parts: &[ExecutedParts]) -> Vec<Finding> {
    let ensemble = parts.prepared.plan.ensemble();
    let folder = EnsembleFolder::for_run(parts.prepared, &parts.shared.project);
    let agents = NeededFileFilter { parts, executed_parts };
    let mut findings = check_file_errors(ensemble, &folder);
    findings.retain(|finding| agents.needs_file_at_route(&finding.at.route));
    findings
}

/// A filter for the files that the executed parts of agents need.
struct NeededFileFilter<'a> {
    parts: &'a AgentBuildContext<'a>,
    executed_parts: &'a [ExecutedParts],
}

impl NeededFileFilter<'_> {
    /// Returns all agents, each with the parts that the run executes.
    fn agents_with_executed_parts(&self) -> impl Iterator<Item = (&Agent, ExecutedParts)> {
        let agents = self.parts.prepared.plan.ensemble().agents.iter();
        agents.zip(self.executed_parts.iter().copied())
    }

    /// Returns whether the run needs the file that the ensemble names at this route.
    fn needs_file_at_route(&self, route: &Route) -> bool {
        match route.0.as_slice() {
            [RouteStep::Key(section), RouteStep::Index(at), ..] if &**section == "agents" => {
                self.needs_agent_file(*at, route)
            }
            [RouteStep::Key(section), RouteStep::Key(name), ..] if &**section == "tools" => self.needs_tool_file(name),
            [RouteStep::Key(section), RouteStep::Key(name), ..] if &**section == "model_profiles" => {
                self.needs_profile_file(name)
            }
            _ => true,
        }
    }

    /// Returns whether the agent with this index, or another one with the same script, needs the file at this route.
    fn needs_agent_file(&self, at: usize, route: &Route) -> bool {
        let Some((agent, executed)) = self.agents_with_executed_parts().nth(at) else {
            return true;
        };
        let is_response = route
            .0
            .iter()
            .any(|step| matches!(step, RouteStep::Key(key) if &**key == "responses"));
        let is_replaced =
            executed == ExecutedParts::Nothing || (executed == ExecutedParts::WithoutResponses && is_response);
        let shares_script = |(other, executed): (&Agent, ExecutedParts)| {
            executed == ExecutedParts::All && find_own_script(other) == find_own_script(agent)
        };
        !is_replaced || (find_own_script(agent).is_some() && self.agents_with_executed_parts().any(shares_script))
    }

    /// Returns whether an executed agent can call the tool, or no agent uses the tool.
    fn needs_tool_file(&self, name: &str) -> bool {
        let uses_tool = |agent: &Agent| agent.kind.callable_tools().iter().any(|used| *used.tool == *name);
        let replacements = self.parts.shared.replacements.as_deref();
        let is_stubbed = |tool: &ToolDefinition| replacements.is_some_and(|all| all.never_starts_tool(name, tool));
        if self
            .parts
            .prepared
            .plan
            .ensemble()
            .find_tool(name)
            .is_some_and(is_stubbed)
        {
            return false;
        }
        let mut users = self
            .agents_with_executed_parts()
            .filter(|(agent, _)| uses_tool(agent))
            .peekable();
        users.peek().is_none() || users.any(|(_, executed)| executed != ExecutedParts::Nothing)
    }

    /// Returns whether an executed model has the profile, or no agent uses the profile.
    fn needs_profile_file(&self, name: &str) -> bool {
        let users: Vec<bool> = self
            .agents_with_executed_parts()
            .filter(|(agent, _)| self.names_profile_directly(agent, name))
            .map(|(agent, executed)| executed == ExecutedParts::All && self.uses_file_profile(agent, name))
            .collect();
        users.is_empty() || users.contains(&true)
    }

    /// Returns whether a model of the agent resolves to the simulated profile of the file, without an override.
    fn uses_file_profile(&self, agent: &Agent, name: &str) -> bool {
        let models = self.parts.prepared.plan.ensemble().list_agent_models(agent);
        models.iter().any(|choice| {
            let resolved = self.parts.profiles.resolve_chain(choice);
            resolved.is_ok_and(|resolved| {
                let mut links = resolved.chain.iter();
                links.any(|link| *link.name == *name && link.profile.simulated.is_some())
            })
        })
    }

    /// Returns whether the agent names this profile.
    fn names_profile_directly(&self, agent: &Agent, name: &str) -> bool {
        let is_named = |choice: &ModelChoice| matches!(choice, ModelChoice::Profile(profile) if **profile == *name);
        let models = self.parts.prepared.plan.ensemble().list_agent_models(agent);
        models.iter().any(is_named)
    }
}

/// Returns the script of a script agent, or the script that answers for an input agent.
fn find_own_script(agent: &Agent) -> Option<&str> {
    match &agent.kind {
        AgentKind::Script { script, .. } => Some(script),
        AgentKind::Input(QuestionSpec {
            responses: Some(PreparedResponses::Script(script)),
            ..
        }) => Some(script),
        _ => None,
    }
}
