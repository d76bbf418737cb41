//! The positions at which an evaluation can fail, or read a key that is missing.

use std::sync::Arc;

use crate::condition::expression::tree::{ChainStep, ChainStepKind, ConditionExpr, ConditionVariable, ExprKind};
use crate::source::Span;

/// A span of a condition at which the evaluation can fail, or can read a missing key.
#[derive(Debug, Clone)]
pub(crate) struct EvaluationSite {
    /// The part that fails.
    pub(crate) span: Span,
    /// The operand that the message names.
    pub(crate) operand: Span,
    /// The map from which a key is read here.
    pub(crate) place: KeyReadSource,
}

/// The map from which a key is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyReadSource {
    /// `output`.
    Output,
    /// The output of the agent with this name: `outputs.NAME`.
    OutputOf(Arc<str>),
    /// `context`.
    Context,
    /// Any other map; the message names it by its text.
    Value,
}

impl EvaluationSite {
    /// Creates the site of an operation that reads no key of the snapshot.
    pub(crate) fn new(span: Span, operand: Span) -> Self {
        Self {
            span,
            operand,
            place: KeyReadSource::Value,
        }
    }

    /// Creates the site of a step after `base` and the steps `before`.
    pub(crate) fn for_read(span: Span, operand: Span, base: &ConditionExpr, before: &[ChainStep]) -> Self {
        let place = match (&base.kind, before) {
            (ExprKind::Variable(ConditionVariable::Output), []) => KeyReadSource::Output,
            (ExprKind::Variable(ConditionVariable::Context), []) => KeyReadSource::Context,
            (ExprKind::Variable(ConditionVariable::Outputs), [only]) => match &only.kind {
                ChainStepKind::Member(name) => KeyReadSource::OutputOf(name.as_str().into()),
                ChainStepKind::Index(ConditionExpr {
                    kind: ExprKind::Text(name),
                    ..
                }) => KeyReadSource::OutputOf(name.as_str().into()),
                _ => KeyReadSource::Value,
            },
            _ => KeyReadSource::Value,
        };
        Self { span, operand, place }
    }
}
