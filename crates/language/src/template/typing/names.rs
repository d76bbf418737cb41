//! The names of a template's own variables, and what is asked of types.

use std::collections::HashSet;

use minijinja::machinery::ast::{BinOpKind, Expr, Stmt};

/// Returns the names to which the template assigns values, in any block. Their types are not known.
pub(super) fn collect_assigned_names<'t>(all: &[Stmt<'t>]) -> HashSet<&'t str> {
    let mut names = HashSet::new();
    collect_statement_names(all, &mut names);
    names
}

/// Adds the names to which the statements assign values.
fn collect_statement_names<'t>(all: &[Stmt<'t>], names: &mut HashSet<&'t str>) {
    for statement in all {
        match statement {
            Stmt::Set(set) => names.extend(list_target_names(&set.target)),
            Stmt::SetBlock(set) => {
                names.extend(list_target_names(&set.target));
                collect_statement_names(&set.body, names);
            }
            Stmt::Macro(one) => {
                names.insert(one.name);
                names.extend(one.args.iter().flat_map(list_target_names));
                collect_statement_names(&one.body, names);
            }
            Stmt::CallBlock(call) => {
                names.insert(call.macro_decl.name);
                names.extend(call.macro_decl.args.iter().flat_map(list_target_names));
                collect_statement_names(&call.macro_decl.body, names);
            }
            Stmt::ForLoop(each) => {
                collect_statement_names(&each.body, names);
                collect_statement_names(&each.else_body, names);
            }
            Stmt::IfCond(choice) => {
                collect_statement_names(&choice.true_body, names);
                collect_statement_names(&choice.false_body, names);
            }
            Stmt::WithBlock(with) => collect_statement_names(&with.body, names),
            Stmt::AutoEscape(block) => collect_statement_names(&block.body, names),
            Stmt::FilterBlock(block) => collect_statement_names(&block.body, names),
            Stmt::Block(block) => collect_statement_names(&block.body, names),
            Stmt::Template(_) | Stmt::EmitExpr(_) | Stmt::EmitRaw(_) | Stmt::Do(_) => {}
            Stmt::Import(_) | Stmt::FromImport(_) | Stmt::Extends(_) | Stmt::Include(_) => {}
        }
    }
}

/// Returns the names in the target of an assignment: one name, or several in brackets. Members of a namespace are no names.
pub(super) fn list_target_names<'t>(target: &Expr<'t>) -> Vec<&'t str> {
    let mut names = Vec::new();
    push_target_names(target, &mut names);
    names
}

/// Adds the names in the target of an assignment.
fn push_target_names<'t>(target: &Expr<'t>, names: &mut Vec<&'t str>) {
    match target {
        Expr::Var(var) => names.push(var.id),
        Expr::List(list) => list.items.iter().for_each(|item| push_target_names(item, names)),
        Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| push_target_names(item, names)),
        _ => {}
    }
}

/// Returns whether the expression contains a test, or `and` or `or` with a test.
pub(super) fn contains_type_test(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Test(_) => true,
        Expr::UnaryOp(one) => contains_type_test(&one.expr),
        Expr::BinOp(two) => {
            matches!(two.op, BinOpKind::ScAnd | BinOpKind::ScOr)
                && (contains_type_test(&two.left) || contains_type_test(&two.right))
        }
        _ => false,
    }
}
