//! A condition that has been read and not compiled: all that checks before a run need, at a fraction of the cost.

use std::sync::Arc;

use super::ast::{Expr, Kind, Variable};
use super::constant::Verdict;
use super::{CompileError, Condition, KeyRead, constant, parse, reads};
use crate::source::Span;

/// A condition as its author wrote it.
pub struct Reading {
    text: Arc<str>,
    expr: Expr,
}

/// A variable whose keys somebody has to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyed {
    /// `context`.
    Context,
    /// `output`.
    Output,
}

impl Condition {
    /// Reads a condition without compiling it. What can be read can also be compiled.
    pub fn read(text: &str) -> Result<Reading, CompileError> {
        Ok(Reading {
            expr: parse(text)?,
            text: text.into(),
        })
    }
}

impl Reading {
    /// The agents whose executions it counts by a literal name, with the bytes of each name.
    pub fn agents_read(&self) -> Vec<(String, Span)> {
        reads::agents_read(&self.expr)
    }

    /// The keys of `of` that it reads by a literal name.
    pub fn keys_read(&self, of: Keyed) -> Vec<KeyRead> {
        let variable = match of {
            Keyed::Context => Variable::Context,
            Keyed::Output => Variable::Output,
        };
        reads::keys_read(&self.expr, &[variable])
    }

    /// What it answers whatever happens, where that can be told.
    pub fn verdict(&self) -> Verdict {
        match self.expr.kind {
            Kind::Bool(value) => Verdict::Plain(value),
            _ => constant::verdict(&self.text, &self.expr),
        }
    }
}
