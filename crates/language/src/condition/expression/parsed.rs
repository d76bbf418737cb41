//! A condition that was parsed but not compiled: this is enough for checks before a run, and much faster.

use std::sync::Arc;

use crate::condition::analysis::counts::{CountRead, counts_read};
use crate::condition::analysis::reads;
use crate::condition::analysis::truths::{TruthRead, truths_read};
use crate::condition::expression::tree::{Expr, Kind, Variable};
use crate::condition::typing::verdict;
use crate::condition::typing::verdict::Verdict;
use crate::condition::{CompileError, Condition, KeyRead, parse};
use crate::source::Span;

/// The text of the condition.
pub struct Reading {
    pub(crate) text: Arc<str>,
    pub(crate) expr: Expr,
}

/// A variable with keys that must be written by an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyed {
    /// `context`.
    Context,
    /// `output`.
    Output,
    /// `inputs`.
    Inputs,
}

impl Condition {
    /// Parses a condition without compiling it. A condition that can be parsed can also be compiled.
    pub fn read(text: &str) -> Result<Reading, CompileError> {
        Ok(Reading::of(text, parse(text)?))
    }
}

impl Reading {
    pub(crate) fn of(text: &str, expr: Expr) -> Self {
        Self {
            text: text.into(),
            expr,
        }
    }

    /// The agents whose executions it counts, or whose outputs it reads, by a literal name, with the position of each name.
    pub fn agents_read(&self) -> Vec<(String, Span)> {
        reads::agents_read(&self.expr)
    }

    /// The keys of `of` that it reads by a literal name.
    pub fn keys_read(&self, of: Keyed) -> Vec<KeyRead> {
        let variable = match of {
            Keyed::Context => Variable::Context,
            Keyed::Output => Variable::Output,
            Keyed::Inputs => Variable::Inputs,
        };
        reads::keys_read(&self.expr, &[variable])
    }

    /// The keys of outputs of which it asks whether they are true, without a comparison.
    pub fn truths_read(&self) -> Vec<TruthRead> {
        let mut reads = Vec::new();
        truths_read(&self.expr, true, &mut reads);
        reads
    }

    /// The counts of executions that are enough to make it true.
    pub fn counts_read(&self) -> Vec<CountRead> {
        let mut counts = Vec::new();
        counts_read(&self.expr, &mut counts);
        counts
    }

    /// The result of the condition, if it is the same for all values.
    pub fn verdict(&self) -> Verdict {
        match self.expr.kind {
            Kind::Bool(value) => Verdict::Plain(value),
            _ => verdict::verdict(&self.text, &self.expr),
        }
    }
}
