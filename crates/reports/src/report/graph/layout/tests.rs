//! What holds for every layout, and what the stages promise.

use proptest::prelude::*;

use super::grid::{GridCellKind, LayoutGrid};
use super::order::{count_crossings, reduce_crossings, set_initial_order};
use super::*;

fn arrange(sketch: &GraphSketch) -> GraphLayout {
    lay_out_sketch(sketch).expect("it is small")
}

fn link(from: usize, to: usize, back: bool) -> SketchLink {
    SketchLink {
        from,
        to,
        label: None,
        back,
    }
}

fn plain(boxes: usize, links: &[(usize, usize)]) -> GraphSketch {
    let extent = BoxExtent {
        breadth: 100.0,
        depth: 50.0,
    };
    GraphSketch {
        boxes: vec![extent; boxes],
        links: links.iter().map(|(from, to)| link(*from, *to, false)).collect(),
    }
}

#[test]
fn a_box_stands_below_all_it_waits_for() {
    let mut sketch = plain(4, &[(0, 1), (1, 2), (0, 3), (2, 3)]);
    sketch.links.push(link(3, 0, true));
    assert_eq!(rows::assign_rows(&sketch), [0, 1, 2, 3]);
}

#[test]
fn a_circle_is_cut_where_it_closes() {
    let sketch = plain(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]);
    assert_eq!(rows::assign_rows(&sketch), [0, 1, 2, 3]);
}

#[test]
fn a_link_that_gives_way_decides_nothing_about_rows() {
    // The one that gives way is met first, and would close the circle if it counted.
    let mut sketch = plain(3, &[(1, 0)]);
    sketch.links.push(link(0, 1, true));
    sketch.links.push(link(1, 2, true));
    assert_eq!(rows::assign_rows(&sketch), [1, 0, 0]);
}

