//! Circles in a graph.

use std::collections::{BTreeMap, BTreeSet};

/// What each one uses.
pub(super) type Uses<T> = BTreeMap<T, BTreeSet<T>>;

/// The sets of those that use each other, directly or through others.
pub(super) fn circles<T: Ord + Clone>(uses: &Uses<T>) -> BTreeSet<BTreeSet<T>> {
    let reached: Uses<T> = uses.keys().map(|one| (one.clone(), reach(uses, one))).collect();
    let in_circle = uses.keys().filter(|one| reached[one].contains(one));
    in_circle
        .map(|one| {
            let back = |other: &&T| reached.get(*other).is_some_and(|back| back.contains(one));
            reached[one].iter().filter(back).cloned().collect()
        })
        .collect()
}

fn reach<T: Ord + Clone>(uses: &Uses<T>, from: &T) -> BTreeSet<T> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(one) = open.pop() {
        for next in uses.get(one).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

#[test]
fn circles_are_found_and_what_only_leads_to_them_is_not() {
    let uses = |pairs: &[(&'static str, &[&'static str])]| -> Uses<&'static str> {
        pairs
            .iter()
            .map(|(one, others)| (*one, others.iter().copied().collect()))
            .collect()
    };
    let graph = uses(&[
        ("a", &["b"]),
        ("b", &["c"]),
        ("c", &["b", "d"]),
        ("d", &[]),
        ("e", &["f"]),
        ("f", &["e"]),
    ]);
    let found = circles(&graph);
    assert_eq!(found, [["b", "c"].into(), ["e", "f"].into()].into());
}
