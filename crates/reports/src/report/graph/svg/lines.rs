//! The arrows of dependencies, with their heads and labels.

use super::super::layout::{LayoutPoint, LinkRoute};
use super::super::{DependencyArrow, DependencyTrigger, GraphPicture};
use super::canvas::{PixelSize, SvgCanvas, round_to_half};
use super::escape_xml;
use super::words;

/// The height of a line of a label, in pixels.
const LABEL_LINE_HEIGHT: f64 = 15.0;
/// The maximum number of characters of a line of a label.
const MAX_LABEL_COLUMNS: usize = 30;
/// The radius of the circle at the end of an arrow, which means that one of several dependencies is enough.
const RING_RADIUS: f64 = 4.5;

/// The label of an arrow: lines of text, each with its CSS class.
pub(super) struct ArrowLabel {
    lines: Vec<(&'static str, String)>,
}

impl ArrowLabel {
    /// Breaks the texts of the label into lines.
    pub(super) fn new(arrow: &DependencyArrow) -> Self {
        let ending = arrow.ending.trigger_words().map(|words| ("ending", words.to_owned()));
        let condition = arrow.condition.as_ref().map(|text| format!("if {}", text.trim()));
        let condition = condition
            .iter()
            .flat_map(|text| words::wrap_text(text, MAX_LABEL_COLUMNS, 3));
        let limit = arrow.limit_label().map(|line| ("note", line));
        let story = arrow.start_count_label().map(|line| ("story", line));
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
    pub(super) fn label_size(&self) -> Option<PixelSize> {
        let widths = self.lines.iter().map(|(class, line)| match *class {
            "condition" => words::estimate_text_width(line, 6.7),
            "story" => words::estimate_text_width(line, 7.2),
            _ => words::estimate_text_width(line, 6.8),
        });
        let width = widths.reduce(f64::max)?;
        Some((width + 12.0, self.lines.len() as f64 * LABEL_LINE_HEIGHT + 4.0))
    }

    /// Draws the label over its line.
    pub(super) fn draw_label(
        &self,
        picture: &GraphPicture,
        arrow: &DependencyArrow,
        route: &LinkRoute,
        canvas: &SvgCanvas,
    ) -> String {
        let (Some(middle), Some((width, height))) = (route.label, self.label_size()) else {
            return String::new();
        };
        let (x, y) = canvas.picture_point(middle);
        let (left, top) = (round_to_half(x - width / 2.0), round_to_half(y - height / 2.0));
        let mut text = format!(
            "<g class=\"{}\"><title>{}</title>\
             <rect class=\"ground\" x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"/>",
            arrow_classes(arrow),
            full_arrow_text(picture, arrow)
        );
        for (at, (class, line)) in self.lines.iter().enumerate() {
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                round_to_half(x),
                round_to_half(top + at as f64 * LABEL_LINE_HEIGHT + 13.0),
                escape_xml(line)
            ));
        }
        text + "</g>\n"
    }
}

/// Draws the line of a dependency and its arrow head.
pub(super) fn draw_arrow(
    picture: &GraphPicture,
    arrow: &DependencyArrow,
    route: &LinkRoute,
    canvas: &SvgCanvas,
) -> String {
    let (data, end, step) = canvas.shortened_path_data(route, if arrow.any_of { 2.0 * RING_RADIUS } else { 7.0 });
    let head = if arrow.any_of {
        let (x, y) = canvas.picture_point(LayoutPoint {
            along: end.along - step * RING_RADIUS,
            ..end
        });
        format!(
            "<circle class=\"ring\" cx=\"{}\" cy=\"{}\" r=\"{RING_RADIUS}\"/>",
            round_to_half(x),
            round_to_half(y)
        )
    } else {
        let corner = |across: f64| LayoutPoint {
            across: end.across + across,
            along: end.along - step * 9.0,
        };
        let corners = [end, corner(-4.5), corner(4.5)].map(|spot| canvas.format_point(spot));
        format!(
            "<path class=\"head\" d=\"M{} L{} L{} Z\"/>",
            corners[0], corners[1], corners[2]
        )
    };
    format!(
        "<g class=\"{}\"><title>{}</title><path class=\"line\" d=\"{data}\"/>{head}</g>\n",
        arrow_classes(arrow),
        full_arrow_text(picture, arrow)
    )
}

/// Draws an entry of the legend at this position: a short line in the style of the CSS class, and its meaning.
pub(super) fn draw_legend_sample(class: &str, meaning: &str, x: f64, y: f64) -> String {
    let (end, text) = (x + 36.0, x + 48.0);
    let head = if class.contains("any-of") {
        format!(
            "<circle class=\"ring\" cx=\"{}\" cy=\"{y}\" r=\"{RING_RADIUS}\"/>",
            end - RING_RADIUS
        )
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
        escape_xml(meaning)
    )
}

/// Returns the CSS classes of an arrow.
fn arrow_classes(arrow: &DependencyArrow) -> String {
    let looks = [
        ("arrow", true),
        ("feedback", arrow.feedback),
        ("any-of", arrow.any_of),
        ("failure", arrow.ending == DependencyTrigger::Failure),
        ("started", arrow.start_count > Some(0)),
        ("idle", arrow.is_unused()),
    ];
    let classes: Vec<&str> = looks.iter().filter(|(_, is)| *is).map(|(class, _)| *class).collect();
    classes.join(" ")
}

/// Returns the full text of the arrow, because the label can be shortened.
fn full_arrow_text(picture: &GraphPicture, arrow: &DependencyArrow) -> String {
    let (from, to) = (&picture.nodes[arrow.from].name, &picture.nodes[arrow.to].name);
    let mut title = format!("{to} listens to {from}");
    if arrow.feedback {
        title.push_str(" (feedback)");
    }
    if arrow.any_of {
        title.push_str(" (one of these is enough)");
    }
    for (at, label) in arrow.label_lines().iter().enumerate() {
        title.push_str(if at == 0 { ": " } else { ", " });
        title.push_str(label);
    }
    escape_xml(&title)
}
