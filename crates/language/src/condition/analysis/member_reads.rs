//! Members of outputs that an expression reads as if there always were an output.

use super::super::expression::tree::{ChainStep, ChainStepKind, ConditionExpr, ConditionVariable, ExprKind};
use super::reads::list_literal_key_reads;
use super::truths::OutputSource;
use crate::source::Span;

/// A read of a member of an output, such as `outputs.b.order` or `context.b.order`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputMemberRead {
    /// The output that is read.
    pub output: OutputSource,
    /// The bytes of the read up to the member.
    pub span: Span,
    /// The same read with `?` before the member.
    pub optional_read: String,
}

/// Returns all reads of members of outputs, from left to right, except of outputs whose presence the expression checks.
pub(in super::super) fn list_unguarded_member_reads(text: &str, expr: &ConditionExpr) -> Vec<OutputMemberRead> {
    let mut reads = Vec::new();
    let mut asked = Vec::new();
    collect_member_reads(text, expr, &mut reads, &mut asked);
    for variables in [ConditionVariable::Outputs, ConditionVariable::Context] {
        let questions = list_literal_key_reads(expr, &[variables]).into_iter();
        asked.extend(questions.filter(|read| read.is_question).map(|read| read.key));
    }
    let counts = [ConditionVariable::Executions, ConditionVariable::AgentExecutionCount];
    asked.extend(list_literal_key_reads(expr, &counts).into_iter().map(|read| read.key));
    reads.retain(|read: &OutputMemberRead| {
        let (OutputSource::Agent(name) | OutputSource::ContextKey(name)) = &read.output else {
            return false;
        };
        !asked.contains(name)
    });
    reads
}

/// Adds the reads of members to `reads`, and the names of outputs whose presence is checked to `asked`.
fn collect_member_reads(text: &str, expr: &ConditionExpr, reads: &mut Vec<OutputMemberRead>, asked: &mut Vec<String>) {
    if let ExprKind::Chain(base, suffixes) = &expr.kind
        && let ExprKind::Variable(variable @ (ConditionVariable::Outputs | ConditionVariable::Context)) = base.kind
        && let [first, rest @ ..] = suffixes.as_slice()
        && let Some(name) = as_plain_key(first)
    {
        match rest.first() {
            // `outputs.b` alone, and `outputs.b?.order`, ask whether there is an output.
            None => asked.push(name),
            Some(member) if member.is_optional => asked.push(name),
            Some(member) => reads.push(OutputMemberRead {
                output: match variable {
                    ConditionVariable::Outputs => OutputSource::Agent(name),
                    _ => OutputSource::ContextKey(name),
                },
                span: Span::new(base.span.start, member.end),
                optional_read: format!("{}?{}", &text[base.span.start..first.end], &text[first.end..member.end]),
            }),
        }
    }
    expr.visit_parts(&mut |part| collect_member_reads(text, part, reads, asked));
}

/// Returns the key of the steps `.key` and `['key']`.
fn as_plain_key(step: &ChainStep) -> Option<String> {
    match &step.kind {
        ChainStepKind::Member(name) => Some(name.clone()),
        ChainStepKind::Index(ConditionExpr {
            kind: ExprKind::Text(name),
            ..
        }) => Some(name.clone()),
        _ => None,
    }
}
