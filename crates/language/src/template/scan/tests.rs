use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::parse;
use proptest::prelude::*;

use super::*;

fn depth(text: &str) -> usize {
    scan_template(text).depth
}

#[test]
fn chains_are_counted_in_each_other() {
    let table = [
        ("no tag", 0),
        ("{{ a }}", 0),
        ("{{ a.b.c }}", 2),
        ("{{ not not a }}", 2),
        ("{{ --1 }}", 2),
        ("{{ a | upper | lower }}", 2),
        ("{{ [1 + 1, 2 + 2 + 2, 3] }}", 3),
        ("{{ f(a + b) + 1 + 1 }}", 4),
        ("{% if a %}{% elif b %}{% elif c %}{{ d.e }}{% endif %}", 4),
        ("{% if a %}{% endif %}{% if a %}{% endif %}{{ a.b }}", 1),
        ("{% set a = 1 %}{% set b = 2 %}{{ b }}", 1),
        ("{% set a %}{{ b }}{% endset %}", 1),
        ("{% raw %}{{ a.b.c.d.e }}{% endraw %}", 0),
        ("{# a.b.c.d #}{{ 'a.b.c.d' }}", 0),
        ("{{ '}}' ~ 1 + 1 }}", 2),
        ("{{ 1 + 1", 1),
    ];
    for (text, expected) in table {
        assert_eq!(depth(text), expected, "{text}");
    }
}

#[test]
fn the_place_where_it_is_too_deep_is_told() {
    let text = format!("ab {{{{ 1{} }}}}", "+1".repeat(DEPTH_LIMIT + 1));
    let at = 7 + 2 * DEPTH_LIMIT;
    assert_eq!(scan_template(&text).too_deep, Some(Span::new(at, at + 1)));
    let text = format!("{{{{ 1{} }}}}", "+1".repeat(DEPTH_LIMIT));
    assert_eq!(scan_template(&text).too_deep, None);
}

#[test]
fn assigned_values_are_found() {
    let text = "{% set a = b -%}{%- set n.c, d = (e=1), 2 %}{% set f | d(g=1) %}{% endset %}";
    let scan = scan_template(text);
    let found: Vec<_> = scan
        .assigned_values
        .iter()
        .map(|one| (&text[one.value.start..one.value.end], one.is_member))
        .collect();
    assert_eq!(found, [(" b ", false), (" (e=1), 2 ", true)]);
}

#[test]
fn what_repeats_or_grows_is_not_light() {
    let light = [
        "text",
        "{{ input }}",
        "{{ a.b[0]['c'] | default('x') | upper }}",
        "{% if a is defined and not (b in c) %}{{ a }}{% elif b == 1 %}{% else %}{% endif %}",
        "{{ context.get('a', 1) }}",
        "{% raw %}{% for %}{% endraw %}",
    ];
    let heavy = [
        "{% for a in b %}{% endfor %}",
        "{% set a = 1 %}",
        "{{ range(3) }}",
        "{{ a.b(1) }}",
        "{{ (a)(1) }}",
        "{{ a | pprint }}",
        "{{ a | map('upper') }}",
        "{{ a ~ b }}",
        "{{ 'a' * 9 }}",
        "{{ a + b }}",
        "{% macro a() %}{% endmacro %}",
        "{% filter upper %}{% endfilter %}",
    ];
    for text in light {
        assert!(scan_template(text).is_light, "{text}");
    }
    for text in heavy {
        assert!(!scan_template(text).is_light, "{text}");
    }
}

/// Returns the depth of the syntax tree, without its root.
fn of_statements(statements: &[Stmt<'_>]) -> usize {
    statements.iter().map(of_statement).max().unwrap_or(0)
}

fn of_statement(statement: &Stmt<'_>) -> usize {
    match statement {
        Stmt::Template(node) => of_statements(&node.children),
        Stmt::EmitExpr(node) => of(&node.expr),
        Stmt::IfCond(node) => {
            let bodies = of_statements(&node.true_body).max(of_statements(&node.false_body));
            1 + bodies.max(of(&node.expr))
        }
        Stmt::ForLoop(node) => {
            1 + of_statements(&node.body)
                .max(of_statements(&node.else_body))
                .max(of(&node.iter))
        }
        Stmt::Set(node) => of(&node.expr),
        _ => 0,
    }
}

fn of(expression: &Expr<'_>) -> usize {
    let of_args = |args: &[CallArg<'_>]| {
        let args = args.iter().map(|arg| match arg {
            CallArg::Pos(value) | CallArg::Kwarg(_, value) => of(value),
            CallArg::PosSplat(value) | CallArg::KwargSplat(value) => of(value),
        });
        args.max().unwrap_or(0)
    };
    match expression {
        Expr::Var(_) | Expr::Const(_) => 0,
        Expr::UnaryOp(node) => 1 + of(&node.expr),
        Expr::BinOp(node) => 1 + of(&node.left).max(of(&node.right)),
        Expr::IfExpr(node) => {
            let third = node.false_expr.as_ref().map_or(0, of);
            1 + of(&node.test_expr).max(of(&node.true_expr)).max(third)
        }
        Expr::Filter(node) => 1 + node.expr.as_ref().map_or(0, of).max(of_args(&node.args)),
        Expr::Test(node) => 1 + of(&node.expr).max(of_args(&node.args)),
        Expr::GetAttr(node) => 1 + of(&node.expr),
        Expr::GetItem(node) => 1 + of(&node.expr).max(of(&node.subscript_expr)),
        Expr::Call(node) => 1 + of(&node.expr).max(of_args(&node.args)),
        Expr::List(node) => 1 + node.items.iter().map(of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Pieces of which random templates are made.
const PIECES: [&str; 30] = [
    "{{ ",
    " }}",
    "{% if ",
    " %}",
    "{% elif ",
    "{% else %}",
    "{% endif %}",
    "{% for a in ",
    "{% endfor %}",
    "{% set a = ",
    "a",
    "1",
    "+",
    "-",
    "~",
    ".b",
    "|abs",
    "|d(",
    "(",
    ")",
    "[",
    "]",
    ",",
    " not ",
    " and ",
    " if ",
    " else ",
    " is defined",
    " in ",
    "'}}'",
];

proptest! {
    #[test]
    fn the_tree_is_never_deeper_than_was_counted(pieces in prop::collection::vec(0..PIECES.len(), 0..24)) {
        let text: String = pieces.into_iter().map(|at| PIECES[at]).collect();
        if let Ok(tree) = parse(&text, "t", SyntaxConfig::default()) {
            prop_assert!(of_statement(&tree) <= depth(&text), "{text}");
        }
    }

    #[test]
    fn the_tree_of_an_expression_is_never_deeper_than_was_counted(pieces in prop::collection::vec(10..PIECES.len(), 0..9)) {
        let inside: String = pieces.into_iter().map(|at| PIECES[at]).collect();
        let text = format!("{{{{ a{inside}a }}}}");
        if let Ok(tree) = parse(&text, "t", SyntaxConfig::default()) {
            prop_assert!(of_statement(&tree) <= depth(&text), "{text}");
        }
    }
}
