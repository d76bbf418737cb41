//! The graph as an SVG picture without other files.
//!
//! The picture refers to no external font, picture or style, contains no script, and has no ids, so that one page can contain several
//! pictures. Its style follows the reader's choice of light or dark.

mod canvas;
mod lines;
mod shapes;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;

use super::super::xml::escape_xml;
use super::layout::{GraphLayout, GraphSketch, SketchLink, lay_out_sketch};
use super::{DependencyArrow, DependencyTrigger, ExecutionCountUnit, GraphPicture, render_ascii};
use canvas::{LayoutDirection, SvgCanvas};
use lines::ArrowLabel;
use shapes::NodeFigure;

/// The style of the picture, for a page that has pictures without a style of their own.
pub const SVG_STYLE: &str = include_str!("style.css");
/// The maximum width of a picture from top to bottom, in pixels. A wider picture is drawn from left to right if that is narrower.
const MAX_DOWNWARD_WIDTH: f64 = 1400.0;
/// The margin of the picture, in pixels.
const PICTURE_MARGIN: f64 = 20.0;
/// The height of the heading, in pixels.
const HEADING_HEIGHT: f64 = 26.0;
/// The height of a line of the legend, in pixels.
const LEGEND_LINE_HEIGHT: f64 = 20.0;

/// An error that a graph is too large for a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphTooLargeError {
    /// The number of agents.
    pub agents: usize,
    /// The number of dependencies.
    pub dependencies: usize,
}

impl std::error::Error for GraphTooLargeError {}

impl fmt::Display for GraphTooLargeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agents, dependencies } = self;
        write!(
            f,
            "the graph is too large to be drawn: {agents} agents, {dependencies} dependencies"
        )
    }
}

impl GraphTooLargeError {
    /// The advice in the error.
    pub const ADVICE: &str = "use the format `dot` with a program such as Graphviz, or the format `ascii`";

    /// Draws a picture with the error, for documents that always have a picture.
    pub fn to_error_picture(self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"60\" role=\"img\">\n\
             <text x=\"10\" y=\"24\">{self}</text>\n<text x=\"10\" y=\"46\">{}</text>\n</svg>\n",
            Self::ADVICE
        )
    }
}

/// Draws the picture as one `<svg>` element without an XML declaration: for a file or an HTML page.
///
/// # Errors
/// The graph is too large.
pub fn render_svg(picture: &GraphPicture) -> Result<String, GraphTooLargeError> {
    let figures: Vec<NodeFigure> = picture.nodes.iter().map(NodeFigure::new).collect();
    let labels: Vec<ArrowLabel> = picture.arrows.iter().map(ArrowLabel::new).collect();
    let too_large = GraphTooLargeError {
        agents: picture.nodes.len(),
        dependencies: picture.arrows.len(),
    };
    let (direction, layout) = choose_layout(&figures, &labels, &picture.arrows).ok_or(too_large)?;
    let legend = legend_entries(picture);
    let (breadth, depth) = direction.to_picture_size(layout.extent);
    let titles = [
        words::estimate_text_width(&picture.title, 10.0),
        words::estimate_text_width(picture.subtitle.as_deref().unwrap_or(""), 6.8),
    ];
    let texts = legend
        .iter()
        .map(|(_, text)| 50.0 + words::estimate_text_width(text, 6.8))
        .chain(titles);
    let widest = texts.fold(breadth, f64::max);
    let head = PICTURE_MARGIN + HEADING_HEIGHT + if picture.subtitle.is_some() { 18.0 } else { 0.0 };
    let canvas = SvgCanvas {
        direction,
        left: PICTURE_MARGIN + (widest - breadth) / 2.0,
        top: head + 4.0,
    };
    let width = widest + 2.0 * PICTURE_MARGIN;
    let below = canvas.top + depth + 14.0;
    let height = below + legend.len() as f64 * LEGEND_LINE_HEIGHT + PICTURE_MARGIN / 2.0;

    let mut text = render_svg_start(picture, width.ceil(), height.ceil());
    for (arrow, route) in picture.arrows.iter().zip(&layout.routes) {
        text.push_str(&lines::draw_arrow(picture, arrow, route, &canvas));
    }
    for (figure, area) in figures.iter().zip(&layout.boxes) {
        text.push_str(&figure.draw_figure(area, &canvas));
    }
    for ((arrow, label), route) in picture.arrows.iter().zip(&labels).zip(&layout.routes) {
        text.push_str(&label.draw_label(picture, arrow, route, &canvas));
    }
    for (at, (class, meaning)) in legend.iter().enumerate() {
        let y = below + (at as f64 + 0.5) * LEGEND_LINE_HEIGHT;
        text.push_str(&lines::draw_legend_sample(class, meaning, PICTURE_MARGIN, y));
    }
    Ok(text + "</svg>\n")
}

