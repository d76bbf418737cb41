//! The layout of a graph, in layers.
//!
//! Boxes are placed in rows, by their distance from the boxes without incoming links ([`rows`]). A link that crosses
//! rows has a bend in each of them, and its label is one of these bends, so that labels have space like boxes
//! ([`grid`]). The rows are ordered so that few links cross ([`order`]), and then spread out so that links are straight
//! ([`positions`]). Everything depends only on the sketch, so one ensemble always gives the same picture.
//!
//! The published layout crates return only the positions of boxes: they do not support labels, and do not return the
//! bends of long links.

mod grid;
mod order;
mod positions;
mod rows;

#[cfg(test)]
mod tests;

/// The boxes and links of a graph before the layout.
#[derive(Debug, Clone, Default)]
pub(super) struct GraphSketch {
    /// The size of each box.
    pub boxes: Vec<BoxExtent>,
    /// The links between boxes.
    pub links: Vec<SketchLink>,
}

/// A link between two boxes.
#[derive(Debug, Clone)]
pub(super) struct SketchLink {
    /// The first box.
    pub from: usize,
    /// The box at its head.
    pub to: usize,
    /// The size of its label.
    pub label: Option<BoxExtent>,
    /// True if the link has low priority, so that it does not affect the rows.
    pub back: bool,
}

/// The size of a box in pixels, in the axes of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct BoxExtent {
    /// The size along a row.
    pub breadth: f64,
    /// The size across rows.
    pub depth: f64,
}

/// A position in pixels from the origin of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct LayoutPoint {
    /// The position along a row.
    pub across: f64,
    /// The position across rows.
    pub along: f64,
}

/// The result of a layout: positions of boxes, and routes of links.
#[derive(Debug, Clone)]
pub(super) struct GraphLayout {
    /// The total size.
    pub extent: BoxExtent,
    /// The boxes.
    pub boxes: Vec<PlacedBox>,
    /// The path of each link.
    pub routes: Vec<LinkRoute>,
}

/// A box with its centre and its size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PlacedBox {
    /// The centre of the box.
    pub middle: LayoutPoint,
    /// The size of the box: as requested, or wider if the box has many links.
    pub extent: BoxExtent,
}

/// A route of a link with the position of its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LinkRoute {
    /// The legs from the edge of the first box to the edge of the last box.
    pub way: Vec<RouteLeg>,
    /// The centre of its label.
    pub label: Option<LayoutPoint>,
}

/// A leg of a route, which starts at the end of the previous leg.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RouteLeg {
    /// The start of the path.
    From(LayoutPoint),
    /// A straight line.
    Line(LayoutPoint),
    /// A curve that starts and ends across the rows.
    Curve(LayoutPoint),
    /// A curve that starts across the rows and ends along one.
    Turn(LayoutPoint),
    /// A curve that starts along a row and ends across the rows.
    TurnBack(LayoutPoint),
}

/// The maximum number of cells of a layout, whose time grows with it: boxes, labels, and a bend of each link in each row
/// that it crosses.
pub(super) const MAX_LAYOUT_CELLS: usize = 30_000;

/// Computes the layout of a sketch. Returns `None` if it has more than [`MAX_LAYOUT_CELLS`].
pub(super) fn lay_out_sketch(sketch: &GraphSketch) -> Option<GraphLayout> {
    let rows = rows::assign_rows(sketch);
    if count_cells(sketch, &rows) > MAX_LAYOUT_CELLS {
        return None;
    }
    Some(lay_out_rows(sketch, &rows))
}

/// Counts the cells of the layout with these rows of boxes.
fn count_cells(sketch: &GraphSketch, rows: &[usize]) -> usize {
    let bends = sketch
        .links
        .iter()
        .map(|link| match rows[link.from].abs_diff(rows[link.to]) {
            0 => 2,
            // There is a row for labels between two rows of boxes.
            distance => 2 * distance - 1,
        });
    sketch.boxes.len() + bends.sum::<usize>()
}

/// Computes the layout of boxes that have these rows: orders the cells, and then computes their positions.
fn lay_out_rows(sketch: &GraphSketch, rows: &[usize]) -> GraphLayout {
    let mut grid = grid::LayoutGrid::new(sketch, rows);
    order::reduce_crossings(&mut grid);
    positions::position_cells(sketch, &grid)
}

impl PlacedBox {
    /// Returns the corner of the box with the lowest coordinates.
    pub(super) fn start_corner(&self) -> LayoutPoint {
        LayoutPoint {
            across: self.middle.across - self.extent.breadth / 2.0,
            along: self.middle.along - self.extent.depth / 2.0,
        }
    }
}
