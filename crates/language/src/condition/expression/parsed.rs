//! A condition that was parsed but not compiled: this is enough for checks before a run, and much faster.

use std::sync::Arc;

use crate::condition::analysis::counts::{CountThreshold, collect_count_thresholds};
use crate::condition::analysis::member_reads::{self, OutputMemberRead};
use crate::condition::analysis::reads;
use crate::condition::analysis::truths::{TruthRead, collect_truth_reads};
use crate::condition::expression::tree::{ConditionExpr, ConditionVariable, ExprKind};
use crate::condition::typing::verdict;
use crate::condition::typing::verdict::StaticResult;
use crate::condition::{CompileError, Condition, ConditionKeyRead, parse_condition};
use crate::source::Span;

/// A condition that was parsed, but not compiled.
pub struct ParsedCondition {
    pub(crate) text: Arc<str>,
    pub(crate) expr: ConditionExpr,
}

/// A variable whose keys agents or inputs define.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyedVariable {
    /// `context`.
    Context,
    /// `output`.
    Output,
    /// `inputs`.
    Inputs,
}

impl Condition {
    /// Parses a condition without compiling it. Every condition that can be parsed can also be compiled.
    pub fn parse(text: &str) -> Result<ParsedCondition, CompileError> {
        Ok(ParsedCondition::from_expr(text, parse_condition(text)?))
    }
}

impl ParsedCondition {
    /// Combines an expression with its text.
    pub(crate) fn from_expr(text: &str, expr: ConditionExpr) -> Self {
        Self {
            text: text.into(),
            expr,
        }
    }

    /// Returns the agents whose executions are counted or whose outputs are read by a literal name, with the span of each name.
    pub fn list_named_agents(&self) -> Vec<(String, Span)> {
        reads::list_named_agents(&self.expr)
    }

    /// Returns the literal keys of the variable `of` that the condition reads.
    pub fn list_literal_key_reads(&self, of: KeyedVariable) -> Vec<ConditionKeyRead> {
        let variable = match of {
            KeyedVariable::Context => ConditionVariable::Context,
            KeyedVariable::Output => ConditionVariable::Output,
            KeyedVariable::Inputs => ConditionVariable::Inputs,
        };
        reads::list_literal_key_reads(&self.expr, &[variable])
    }

    /// Returns the keys of outputs whose truth the condition asks for without a comparison.
    pub fn list_truth_reads(&self) -> Vec<TruthRead> {
        let mut reads = Vec::new();
        collect_truth_reads(&self.expr, true, &mut reads);
        reads
    }

    /// Returns the comparisons of execution counts that help to make the condition true.
    pub fn list_count_thresholds(&self) -> Vec<CountThreshold> {
        let mut counts = Vec::new();
        collect_count_thresholds(&self.expr, &mut counts);
        counts
    }

    /// Returns the agents whose executions the condition counts by a literal name.
    pub fn list_counted_agents(&self) -> Vec<String> {
        let counts = [ConditionVariable::Executions, ConditionVariable::AgentExecutionCount];
        let reads = reads::list_literal_key_reads(&self.expr, &counts).into_iter();
        reads.map(|read| read.key).collect()
    }

    /// Returns the agents whose outputs or executions the expression reads by literal names. Returns `None` if the expression can also
    /// depend on other agents: it reads the context, the history, the number of turns, or an agent without a literal name.
    pub fn list_read_agents(&self) -> Option<Vec<String>> {
        reads::list_read_agents(&self.expr)
    }

    /// Returns the members of outputs that the condition reads without checking that there is an output.
    pub fn list_unguarded_member_reads(&self) -> Vec<OutputMemberRead> {
        member_reads::list_unguarded_member_reads(&self.text, &self.expr)
    }

    /// Returns the result of the condition, if it is the same for all values.
    pub fn static_result(&self) -> StaticResult {
        match self.expr.kind {
            ExprKind::Bool(value) => StaticResult::WrittenLiteral(value),
            _ => verdict::find_static_result(&self.text, &self.expr),
        }
    }
}
