//! Where things stand in a drawn graph: a layered layout.
//!
//! Boxes stand in rows, one row for each step away from those that wait for nobody ([`rows`]). A link that passes
//! rows bends in each of them, and its label is one of those bends, so that labels have room like boxes
//! have ([`grid`]). Rows are put in an order with few crossings ([`order`]), and then spread out so that links
//! run straight ([`place`]). Everything is decided by the sketch alone, so one ensemble gives one picture.
//!
//! The published layout crates give places for boxes only: they know nothing of labels, and keep to themselves
//! where a long link bends.

mod grid;
mod order;
mod place;
mod rows;

#[cfg(test)]
mod tests;

/// What is to be laid out.
#[derive(Debug, Clone, Default)]
pub(super) struct Sketch {
    /// How large each box is.
    pub boxes: Vec<Extent>,
    /// Between which boxes there are links.
    pub links: Vec<Link>,
}

/// A link from a box to a box.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Where it starts.
    pub from: usize,
    /// Where its head is.
    pub to: usize,
    /// How large its label is.
    pub label: Option<Extent>,
    /// It decides nothing about rows, and gives way to the others.
    pub back: bool,
}

/// A size, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Extent {
    /// Along a row.
    pub breadth: f64,
    /// From row to row.
    pub depth: f64,
}

/// A place, in pixels from the first corner.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spot {
    /// Along a row.
    pub across: f64,
    /// From row to row.
    pub along: f64,
}

/// Where everything stands.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The size of the whole.
    pub extent: Extent,
    /// Each box.
    pub boxes: Vec<Area>,
    /// The way of each link.
    pub routes: Vec<Route>,
}

/// A box that has its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    /// Its middle.
    pub middle: Spot,
    /// Its size: as asked for, or broader where many links meet.
    pub extent: Extent,
}

/// The way of a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// From the edge of the first box to the edge of the last one.
    pub way: Vec<Leg>,
    /// The middle of its label.
    pub label: Option<Spot>,
}

/// A piece of a way; it begins where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Leg {
    /// The beginning.
    From(Spot),
    /// A straight line.
    Line(Spot),
    /// A curve that leaves and arrives across the rows.
    Curve(Spot),
    /// A curve that leaves across the rows and arrives along one.
    Turn(Spot),
    /// A curve that leaves along a row and arrives across the rows.
    TurnBack(Spot),
}

/// Lays a sketch out.
pub(super) fn arrange(sketch: &Sketch) -> Layout {
    let rows = rows::of(sketch);
    let mut grid = grid::Grid::new(sketch, &rows);
    order::reduce_crossings(&mut grid);
    place::place(sketch, &grid)
}

impl Area {
    /// Where its row begins.
    pub(super) fn start(&self) -> Spot {
        Spot {
            across: self.middle.across - self.extent.breadth / 2.0,
            along: self.middle.along - self.extent.depth / 2.0,
        }
    }
}
