//! The drawing area: converts positions of the layout to positions in the picture.

use super::super::layout::{Area, Extent, Leg, Route, Spot};

/// The direction in which rows follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From top to bottom.
    Down,
    /// From left to right.
    Right,
}

/// A width and a height, in pixels.
pub(super) type Size = (f64, f64);

/// The origin of the layout in the picture, and its direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canvas {
    /// The direction.
    pub direction: Direction,
    /// The pixels to the left.
    pub left: f64,
    /// The pixels above.
    pub top: f64,
}

impl Direction {
    /// A width and a height, in the axes of the layout.
    pub(super) fn extent(self, (width, height): Size) -> Extent {
        match self {
            Self::Down => Extent {
                breadth: width,
                depth: height,
            },
            Self::Right => Extent {
                breadth: height,
                depth: width,
            },
        }
    }

    /// A layout's size as a width and a height.
    pub(super) fn size(self, extent: Extent) -> Size {
        match self {
            Self::Down => (extent.breadth, extent.depth),
            Self::Right => (extent.depth, extent.breadth),
        }
    }
}

impl Canvas {
    /// A position in the picture.
    pub(super) fn point(&self, spot: Spot) -> (f64, f64) {
        let (x, y) = match self.direction {
            Direction::Down => (spot.across, spot.along),
            Direction::Right => (spot.along, spot.across),
        };
        (self.left + x, self.top + y)
    }

    /// The corner of a box, and its size.
    pub(super) fn rectangle(&self, area: &Area) -> ((f64, f64), Size) {
        (self.point(area.start()), self.direction.size(area.extent))
    }

    /// A path as path data that ends `short` pixels before its end; and that end, with the direction of the last step.
    pub(super) fn path(&self, route: &Route, short: f64) -> (String, Spot, f64) {
        let mut data = String::new();
        let mut here = Spot::default();
        let end = route.way.last().map(spot).unwrap_or_default();
        let before = route.way.iter().rev().map(spot).find(|spot| spot.along != end.along);
        let step = if before.is_some_and(|before| before.along > end.along) {
            -1.0
        } else {
            1.0
        };
        for (at, leg) in route.way.iter().enumerate() {
            let mut to = spot(leg);
            if at + 1 == route.way.len() {
                to.along -= step * short;
            }
            let middle = (here.along + to.along) / 2.0;
            let halfway = (here.across + to.across) / 2.0;
            let bends = match leg {
                Leg::From(_) | Leg::Line(_) => None,
                Leg::Curve(_) => Some([(here.across, middle), (to.across, middle)]),
                Leg::Turn(_) => Some([(here.across, middle), (halfway, to.along)]),
                Leg::TurnBack(_) => Some([(halfway, here.along), (to.across, middle)]),
            };
            match (leg, bends) {
                (Leg::From(_), _) => data.push_str(&format!("M{}", self.pair(to))),
                (_, None) if to == here => {}
                (_, None) => data.push_str(&format!(" L{}", self.pair(to))),
                (_, Some(bends)) => {
                    let [one, other] = bends.map(|(across, along)| self.pair(Spot { across, along }));
                    data.push_str(&format!(" C{one} {other} {}", self.pair(to)));
                }
            }
            here = to;
        }
        (data, end, step)
    }

    /// `x,y` of a place.
    pub(super) fn pair(&self, spot: Spot) -> String {
        let (x, y) = self.point(spot);
        format!("{},{}", short(x), short(y))
    }
}

fn spot(leg: &Leg) -> Spot {
    match *leg {
        Leg::From(spot) | Leg::Line(spot) | Leg::Curve(spot) | Leg::Turn(spot) | Leg::TurnBack(spot) => spot,
    }
}

/// Half a pixel is precise enough, and keeps the file small.
pub(super) fn short(number: f64) -> f64 {
    // Adding zero changes minus zero to zero.
    (number * 2.0).round() / 2.0 + 0.0
}
