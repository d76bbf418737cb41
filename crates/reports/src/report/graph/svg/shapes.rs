//! An agent as a shape with text.

use super::super::layout::Area;
use super::super::{Node, Shape};
use super::canvas::{Canvas, Size, short};
use super::escaped;
use super::words;

const NAME_LINE: f64 = 19.0;
const NOTE_LINE: f64 = 15.5;
const PADDING: (f64, f64) = (16.0, 9.0);
/// The slope of the sides of a slanted shape.
const SLANT: f64 = 12.0;
const COLUMNS: usize = 28;

/// The shape of an agent, without its position.
pub(super) struct Figure<'a> {
    node: &'a Node,
    lines: Vec<(&'static str, String)>,
}

impl<'a> Figure<'a> {
    /// Breaks the words into lines.
    pub(super) fn new(node: &'a Node) -> Self {
        let classed = |class: &'static str, lines: Vec<String>| lines.into_iter().map(move |line| (class, line));
        let notes = node.notes.iter().map(|note| words::wrapped(note, COLUMNS + 4, 2));
        let run_data = node
            .run_data
            .iter()
            .map(|run_data| words::wrapped(&run_data.words(), COLUMNS + 4, 4));
        let lines = classed("name", words::wrapped(&node.name, COLUMNS, 2))
            .chain(classed("note", vec![node.shape.word().to_owned()]))
            .chain(notes.flat_map(|lines| classed("note", lines)))
            .chain(run_data.flat_map(|lines| classed("fate", lines)))
            .collect();
        Self { node, lines }
    }

    /// Returns the size of the figure.
    pub(super) fn size(&self) -> Size {
        let widths = self.lines.iter().map(|(class, line)| match *class {
            "name" => words::width(line, 9.3),
            "fate" => words::width(line, 7.2),
            _ => words::width(line, 6.6),
        });
        let sides = match self.node.shape {
            Shape::Input | Shape::Ensemble => SLANT,
            Shape::Script | Shape::Llm | Shape::External | Shape::Tool => 0.0,
        };
        let width = widths.fold(64.0, f64::max) + 2.0 * (PADDING.0 + sides);
        let height: f64 = self.lines.iter().map(|(class, _)| height(class)).sum();
        (width, height + 2.0 * PADDING.1)
    }

    /// Draws it at its position.
    pub(super) fn draw(&self, area: &Area, canvas: &Canvas) -> String {
        let ((x, y), (width, height)) = canvas.rectangle(area);
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        let mut classes = "agent".to_owned();
        if self.node.is_idle() {
            classes.push_str(" idle");
        }
        if self.node.has_failed() {
            classes.push_str(" failed");
        }
        let told: Vec<String> = self.node.lines().map(|line| escaped(&line)).collect();
        let mut text = format!(
            "<g class=\"{classes}\"><title>{}</title>{}",
            told.join(", "),
            self.outlines((x, y), (width, height))
        );
        let content = self.lines.iter().map(|(class, _)| self::height(class)).sum::<f64>();
        let mut line_top = y + (height - content) / 2.0;
        for (class, line) in &self.lines {
            let baseline = short(line_top + self::height(class) * 0.74);
            text.push_str(&format!(
                "<text class=\"{class}\" x=\"{}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
                short(x + width / 2.0),
                escaped(line)
            ));
            line_top += self::height(class);
        }
        text + "</g>\n"
    }

    /// The shape; for a list a stack of shapes, of which the text stands on the front one.
    fn outlines(&self, (x, y): (f64, f64), size: Size) -> String {
        let behind = if self.node.is_stack { STACK } else { &[] };
        let behind = behind
            .iter()
            .map(|by| outline(self.node.shape, (short(x + by), short(y - by)), size));
        behind.chain([outline(self.node.shape, (x, y), size)]).collect()
    }
}

/// How far the shapes of a stack stand behind the front one, the last one first.
const STACK: &[f64] = &[6.0, 3.0];

fn height(class: &str) -> f64 {
    if class == "name" { NAME_LINE } else { NOTE_LINE }
}

fn outline(shape: Shape, (x, y): (f64, f64), (width, height): Size) -> String {
    let class = format!("class=\"shape {}\"", shape.word());
    let rectangle = |corner: f64| {
        format!("<rect {class} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{corner}\"/>")
    };
    match shape {
        Shape::Script | Shape::Tool => rectangle(3.0),
        Shape::Llm | Shape::External => rectangle((height / 2.0).min(22.0)),
        Shape::Input => format!(
            "<path {class} d=\"M{},{y} H{} L{},{} H{x} Z\"/>",
            x + SLANT,
            x + width,
            x + width - SLANT,
            y + height
        ),
        Shape::Ensemble => format!(
            "{}<path {class} d=\"M{},{y} v{height} M{},{y} v{height}\"/>",
            rectangle(3.0),
            x + 6.0,
            x + width - 6.0
        ),
    }
}
