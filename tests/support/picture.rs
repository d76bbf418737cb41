//! A terminal's text as a picture: colours become spans, long lines are wrapped as a terminal wraps them.

/// Columns of the terminal.
const COLUMNS: usize = 96;
const LINE_HEIGHT: usize = 19;
const CHARACTER_WIDTH: f64 = 8.4;
const MARGIN: usize = 18;

/// How a piece of text looks.
#[derive(Debug, Clone, Default, PartialEq)]
struct Look {
    bold: bool,
    dimmed: bool,
    colour: Option<&'static str>,
}

/// Draws what a command has printed.
pub(crate) fn svg(command: &str, printed: &str) -> String {
    let prompt = vec![(
        Look {
            bold: true,
            ..Look::default()
        },
        command.to_owned(),
    )];
    let mut lines = vec![prompt];
    let mut look = Look::default();
    for line in printed.lines() {
        lines.extend(wrapped(pieces(line, &mut look)));
    }
    let width = COLUMNS as f64 * CHARACTER_WIDTH + 2.0 * MARGIN as f64;
    let height = lines.len() * LINE_HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" role=\"img\" \
         aria-label=\"A run of iterative-analysis in a terminal\">\n\
         <style>text {{ font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d7dae0; \
         white-space: pre; }} .b {{ font-weight: 700; }} .d {{ fill: #8a919e; }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1d2026\"/>\n"
    );
    for (at, line) in lines.iter().enumerate() {
        let y = MARGIN + (at + 1) * LINE_HEIGHT - 5;
        svg.push_str(&format!("<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">"));
        for (look, text) in line {
            svg.push_str(&span(look, text));
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn span(look: &Look, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if *look == Look::default() {
        return text;
    }
    let mut classes = Vec::new();
    classes.extend(look.bold.then_some("b"));
    classes.extend(look.dimmed.then_some("d"));
    let class = match classes.as_slice() {
        [] => String::new(),
        classes => format!(" class=\"{}\"", classes.join(" ")),
    };
    let fill = look
        .colour
        .map(|colour| format!(" style=\"fill: {colour}\""))
        .unwrap_or_default();
    format!("<tspan{class}{fill}>{text}</tspan>")
}

/// A line cut at its escape sequences.
fn pieces(line: &str, look: &mut Look) -> Vec<(Look, String)> {
    let mut pieces = Vec::new();
    for (at, part) in line.split("\u{1b}[").enumerate() {
        let text = match part.split_once('m') {
            Some((codes, text)) if at > 0 => {
                codes.split(';').for_each(|code| apply(look, code));
                text
            }
            _ => part,
        };
        if !text.is_empty() {
            pieces.push((look.clone(), text.to_owned()));
        }
    }
    pieces
}

fn apply(look: &mut Look, code: &str) {
    match code {
        "" | "0" => *look = Look::default(),
        "1" => look.bold = true,
        "2" => look.dimmed = true,
        "31" => look.colour = Some("#f7768e"),
        "32" => look.colour = Some("#9ece6a"),
        "33" => look.colour = Some("#e0af68"),
        "36" => look.colour = Some("#7dcfff"),
        other => panic!("the picture does not know the code {other}"),
    }
}

/// Lines of at most as many characters as the terminal has columns, broken between words and indented like the first.
fn wrapped(pieces: Vec<(Look, String)>) -> Vec<Vec<(Look, String)>> {
    let indent: String = pieces
        .iter()
        .flat_map(|(_, text)| text.chars())
        .take_while(|c| *c == ' ')
        .collect();
    let mut lines = vec![Vec::new()];
    let mut column = 0;
    for (look, text) in pieces {
        let mut run = String::new();
        for word in text.split_inclusive(' ') {
            if column > indent.len() && column + word.trim_end().chars().count() > COLUMNS {
                lines
                    .last_mut()
                    .expect("a line")
                    .push((look.clone(), std::mem::take(&mut run)));
                lines.push(vec![(Look::default(), indent.clone())]);
                column = indent.len();
            }
            run.push_str(word);
            column += word.chars().count();
        }
        lines.last_mut().expect("a line").push((look, run));
    }
    lines
}
