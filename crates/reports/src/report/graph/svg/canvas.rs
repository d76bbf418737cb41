//! The drawing area, which converts positions of the layout to positions in the picture.

use super::super::layout::{BoxExtent, LayoutPoint, LinkRoute, PlacedBox, RouteLeg};

/// The direction in which rows follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayoutDirection {
    /// From top to bottom.
    Down,
    /// From left to right.
    Right,
}

/// A width and a height, in pixels.
pub(super) type PixelSize = (f64, f64);

/// The conversion from layout points to pixels of the picture: an origin and a direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct SvgCanvas {
    /// The direction.
    pub direction: LayoutDirection,
    /// The pixels to the left.
    pub left: f64,
    /// The pixels above.
    pub top: f64,
}

impl LayoutDirection {
    /// Converts a width and a height to the axes of the layout.
    pub(super) fn to_extent(self, (width, height): PixelSize) -> BoxExtent {
        match self {
            Self::Down => BoxExtent {
                breadth: width,
                depth: height,
            },
            Self::Right => BoxExtent {
                breadth: height,
                depth: width,
            },
        }
    }

    /// Converts a size of the layout to a width and a height.
    pub(super) fn to_picture_size(self, extent: BoxExtent) -> PixelSize {
        match self {
            Self::Down => (extent.breadth, extent.depth),
            Self::Right => (extent.depth, extent.breadth),
        }
    }
}

impl SvgCanvas {
    /// Converts a point of the layout to a position in the picture.
    pub(super) fn picture_point(&self, spot: LayoutPoint) -> (f64, f64) {
        let (x, y) = match self.direction {
            LayoutDirection::Down => (spot.across, spot.along),
            LayoutDirection::Right => (spot.along, spot.across),
        };
        (self.left + x, self.top + y)
    }

    /// Returns the corner and the size of a box in the picture.
    pub(super) fn picture_rectangle(&self, area: &PlacedBox) -> ((f64, f64), PixelSize) {
        (
            self.picture_point(area.start_corner()),
            self.direction.to_picture_size(area.extent),
        )
    }

    /// Converts a route to SVG path data that ends `short` pixels early. Returns the path, the end of the full route, and the direction of
    /// the last leg along the layout: 1.0 or -1.0.
    pub(super) fn shortened_path_data(&self, route: &LinkRoute, short: f64) -> (String, LayoutPoint, f64) {
        let mut data = String::new();
        let mut current_point = LayoutPoint::default();
        let end = route.way.last().map(leg_end).unwrap_or_default();
        let before = route.way.iter().rev().map(leg_end).find(|spot| spot.along != end.along);
        let step = if before.is_some_and(|before| before.along > end.along) {
            -1.0
        } else {
            1.0
        };
        for (at, leg) in route.way.iter().enumerate() {
            let mut to = leg_end(leg);
            if at + 1 == route.way.len() {
                to.along -= step * short;
            }
            let middle = (current_point.along + to.along) / 2.0;
            let halfway = (current_point.across + to.across) / 2.0;
            let bends = match leg {
                RouteLeg::From(_) | RouteLeg::Line(_) => None,
                RouteLeg::Curve(_) => Some([(current_point.across, middle), (to.across, middle)]),
                RouteLeg::Turn(_) => Some([(current_point.across, middle), (halfway, to.along)]),
                RouteLeg::TurnBack(_) => Some([(halfway, current_point.along), (to.across, middle)]),
            };
            match (leg, bends) {
                (RouteLeg::From(_), _) => data.push_str(&format!("M{}", self.format_point(to))),
                (_, None) if to == current_point => {}
                (_, None) => data.push_str(&format!(" L{}", self.format_point(to))),
                (_, Some(bends)) => {
                    let [one, other] = bends.map(|(across, along)| self.format_point(LayoutPoint { across, along }));
                    data.push_str(&format!(" C{one} {other} {}", self.format_point(to)));
                }
            }
            current_point = to;
        }
        (data, end, step)
    }

    /// Formats a point as `x,y` in the picture.
    pub(super) fn format_point(&self, spot: LayoutPoint) -> String {
        let (x, y) = self.picture_point(spot);
        format!("{},{}", round_to_half(x), round_to_half(y))
    }
}

/// Returns the end point of the leg.
fn leg_end(leg: &RouteLeg) -> LayoutPoint {
    match *leg {
        RouteLeg::From(spot)
        | RouteLeg::Line(spot)
        | RouteLeg::Curve(spot)
        | RouteLeg::Turn(spot)
        | RouteLeg::TurnBack(spot) => spot,
    }
}

/// Rounds to half a pixel, which is precise enough and keeps the file small.
pub(super) fn round_to_half(number: f64) -> f64 {
    // Adding zero changes minus zero to zero.
    (number * 2.0).round() / 2.0 + 0.0
}
