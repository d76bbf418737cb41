//! The choices of one step of the walk. Each choice has several options.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The number of the option taken at each choice; 0 is the default option.
pub(super) type Row = Box<[u16]>;

/// The choices of one step: first the prescribed ones, then the default option for all others.
#[derive(Debug)]
pub(super) struct Choices {
    taken: RefCell<Taken>,
}

#[derive(Debug)]
struct Taken {
    prescribed: Row,
    /// The option that was taken, and the number of options.
    options: Vec<(u16, u16)>,
}

impl Choices {
    /// Starts with these prescribed options.
    pub(super) fn prescribed(prescribed: Row) -> Self {
        Self {
            taken: RefCell::new(Taken {
                prescribed,
                options: Vec::new(),
            }),
        }
    }

    /// Chooses one of this number of options. Option 0 is the default: a condition is true, an execution succeeds.
    pub(super) fn choose(&self, options: usize) -> usize {
        let options = u16::try_from(options).unwrap_or(u16::MAX);
        let mut taken = self.taken.borrow_mut();
        let option = taken.prescribed.get(taken.options.len()).copied().unwrap_or(0);
        taken.options.push((option, options));
        usize::from(option)
    }

    /// All options that were taken. With these options prescribed, the same step is repeated.
    pub(super) fn taken(&self) -> Row {
        self.taken.borrow().options.iter().map(|(option, _)| *option).collect()
    }
}

/// Iterates over all sequences of choices of a step, in order of the number of deviations from the default options.
#[derive(Debug)]
pub(super) struct Rows {
    ahead: VecDeque<Row>,
}

impl Rows {
    /// Starts with the default options.
    pub(super) fn new() -> Self {
        Self {
            ahead: VecDeque::from([Box::from([])]),
        }
    }

    /// The next sequence to try.
    pub(super) fn next(&mut self) -> Option<Choices> {
        self.ahead.pop_front().map(Choices::prescribed)
    }

    /// Reports a sequence as tried. Other options after its prescribed part are added to the sequences to try.
    pub(super) fn gone(&mut self, choices: &Choices) {
        let taken = choices.taken.borrow();
        for at in taken.prescribed.len()..taken.options.len() {
            for other in 1..taken.options[at].1 {
                let before = taken.options[..at].iter().map(|(option, _)| *option);
                self.ahead.push_back(before.chain([other]).collect());
            }
        }
    }
}
