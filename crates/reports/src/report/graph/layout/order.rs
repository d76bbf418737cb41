//! The order of the cells in each row, so that few links cross.

use super::grid::LayoutGrid;

/// The maximum number of sweeps up and down, because further sweeps rarely improve the order.
const MAX_SWEEPS: usize = 24;
/// The maximum number of cells that all sweeps together visit, so that large layouts have fewer sweeps.
const MAX_SWEPT_CELLS: usize = 48_000;
/// The maximum number of rounds of swaps in a sweep.
const MAX_SWAP_ROUNDS: usize = 8;

/// Orders the cells of every row to reduce the crossings of links.
pub(super) fn reduce_crossings(grid: &mut LayoutGrid) {
    set_initial_order(grid);
    let mut best = grid.rows.clone();
    let mut fewest = count_crossings(grid);
    let sweeps = (MAX_SWEPT_CELLS / grid.cells.len().max(1)).clamp(1, MAX_SWEEPS);
    for sweep in 0..sweeps {
        if fewest == 0 {
            break;
        }
        let down = sweep % 2 == 0;
        let count = grid.rows.len();
        let mut positions = grid.cell_positions();
        for at in 0..count {
            sort_row_by_links(grid, &mut positions, if down { at } else { count - 1 - at }, down);
        }
        swap_crossing_neighbours(grid, sweeps.min(MAX_SWAP_ROUNDS));
        let crossings = count_crossings(grid);
        if crossings < fewest {
            fewest = crossings;
            best.clone_from(&grid.rows);
        }
    }
    grid.rows = best;
}

/// Sets the initial order of every row by a depth-first walk, so that linked cells are close together.
pub(super) fn set_initial_order(grid: &mut LayoutGrid) {
    let mut visited_cells = vec![false; grid.cells.len()];
    let mut rows = vec![Vec::new(); grid.rows.len()];
    for row in &grid.rows {
        for start in row {
            let mut ahead = vec![*start];
            while let Some(cell) = ahead.pop() {
                if !std::mem::replace(&mut visited_cells[cell], true) {
                    rows[grid.cells[cell].row].push(cell);
                    ahead.extend(grid.below[cell].iter().rev().map(|piece| grid.pieces[*piece].lower));
                }
            }
        }
    }
    grid.rows = rows;
}

/// Sorts a row by the average position of linked cells in the row before (`down`) or after. Cells without links stay.
fn sort_row_by_links(grid: &mut LayoutGrid, positions: &mut [usize], row: usize, down: bool) {
    let middle = |cell: usize| -> Option<f64> {
        let pieces = if down { &grid.above[cell] } else { &grid.below[cell] };
        let linked_position = |piece: &usize| {
            let piece = &grid.pieces[*piece];
            positions[if down { piece.upper } else { piece.lower }] as f64
        };
        (!pieces.is_empty()).then(|| pieces.iter().map(linked_position).sum::<f64>() / pieces.len() as f64)
    };
    let mut moving: Vec<(f64, usize)> = grid.rows[row]
        .iter()
        .filter_map(|cell| Some((middle(*cell)?, *cell)))
        .collect();
    moving.sort_by(|one, other| one.0.total_cmp(&other.0));
    let moves: Vec<bool> = grid.rows[row].iter().map(|cell| middle(*cell).is_some()).collect();
    let mut sorted = moving.into_iter().map(|(_, cell)| cell);
    for (slot, moves) in grid.rows[row].iter_mut().zip(moves) {
        if moves && let Some(cell) = sorted.next() {
            *slot = cell;
        }
    }
    for (position, cell) in grid.rows[row].iter().enumerate() {
        positions[*cell] = position;
    }
}

/// Swaps neighbours while this removes crossings, in at most this number of rounds.
fn swap_crossing_neighbours(grid: &mut LayoutGrid, most_rounds: usize) {
    let mut positions = grid.cell_positions();
    let mut improved = true;
    let mut rounds = 0;
    while improved && rounds < most_rounds {
        improved = false;
        rounds += 1;
        for row in 0..grid.rows.len() {
            for at in 1..grid.rows[row].len() {
                let (left, right) = (grid.rows[row][at - 1], grid.rows[row][at]);
                let now = count_crossings_between(grid, &positions, left, right);
                if count_crossings_between(grid, &positions, right, left) < now {
                    grid.rows[row].swap(at - 1, at);
                    positions.swap(left, right);
                    improved = true;
                }
            }
        }
    }
}

/// Counts the crossings between the links of two neighbours in this order.
fn count_crossings_between(grid: &LayoutGrid, positions: &[usize], left: usize, right: usize) -> usize {
    let above = |cell: usize| -> Vec<usize> {
        let pieces = grid.above[cell].iter();
        pieces.map(|piece| positions[grid.pieces[*piece].upper]).collect()
    };
    let below = |cell: usize| -> Vec<usize> {
        let pieces = grid.below[cell].iter();
        pieces.map(|piece| positions[grid.pieces[*piece].lower]).collect()
    };
    count_inversions(above(left), above(right)) + count_inversions(below(left), below(right))
}

/// Counts the pairs whose first position is larger than the second one.
fn count_inversions(mut ones: Vec<usize>, mut others: Vec<usize>) -> usize {
    ones.sort_unstable();
    others.sort_unstable();
    let (mut smaller, mut count) = (0, 0);
    for one in ones {
        while others.get(smaller).is_some_and(|other| *other < one) {
            smaller += 1;
        }
        count += smaller;
    }
    count
}

/// Counts the crossings in the whole grid.
pub(super) fn count_crossings(grid: &LayoutGrid) -> usize {
    let positions = grid.cell_positions();
    let mut count = 0;
    for row in &grid.rows {
        let mut ends: Vec<(usize, usize)> = row
            .iter()
            .flat_map(|cell| &grid.below[*cell])
            .map(|piece| &grid.pieces[*piece])
            .map(|piece| (positions[piece.upper], positions[piece.lower]))
            .collect();
        ends.sort_unstable();
        // A crossing is an inversion of the lower ends; `tree` counts the ends further right.
        let width = ends.iter().map(|(_, lower)| lower + 1).max().unwrap_or(0);
        let mut tree = vec![0_usize; width + 1];
        for (seen, (_, lower)) in ends.iter().enumerate() {
            let mut before = 0;
            let mut at = lower + 1;
            while at > 0 {
                before += tree[at];
                at &= at - 1;
            }
            count += seen - before;
            at = lower + 1;
            while at <= width {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
        }
    }
    count
}
