//! The graph as plain text: every agent, with its dependencies below.

use super::{DependencyArrow, GraphPicture};

/// Renders the agents in declaration order with their dependencies, and the meaning of the arrows.
pub fn render_ascii(picture: &GraphPicture) -> String {
    let mut text = format!("{}\n", picture.title);
    if let Some(subtitle) = &picture.subtitle {
        text.push_str(&format!("{subtitle}\n"));
    }
    let mut arrows_to = vec![Vec::new(); picture.nodes.len()];
    for arrow in &picture.arrows {
        arrows_to[arrow.to].push(arrow);
    }
    for (node, arrows) in picture.nodes.iter().zip(arrows_to) {
        let about: Vec<String> = node.shape_text_lines().skip(1).collect();
        text.push_str(&format!("\n{} ({})\n", node.name, about.join(", ")));
        for arrow in arrows {
            let from = &picture.nodes[arrow.from].name;
            let labels: Vec<String> = arrow.label_lines().iter().map(|label| join_lines(label)).collect();
            let about = if labels.is_empty() {
                String::new()
            } else {
                format!(": {}", labels.join(", "))
            };
            text.push_str(&format!("  {} {from}{about}\n", ascii_arrow(arrow)));
        }
    }
    text + render_legend(&picture.arrows).as_str()
}

/// Returns the arrow as text: dotted for feedback, with a circle if one of several dependencies is enough.
fn ascii_arrow(arrow: &DependencyArrow) -> &'static str {
    match (arrow.feedback, arrow.any_of) {
        (false, false) => "<--",
        (false, true) => "o--",
        (true, false) => "<..",
        (true, true) => "o..",
    }
}

/// Renders the meaning of the arrows in the picture.
fn render_legend(arrows: &[DependencyArrow]) -> String {
    let meanings = [
        ("<--", "listens to"),
        ("o--", "listens to one of these"),
        ("<..", "listens to (feedback)"),
        ("o..", "listens to one of these (feedback)"),
    ];
    let used = meanings
        .iter()
        .filter(|(sign, _)| arrows.iter().any(|arrow| ascii_arrow(arrow) == *sign));
    let lines: String = used.map(|(sign, meaning)| format!("{sign} {meaning}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Joins the lines of the text with blanks.
fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
