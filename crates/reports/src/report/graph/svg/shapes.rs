//! The shapes of agents, with their text.

use super::super::layout::PlacedBox;
use super::super::{NodeActivity, NodeShape, PictureNode};
use super::canvas::{PixelSize, SvgCanvas, round_to_half};
use super::escape_xml;
use super::words;

/// The height of a line of the name, in pixels.
const NAME_LINE_HEIGHT: f64 = 19.0;
/// The height of a line of a note, in pixels.
const NOTE_LINE_HEIGHT: f64 = 15.5;
/// The horizontal and the vertical space between the text and the outline, in pixels.
const FIGURE_PADDING: (f64, f64) = (16.0, 9.0);
/// The horizontal offset of a slanted side, in pixels.
const SIDE_SLANT: f64 = 12.0;
/// The maximum number of characters of a line of the name.
const MAX_FIGURE_COLUMNS: usize = 28;

/// The figure of an agent: its shape and its lines of text, without a position.
pub(super) struct NodeFigure<'a> {
    node: &'a PictureNode,
    lines: Vec<(&'static str, String)>,
}

impl<'a> NodeFigure<'a> {
    /// Breaks the texts of the agent into lines.
    pub(super) fn new(node: &'a PictureNode) -> Self {
        let classed = |class: &'static str, lines: Vec<String>| lines.into_iter().map(move |line| (class, line));
        let notes = node
            .notes
            .iter()
            .map(|note| words::wrap_text(note, MAX_FIGURE_COLUMNS + 4, 2));
        let run_data = node
            .run_data
            .iter()
            .map(|run_data| words::wrap_text(&run_data.describe(), MAX_FIGURE_COLUMNS + 4, 4));
        let lines = classed("name", words::wrap_text(&node.name, MAX_FIGURE_COLUMNS, 2))
            .chain(classed("note", vec![node.shape.kind_word().to_owned()]))
            .chain(notes.flat_map(|lines| classed("note", lines)))
            .chain(run_data.flat_map(|lines| classed("fate", lines)))
            .collect();
        Self { node, lines }
    }

    /// Returns the size of the figure in pixels.
    pub(super) fn figure_size(&self) -> PixelSize {
        let widths = self.lines.iter().map(|(class, line)| match *class {
            "name" => words::estimate_text_width(line, 9.3),
            "fate" => words::estimate_text_width(line, 7.2),
            _ => words::estimate_text_width(line, 6.6),
        });
        let sides = match self.node.shape {
            NodeShape::Input | NodeShape::Ensemble => SIDE_SLANT,
            NodeShape::Script | NodeShape::Llm | NodeShape::External | NodeShape::Tool => 0.0,
        };
        let width = widths.fold(64.0, f64::max) + 2.0 * (FIGURE_PADDING.0 + sides);
        let height: f64 = self.lines.iter().map(|(class, _)| line_height(class)).sum();
        (width, height + 2.0 * FIGURE_PADDING.1)
    }

    /// Draws the figure at its position.
    pub(super) fn draw_figure(&self, area: &PlacedBox, canvas: &SvgCanvas) -> String {
        let ((x, y), (width, height)) = canvas.picture_rectangle(area);
        let (x, y, width, height) = (
            round_to_half(x),
            round_to_half(y),
            round_to_half(width),
            round_to_half(height),
        );
        let mut classes = "agent".to_owned();
        if self.node.is_unexecuted() {
            classes.push_str(" idle");
        }
        match self.node.activity() {
            Some(NodeActivity::Running) => classes.push_str(" active"),
            Some(NodeActivity::Waiting) => classes.push_str(" waiting"),
            Some(NodeActivity::Stopped) | None => {}
        }
        if self.node.has_failed() {
            classes.push_str(" failed");
        }
        let lines: Vec<String> = self.node.shape_text_lines().map(|line| escape_xml(&line)).collect();
        let mut text = format!(
            "<g class=\"{classes}\"><title>{}</title>{}",
            lines.join(", "),
            self.draw_outlines((x, y), (width, height))
        );
        let content = self
            .lines
            .iter()
            .map(|(class, _)| self::line_height(class))
            .sum::<f64>();
        let mut line_top = y + (height - content) / 2.0;
        for (class, line) in &self.lines {
            let baseline = round_to_half(line_top + self::line_height(class) * 0.74);
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
                round_to_half(x + width / 2.0),
                escape_xml(line)
            ));
            line_top += self::line_height(class);
        }
        text + "</g>\n"
    }

    /// Draws the shape; for a list, a stack of shapes.
    fn draw_outlines(&self, (x, y): (f64, f64), size: PixelSize) -> String {
        let behind = if self.node.is_stack { STACK_OFFSETS } else { &[] };
        let behind = behind
            .iter()
            .map(|by| draw_outline(self.node.shape, (round_to_half(x + by), round_to_half(y - by)), size));
        behind.chain([draw_outline(self.node.shape, (x, y), size)]).collect()
    }
}

/// The offsets of the shapes of a stack behind the front one, the last one first.
const STACK_OFFSETS: &[f64] = &[6.0, 3.0];

/// Returns the height of a line with this CSS class.
fn line_height(class: &str) -> f64 {
    if class == "name" {
        NAME_LINE_HEIGHT
    } else {
        NOTE_LINE_HEIGHT
    }
}

/// Draws one shape at a position with a size.
fn draw_outline(shape: NodeShape, (x, y): (f64, f64), (width, height): PixelSize) -> String {
    let class = format!("class=\"shape {}\"", shape.kind_word());
    let rectangle = |corner: f64| {
        format!("<rect {class} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{corner}\"/>")
    };
    match shape {
        NodeShape::Script | NodeShape::Tool => rectangle(3.0),
        NodeShape::Llm | NodeShape::External => rectangle((height / 2.0).min(22.0)),
        NodeShape::Input => format!(
            "<path {class} d=\"M{},{y} H{} L{},{} H{x} Z\"/>",
            x + SIDE_SLANT,
            x + width,
            x + width - SIDE_SLANT,
            y + height
        ),
        NodeShape::Ensemble => format!(
            "{}<path {class} d=\"M{},{y} v{height} M{},{y} v{height}\"/>",
            rectangle(3.0),
            x + 6.0,
            x + width - 6.0
        ),
    }
}
