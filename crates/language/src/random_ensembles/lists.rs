//! Random ensembles with `random_for_each`: lists of any length, conditions that read what their parts come to, and edges that
//! wait until somebody has settled.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::{plan_of_agents, random_agent};
use crate::ensemble::{
    Agent, Dependency, DependencyPosition, ForEachItems, ForEachSpec, PartCombination, PartFailureMode,
    RequiredPartCount, WaitForOutputs,
};
use crate::plan::Plan;

/// Conditions on the output of an agent with or without parts. None of them ever fails.
const PART_OUTPUT_CONDITIONS: [&str; 10] = [
    "output != None and output.get('count', 0) > 1",
    "output != None and output.get('count', 0) <= 1",
    "output != None and len(output.get('failed', [])) == 0",
    "output != None and len(output.get('failed', [])) > 0",
    "output != None and output.get('agreed', False)",
    "not (output != None and output.get('agreed', False))",
    "output != None and output.get('answer', 0) == 1",
    "'a0' in outputs and outputs.a0.get('count', 0) > 0",
    "not ('a0' in outputs and outputs.a0.get('count', 0) > 0)",
    "'a1' in context and len(context.a1.get('failed', [])) > 0",
];

/// Where the lists come from: the file, another agent, or a value that may not be there.
const LIST_EXPRESSIONS: [&str; 3] = ["[1, 2, 3]", "outputs.a0.items", "context.nothing"];

/// Builds a `for_each` from the numbers of `twist`.
fn random_for_each(twist: &mut dyn FnMut() -> usize) -> ForEachSpec {
    ForEachSpec {
        items: match twist() % 2 {
            0 => ForEachItems::Times(u32::try_from(twist() % 4).unwrap_or_default()),
            _ => ForEachItems::Expression(LIST_EXPRESSIONS[twist() % LIST_EXPRESSIONS.len()].to_owned()),
        },
        item_name: ForEachSpec::ITEM.into(),
        key: None,
        max_parallel: NonZeroU32::new(2).expect("is not 0"),
        max_items: ForEachSpec::MAX_ITEMS,
        on_error: [PartFailureMode::Fail, PartFailureMode::Collect][twist() % 2],
        at_least: [
            RequiredPartCount::Parts(0),
            RequiredPartCount::Parts(1),
            RequiredPartCount::Percent(50),
        ][twist() % 3],
        combine: match twist() % 2 {
            0 => PartCombination::List,
            _ => PartCombination::Majority {
                answer: "output.get('n', 0)".to_owned(),
                quorum: None,
            },
        },
    }
}

/// Generates a plan in which some agents have parts, some are in a loop, and some wait until others have settled, and
/// bytes that choose the results.
pub fn plan_with_lists() -> impl Strategy<Value = (Plan, Vec<u8>)> {
    let agents = (2_usize..5).prop_flat_map(|count| (0..count).map(|at| random_agent(at, count)).collect::<Vec<_>>());
    let twists = prop::collection::vec(any::<u8>(), 32);
    let fate = prop::collection::vec(any::<u8>(), 64);
    (agents, twists, fate).prop_map(|(mut agents, twists, fate)| {
        let mut twists = twists.into_iter().cycle();
        let mut twist = || usize::from(twists.next().unwrap_or_default());
        for agent in &mut agents {
            if !twist().is_multiple_of(3) {
                agent.for_each = Some(random_for_each(&mut twist));
            }
            for dependency in &mut agent.dependencies {
                if !twist().is_multiple_of(3) {
                    dependency.condition = Some(PART_OUTPUT_CONDITIONS[twist() % PART_OUTPUT_CONDITIONS.len()].into());
                }
            }
        }
        if twist().is_multiple_of(2) {
            add_loop_with_reader(&mut agents, twist());
        }
        (plan_of_agents(agents), fate)
    })
}

/// Makes `a0` and `a1` a loop, and the last agent a reader of `a1` that waits until the loop has settled.
fn add_loop_with_reader(agents: &mut [Agent], twist: usize) {
    let edge = |from: &str, feedback: bool, wait_for: WaitForOutputs| Dependency {
        agent_name: from.into(),
        condition: None,
        max_executions: None,
        requires_all: true,
        feedback,
        on: crate::ensemble::RequiredResult::Success,
        wait_for,
        declared_at: DependencyPosition::Dependencies(0),
    };
    let mut numbers = [twist, twist / 3, twist / 5].into_iter();
    agents[0].for_each = Some(random_for_each(&mut || numbers.next().unwrap_or(1)));
    let condition = PART_OUTPUT_CONDITIONS[twist % 4].to_owned();
    agents[0].dependencies = vec![Dependency {
        condition: (!twist.is_multiple_of(5)).then(|| condition.into()),
        ..edge("a1", true, WaitForOutputs::Update)
    }];
    agents[1].dependencies = vec![edge("a0", false, WaitForOutputs::Update)];
    for agent in &mut agents[..2] {
        agent.conversation.max_turns = agent.conversation.max_turns.max(NonZeroU32::new(2).expect("is not 0"));
    }
    if let [_, _, .., last] = agents {
        last.dependencies = vec![edge("a1", false, WaitForOutputs::Settled)];
    }
}
