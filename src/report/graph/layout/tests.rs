//! What holds for every layout, and what the stages promise.

use proptest::prelude::*;

use super::grid::Grid;
use super::order::{crossings, reduce_crossings};
use super::*;

fn link(from: usize, to: usize, back: bool) -> Link {
    Link {
        from,
        to,
        label: None,
        back,
    }
}

fn plain(boxes: usize, links: &[(usize, usize)]) -> Sketch {
    let extent = Extent {
        breadth: 100.0,
        depth: 50.0,
    };
    Sketch {
        boxes: vec![extent; boxes],
        links: links.iter().map(|(from, to)| link(*from, *to, false)).collect(),
    }
}

#[test]
fn a_box_stands_below_all_it_waits_for() {
    let mut sketch = plain(4, &[(0, 1), (1, 2), (0, 3), (2, 3)]);
    sketch.links.push(link(3, 0, true));
    assert_eq!(rows::of(&sketch), [0, 1, 2, 3]);
}

#[test]
fn a_circle_is_cut_where_it_closes() {
    let sketch = plain(4, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3)]);
    assert_eq!(rows::of(&sketch), [0, 1, 2, 3]);
}

#[test]
fn what_can_be_drawn_without_crossings_is() {
    // Declared crosswise: each of the upper row is linked with its mirror image in the lower one.
    let sketch = plain(8, &[(0, 7), (1, 6), (2, 5), (3, 4), (0, 6), (1, 5), (2, 4)]);
    let mut grid = Grid::new(&sketch, &rows::of(&sketch));
    reduce_crossings(&mut grid);
    assert_eq!(crossings(&grid), 0);
}

#[test]
fn a_chain_runs_straight() {
    let layout = arrange(&plain(3, &[(0, 1), (1, 2)]));
    let across: Vec<f64> = layout.boxes.iter().map(|area| area.middle.across).collect();
    assert_eq!(across, [50.0, 50.0, 50.0]);
}

fn extent() -> impl Strategy<Value = Extent> {
    (20.0..200.0, 10.0..80.0).prop_map(|(breadth, depth)| Extent { breadth, depth })
}

fn sketch() -> impl Strategy<Value = Sketch> {
    proptest::collection::vec(extent(), 1..14).prop_flat_map(|boxes| {
        let count = boxes.len();
        let link = (0..count, 0..count, proptest::option::of(extent()), any::<bool>());
        let link = link.prop_map(|(from, to, label, back)| Link { from, to, label, back });
        proptest::collection::vec(link, 0..30).prop_map(move |links| Sketch {
            boxes: boxes.clone(),
            links,
        })
    })
}

fn ends(route: &Route) -> [Spot; 2] {
    let spot = |leg: &Leg| match *leg {
        Leg::From(spot) | Leg::Line(spot) | Leg::Curve(spot) | Leg::Turn(spot) | Leg::TurnBack(spot) => spot,
    };
    [route.way.first(), route.way.last()].map(|leg| spot(leg.expect("a way")))
}

/// On one of the two edges of the box that lie along the rows.
fn is_on_edge(spot: Spot, area: &Area) -> bool {
    let near = |one: f64, other: f64| (one - other).abs() < 0.01;
    let reach = (area.middle.along - spot.along).abs();
    near(reach, area.extent.depth / 2.0) && (area.middle.across - spot.across).abs() < area.extent.breadth / 2.0
}

fn overlap(one: &Area, other: &Area) -> bool {
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
            Some(Area { middle: route.label?, extent: link.label? })
        });
        let areas: Vec<Area> = layout.boxes.iter().copied().chain(labels).collect();
        for (at, one) in areas.iter().enumerate() {
            for other in &areas[at + 1..] {
                prop_assert!(!overlap(one, other), "{one:?} {other:?}");
            }
            let start = one.start();
            prop_assert!(start.across > -0.01 && start.along > -0.01);
            prop_assert!(start.across + one.extent.breadth < layout.extent.breadth + 0.01);
            prop_assert!(start.along + one.extent.depth < layout.extent.depth + 0.01);
        }
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
                    Leg::From(spot) | Leg::Line(spot) | Leg::Curve(spot) | Leg::Turn(spot) | Leg::TurnBack(spot) => spot,
                };
                if let (Leg::Line(_), Some(before)) = (leg, before) {
                    prop_assert!(!layout.boxes.iter().any(|area| crosses(before, here, area)), "{route:?}");
                }
                before = Some(here);
            }
        }
    }
}

/// The straight line passes the inside of the box.
fn crosses(from: Spot, to: Spot, area: &Area) -> bool {
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
