//! DOT, for Graphviz.

use crate::report::door::spelt;

use super::{Arrow, Node, Picture, Shape};

/// The graph. Feedback edges do not affect the layout, so they point back.
pub fn dot(picture: &Picture) -> String {
    let mut text = format!("digraph \"{}\" {{\n", escaped(&picture.title));
    text.push_str("    node [fontname=\"sans-serif\"];\n    edge [fontname=\"sans-serif\", fontsize=10];\n");
    if let Some(subtitle) = &picture.subtitle {
        text.push_str(&format!("    label=\"{}\";\n    labelloc=t;\n", escaped(subtitle)));
    }
    for (at, node) in picture.nodes.iter().enumerate() {
        text.push_str(&format!("    n{at} [{}];\n", of_node(node)));
    }
    for arrow in &picture.arrows {
        text.push_str(&format!(
            "    n{} -> n{} [{}];\n",
            arrow.from,
            arrow.to,
            of_arrow(arrow)
        ));
    }
    text + "}\n"
}

fn of_node(node: &Node) -> String {
    let (shape, style) = match node.shape {
        Shape::Script => ("box", ""),
        Shape::Llm => ("box", "rounded"),
        Shape::External => ("hexagon", ""),
        Shape::Tool => ("trapezium", ""),
        Shape::Input => ("parallelogram", ""),
        Shape::Ensemble => ("box3d", ""),
    };
    let mut styles = vec![style];
    styles.extend(node.is_idle().then_some("dashed"));
    styles.retain(|style| !style.is_empty());
    let style = if styles.is_empty() {
        String::new()
    } else {
        format!(", style=\"{}\"", styles.join(","))
    };
    let lines: Vec<String> = node.lines().map(|line| escaped(&line)).collect();
    let sides = if node.is_stack { ", peripheries=2" } else { "" };
    let colour = if node.has_failed() { ", color=red" } else { "" };
    format!("label=\"{}\", shape={shape}{style}{sides}{colour}", lines.join("\\n"))
}

fn of_arrow(arrow: &Arrow) -> String {
    let mut attributes = Vec::new();
    let labels = arrow.labels();
    if !labels.is_empty() {
        let lines: Vec<String> = labels.iter().map(|label| escaped(label)).collect();
        attributes.push(format!("label=\"{}\"", lines.join("\\n")));
    }
    if arrow.feedback {
        attributes.push("style=dashed, constraint=false".to_owned());
    }
    if arrow.any_of {
        attributes.push("arrowhead=odot".to_owned());
    }
    match arrow.started {
        None => {}
        Some(0) => attributes.push("color=gray, fontcolor=gray".to_owned()),
        Some(_) => attributes.push("penwidth=2".to_owned()),
    }
    attributes.join(", ")
}

fn escaped(text: &str) -> String {
    let line = |c: char| if c.is_whitespace() { ' ' } else { c };
    let text: String = text.chars().map(line).collect();
    // What the door would spell out is spelt out here, because a backslash has a meaning in DOT.
    spelt(&text).replace('\\', "\\\\").replace('"', "\\\"")
}
