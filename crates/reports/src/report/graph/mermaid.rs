//! The graph as a Mermaid flowchart, which code hosting sites and editors draw.

use crate::report::sanitized_writer::escape_text;

use super::{DependencyArrow, GraphPicture, NodeShape, PictureNode};

/// Renders the graph as a Mermaid flowchart, without a code fence.
pub fn render_mermaid(picture: &GraphPicture) -> String {
    let title = match &picture.subtitle {
        Some(subtitle) => format!("{}, {subtitle}", picture.title),
        None => picture.title.clone(),
    };
    let mut text = format!("---\ntitle: \"{title}\"\n---\nflowchart TD\n");
    for (at, node) in picture.nodes.iter().enumerate() {
        text.push_str(&format!("    n{at}{}\n", render_node_body(node)));
    }
    for arrow in &picture.arrows {
        text.push_str(&format!(
            "    n{} {}{} n{}\n",
            arrow.from,
            mermaid_arrow(arrow),
            render_arrow_label(arrow),
            arrow.to
        ));
    }
    // Dashes, opacity and thickness look the same on light and on dark backgrounds.
    let nodes = |shown: fn(&PictureNode) -> bool| list_matching_ids("n", &picture.nodes, shown);
    for (class, look, these) in [
        (
            "idle",
            "stroke-dasharray:4 4,opacity:0.6",
            nodes(PictureNode::is_unexecuted),
        ),
        ("failed", "stroke:#d33,stroke-width:3px", nodes(PictureNode::has_failed)),
    ] {
        if !these.is_empty() {
            text.push_str(&format!("    classDef {class} {look}\n    class {these} {class}\n"));
        }
    }
    let arrows = |shown: fn(&DependencyArrow) -> bool| list_matching_ids("", &picture.arrows, shown);
    for (look, these) in [
        ("opacity:0.4", arrows(DependencyArrow::is_unused)),
        ("stroke-width:3px", arrows(|arrow| arrow.start_count > Some(0))),
    ] {
        if !these.is_empty() {
            text.push_str(&format!("    linkStyle {these} {look}\n"));
        }
    }
    text
}

/// Lists the ids, with this letter, of the items that meet the condition, separated by commas.
fn list_matching_ids<T>(letter: &str, all: &[T], shown: impl Fn(&T) -> bool) -> String {
    let shown_items = all.iter().enumerate().filter(|(_, one)| shown(one));
    let numbers: Vec<String> = shown_items.map(|(at, _)| format!("{letter}{at}")).collect();
    numbers.join(",")
}

/// Renders the text of a node inside the brackets of its shape.
fn render_node_body(node: &PictureNode) -> String {
    let lines: Vec<String> = node.shape_text_lines().map(|line| escape_label(&line)).collect();
    let inside = lines.join("<br/>");
    match node.shape {
        NodeShape::Script => format!("[\"{inside}\"]"),
        NodeShape::Llm => format!("([\"{inside}\"])"),
        NodeShape::Tool => format!("[/\"{inside}\"\\]"),
        NodeShape::External => format!("{{{{\"{inside}\"}}}}"),
        NodeShape::Input => format!("[/\"{inside}\"/]"),
        NodeShape::Ensemble => format!("[[\"{inside}\"]]"),
    }
}

/// Returns the arrow as text: dotted for feedback, with a circle if one of several dependencies is enough.
fn mermaid_arrow(arrow: &DependencyArrow) -> &'static str {
    match (arrow.feedback, arrow.any_of) {
        (false, false) => "-->",
        (false, true) => "--o",
        (true, false) => "-.->",
        (true, true) => "-.-o",
    }
}

/// Renders the label of an arrow, or an empty text.
fn render_arrow_label(arrow: &DependencyArrow) -> String {
    let labels = arrow.label_lines();
    if labels.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = labels.iter().map(|label| escape_label(label)).collect();
    format!("|\"{}\"|", lines.join("<br/>"))
}

/// Escapes characters that Mermaid would read as an end of quotes, an entity, HTML or Markdown.
fn escape_label(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let line = |c: char| if c.is_whitespace() { ' ' } else { c };
    for c in escape_text(&text.chars().map(line).collect::<String>()).chars() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '#' | '`' | '\\' => escaped.push_str(&format!("#{};", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}
