//! The names of runs inside a run.

/// Agent and execution in the name of a nested run: `AGENT-EXECUTION-ATTEMPT`, `AGENT-EXECUTION.PART-ATTEMPT`, or
/// `AGENT@TOOL…-EXECUTION-ATTEMPT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NestedRunName<'n> {
    /// The agent, or the agent whose model called the tool.
    pub agent: &'n str,
    /// The number of its execution, from 1.
    pub execution: u32,
}

impl<'n> NestedRunName<'n> {
    /// Parses a name. Returns `None` if the name has another form.
    pub fn parse(name: &'n str) -> Option<Self> {
        let mut parts = name.rsplitn(3, '-').skip(1);
        let execution = parts.next()?.split('.').next()?.parse().ok()?;
        let by = parts.next()?;
        Some(Self {
            agent: by.split_once('@').map_or(by, |(caller, _)| caller),
            execution,
        })
    }

    /// Returns whether the nested run with this name belongs to this execution of the agent.
    pub fn belongs_to_execution(name: &str, agent: &str, execution: u32) -> bool {
        NestedRunName::parse(name).is_some_and(|it| it.agent == agent && it.execution == execution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_inside_are_those_of_the_agent_of_its_parts_and_of_its_tools() {
        for (name, agent, execution, is_part) in [
            ("analyst-1-1", "analyst", 1, true),
            ("analyst-1-3", "analyst", 1, true),
            ("analyst-2-1", "analyst", 1, false),
            ("analyst-2.0-1", "analyst", 2, true),
            ("analyst-2.11-3", "analyst", 2, true),
            ("analyst-2.1-1", "analyst", 1, false),
            ("chief-analyst-1-1", "analyst", 1, false),
            ("chief-analyst-1-1", "chief-analyst", 1, true),
            ("v1.2-1.3-1", "v1.2", 1, true),
            ("analyst@look.1.1-2-1", "analyst", 2, true),
            ("analyst@look.1.1-2-1", "look", 2, false),
            ("x", "x", 1, false),
            ("x-1", "x", 1, false),
        ] {
            assert_eq!(
                NestedRunName::belongs_to_execution(name, agent, execution),
                is_part,
                "{name} {agent} {execution}"
            );
        }
    }
}
