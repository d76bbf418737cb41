//! The positions of the cells in ordered rows, and the lines of the links between them.

use super::grid::{GridCellKind, LayoutGrid, LinkChain};
use super::{BoxExtent, GraphLayout, GraphSketch, LayoutPoint, LinkRoute, PlacedBox, RouteLeg};

/// The space between two boxes of a row.
const BOX_GAP: f64 = 34.0;
/// The space between a label and its neighbour.
const LABEL_GAP: f64 = 16.0;
/// The space between two parallel links.
const BEND_GAP: f64 = 16.0;
/// The smallest and the largest space between rows.
const ROW_GAP_RANGE: (f64, f64) = (30.0, 70.0);
/// The length of the straight end of a link before a box, so that there is space for its head.
const STUB_LENGTH: f64 = 11.0;
/// The smallest and the largest space between two links at one box.
const PORT_GAP_RANGE: (f64, f64) = (12.0, 26.0);
/// The space between two links that run along a row.
const TRACK_GAP: f64 = 9.0;
/// The number of rounds in which cells move towards their preferred positions.
const SPREAD_ROUNDS: usize = 40;

/// Computes the positions of all cells and the routes of the links.
pub(super) fn position_cells(sketch: &GraphSketch, grid: &LayoutGrid) -> GraphLayout {
    let mut extents: Vec<BoxExtent> = grid.cells.iter().map(|cell| cell.extent).collect();
    for (cell, extent) in extents.iter_mut().enumerate().take(sketch.boxes.len()) {
        let port_count = grid.above[cell].len().max(grid.below[cell].len());
        extent.breadth = extent.breadth.max((port_count + 1) as f64 * PORT_GAP_RANGE.0);
    }
    let ports = LinkPorts::new(grid, &extents);
    let mut across = spread_cells(grid, &extents, &ports);
    let left_edge = (0..across.len())
        .map(|cell| across[cell] - extents[cell].breadth / 2.0)
        .fold(f64::INFINITY, f64::min);
    across.iter_mut().for_each(|place| *place -= left_edge);
    let tracks = LinkTracks::new(grid, &across);
    let bands = compute_bands(grid, &extents, &across, &ports, &tracks);
    let drawing = LinkRouter {
        grid,
        extents: &extents,
        across: &across,
        bands: &bands,
        ports: &ports,
        tracks: &tracks,
    };
    let breadth = (0..across.len()).map(|cell| across[cell] + extents[cell].breadth / 2.0);
    GraphLayout {
        extent: BoxExtent {
            breadth: breadth.fold(0.0, f64::max),
            depth: bands.last().map_or(0.0, |band| band.end),
        },
        boxes: (0..sketch.boxes.len())
            .map(|cell| PlacedBox {
                middle: drawing.cell_middle(cell),
                extent: extents[cell],
            })
            .collect(),
        routes: (0..grid.chains.len()).map(|link| drawing.route_link(link)).collect(),
    }
}

/// The offsets of the ends of each segment from the centre of their cells.
struct LinkPorts {
    upper: Vec<f64>,
    lower: Vec<f64>,
}

impl LinkPorts {
    /// Places the ends of the links at a box next to each other, in the order in which they arrive.
    fn new(grid: &LayoutGrid, extents: &[BoxExtent]) -> Self {
        let positions = grid.cell_positions();
        let mut ports = Self {
            upper: vec![0.0; grid.pieces.len()],
            lower: vec![0.0; grid.pieces.len()],
        };
        for (cell, about) in grid.cells.iter().enumerate() {
            if about.kind != GridCellKind::Box {
                continue;
            }
            let mut below = grid.below[cell].clone();
            below.sort_by_key(|piece| positions[grid.pieces[*piece].lower]);
            let mut above = grid.above[cell].clone();
            above.sort_by_key(|piece| positions[grid.pieces[*piece].upper]);
            for (pieces, offsets) in [(below, &mut ports.upper), (above, &mut ports.lower)] {
                let room = extents[cell].breadth / (pieces.len() + 1) as f64;
                let step = room.min(PORT_GAP_RANGE.1);
                let middle = (pieces.len() as f64 - 1.0) / 2.0;
                for (at, piece) in pieces.into_iter().enumerate() {
                    offsets[piece] = (at as f64 - middle) * step;
                }
            }
        }
        ports
    }
}

