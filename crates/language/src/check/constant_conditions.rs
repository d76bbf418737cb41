//! Conditions whose result is known before a run.
//!
//! `condition: true` and `condition: false` are not reported: their effect is obvious, for example for an agent that
//! runs only on request.

use super::blocked_agents;
use super::check_graph::CheckGraph;
use super::check_subject::CheckSubject;
use crate::condition::StaticResult;
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::source::Route;
use crate::yaml::edit::{RouteEdit, RouteFix};

/// Warns of every condition that is always true, always false, or always an error. A condition because of which an agent
/// can never run is reported with that agent.
pub(super) fn check_constant_conditions(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut findings: Vec<Finding> = constant_success_finding(graph).into_iter().collect();
    let culprits = blocked_agents::list_blocking_edges(graph);
    for (to, edge) in graph.list_edges() {
        if culprits.iter().any(|culprit| std::ptr::eq(*culprit, edge)) {
            continue;
        }
        let Some((_, verdict)) = &edge.condition else {
            continue;
        };
        let (message, help) = match verdict {
            StaticResult::DependsOnValues | StaticResult::WrittenLiteral(_) => continue,
            StaticResult::AlwaysTrue => (
                "this condition is always true".to_owned(),
                "correct the condition, or remove it".to_owned(),
            ),
            StaticResult::AlwaysFalse => (
                "this condition is never true".to_owned(),
                format!(
                    "correct the condition, or remove the dependency: no output of `{}` will start `{}`",
                    edge.dependency.agent_name,
                    graph.agent_name(to)
                ),
            ),
            StaticResult::AlwaysFails(why) => (
                format!("this condition can never be evaluated: {why}"),
                "correct the condition: a run that evaluates it ends with the outcome `condition_failed`".to_owned(),
            ),
        };
        let route = edge.dependency_route(to).with_key("condition");
        let finding = Finding::new_warning(codes::CONSTANT_CONDITION, route.clone().into_value_location(), message)
            .with_help(help);
        findings.push(match verdict {
            // Nothing else depends on it. What was meant may be another condition, so this is not safe.
            StaticResult::AlwaysTrue => {
                finding.with_fix(RouteFix::new_unsafe("remove `condition`", RouteEdit::Remove(route)))
            }
            _ => finding,
        });
    }
    findings
}

/// Returns a finding if `success` is always true, never true, or always fails.
fn constant_success_finding(graph: &CheckGraph<'_>) -> Option<Finding> {
    let (message, help) = match graph.parsed_success_condition()?.static_result() {
        StaticResult::DependsOnValues | StaticResult::WrittenLiteral(_) => return None,
        StaticResult::AlwaysTrue => (
            "`success` is always true".to_owned(),
            "correct the expression, or remove `success`",
        ),
        StaticResult::AlwaysFalse => (
            "`success` is never true".to_owned(),
            "correct the expression: no run ends with exit code 0",
        ),
        StaticResult::AlwaysFails(why) => (
            format!("`success` can never be evaluated: {why}"),
            "correct the expression: every run that reaches its end has the outcome `condition_failed`",
        ),
    };
    let place = Route::root().with_key("success").into_value_location();
    Some(Finding::new_warning(codes::CONSTANT_CONDITION, place, message).with_help(help))
}
