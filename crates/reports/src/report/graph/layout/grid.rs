//! Rows of cells. A cell is a box, or a bend of a link between two boxes; every link between cells leads from a row
//! to the next.

use super::{Extent, Sketch};

/// All cells, by row.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    /// The boxes, then the bends.
    pub cells: Vec<Cell>,
    /// The cells of each row, from the first to the last.
    pub rows: Vec<Vec<usize>>,
    /// Every piece of a link.
    pub pieces: Vec<Piece>,
    /// For each link the way through the cells.
    pub chains: Vec<Chain>,
    /// For each cell the pieces that lead to the row above.
    pub above: Vec<Vec<usize>>,
    /// For each cell the pieces that lead to the row below.
    pub below: Vec<Vec<usize>>,
}

/// A box or a bend.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// Its size; a bend without a label has none.
    pub extent: Extent,
    /// Its row.
    pub row: usize,
    /// What it is.
    pub kind: CellKind,
}

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// A box of the sketch.
    Box,
    /// A place where a link passes a row.
    Bend,
    /// A place where a link passes a row and bears its label.
    Label,
}

/// A piece of a link between two rows.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// The cell in the upper row.
    pub upper: usize,
    /// The cell in the lower row.
    pub lower: usize,
    /// It belongs to a link that gives way.
    pub back: bool,
}

/// A link's way.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// From the upper box to the lower one; of two boxes in one row, over a bend below each of them.
    pub cells: Vec<usize>,
    /// The pieces between them.
    pub pieces: Vec<usize>,
    /// The link leads from the lower box to the upper one.
    pub upwards: bool,
}

impl Grid {
    /// Boxes stand in the even rows, so that there is a row for labels between any two of them.
    pub(super) fn new(sketch: &Sketch, rows: &[usize]) -> Self {
        let mut grid = Self {
            cells: Vec::new(),
            rows: Vec::new(),
            pieces: Vec::new(),
            chains: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
        };
        for (extent, row) in sketch.boxes.iter().zip(rows) {
            grid.add(*extent, row * 2, CellKind::Box);
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
                let row = roomiest(passed.clone().step_by(2), &labelled);
                labelled[row] += label.breadth;
                (row, label)
            });
            let mut cells = vec![upper];
            for row in passed {
                cells.push(match bearing {
                    Some((bearer, label)) if bearer == row => grid.add(label, row, CellKind::Label),
                    _ => grid.add(Extent::default(), row, CellKind::Bend),
                });
            }
            let mut pieces = Vec::new();
            if first == last {
                let bend = grid.add(Extent::default(), first + 1, CellKind::Bend);
                pieces.push(grid.join(upper, cells[1], link.back));
                pieces.push(grid.join(lower, bend, link.back));
                cells.extend([bend, lower]);
            } else {
                cells.push(lower);
                for ends in cells.windows(2) {
                    pieces.push(grid.join(ends[0], ends[1], link.back));
                }
            }
            grid.chains.push(Chain { cells, pieces, upwards });
        }
        grid
    }

    fn add(&mut self, extent: Extent, row: usize, kind: CellKind) -> usize {
        let cell = self.cells.len();
        self.cells.push(Cell { extent, row, kind });
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
        self.rows[row].push(cell);
        cell
    }

    fn join(&mut self, upper: usize, lower: usize, back: bool) -> usize {
        let piece = self.pieces.len();
        self.pieces.push(Piece { upper, lower, back });
        self.below[upper].push(piece);
        self.above[lower].push(piece);
        piece
    }

    /// The two bends of a link between boxes of one row.
    pub(super) fn bends_of_flat(&self, chain: &Chain) -> Option<[usize; 2]> {
        match chain.cells[..] {
            [from, one, other, to] if self.cells[from].row == self.cells[to].row => Some([one, other]),
            _ => None,
        }
    }

    /// The place of each cell in its row.
    pub(super) fn positions(&self) -> Vec<usize> {
        let mut positions = vec![0; self.cells.len()];
        for row in &self.rows {
            for (position, cell) in row.iter().enumerate() {
                positions[*cell] = position;
            }
        }
        positions
    }
}

/// Of the rows that can bear a label, the one with the least in it so far, and of equal ones the last.
fn roomiest(rows: impl Iterator<Item = usize>, labelled: &[f64]) -> usize {
    rows.fold(None, |best: Option<usize>, row| match best {
        Some(best) if labelled[best] < labelled[row] => Some(best),
        _ => Some(row),
    })
    .expect("a link passes at least one row")
}
