//! The grid of a layout: rows of cells, and links between cells of neighbouring rows. A cell is a box, or a bend of a link between two
//! boxes.

use super::{BoxExtent, GraphSketch};

/// The cells of a layout by row, with the links between them.
#[derive(Debug, Clone)]
pub(super) struct LayoutGrid {
    /// The boxes, then the bends.
    pub cells: Vec<GridCell>,
    /// The cells of each row, from first to last.
    pub rows: Vec<Vec<usize>>,
    /// All segments of links.
    pub pieces: Vec<LinkSegment>,
    /// The path of each link through the cells.
    pub chains: Vec<LinkChain>,
    /// The segments from each cell to the row above.
    pub above: Vec<Vec<usize>>,
    /// The segments from each cell to the row below.
    pub below: Vec<Vec<usize>>,
}

/// A cell of the grid: a box, a bend of a link, or a label.
#[derive(Debug, Clone)]
pub(super) struct GridCell {
    /// The size of the cell. A bend without a label has size 0.
    pub extent: BoxExtent,
    /// The row of the cell.
    pub row: usize,
    /// The kind of the cell.
    pub kind: GridCellKind,
}

/// The kind of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GridCellKind {
    /// A box of the sketch.
    Box,
    /// A point where a link crosses a row.
    Bend,
    /// A point where a link crosses a row, with the label of the link.
    Label,
}

/// A segment of a link between two rows.
#[derive(Debug, Clone)]
pub(super) struct LinkSegment {
    /// The cell in the upper row.
    pub upper: usize,
    /// The cell in the lower row.
    pub lower: usize,
    /// True if the link has low priority.
    pub back: bool,
}

/// A path of a link through cells.
#[derive(Debug, Clone)]
pub(super) struct LinkChain {
    /// The cells from the upper box to the lower one. For two boxes in one row, the path has a bend below each of them.
    pub cells: Vec<usize>,
    /// The segments between the cells.
    pub pieces: Vec<usize>,
    /// True if the link goes from the lower box to the upper box.
    pub upwards: bool,
}

impl LayoutGrid {
    /// Creates the cells and links. Boxes are in even rows, so that labels have rows between them.
    pub(super) fn new(sketch: &GraphSketch, rows: &[usize]) -> Self {
        let mut grid = Self {
            cells: Vec::new(),
            rows: Vec::new(),
            pieces: Vec::new(),
            chains: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
        };
        for (extent, row) in sketch.boxes.iter().zip(rows) {
            grid.add_cell(*extent, row * 2, GridCellKind::Box);
        }
        let mut labelled: Vec<f64> = Vec::new();
        for link in &sketch.links {
            let (from, to) = (grid.cells[link.from].row, grid.cells[link.to].row);
            let upwards = from > to;
            let (upper, lower) = if upwards {
                (link.to, link.from)
            } else {
                (link.from, link.to)
            };
            let (first, last) = (from.min(to), from.max(to));
            let passed = if first == last {
                first + 1..first + 2
            } else {
                first + 1..last
            };
            labelled.resize(labelled.len().max(passed.end), 0.0);
            let bearing = link.label.map(|label| {
                let row = find_roomiest_row(passed.clone().step_by(2), &labelled);
                labelled[row] += label.breadth;
                (row, label)
            });
            let mut cells = vec![upper];
            for row in passed {
                cells.push(match bearing {
                    Some((bearer, label)) if bearer == row => grid.add_cell(label, row, GridCellKind::Label),
                    _ => grid.add_cell(BoxExtent::default(), row, GridCellKind::Bend),
                });
            }
            let mut pieces = Vec::new();
            if first == last {
                let bend = grid.add_cell(BoxExtent::default(), first + 1, GridCellKind::Bend);
                pieces.push(grid.add_segment(upper, cells[1], link.back));
                pieces.push(grid.add_segment(lower, bend, link.back));
                cells.extend([bend, lower]);
            } else {
                cells.push(lower);
                for ends in cells.windows(2) {
                    pieces.push(grid.add_segment(ends[0], ends[1], link.back));
                }
            }
            grid.chains.push(LinkChain { cells, pieces, upwards });
        }
        grid
    }

    /// Adds a cell to the end of a row and returns its index.
    fn add_cell(&mut self, extent: BoxExtent, row: usize, kind: GridCellKind) -> usize {
        let cell = self.cells.len();
        self.cells.push(GridCell { extent, row, kind });
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
        self.rows[row].push(cell);
        cell
    }

    /// Adds a segment between two cells and returns its index.
    fn add_segment(&mut self, upper: usize, lower: usize, back: bool) -> usize {
        let piece = self.pieces.len();
        self.pieces.push(LinkSegment { upper, lower, back });
        self.below[upper].push(piece);
        self.above[lower].push(piece);
        piece
    }

    /// Returns the two bends of a link between boxes of one row. Returns `None` for other links.
    pub(super) fn flat_bends(&self, chain: &LinkChain) -> Option<[usize; 2]> {
        match chain.cells[..] {
            [from, one, other, to] if self.cells[from].row == self.cells[to].row => Some([one, other]),
            _ => None,
        }
    }

    /// Returns the index of each cell in its row.
    pub(super) fn cell_positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.cells.len()];
        for row in &self.rows {
            for (position, cell) in row.iter().enumerate() {
                positions[*cell] = position;
            }
        }
        positions
    }
}

/// Finds the row with the least content among rows that can contain a label; of equal rows the last one.
fn find_roomiest_row(rows: impl Iterator<Item = usize>, labelled: &[f64]) -> usize {
    rows.fold(None, |best: Option<usize>, row| match best {
        Some(best) if labelled[best] < labelled[row] => Some(best),
        _ => Some(row),
    })
    .expect("a link passes at least one row")
}