/// Computes the centre of each cell along its row: where its links are straight, as far as the neighbours allow.
fn spread_cells(grid: &LayoutGrid, extents: &[BoxExtent], ports: &LinkPorts) -> Vec<f64> {
    let mut across = vec![0.0; grid.cells.len()];
    let gaps: Vec<Vec<f64>> = grid
        .rows
        .iter()
        .map(|row| neighbor_distances(grid, row, extents))
        .collect();
    for (row, gaps) in grid.rows.iter().zip(&gaps) {
        let mut place = -gaps.iter().sum::<f64>() / 2.0;
        for (cell, gap) in row.iter().zip([0.0].iter().chain(gaps)) {
            place += gap;
            across[*cell] = place;
        }
    }
    let count = grid.rows.len();
    for round in 0..SPREAD_ROUNDS {
        for at in 0..count {
            let row = if round % 2 == 0 { at } else { count - 1 - at };
            // First from one side only, so that the shape spreads through the whole graph; then from both sides.
            let (look_up, look_down) = if round < SPREAD_ROUNDS / 2 {
                (round % 2 == 0, round % 2 == 1)
            } else {
                (true, true)
            };
            let wishes: Vec<(f64, f64)> = grid.rows[row]
                .iter()
                .map(|cell| preferred_position(grid, ports, &across, *cell, look_up, look_down))
                .collect();
            for (cell, place) in grid.rows[row].iter().zip(nearest_positions(&wishes, &gaps[row])) {
                across[*cell] = place;
            }
        }
    }
    across
}

/// Returns the minimum distances between the centres of neighbours in a row.
fn neighbor_distances(grid: &LayoutGrid, row: &[usize], extents: &[BoxExtent]) -> Vec<f64> {
    let gap = |ends: &[usize]| {
        let halves = (extents[ends[0]].breadth + extents[ends[1]].breadth) / 2.0;
        let kinds = [grid.cells[ends[0]].kind, grid.cells[ends[1]].kind];
        halves
            + match kinds {
                [GridCellKind::Box, GridCellKind::Box] => BOX_GAP,
                [GridCellKind::Bend, GridCellKind::Bend] => BEND_GAP,
                _ => LABEL_GAP,
            }
    };
    row.windows(2).map(gap).collect()
}

/// Returns the preferred position of a cell and its weight, from its links upwards (`up`) and downwards (`down`).
fn preferred_position(
    grid: &LayoutGrid,
    ports: &LinkPorts,
    across: &[f64],
    cell: usize,
    up: bool,
    down: bool,
) -> (f64, f64) {
    let weight = |piece: usize| {
        let piece = &grid.pieces[piece];
        let ends = [piece.upper, piece.lower].map(|end| grid.cells[end].kind);
        let passing = ends.iter().filter(|kind| **kind != GridCellKind::Box).count();
        let straight = if passing == 2 { 4.0 } else { 1.0 };
        straight * if piece.back { 0.3 } else { 1.0 }
    };
    let above = grid.above[cell].iter().filter(|_| up).map(|piece| {
        let from = across[grid.pieces[*piece].upper] + ports.upper[*piece];
        (from - ports.lower[*piece], weight(*piece))
    });
    let below = grid.below[cell].iter().filter(|_| down).map(|piece| {
        let to = across[grid.pieces[*piece].lower] + ports.lower[*piece];
        (to - ports.upper[*piece], weight(*piece))
    });
    let (sum, weights) = above.chain(below).fold((0.0, 0.0), |(sum, weights), (place, weight)| {
        (sum + place * weight, weights + weight)
    });
    if weights == 0.0 {
        (across[cell], 0.01)
    } else {
        (sum / weights, weights)
    }
}

/// Returns the positions closest to the preferred ones, by weighted least squares, that keep the minimum gaps. `wishes` contains the
/// preferred positions with their weights.
fn nearest_positions(wishes: &[(f64, f64)], gaps: &[f64]) -> Vec<f64> {
    /// A group of neighbours that keep the minimum gaps, with the weighted sum of their preferred positions.
    struct Block {
        sum: f64,
        weight: f64,
        members: usize,
    }
    let mut offsets = vec![0.0; wishes.len()];
    for at in 1..wishes.len() {
        offsets[at] = offsets[at - 1] + gaps[at - 1];
    }
    let mut blocks: Vec<Block> = Vec::new();
    for ((place, weight), offset) in wishes.iter().zip(&offsets) {
        let mut block = Block {
            sum: (place - offset) * weight,
            weight: *weight,
            members: 1,
        };
        while let Some(before) = blocks.pop_if(|before| before.sum / before.weight > block.sum / block.weight) {
            block.sum += before.sum;
            block.weight += before.weight;
            block.members += before.members;
        }
        blocks.push(block);
    }
    let places = blocks
        .iter()
        .flat_map(|block| std::iter::repeat_n(block.sum / block.weight, block.members));
    places.zip(offsets).map(|(place, offset)| place + offset).collect()
}

