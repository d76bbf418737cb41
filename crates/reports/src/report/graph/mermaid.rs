//! Mermaid: a flowchart as text, which code hosting sites and editors draw.

use crate::report::door::spelt;

use super::{Arrow, Node, Picture, Shape};

/// The flowchart, without a fence around it.
pub fn mermaid(picture: &Picture) -> String {
    let title = match &picture.subtitle {
        Some(subtitle) => format!("{}, {subtitle}", picture.title),
        None => picture.title.clone(),
    };
    let mut text = format!("---\ntitle: \"{title}\"\n---\nflowchart TD\n");
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
    // Dashes, opacity and thickness look the same on light and on dark backgrounds.
    let nodes = |shown: fn(&Node) -> bool| numbers("n", &picture.nodes, shown);
    for (class, look, these) in [
        ("idle", "stroke-dasharray:4 4,opacity:0.6", nodes(Node::is_idle)),
        ("failed", "stroke:#d33,stroke-width:3px", nodes(Node::has_failed)),
    ] {
        if !these.is_empty() {
            text.push_str(&format!("    classDef {class} {look}\n    class {these} {class}\n"));
        }
    }
    let arrows = |shown: fn(&Arrow) -> bool| numbers("", &picture.arrows, shown);
    for (look, these) in [
        ("opacity:0.4", arrows(Arrow::is_idle)),
        ("stroke-width:3px", arrows(|arrow| arrow.started > Some(0))),
    ] {
        if !these.is_empty() {
            text.push_str(&format!("    linkStyle {these} {look}\n"));
        }
    }
    text
}

fn numbers<T>(letter: &str, all: &[T], shown: impl Fn(&T) -> bool) -> String {
    let shown = all.iter().enumerate().filter(|(_, one)| shown(one));
    let numbers: Vec<String> = shown.map(|(at, _)| format!("{letter}{at}")).collect();
    numbers.join(",")
}

fn body(node: &Node) -> String {
    let lines: Vec<String> = node.lines().map(|line| escaped(&line)).collect();
    let inside = lines.join("<br/>");
    match node.shape {
        Shape::Script => format!("[\"{inside}\"]"),
        Shape::Llm => format!("([\"{inside}\"])"),
        Shape::Tool => format!("[/\"{inside}\"\\]"),
        Shape::External => format!("{{{{\"{inside}\"}}}}"),
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
    let labels = arrow.labels();
    if labels.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = labels.iter().map(|label| escaped(label)).collect();
    format!("|\"{}\"|", lines.join("<br/>"))
}

/// Escapes characters that would end the quotes, or would be read as an entity, as HTML or as Markdown.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let line = |c: char| if c.is_whitespace() { ' ' } else { c };
    for c in spelt(&text.chars().map(line).collect::<String>()).chars() {
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
