//! Executions, replies and tool calls for which a case has nothing prepared.

use ensemble_language::cases::case_route;

use crate::judge::UnmetExpectation;
use crate::missing_parts::{MissingPart, MissingStub};

/// Creates the failure of a case without a prepared stub, reply or tool result.
pub(super) fn describe_missing_stub(at: usize, missing: &MissingStub) -> UnmetExpectation {
    let MissingStub {
        agent,
        execution,
        missing_part: what,
    } = missing;
    let place = case_route(at)
        .with_key("stubs")
        .with_key(agent.clone())
        .into_key_location();
    // The words about a missing stub, and what there is instead.
    let missing_failure = |what: String, expected: &str, actual: String| {
        UnmetExpectation::from_difference(place.clone(), what, expected, actual)
    };
    match what {
        MissingPart::Stub(needs) => missing_failure(
            format!("execution {execution} of {agent} has no stub, but needs {needs}"),
            "a stub",
            format!("no stub; without a stub, {agent} needs {needs}"),
        )
        .with_help(format!(
            "add `stubs: {{{agent}: TEXT}}` to the case, or set `live: true` to execute the agent"
        )),
        MissingPart::Execution(count) => missing_failure(
            format!("execution {execution} of {agent} has no stub: the list ends at execution {count}"),
            &format!("a stub for execution {execution}"),
            format!("a list that ends at execution {count}"),
        )
        .with_help("add a stub to the list, or replace the list with one stub for every execution"),
        MissingPart::Part(key) => missing_failure(
            format!("execution {execution} of {agent} has no stub for the part `{key}`"),
            &format!("a stub for the part `{key}`"),
            "no stub for this part".to_owned(),
        )
        .with_help(format!("add `{key}` to `parts` of the stub")),
        MissingPart::Address(address) => missing_failure(
            format!("execution {execution} of {agent} has no stub for `{address}`"),
            &format!("a stub for `{address}`"),
            "only stubs for other parts or calls".to_owned(),
        )
        .with_help(format!("add `stubs: {{\"{address}\": TEXT}}` to the case, or a stub for `{agent}`")),
        MissingPart::Reply(count) => missing_failure(
            format!(
                "execution {execution} of {agent} has no reply for request {}",
                count + 1
            ),
            &format!("a reply for request {}", count + 1),
            format!("`replies` that end at request {count}"),
        )
        .with_help("add a reply to `replies`"),
        MissingPart::Tool { tool, needs } => missing_failure(
            format!("execution {execution} of {agent} calls `{tool}`, which needs {needs}"),
            "a result of the call",
            format!("no `result`; without a result, `{tool}` needs {needs}"),
        )
        .with_help(format!(
            "add `result` to the call in `replies`, add `stubs: {{{tool}: TEXT}}` to the case, or set `live: true` to call the tool"
        )),
        MissingPart::Record => UnmetExpectation::from_difference(
            case_route(at).with_key("from").into_value_location(),
            format!("the recorded run has no execution {execution} of {agent}"),
            format!("a recorded execution {execution} of {agent}"),
            "no such execution",
        )
        .with_help(format!(
            "add `stubs: {{{agent}: TEXT}}` to the case, or record the run again"
        )),
    }
}