/// The tracks below each row for links between two boxes of the row. Overlapping links have separate tracks.
struct LinkTracks {
    /// The track of each link, from 0. Links between different rows have no track.
    link_tracks: Vec<usize>,
    /// The number of tracks below the cells of each row.
    counts: Vec<usize>,
}

impl LinkTracks {
    /// Assigns a track to each link between boxes of one row.
    fn new(grid: &LayoutGrid, across: &[f64]) -> Self {
        let mut tracks = Self {
            link_tracks: vec![0; grid.chains.len()],
            counts: vec![0; grid.rows.len()],
        };
        let mut runs: Vec<(f64, f64, usize, usize)> = Vec::new();
        for (link, chain) in grid.chains.iter().enumerate() {
            if let Some([one, other]) = grid.flat_bends(chain) {
                let (left, right) = (across[one].min(across[other]), across[one].max(across[other]));
                runs.push((left, right, grid.cells[one].row, link));
            }
        }
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut track_ends: Vec<Vec<f64>> = vec![Vec::new(); grid.rows.len()];
        for (left, right, row, link) in runs {
            let free = track_ends[row].iter().position(|until| *until + TRACK_GAP < left);
            let track = free.unwrap_or_else(|| {
                track_ends[row].push(right);
                track_ends[row].len() - 1
            });
            track_ends[row][track] = right;
            tracks.link_tracks[link] = track;
            tracks.counts[row] = track_ends[row].len();
        }
        tracks
    }

    /// Returns the space that the tracks of a row need.
    fn tracks_depth(&self, row: usize) -> f64 {
        match self.counts[row] {
            0 => 0.0,
            count => (count + 1) as f64 * TRACK_GAP,
        }
    }
}

/// The start and the end of a row, along the direction of the rows.
#[derive(Debug, Clone, Copy)]
struct RowBand {
    start: f64,
    /// The end of its cells.
    cells: f64,
    /// The end of its tracks.
    end: f64,
}

/// Computes the start and end of each row. Rows are further apart if links between them go far sideways.
fn compute_bands(
    grid: &LayoutGrid,
    extents: &[BoxExtent],
    across: &[f64],
    ports: &LinkPorts,
    tracks: &LinkTracks,
) -> Vec<RowBand> {
    let mut end = 0.0;
    let mut bands = Vec::with_capacity(grid.rows.len());
    for (at, row) in grid.rows.iter().enumerate() {
        let pieces = row.iter().flat_map(|cell| &grid.above[*cell]);
        let sideways = pieces.map(|piece| {
            let (upper, lower) = (grid.pieces[*piece].upper, grid.pieces[*piece].lower);
            (across[upper] + ports.upper[*piece] - across[lower] - ports.lower[*piece]).abs()
        });
        let gap = (sideways.fold(0.0, f64::max) * 0.14).clamp(ROW_GAP_RANGE.0, ROW_GAP_RANGE.1);
        let start = if at == 0 { 0.0 } else { end + gap };
        let cells = start + row.iter().map(|cell| extents[*cell].depth).fold(0.0, f64::max);
        end = cells + tracks.tracks_depth(at);
        bands.push(RowBand { start, cells, end });
    }
    bands
}

/// A router that computes the routes of links from the positions of cells.
struct LinkRouter<'a> {
    grid: &'a LayoutGrid,
    extents: &'a [BoxExtent],
    across: &'a [f64],
    bands: &'a [RowBand],
    ports: &'a LinkPorts,
    tracks: &'a LinkTracks,
}

