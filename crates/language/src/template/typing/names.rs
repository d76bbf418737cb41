//! The names of a template's own variables, and what is asked of types.

use std::collections::HashSet;

use minijinja::machinery::ast::{BinOpKind, Expr, Stmt};

/// The names to which the template assigns values, in any block. What they stand for is not known.
pub(super) fn assigned<'t>(all: &[Stmt<'t>]) -> HashSet<&'t str> {
    let mut names = HashSet::new();
    collect(all, &mut names);
    names
}

fn collect<'t>(all: &[Stmt<'t>], names: &mut HashSet<&'t str>) {
    for one in all {
        match one {
            Stmt::Set(set) => names.extend(of_target(&set.target)),
            Stmt::SetBlock(set) => {
                names.extend(of_target(&set.target));
                collect(&set.body, names);
            }
            Stmt::Macro(one) => {
                names.insert(one.name);
                names.extend(one.args.iter().flat_map(of_target));
                collect(&one.body, names);
            }
            Stmt::CallBlock(call) => {
                names.insert(call.macro_decl.name);
                names.extend(call.macro_decl.args.iter().flat_map(of_target));
                collect(&call.macro_decl.body, names);
            }
            Stmt::ForLoop(each) => {
                collect(&each.body, names);
                collect(&each.else_body, names);
            }
            Stmt::IfCond(choice) => {
                collect(&choice.true_body, names);
                collect(&choice.false_body, names);
            }
            Stmt::WithBlock(with) => collect(&with.body, names),
            Stmt::AutoEscape(block) => collect(&block.body, names),
            Stmt::FilterBlock(block) => collect(&block.body, names),
            Stmt::Block(block) => collect(&block.body, names),
            Stmt::Template(_) | Stmt::EmitExpr(_) | Stmt::EmitRaw(_) | Stmt::Do(_) => {}
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
        }
    }
}

/// The names in the target of an assignment: one, or several in brackets. The members of a namespace are none.
pub(super) fn of_target<'t>(target: &Expr<'t>) -> Vec<&'t str> {
    let mut names = Vec::new();
    push(target, &mut names);
    names
}

fn push<'t>(target: &Expr<'t>, names: &mut Vec<&'t str>) {
    match target {
        Expr::Var(var) => names.push(var.id),
        Expr::List(list) => list.items.iter().for_each(|item| push(item, names)),
        Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| push(item, names)),
        _ => {}
    }
}

/// Returns whether the expression asks for the type of a value, or for anything else that a test can ask.
pub(super) fn asks_for_type(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Test(_) => true,
        Expr::UnaryOp(one) => asks_for_type(&one.expr),
        Expr::BinOp(two) => {
            matches!(two.op, BinOpKind::ScAnd | BinOpKind::ScOr)
                && (asks_for_type(&two.left) || asks_for_type(&two.right))
        }
        _ => false,
    }
}