/// Lays the graph out from top to bottom, or from left to right if it is too wide. Returns `None` if the graph is too large.
fn choose_layout(
    figures: &[NodeFigure],
    labels: &[ArrowLabel],
    arrows: &[DependencyArrow],
) -> Option<(LayoutDirection, GraphLayout)> {
    let laid_out = |direction: LayoutDirection| {
        lay_out_sketch(&GraphSketch {
            boxes: figures
                .iter()
                .map(|figure| direction.to_extent(figure.figure_size()))
                .collect(),
            links: arrows
                .iter()
                .zip(labels)
                .map(|(arrow, label)| SketchLink {
                    from: arrow.from,
                    to: arrow.to,
                    label: label.label_size().map(|size| direction.to_extent(size)),
                    back: arrow.feedback,
                })
                .collect(),
        })
    };
    let down = laid_out(LayoutDirection::Down)?;
    if down.extent.breadth <= MAX_DOWNWARD_WIDTH {
        return Some((LayoutDirection::Down, down));
    }
    let right = laid_out(LayoutDirection::Right)?;
    match right.extent.depth < down.extent.breadth {
        true => Some((LayoutDirection::Right, right)),
        false => Some((LayoutDirection::Down, down)),
    }
}

/// Renders the `<svg>` tag with title, description, style and heading.
fn render_svg_start(picture: &GraphPicture, width: f64, height: f64) -> String {
    let title = escape_xml(&picture.title);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ensemble-graph\" role=\"img\" width=\"{width}\" \
         height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <title>{title}: who listens to whom</title>\n<desc>{}</desc>\n<style>\n{SVG_STYLE}</style>\n\
         <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"heading\" x=\"{PICTURE_MARGIN}\" y=\"{}\">{title}</text>\n",
        // For screen readers; the lines stay separate.
        escape_xml(&render_ascii(picture)).replace("&#10;", "\n"),
        PICTURE_MARGIN + 14.0,
    );
    if let Some(subtitle) = &picture.subtitle {
        text.push_str(&format!(
            "<text class=\"note\" x=\"{PICTURE_MARGIN}\" y=\"{}\">{}</text>\n",
            PICTURE_MARGIN + 34.0,
            escape_xml(subtitle)
        ));
    }
    text
}

/// Lists the special shapes and lines in the picture, with their meanings.
fn legend_entries(picture: &GraphPicture) -> Vec<(&'static str, &'static str)> {
    let any = |shown: fn(&DependencyArrow) -> bool| picture.arrows.iter().any(shown);
    let meanings = [
        (
            any(|arrow| arrow.feedback),
            "arrow feedback",
            "feedback: not needed before the first execution",
        ),
        (any(|arrow| arrow.any_of), "arrow any-of", "one of these is enough"),
        (
            any(|arrow| arrow.ending == DependencyTrigger::Failure),
            "arrow failure",
            "listens to failures",
        ),
        (
            any(|arrow| arrow.start_count > Some(0)),
            "arrow started",
            match picture.count_unit {
                ExecutionCountUnit::Run => "started an execution in this run",
                ExecutionCountUnit::Cases => "started an execution in a case",
            },
        ),
        (
            any(DependencyArrow::is_unused),
            "arrow idle",
            match picture.count_unit {
                ExecutionCountUnit::Run => "started none in this run",
                ExecutionCountUnit::Cases => "started none in any case",
            },
        ),
    ];
    let used = meanings.into_iter().filter(|(shown, ..)| *shown);
    used.map(|(_, class, meaning)| (class, meaning)).collect()
}
