//! The graph in the DOT language, for Graphviz.

use crate::report::sanitized_writer::escape_text;

use super::{DependencyArrow, GraphPicture, NodeShape, PictureNode};

/// Renders the graph in the DOT language. Feedback arrows do not affect the layout, so they point back.
pub fn render_dot(picture: &GraphPicture) -> String {
    let mut text = format!("digraph \"{}\" {{\n", escape_label(&picture.title));
    text.push_str("    node [fontname=\"sans-serif\"];\n    edge [fontname=\"sans-serif\", fontsize=10];\n");
    if let Some(subtitle) = &picture.subtitle {
        text.push_str(&format!("    label=\"{}\";\n    labelloc=t;\n", escape_label(subtitle)));
    }
    for (at, node) in picture.nodes.iter().enumerate() {
        text.push_str(&format!("    n{at} [{}];\n", node_attributes(node)));
    }
    for arrow in &picture.arrows {
        text.push_str(&format!(
            "    n{} -> n{} [{}];\n",
            arrow.from,
            arrow.to,
            arrow_attributes(arrow)
        ));
    }
    text + "}\n"
}

/// Returns the attributes of the node of an agent.
fn node_attributes(node: &PictureNode) -> String {
    let (shape, style) = match node.shape {
        NodeShape::Script => ("box", ""),
        NodeShape::Llm => ("box", "rounded"),
        NodeShape::External => ("hexagon", ""),
        NodeShape::Tool => ("trapezium", ""),
        NodeShape::Input => ("parallelogram", ""),
        NodeShape::Ensemble => ("box3d", ""),
    };
    let mut styles = vec![style];
    styles.extend(node.is_unexecuted().then_some("dashed"));
    styles.retain(|style| !style.is_empty());
    let style = if styles.is_empty() {
        String::new()
    } else {
        format!(", style=\"{}\"", styles.join(","))
    };
    let lines: Vec<String> = node.shape_text_lines().map(|line| escape_label(&line)).collect();
    let sides = if node.is_stack { ", peripheries=2" } else { "" };
    let colour = if node.has_failed() { ", color=red" } else { "" };
    format!("label=\"{}\", shape={shape}{style}{sides}{colour}", lines.join("\\n"))
}

/// Returns the attributes of the edge of a dependency.
fn arrow_attributes(arrow: &DependencyArrow) -> String {
    let mut attributes = Vec::new();
    let labels = arrow.label_lines();
    if !labels.is_empty() {
        let lines: Vec<String> = labels.iter().map(|label| escape_label(label)).collect();
        attributes.push(format!("label=\"{}\"", lines.join("\\n")));
    }
    if arrow.feedback {
        attributes.push("style=dashed, constraint=false".to_owned());
    }
    if arrow.any_of {
        attributes.push("arrowhead=odot".to_owned());
    }
    match arrow.start_count {
        None => {}
        Some(0) => attributes.push("color=gray, fontcolor=gray".to_owned()),
        Some(_) => attributes.push("penwidth=2".to_owned()),
    }
    attributes.join(", ")
}

/// Escapes text for a label on one line.
fn escape_label(text: &str) -> String {
    let line = |c: char| if c.is_whitespace() { ' ' } else { c };
    let text: String = text.chars().map(line).collect();
    // What the door would spell out is spelt out here, because a backslash has a meaning in DOT.
    escape_text(&text).replace('\\', "\\\\").replace('"', "\\\"")
}
