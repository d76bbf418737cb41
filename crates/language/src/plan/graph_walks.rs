//! Walks over a graph of agents: reachability, components and shortest cycles.
//!
//! Agents are positions from 0. The caller gives the edges as a function from an agent to its neighbours, so that one walk
//! serves plans, checks and tools, in either direction and over any part of the edges.

use std::collections::{HashMap, VecDeque};

use fixedbitset::FixedBitSet;

/// Returns the agents that can be reached from `from` over the edges of `next`, including those of `from`.
pub fn find_reachable<I: IntoIterator<Item = usize>>(
    count: usize,
    from: impl IntoIterator<Item = usize>,
    next: impl Fn(usize) -> I,
) -> FixedBitSet {
    let mut reached = FixedBitSet::with_capacity(count);
    let mut open: Vec<usize> = from.into_iter().collect();
    while let Some(at) = open.pop() {
        if !reached.put(at) {
            open.extend(next(at));
        }
    }
    reached
}

/// Returns the strongly connected components, each in ascending order, ordered by their first agents.
pub fn find_components<I: IntoIterator<Item = usize>>(count: usize, next: impl Fn(usize) -> I) -> Vec<Vec<usize>> {
    let mut walk = ComponentSearch {
        order: vec![0; count],
        low: vec![0; count],
        next_number: 0,
        stack: Vec::new(),
        groups: Vec::new(),
    };
    for start in 0..count {
        walk.visit_from(start, &next);
    }
    walk.groups.sort_unstable_by_key(|group| group[0]);
    walk.groups
}

/// The state of Tarjan's algorithm without recursion.
struct ComponentSearch {
    /// The order in which agents are visited, from 1; 0 before the visit.
    order: Vec<usize>,
    /// The lowest order that an agent leads back to; `usize::MAX` once its component is complete.
    low: Vec<usize>,
    next_number: usize,
    stack: Vec<usize>,
    groups: Vec<Vec<usize>>,
}

impl ComponentSearch {
    /// Visits all agents that can be reached from `start` and have not been visited.
    fn visit_from<I: IntoIterator<Item = usize>>(&mut self, start: usize, next: &impl Fn(usize) -> I) {
        if self.order[start] != 0 {
            return;
        }
        let mut way: Vec<(usize, I::IntoIter)> = vec![(start, self.enter_node(start, next))];
        while let Some((at, neighbours)) = way.last_mut() {
            let at = *at;
            match neighbours.next() {
                Some(neighbour) if self.order[neighbour] == 0 => {
                    let neighbours = self.enter_node(neighbour, next);
                    way.push((neighbour, neighbours));
                }
                Some(neighbour) => self.low[at] = self.low[at].min(self.low[neighbour]),
                None => {
                    way.pop();
                    if let Some((before, _)) = way.last() {
                        self.low[*before] = self.low[*before].min(self.low[at]);
                    }
                    self.leave_node(at);
                }
            }
        }
    }

    /// Numbers an agent, and returns its neighbours.
    fn enter_node<I: IntoIterator<Item = usize>>(&mut self, at: usize, next: &impl Fn(usize) -> I) -> I::IntoIter {
        self.next_number += 1;
        (self.order[at], self.low[at]) = (self.next_number, self.next_number);
        self.stack.push(at);
        next(at).into_iter()
    }

    /// Completes a component if its agent leads back to no earlier agent.
    fn leave_node(&mut self, at: usize) {
        if self.low[at] != self.order[at] {
            return;
        }
        let start = self
            .stack
            .iter()
            .rposition(|waiting| *waiting == at)
            .unwrap_or_default();
        let mut group = self.stack.split_off(start);
        group.iter().for_each(|member| self.low[*member] = usize::MAX);
        group.sort_unstable();
        self.groups.push(group);
    }
}

/// Returns whether some agent leads back to itself.
pub fn has_cycle<I: IntoIterator<Item = usize>>(count: usize, next: impl Fn(usize) -> I) -> bool {
    let leads_to_itself = |at: usize| next(at).into_iter().any(|other| other == at);
    find_components(count, &next).iter().any(|group| group.len() > 1) || (0..count).any(leads_to_itself)
}

/// Returns a shortest cycle through `start` as its steps, each with the agent at which the step begins. Returns `None` if
/// the agent does not lead back to itself. `next` returns the edges of an agent: the other agent, and the edge.
pub fn find_shortest_cycle<E: Copy, I: IntoIterator<Item = (usize, E)>>(
    start: usize,
    next: impl Fn(usize) -> I,
) -> Option<Vec<(usize, E)>> {
    let mut arrived: HashMap<usize, (usize, E)> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for (other, edge) in next(at) {
            if other == start {
                let mut cycle = vec![(at, edge)];
                while let Some(step) = cycle.last().and_then(|(at, _)| arrived.get(at)) {
                    cycle.push(*step);
                }
                cycle.reverse();
                return Some(cycle);
            }
            arrived.entry(other).or_insert_with(|| {
                queue.push_back(other);
                (at, edge)
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the neighbours of each agent.
    fn graphs() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1..9_usize).prop_flat_map(|count| prop::collection::vec(prop::collection::vec(0..count, 0..4), count))
    }

    /// Whether there is a way of at least one step, for each pair of agents, and the length of the shortest one.
    fn distances(graph: &[Vec<usize>]) -> Vec<Vec<Option<usize>>> {
        let count = graph.len();
        let mut known = vec![vec![None; count]; count];
        for length in 1..=count {
            for from in 0..count {
                let is_way = |to: usize| match length {
                    1 => graph[from].contains(&to),
                    _ => graph[from].iter().any(|over| known[*over][to] == Some(length - 1)),
                };
                let ways: Vec<usize> = (0..count).filter(|to| is_way(*to)).collect();
                for to in ways {
                    known[from][to].get_or_insert(length);
                }
            }
        }
        known
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn walks_agree_with_a_naive_reference(graph in graphs(), start in any::<prop::sample::Index>()) {
            let count = graph.len();
            let next = |at: usize| graph[at].iter().copied();
            let ways = distances(&graph);
            let start = start.index(count);
            let reached = find_reachable(count, [start], next);
            for (other, way) in ways[start].iter().enumerate() {
                prop_assert_eq!(reached.contains(other), other == start || way.is_some());
            }
            let groups = find_components(count, next);
            let mut group_of = vec![usize::MAX; count];
            for (number, group) in groups.iter().enumerate() {
                prop_assert!(group.is_sorted());
                group.iter().for_each(|at| group_of[*at] = number);
            }
            prop_assert!(groups.is_sorted_by_key(|group| group[0]));
            for one in 0..count {
                for other in 0..count {
                    let is_together = one == other || ways[one][other].is_some() && ways[other][one].is_some();
                    prop_assert_eq!(group_of[one] == group_of[other], is_together);
                }
            }
            prop_assert_eq!(has_cycle(count, next), (0..count).any(|at| ways[at][at].is_some()));
            let cycle = find_shortest_cycle(start, |at| graph[at].iter().map(|to| (*to, *to)));
            prop_assert_eq!(cycle.as_ref().map(Vec::len), ways[start][start]);
            let mut at = start;
            for (from, to) in cycle.into_iter().flatten() {
                prop_assert_eq!(from, at);
                prop_assert!(graph[from].contains(&to));
                at = to;
            }
            prop_assert_eq!(at, start);
        }
    }
}
