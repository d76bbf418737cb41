//! Conditions whose result is known before a run.
//!
//! `condition: true` and `condition: false` are not reported: their effect is obvious, for example for an agent that
//! runs only on request.

use super::never;
use super::subject::Subject;
use crate::condition::Verdict;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of every condition that is always true, always false, or always an error. A condition because of which an agent
/// can never run is reported with that agent.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings = Vec::new();
    let culprits = never::culprits(graph);
    for (to, edge) in graph.all_edges() {
        if culprits.iter().any(|culprit| std::ptr::eq(*culprit, edge)) {
            continue;
        }
        let Some((_, verdict)) = &edge.condition else {
            continue;
        };
        let (message, help) = match verdict {
            Verdict::Open | Verdict::Plain(_) => continue,
            Verdict::Always => (
                "this condition is always true".to_owned(),
                "correct the condition, or remove it".to_owned(),
            ),
            Verdict::Never => (
                "this condition is never true".to_owned(),
                format!(
                    "correct the condition, or remove the dependency: no output of `{}` will start `{}`",
                    edge.dependency.agent_name,
                    graph.name(to)
                ),
            ),
            Verdict::Fails(why) => (
                format!("this condition can never be evaluated: {why}"),
                "correct the condition: a run that evaluates it ends with the outcome `condition_failed`".to_owned(),
            ),
        };
        let route = edge.route(to).key("condition");
        let finding = Finding::warning(codes::CONSTANT_CONDITION, route.clone().value(), message).help(help);
        findings.push(match verdict {
            // Nothing else depends on it. What was meant may be another condition, so this is not safe.
            Verdict::Always => finding.with_fix(RouteFix::not_safe("remove `condition`", RouteEdit::Remove(route))),
            _ => finding,
        });
    }
    findings
}