impl LinkRouter<'_> {
    /// Returns the centre of the cell.
    fn cell_middle(&self, cell: usize) -> LayoutPoint {
        let band = self.bands[self.grid.cells[cell].row];
        LayoutPoint {
            across: self.across[cell],
            along: (band.start + band.cells) / 2.0,
        }
    }

    /// Computes the route of a link and the position of its label.
    fn route_link(&self, link: usize) -> LinkRoute {
        let chain = &self.grid.chains[link];
        let bearer = chain
            .cells
            .iter()
            .find(|cell| self.grid.cells[**cell].kind == GridCellKind::Label);
        let way = match self.grid.flat_bends(chain) {
            Some(bends) => self.route_below_row(chain, bends, self.tracks.link_tracks[link]),
            None => self.route_through_rows(chain),
        };
        LinkRoute {
            way: if chain.upwards { reverse_legs(&way) } else { way },
            label: bearer.map(|cell| self.cell_middle(*cell)),
        }
    }

    /// Computes the route of a link from row to row.
    fn route_through_rows(&self, chain: &LinkChain) -> Vec<RouteLeg> {
        let mut way = Vec::new();
        for (piece, ends) in chain.pieces.iter().zip(chain.cells.windows(2)) {
            let (start, leave) = self.segment_exit_points(*piece, ends[0]);
            if way.is_empty() {
                way.push(RouteLeg::From(start));
            }
            if !self.is_row_flat(self.grid.cells[ends[0]].row) {
                way.push(RouteLeg::Line(leave));
            }
            let cell = &self.grid.cells[ends[1]];
            let across = self.across[ends[1]] + self.ports.lower[*piece];
            let start = self.bands[cell.row].start;
            if cell.kind == GridCellKind::Box {
                let along = self.cell_middle(ends[1]).along - self.extents[ends[1]].depth / 2.0;
                way.push(RouteLeg::Curve(LayoutPoint {
                    across,
                    along: start - STUB_LENGTH,
                }));
                way.push(RouteLeg::Line(LayoutPoint { across, along }));
            } else if !self.is_row_flat(cell.row) {
                way.push(RouteLeg::Curve(LayoutPoint { across, along: start }));
            }
        }
        way
    }

    /// Returns whether no cell in the row has a size.
    fn is_row_flat(&self, row: usize) -> bool {
        self.bands[row].start == self.bands[row].end
    }

    /// Computes the route between two boxes of one row: down, along a track, and up. `track` is the index of the track.
    fn route_below_row(&self, chain: &LinkChain, bends: [usize; 2], track: usize) -> Vec<RouteLeg> {
        let band = self.bands[self.grid.cells[bends[0]].row];
        let along = band.cells + (track + 1) as f64 * TRACK_GAP;
        let [one, other] = bends.map(|bend| self.across[bend]);
        let corner = ((other - one) / 2.0).clamp(-TRACK_GAP, TRACK_GAP);
        let (start, leave) = self.segment_exit_points(chain.pieces[0], chain.cells[0]);
        let (end, arrive) = self.segment_exit_points(chain.pieces[1], chain.cells[3]);
        let spot = |across, along| LayoutPoint { across, along };
        vec![
            RouteLeg::From(start),
            RouteLeg::Line(leave),
            RouteLeg::Curve(spot(one, band.start)),
            RouteLeg::Line(spot(one, along - TRACK_GAP)),
            RouteLeg::Turn(spot(one + corner, along)),
            RouteLeg::Line(spot(other - corner, along)),
            RouteLeg::TurnBack(spot(other, along - TRACK_GAP)),
            RouteLeg::Line(spot(other, band.start)),
            RouteLeg::Curve(arrive),
            RouteLeg::Line(end),
        ]
    }

    /// Returns the start of a segment at the lower edge of its cell, and the point at which it leaves the row.
    fn segment_exit_points(&self, piece: usize, cell: usize) -> (LayoutPoint, LayoutPoint) {
        let across = self.across[cell] + self.ports.upper[piece];
        let band = self.bands[self.grid.cells[cell].row];
        let (edge, end) = match self.grid.cells[cell].kind {
            GridCellKind::Box => (
                self.cell_middle(cell).along + self.extents[cell].depth / 2.0,
                band.end + STUB_LENGTH,
            ),
            GridCellKind::Bend | GridCellKind::Label => (band.start, band.end),
        };
        (LayoutPoint { across, along: edge }, LayoutPoint { across, along: end })
    }
}

/// Reverses the direction of the path.
fn reverse_legs(way: &[RouteLeg]) -> Vec<RouteLeg> {
    let spot = |leg: &RouteLeg| match *leg {
        RouteLeg::From(spot)
        | RouteLeg::Line(spot)
        | RouteLeg::Curve(spot)
        | RouteLeg::Turn(spot)
        | RouteLeg::TurnBack(spot) => spot,
    };
    let mut back: Vec<RouteLeg> = way.last().map(|leg| RouteLeg::From(spot(leg))).into_iter().collect();
    for pair in way.windows(2).rev() {
        let to = spot(&pair[0]);
        back.push(match pair[1] {
            RouteLeg::From(_) | RouteLeg::Line(_) => RouteLeg::Line(to),
            RouteLeg::Curve(_) => RouteLeg::Curve(to),
            RouteLeg::Turn(_) => RouteLeg::TurnBack(to),
            RouteLeg::TurnBack(_) => RouteLeg::Turn(to),
        });
    }
    back
}
