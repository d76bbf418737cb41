//! An arrow as a line with a head, and its label.

use super::super::layout::{Route, Spot};
use super::super::{Arrow, Ending, Picture};
use super::canvas::{Canvas, Size, short};
use super::escaped;
use super::words;

const LINE: f64 = 15.0;
const COLUMNS: usize = 30;
const RING: f64 = 4.5;

/// The label of an arrow, in lines.
pub(super) struct Label {
    lines: Vec<(&'static str, String)>,
}

impl Label {
    /// Breaks the words into lines.
    pub(super) fn new(arrow: &Arrow) -> Self {
        let ending = arrow.ending.words().map(|words| ("ending", words.to_owned()));
        let condition = arrow.condition.as_ref().map(|text| format!("if {}", text.trim()));
        let condition = condition.iter().flat_map(|text| words::wrapped(text, COLUMNS, 3));
        let limit = arrow.limit().map(|line| ("note", line));
        let story = arrow.story().map(|line| ("story", line));
        Self {
            lines: ending
                .into_iter()
                .chain(condition.map(|line| ("condition", line)))
                .chain(limit)
                .chain(story)
                .collect(),
        }
    }

    /// Returns the size of the label. Returns `None` if the label is empty.
    pub(super) fn size(&self) -> Option<Size> {
        let widths = self.lines.iter().map(|(class, line)| match *class {
            "condition" => words::width(line, 6.7),
            "story" => words::width(line, 7.2),
            _ => words::width(line, 6.8),
        });
        let width = widths.reduce(f64::max)?;
        Some((width + 12.0, self.lines.len() as f64 * LINE + 4.0))
    }

    /// Draws it over its line, which it interrupts.
    pub(super) fn draw(&self, picture: &Picture, arrow: &Arrow, route: &Route, canvas: &Canvas) -> String {
        let (Some(middle), Some((width, height))) = (route.label, self.size()) else {
            return String::new();
        };
        let (x, y) = canvas.point(middle);
        let (left, top) = (short(x - width / 2.0), short(y - height / 2.0));
        let mut text = format!(
            "<g class=\"{}\"><title>{}</title>\
             <rect class=\"ground\" x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"/>",
            classes(arrow),
            told(picture, arrow)
        );
        for (at, (class, line)) in self.lines.iter().enumerate() {
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                short(x),
                short(top + at as f64 * LINE + 13.0),
                escaped(line)
            ));
        }
        text + "</g>\n"
    }
}

/// The line and its head.
pub(super) fn line(picture: &Picture, arrow: &Arrow, route: &Route, canvas: &Canvas) -> String {
    let (data, end, step) = canvas.path(route, if arrow.any_of { 2.0 * RING } else { 7.0 });
    let head = if arrow.any_of {
        let (x, y) = canvas.point(Spot {
            along: end.along - step * RING,
            ..end
        });
        format!(
            "<circle class=\"ring\" cx=\"{}\" cy=\"{}\" r=\"{RING}\"/>",
            short(x),
            short(y)
        )
    } else {
        let corner = |across: f64| Spot {
            across: end.across + across,
            along: end.along - step * 9.0,
        };
        let corners = [end, corner(-4.5), corner(4.5)].map(|spot| canvas.pair(spot));
        format!(
            "<path class=\"head\" d=\"M{} L{} L{} Z\"/>",
            corners[0], corners[1], corners[2]
        )
    };
    format!(
        "<g class=\"{}\"><title>{}</title><path class=\"line\" d=\"{data}\"/>{head}</g>\n",
        classes(arrow),
        told(picture, arrow)
    )
}

/// A line of the legend: a short line in this style, and its meaning.
pub(super) fn sample(class: &str, meaning: &str, x: f64, y: f64) -> String {
    let (end, text) = (x + 36.0, x + 48.0);
    let head = if class.contains("any-of") {
        format!("<circle class=\"ring\" cx=\"{}\" cy=\"{y}\" r=\"{RING}\"/>", end - RING)
    } else {
        let back = end - 9.0;
        format!(
            "<path class=\"head\" d=\"M{end},{y} L{back},{} L{back},{} Z\"/>",
            y - 4.5,
            y + 4.5
        )
    };
    format!(
        "<g class=\"{class}\"><path class=\"line\" d=\"M{x},{y} H{}\"/>{head}\
         <text class=\"legend\" x=\"{text}\" y=\"{}\">{}</text></g>\n",
        end - 9.0,
        y + 4.0,
        escaped(meaning)
    )
}

fn classes(arrow: &Arrow) -> String {
    let looks = [
        ("arrow", true),
        ("feedback", arrow.feedback),
        ("any-of", arrow.any_of),
        ("failure", arrow.ending == Ending::Failure),
        ("started", arrow.started > Some(0)),
        ("idle", arrow.is_idle()),
    ];
    let classes: Vec<&str> = looks.iter().filter(|(_, is)| *is).map(|(class, _)| *class).collect();
    classes.join(" ")
}

/// The full text, which the label may have shortened.
fn told(picture: &Picture, arrow: &Arrow) -> String {
    let (from, to) = (&picture.nodes[arrow.from].name, &picture.nodes[arrow.to].name);
    let mut told = format!("{to} listens to {from}");
    if arrow.feedback {
        told.push_str(" (feedback)");
    }
    if arrow.any_of {
        told.push_str(" (one of these is enough)");
    }
    for (at, label) in arrow.labels().iter().enumerate() {
        told.push_str(if at == 0 { ": " } else { ", " });
        told.push_str(label);
    }
    escaped(&told)
}