#[test]
fn labels_stand_between_the_rows_of_boxes_and_in_the_emptiest() {
    let mut sketch = plain(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let label = BoxExtent {
        breadth: 80.0,
        depth: 20.0,
    };
    for _ in 0..4 {
        sketch.links.push(SketchLink {
            label: Some(label),
            ..link(0, 4, false)
        });
    }
    let grid = LayoutGrid::new(&sketch, &rows::assign_rows(&sketch));
    let labels = grid.cells.iter().filter(|cell| cell.kind == GridCellKind::Label);
    let rows: Vec<usize> = labels.map(|cell| cell.row).collect();
    assert_eq!(rows, [7, 5, 3, 1]);
}

#[test]
fn what_can_be_drawn_without_crossings_is() {
    // Declared crosswise: each of the upper row is linked with its mirror image in the lower one.
    let sketch = plain(8, &[(0, 7), (1, 6), (2, 5), (3, 4), (0, 6), (1, 5), (2, 4)]);
    let mut grid = LayoutGrid::new(&sketch, &rows::assign_rows(&sketch));
    reduce_crossings(&mut grid);
    assert_eq!(count_crossings(&grid), 0);
    // The upper row must change, too: 2 before 0 before 1.
    let sketch = plain(6, &[(0, 3), (0, 4), (1, 5), (2, 3)]);
    let mut grid = LayoutGrid::new(&sketch, &rows::assign_rows(&sketch));
    assert_eq!(count_crossings(&grid), 2);
    reduce_crossings(&mut grid);
    assert_eq!(count_crossings(&grid), 0);
}

#[test]
fn the_links_of_a_box_meet_it_side_by_side_in_their_order() {
    let mut sketch = plain(4, &[(0, 3), (0, 2), (0, 1)]);
    sketch.boxes[0].breadth = 20.0;
    let layout = arrange(&sketch);
    let mut met: Vec<(f64, f64)> = layout
        .routes
        .iter()
        .map(ends)
        .map(|[start, end]| (start.across, end.across))
        .collect();
    met.sort_by(|one, other| one.1.total_cmp(&other.1));
    for pair in met.windows(2) {
        assert!(pair[1].0 - pair[0].0 > 11.9, "{met:?}");
    }
    // Where the row below was put in another order than that of the links.
    let turned = arrange(&plain(5, &[(0, 1), (0, 2), (3, 1), (4, 1)]));
    let [one, other] = [0, 1].map(|link| ends(&turned.routes[link]));
    assert!(
        (one[0].across < other[0].across) == (one[1].across < other[1].across),
        "{turned:?}"
    );
    // And where they end.
    let sketch = plain(4, &[(3, 0), (2, 0), (1, 0)]);
    let mut met: Vec<(f64, f64)> = arrange(&sketch)
        .routes
        .iter()
        .map(ends)
        .map(|[start, end]| (start.across, end.across))
        .collect();
    met.sort_by(|one, other| one.0.total_cmp(&other.0));
    for pair in met.windows(2) {
        assert!(pair[1].1 - pair[0].1 > 11.9, "{met:?}");
    }
}

#[test]
fn links_beside_each_other_below_a_row_have_tracks_of_their_own() {
    let mut sketch = plain(3, &[]);
    sketch.links = vec![link(0, 2, true), link(0, 1, true), link(2, 1, true)];
    let layout = arrange(&sketch);
    let lowest = |route: &LinkRoute| {
        let spots = route.way.iter().map(|leg| match *leg {
            RouteLeg::From(spot)
            | RouteLeg::Line(spot)
            | RouteLeg::Curve(spot)
            | RouteLeg::Turn(spot)
            | RouteLeg::TurnBack(spot) => spot.along,
        });
        spots.fold(0.0, f64::max)
    };
    let [long, left, right] = [0, 1, 2].map(|link| lowest(&layout.routes[link]));
    assert!((long - left).abs() > 8.9 && (long - right).abs() > 8.9, "{layout:?}");
    assert!(long.max(left).max(right) < layout.extent.depth, "{layout:?}");
}

#[test]
fn links_that_pass_keep_apart() {
    let sketch = plain(3, &[(0, 1), (1, 2), (0, 2), (0, 2)]);
    let layout = arrange(&sketch);
    let beside = layout.boxes[1].middle.along;
    let passing = |route: &LinkRoute| {
        let spots = route.way.iter().map(|leg| match *leg {
            RouteLeg::From(spot)
            | RouteLeg::Line(spot)
            | RouteLeg::Curve(spot)
            | RouteLeg::Turn(spot)
            | RouteLeg::TurnBack(spot) => spot,
        });
        let nearest = spots.min_by(|one, other| (one.along - beside).abs().total_cmp(&(other.along - beside).abs()));
        nearest.expect("a spot").across
    };
    let apart = passing(&layout.routes[2]) - passing(&layout.routes[3]);
    assert!(apart.abs() > 15.9, "{layout:?}");
}

#[test]
fn a_chain_runs_straight() {
    let layout = arrange(&plain(3, &[(0, 1), (1, 2)]));
    let across: Vec<f64> = layout.boxes.iter().map(|area| area.middle.across).collect();
    assert_eq!(across, [50.0, 50.0, 50.0]);
}

fn extent() -> impl Strategy<Value = BoxExtent> {
    (20.0..200.0, 10.0..80.0).prop_map(|(breadth, depth)| BoxExtent { breadth, depth })
}

fn sketch() -> impl Strategy<Value = GraphSketch> {
    proptest::collection::vec(extent(), 1..14).prop_flat_map(|boxes| {
        let count = boxes.len();
        let link = (0..count, 0..count, proptest::option::of(extent()), any::<bool>());
        let link = link.prop_map(|(from, to, label, back)| SketchLink { from, to, label, back });
        proptest::collection::vec(link, 0..30).prop_map(move |links| GraphSketch {
            boxes: boxes.clone(),
            links,
        })
    })
}

/// Numbers in any order, and pairs of places in it.
fn numbered_at_will() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>)> {
    (2_usize..9).prop_flat_map(|count| {
        let numbers = Just((0..count).collect::<Vec<usize>>()).prop_shuffle();
        (numbers, proptest::collection::vec((0..count, 0..count), 0..14))
    })
}

fn ends(route: &LinkRoute) -> [LayoutPoint; 2] {
    let spot = |leg: &RouteLeg| match *leg {
        RouteLeg::From(spot)
        | RouteLeg::Line(spot)
        | RouteLeg::Curve(spot)
        | RouteLeg::Turn(spot)
        | RouteLeg::TurnBack(spot) => spot,
    };
    [route.way.first(), route.way.last()].map(|leg| spot(leg.expect("a way")))
}

/// On one of the two edges of the box that lie along the rows.
fn is_on_edge(spot: LayoutPoint, area: &PlacedBox) -> bool {
    let near = |one: f64, other: f64| (one - other).abs() < 0.01;
    let reach = (area.middle.along - spot.along).abs();
    near(reach, area.extent.depth / 2.0) && (area.middle.across - spot.across).abs() < area.extent.breadth / 2.0
}

