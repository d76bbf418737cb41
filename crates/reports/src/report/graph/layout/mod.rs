//! The layout of a graph, in layers.
//!
//! Boxes are placed in rows, by their distance from the boxes without incoming links ([`rows`]). A link that crosses
//! rows has a bend in each of them, and its label is one of these bends, so that labels have space like boxes
//! ([`grid`]). The rows are ordered so that few links cross ([`order`]), and then spread out so that links are straight
//! ([`place`]). Everything depends only on the sketch, so one ensemble always gives the same picture.
//!
//! The published layout crates return only the positions of boxes: they do not support labels, and do not return the
//! bends of long links.

mod grid;
mod order;
mod place;
mod rows;

#[cfg(test)]
mod tests;

/// The graph to be laid out.
#[derive(Debug, Clone, Default)]
pub(super) struct Sketch {
    /// The size of each box.
    pub boxes: Vec<Extent>,
    /// The links between boxes.
    pub links: Vec<Link>,
}

/// A link from a box to a box.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// The first box.
    pub from: usize,
    /// The box at its head.
    pub to: usize,
    /// The size of its label.
    pub label: Option<Extent>,
    /// Whether the link has low priority: it does not affect the rows.
    pub back: bool,
}

/// A size, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Extent {
    /// The size along a row.
    pub breadth: f64,
    /// The size across rows.
    pub depth: f64,
}

/// A position, in pixels from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spot {
    /// The position along a row.
    pub across: f64,
    /// The position across rows.
    pub along: f64,
}

/// The result of the layout.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The total size.
    pub extent: Extent,
    /// The boxes.
    pub boxes: Vec<Area>,
    /// The path of each link.
    pub routes: Vec<Route>,
}

/// A box with its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    /// Its centre.
    pub middle: Spot,
    /// Its size: as requested, or wider if it has many links.
    pub extent: Extent,
}

/// The path of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// From the edge of the first box to the edge of the last one.
    pub way: Vec<Leg>,
    /// The centre of its label.
    pub label: Option<Spot>,
}

/// A segment of a path; it starts at the end of the previous segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Leg {
    /// The start of the path.
    From(Spot),
    /// A straight line.
    Line(Spot),
    /// A curve that starts and ends across the rows.
    Curve(Spot),
    /// A curve that starts across the rows and ends along one.
    Turn(Spot),
    /// A curve that starts along a row and ends across the rows.
    TurnBack(Spot),
}

/// Computes the layout of a sketch.
pub(super) fn arrange(sketch: &Sketch) -> Layout {
    let rows = rows::of(sketch);
    let mut grid = grid::Grid::new(sketch, &rows);
    order::reduce_crossings(&mut grid);
    place::place(sketch, &grid)
}

impl Area {
    /// The start of the row.
    pub(super) fn start(&self) -> Spot {
        Spot {
            across: self.middle.across - self.extent.breadth / 2.0,
            along: self.middle.along - self.extent.depth / 2.0,
        }
    }
}
