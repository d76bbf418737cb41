//! What one step consists of besides what follows: a row of choices, each between a few ways.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The ways that are gone at each choice, 0 for the plain one.
pub(super) type Row = Box<[u16]>;

/// The choices of one step: those that are prescribed, then the first way of each.
#[derive(Debug)]
pub(super) struct Choices {
    taken: RefCell<Taken>,
}

#[derive(Debug)]
struct Taken {
    prescribed: Row,
    /// The way that was gone, and how many there were.
    ways: Vec<(u16, u16)>,
}

impl Choices {
    /// With these ways to begin with.
    pub(super) fn prescribed(prescribed: Row) -> Self {
        Self {
            taken: RefCell::new(Taken {
                prescribed,
                ways: Vec::new(),
            }),
        }
    }

    /// Which of so many ways? The first is the plain one: a condition is true, an execution succeeds.
    pub(super) fn choose(&self, ways: usize) -> usize {
        let ways = u16::try_from(ways).unwrap_or(u16::MAX);
        let mut taken = self.taken.borrow_mut();
        let way = taken.prescribed.get(taken.ways.len()).copied().unwrap_or(0);
        taken.ways.push((way, ways));
        usize::from(way)
    }

    /// All ways that were gone; prescribed again, they give the same step.
    pub(super) fn taken(&self) -> Row {
        self.taken.borrow().ways.iter().map(|(way, _)| *way).collect()
    }
}

/// All rows of choices of a step, those with the fewest deviations from the plain ways first.
#[derive(Debug)]
pub(super) struct Rows {
    ahead: VecDeque<Row>,
}

impl Rows {
    /// Begins with the plain one.
    pub(super) fn new() -> Self {
        Self {
            ahead: VecDeque::from([Box::from([])]),
        }
    }

    /// The next row to go.
    pub(super) fn next(&mut self) -> Option<Choices> {
        self.ahead.pop_front().map(Choices::prescribed)
    }

    /// The row was gone; what else could have been chosen beyond its prescribed part is still ahead.
    pub(super) fn gone(&mut self, choices: &Choices) {
        let taken = choices.taken.borrow();
        for at in taken.prescribed.len()..taken.ways.len() {
            for other in 1..taken.ways[at].1 {
                let before = taken.ways[..at].iter().map(|(way, _)| *way);
                self.ahead.push_back(before.chain([other]).collect());
            }
        }
    }
}