fn overlap(one: &PlacedBox, other: &PlacedBox) -> bool {
    let apart = |middles: f64, sizes: f64| middles.abs() + 0.01 >= sizes / 2.0;
    !apart(
        one.middle.across - other.middle.across,
        one.extent.breadth + other.extent.breadth,
    ) && !apart(
        one.middle.along - other.middle.along,
        one.extent.depth + other.extent.depth,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_covers_anything_else(sketch in sketch()) {
        let layout = arrange(&sketch);
        let labels = layout.routes.iter().zip(&sketch.links).filter_map(|(route, link)| {
            Some(PlacedBox { middle: route.label?, extent: link.label? })
        });
        let areas: Vec<PlacedBox> = layout.boxes.iter().copied().chain(labels).collect();
        for (at, one) in areas.iter().enumerate() {
            for other in &areas[at + 1..] {
                prop_assert!(!overlap(one, other), "{one:?} {other:?}");
            }
            let start = one.start_corner();
            prop_assert!(start.across > -0.01 && start.along > -0.01);
            prop_assert!(start.across + one.extent.breadth < layout.extent.breadth + 0.01);
            prop_assert!(start.along + one.extent.depth < layout.extent.depth + 0.01);
        }
    }

    #[test]
    fn every_box_stands_below_all_it_waits_for((places, links) in numbered_at_will()) {
        let links: Vec<(usize, usize)> = links
            .into_iter()
            .filter(|(from, to)| from != to)
            .map(|(one, other)| (places[one.min(other)], places[one.max(other)]))
            .collect();
        let rows = rows::assign_rows(&plain(places.len(), &links));
        for (at, row) in rows.iter().enumerate() {
            let before = links.iter().filter(|(_, to)| *to == at);
            let expected = before.map(|(from, _)| rows[*from] + 1).max().unwrap_or(0);
            prop_assert_eq!(*row, expected, "{:?}", links);
        }
    }

    #[test]
    fn no_sweep_makes_it_worse(sketch in sketch()) {
        let mut grid = LayoutGrid::new(&sketch, &rows::assign_rows(&sketch));
        let mut first = grid.clone();
        set_initial_order(&mut first);
        reduce_crossings(&mut grid);
        prop_assert!(count_crossings(&grid) <= count_crossings(&first));
    }

    #[test]
    fn every_link_leads_from_its_box_to_its_box(sketch in sketch()) {
        let layout = arrange(&sketch);
        for (link, route) in sketch.links.iter().zip(&layout.routes) {
            let [start, end] = ends(route);
            prop_assert!(is_on_edge(start, &layout.boxes[link.from]), "{link:?} {route:?}");
            prop_assert!(is_on_edge(end, &layout.boxes[link.to]), "{link:?} {route:?}");
            prop_assert_eq!(link.label.is_some(), route.label.is_some());
        }
    }

    #[test]
    fn no_link_runs_through_a_box(sketch in sketch()) {
        let layout = arrange(&sketch);
        for route in &layout.routes {
            let mut before = None;
            for leg in &route.way {
                let here = match *leg {
                    RouteLeg::From(spot) | RouteLeg::Line(spot) | RouteLeg::Curve(spot) | RouteLeg::Turn(spot) | RouteLeg::TurnBack(spot) => spot,
                };
                if let (RouteLeg::Line(_), Some(before)) = (leg, before) {
                    prop_assert!(!layout.boxes.iter().any(|area| crosses(before, here, area)), "{route:?}");
                }
                before = Some(here);
            }
        }
    }
}

/// Returns the straight line passes the inside of the box.
fn crosses(from: LayoutPoint, to: LayoutPoint, area: &PlacedBox) -> bool {
    let inside = |low: f64, high: f64, middle: f64, size: f64| {
        high > middle - size / 2.0 + 0.01 && low < middle + size / 2.0 - 0.01
    };
    inside(
        from.across.min(to.across),
        from.across.max(to.across),
        area.middle.across,
        area.extent.breadth,
    ) && inside(
        from.along.min(to.along),
        from.along.max(to.along),
        area.middle.along,
        area.extent.depth,
    )
}

#[test]
fn a_graph_with_too_many_cells_is_not_laid_out() {
    let chain: Vec<(usize, usize)> = (1..3000).map(|to| (to - 1, to)).collect();
    assert!(lay_out_sketch(&plain(3000, &chain)).is_some());
    let skips = (2..3000).map(|to| (to / 2, to));
    let both: Vec<(usize, usize)> = chain.into_iter().chain(skips).collect();
    assert!(lay_out_sketch(&plain(3000, &both)).is_none());
}
