//! The row of each box: the length of the longest path to it, without feedback.

use std::collections::HashSet;

use petgraph::algo::toposort;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{DfsEvent, depth_first_search};

use super::GraphSketch;

/// Assigns a row to each box, from 0.
pub(super) fn assign_rows(sketch: &GraphSketch) -> Vec<usize> {
    let forward = sketch.links.iter().filter(|link| !link.back && link.from != link.to);
    let mut graph: DiGraph<(), (), usize> = DiGraph::default();
    for _ in &sketch.boxes {
        graph.add_node(());
    }
    for link in forward {
        graph.update_edge(NodeIndex::new(link.from), NodeIndex::new(link.to), ());
    }
    // Agents can form a cycle that starts elsewhere. The link that closes the cycle points back.
    let mut closing = HashSet::new();
    depth_first_search(&graph, graph.node_indices(), |event| {
        if let DfsEvent::BackEdge(from, to) = event {
            closing.insert((from, to));
        }
    });
    graph.retain_edges(|graph, edge| graph.edge_endpoints(edge).is_none_or(|ends| !closing.contains(&ends)));
    let mut rows = vec![0; sketch.boxes.len()];
    for node in toposort(&graph, None).unwrap_or_default() {
        for next in graph.neighbors(node) {
            rows[next.index()] = rows[next.index()].max(rows[node.index()] + 1);
        }
    }
    rows
}
