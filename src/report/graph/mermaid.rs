//! Mermaid: a flowchart in a text, which forges and editors draw.

use super::{Arrow, Node, Picture, Shape};

/// The flowchart, without a fence around it.
pub fn mermaid(picture: &Picture) -> String {
    let mut text = format!("---\ntitle: \"{}\"\n---\nflowchart TD\n", picture.title);
    for (at, node) in picture.nodes.iter().enumerate() {
        text.push_str(&format!("    n{at}{}\n", body(node)));
    }
    for arrow in &picture.arrows {
        text.push_str(&format!(
            "    n{} {}{} n{}\n",
            arrow.from,
            line(arrow),
            label(arrow),
            arrow.to
        ));
    }
    let idle: Vec<String> = (0..)
        .zip(&picture.nodes)
        .filter(|(_, node)| node.idle)
        .map(|(at, _): (usize, _)| format!("n{at}"))
        .collect();
    if !idle.is_empty() {
        // Dashes and paleness look the same on light and on dark.
        text.push_str("    classDef idle stroke-dasharray:4 4,opacity:0.6\n");
        text.push_str(&format!("    class {} idle\n", idle.join(",")));
    }
    text
}

fn body(node: &Node) -> String {
    let lines: Vec<String> = node.lines().map(escaped).collect();
    let inside = lines.join("<br/>");
    match node.shape {
        Shape::Script => format!("[\"{inside}\"]"),
        Shape::Llm => format!("([\"{inside}\"])"),
        Shape::Input => format!("[/\"{inside}\"/]"),
        Shape::Ensemble => format!("[[\"{inside}\"]]"),
    }
}

fn line(arrow: &Arrow) -> &'static str {
    match (arrow.feedback, arrow.any_of) {
        (false, false) => "-->",
        (false, true) => "--o",
        (true, false) => "-.->",
        (true, true) => "-.-o",
    }
}

fn label(arrow: &Arrow) -> String {
    if arrow.labels.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = arrow.labels.iter().map(|label| escaped(label)).collect();
    format!("|\"{}\"|", lines.join("<br/>"))
}

/// Inside quotes: what would end them, or be taken for an entity, for HTML or for Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("#quot;"),
            '<' => escaped.push_str("#lt;"),
            '>' => escaped.push_str("#gt;"),
            '&' => escaped.push_str("#amp;"),
            '#' | '`' | '\\' => escaped.push_str(&format!("#{};", u32::from(c))),
            c if c.is_whitespace() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
