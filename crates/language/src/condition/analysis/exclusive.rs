//! Two conditions that can never be true together.

use super::super::expression::tree::{Expr, Kind, Variable};
use super::super::typing::verdict::Verdict;
use super::super::{Condition, Reading};

impl Reading {
    /// Returns whether this condition and the other one can never both be true for the same values. What they read as
    /// `output` is the output of the agents with these numbers.
    pub fn excludes(&self, agent: usize, other: &Self, other_agent: usize) -> bool {
        let both = format!("({}\n) and ({}\n)", self.about(agent), other.about(other_agent));
        Condition::read(&both).is_ok_and(|both| both.verdict() == Verdict::Never)
    }

    /// Returns whether it reads nothing but `output` and what the run was given: values that change only with a new
    /// output.
    pub fn reads_only_output(&self) -> bool {
        let mut is_only = true;
        each_variable(&self.expr, &mut |_, variable| {
            is_only &= matches!(variable, Variable::Output | Variable::Input | Variable::Inputs);
        });
        is_only
    }

    /// The text, with another expression for `output`: equal for the same agent, and different from what users write.
    fn about(&self, agent: usize) -> String {
        let mut spans = Vec::new();
        each_variable(&self.expr, &mut |expr, variable| {
            if variable == Variable::Output {
                spans.push(expr.span);
            }
        });
        let mut text = self.text.to_string();
        spans.sort_unstable();
        for span in spans.into_iter().rev() {
            text.replace_range(
                span.start..span.end,
                &format!("outputs[\"the output of agent {agent}\"]"),
            );
        }
        text
    }
}

fn each_variable(expr: &Expr, visit: &mut impl FnMut(&Expr, Variable)) {
    if let Kind::Variable(variable) = expr.kind {
        visit(expr, variable);
    }
    expr.parts(&mut |part| each_variable(part, visit));
}
