//! `for_each`: what is read, and what is wrong with it.

use super::errors::check;
use super::loaded;
use crate::ensemble::{ForEachItems, ForEachSpec, PartCombination, PartFailureMode, RequiredPartCount};

fn read(for_each: &str) -> ForEachSpec {
    let text = format!("name: e\nagents: [{{name: a, script: x, for_each: {for_each}}}]\n");
    let loaded = loaded(&text);
    let ensemble = loaded.ensemble.expect("an ensemble");
    ensemble.agents[0].for_each.clone().expect("a list")
}

#[test]
fn what_is_left_out_has_its_default() {
    let spec = read("{in: inputs}");
    let expected = ForEachSpec {
        items: ForEachItems::Expression("inputs".to_owned()),
        item_name: "item".into(),
        key: None,
        max_parallel: ForEachSpec::MAX_PARALLEL,
        max_items: 100,
        on_error: PartFailureMode::Fail,
        at_least: RequiredPartCount::Parts(1),
        combine: PartCombination::List,
    };
    assert_eq!(spec, expected);
}

#[test]
fn every_key_is_read() {
    let spec = read(
        "{in: [1, {a: b}], as: one, key: one.a, max_parallel: 2, max_items: 9, on_error: collect, at_least: '80 %', \
         combine: {majority: output.x, quorum: 3}}",
    );
    let expected = ForEachSpec {
        items: ForEachItems::List(vec![1.into(), serde_json::json!({"a": "b"})]),
        item_name: "one".into(),
        key: Some("one.a".to_owned()),
        max_parallel: 2.try_into().expect("not 0"),
        max_items: 9,
        on_error: PartFailureMode::Collect,
        at_least: RequiredPartCount::Percent(80),
        combine: PartCombination::Majority {
            answer: "output.x".to_owned(),
            quorum: Some(3.try_into().expect("not 0")),
        },
    };
    assert_eq!(spec, expected);
    assert_eq!(read("{times: 3}").items, ForEachItems::Times(3));
    assert_eq!(
        read("{times: 3, combine: {best: part.index}}").combine,
        PartCombination::Best("part.index".to_owned())
    );
    assert_eq!(
        read("{times: 3, combine: {first: output.ok}}").combine,
        PartCombination::First("output.ok".to_owned())
    );
}

#[test]
fn every_mistake_has_a_place() {
    let rows: &[(&str, &[&str])] = &[
        ("{}", &["E013 2:41 `for_each` has none of `in` or `times`"]),
        (
            "{in: [], times: 1}",
            &["E023 2:50 `for_each` has both `in` and `times`"],
        ),
        (
            "{in: 5}",
            &["E014 2:46 expected a list, or an expression (a string) that evaluates to a list, found the integer 5"],
        ),
        ("{in: inputs +}", &["E041 2:54 unexpected end of the condition"]),
        (
            "{in: output.x}",
            &["E041 2:46 unknown variable `output`: only conditions of dependencies have it"],
        ),
        ("{in: item}", &["E041 2:46 unknown variable `item`"]),
        ("{in: outputs.z.files}", &["E021 2:54 there is no agent `z`"]),
        (
            "{times: 2, key: output.x}",
            &["E041 2:57 unknown variable `output`: only conditions of dependencies have it"],
        ),
        (
            "{times: 2, as: part}",
            &["E049 2:56 the item cannot have the name `part`, which is a variable or a word of the language"],
        ),
        (
            "{times: 2, as: history}",
            &["E049 2:56 the item cannot have the name `history`, which is a variable or a word of the language"],
        ),
        (
            "{times: 2, as: run_id}",
            &["E049 2:56 the item cannot have the name `run_id`, which is a variable or a word of the language"],
        ),
        (
            "{times: 2, as: a-b}",
            &["E017 2:56 'a-b' cannot be the name of an item"],
        ),
        (
            "{times: 2, at_least: 1}",
            &["E050 2:52 `at_least` has no effect, because the first failed part fails the execution"],
        ),
        (
            "{times: 2, on_error: collect, at_least: 120%}",
            &["E015 2:81 expected a whole number of percent from `0%` to `100%`, found the string '120%'"],
        ),
        (
            "{times: 2, combine: {}}",
            &["E013 2:61 `combine` has none of `best`, `first` or `majority`"],
        ),
        (
            "{times: 2, combine: {best: 1, first: 2}}",
            &["E023 2:71 `combine` has both `best` and `first`"],
        ),
        (
            "{times: 2, combine: {best: 1, quorum: 2}}",
            &["E025 2:71 `quorum` is not allowed for `best`"],
        ),
        (
            "{times: 2, combine: lst}",
            &["E016 2:61 expected `list`, found the string 'lst'"],
        ),
    ];
    for (for_each, expected) in rows {
        check(
            &format!("name: e\nagents: [{{name: a, script: x, for_each: {for_each}}}]\n"),
            expected,
        );
    }
    check(
        "name: e\nagents: [{name: a, input: x, for_each: {times: 1}}]\n",
        &["E025 2:30 `for_each` is not allowed for an agent of type input"],
    );
    check(
        "name: e\nagents:\n- {name: b, script: x}\n- {name: a, script: x, depends_on: [b], for_each: {times: 1, as: b}}\n",
        &["E049 4:66 the item cannot have the name `b`, which is the name of an agent that this agent depends on"],
    );
}
