//! Plain text: every agent, with its dependencies below it.

use super::{Arrow, Picture};

/// The agents in declaration order, and then the meaning of the arrows.
pub fn ascii(picture: &Picture) -> String {
    let mut text = format!("{}\n", picture.title);
    if let Some(subtitle) = &picture.subtitle {
        text.push_str(&format!("{subtitle}\n"));
    }
    for (at, node) in picture.nodes.iter().enumerate() {
        let about: Vec<String> = node.lines().skip(1).collect();
        text.push_str(&format!("\n{} ({})\n", node.name, about.join(", ")));
        for arrow in picture.arrows.iter().filter(|arrow| arrow.to == at) {
            let from = &picture.nodes[arrow.from].name;
            let labels: Vec<String> = arrow.labels().iter().map(|label| on_one_line(label)).collect();
            let about = if labels.is_empty() {
                String::new()
            } else {
                format!(": {}", labels.join(", "))
            };
            text.push_str(&format!("  {} {from}{about}\n", head(arrow)));
        }
    }
    text + legend(&picture.arrows).as_str()
}

fn head(arrow: &Arrow) -> &'static str {
    match (arrow.feedback, arrow.any_of) {
        (false, false) => "<--",
        (false, true) => "o--",
        (true, false) => "<..",
        (true, true) => "o..",
    }
}

/// The meaning of the arrow heads that occur.
fn legend(arrows: &[Arrow]) -> String {
    let meanings = [
        ("<--", "listens to"),
        ("o--", "listens to one of these"),
        ("<..", "listens back to (feedback)"),
        ("o..", "listens back to one of these (feedback)"),
    ];
    let used = meanings
        .iter()
        .filter(|(sign, _)| arrows.iter().any(|arrow| head(arrow) == *sign));
    let lines: String = used.map(|(sign, meaning)| format!("{sign} {meaning}\n")).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
