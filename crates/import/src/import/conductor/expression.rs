//! Expressions of Conductor as expressions of this language.

use std::cell::Cell;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Stmt, UnaryOpKind};
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

use super::jinja::{self, Refused};
use super::names::{Found, Names, Place, is_word, quoted};
use ensemble_language::condition::Condition;

const NO_EQUIVALENT: &str = "a part of the expression has no equivalent here";
/// How often a value of a `set` step is written in the place of its name.
const MOST_VALUES: usize = 50;
/// The longest expression.
const LONGEST: usize = 20_000;

/// A converted expression.
pub(super) struct Converted {
    pub(super) text: String,
    /// Whether it reads anything besides the output of its own step and the inputs.
    pub(super) reads_others: bool,
}

/// Converts `when` of a route: a template, or an expression over the keys of the output.
pub(super) fn condition(text: &str, names: &Names, source: &str) -> Result<Converted, Refused> {
    convert(text, names, Place::Condition(source))
}

/// Converts a template of the workflow's output, or the path of a list.
pub(super) fn result(text: &str, names: &Names) -> Result<String, Refused> {
    convert(text, names, Place::Result).map(|converted| converted.text)
}

fn convert(text: &str, names: &Names, place: Place<'_>) -> Result<Converted, Refused> {
    let text = text.trim();
    let is_template = text.contains("{{") || text.contains("{%");
    let bare = !is_template && matches!(place, Place::Condition(_));
    let work = Work {
        names,
        place,
        bare,
        values: Cell::new(0),
        reads_others: Cell::new(false),
    };
    let converted = if is_template || place == Place::Result && !is_path(text) {
        jinja::pieces(text, false)?;
        match parse(text, "text", SyntaxConfig::default()) {
            Ok(Stmt::Template(template)) => work.statements(&template.children)?,
            _ => return Err("it is not a template"),
        }
    } else {
        work.source(text)?
    };
    if converted.len() > LONGEST {
        return Err("the expression is too large");
    }
    match Condition::compile(&converted) {
        Ok(_) => Ok(Converted {
            text: converted,
            reads_others: work.reads_others.get(),
        }),
        Err(_) => Err(NO_EQUIVALENT),
    }
}

/// Returns whether a text is a path of names, as `source` of a `for_each` is.
fn is_path(text: &str) -> bool {
    !text.is_empty() && text.contains('.') && text.split('.').all(is_word)
}

struct Work<'a> {
    names: &'a Names,
    place: Place<'a>,
    /// Whether unknown names are keys of the output.
    bare: bool,
    values: Cell<usize>,
    reads_others: Cell<bool>,
}

impl Work<'_> {
    fn source(&self, text: &str) -> Result<String, Refused> {
        jinja::pieces(text, true)?;
        let expression = parse_expr(text).map_err(|_| "it is not an expression")?;
        self.expression(&expression)
    }

    /// A template as one expression.
    fn statements(&self, statements: &[Stmt<'_>]) -> Result<String, Refused> {
        let mut parts: Vec<(String, bool)> = Vec::new();
        for statement in statements {
            match statement {
                Stmt::EmitRaw(raw)
                    if raw.raw.trim().is_empty() && (raw.raw.contains('\n') || statements.len() == 1) => {}
                Stmt::EmitRaw(raw) => parts.push((quoted(raw.raw), true)),
                Stmt::EmitExpr(one) => parts.push((self.expression(&one.expr)?, false)),
                Stmt::IfCond(one) => {
                    let condition = self.within(&one.expr)?;
                    let yes = self.statements(&one.true_body)?;
                    let no = self.statements(&one.false_body)?;
                    parts.push((format!("({yes} if {condition} else {no})"), false));
                }
                _ => return Err("loops and other blocks of templates have no equivalent in an expression"),
            }
        }
        match &parts[..] {
            [] => Ok("''".to_owned()),
            [(one, _)] => Ok(one.clone()),
            many => {
                let texts = many.iter().map(
                    |(part, is_text)| {
                        if *is_text { part.clone() } else { format!("str({part})") }
                    },
                );
                Ok(texts.collect::<Vec<_>>().join(" + "))
            }
        }
    }

    /// An operand.
    fn within(&self, expression: &Expr<'_>) -> Result<String, Refused> {
        let text = self.expression(expression)?;
        let binds = matches!(
            expression,
            Expr::BinOp(_) | Expr::Compare(_) | Expr::IfExpr(_) | Expr::UnaryOp(_) | Expr::Test(_)
        );
        Ok(if binds { format!("({text})") } else { text })
    }

    fn expression(&self, expression: &Expr<'_>) -> Result<String, Refused> {
        if let Some((root, keys)) = chain(expression) {
            return self.path(root, &keys);
        }
        match expression {
            Expr::Const(value) => literal(&value.value),
            Expr::UnaryOp(one) => {
                let sign = match one.op {
                    UnaryOpKind::Not => "not ",
                    UnaryOpKind::Neg => "-",
                };
                Ok(format!("{sign}{}", self.within(&one.expr)?))
            }
            Expr::BinOp(one) => {
                let (left, right) = (self.within(&one.left)?, self.within(&one.right)?);
                let sign = match one.op {
                    BinOpKind::Eq => "==",
                    BinOpKind::Ne => "!=",
                    BinOpKind::Lt => "<",
                    BinOpKind::Lte => "<=",
                    BinOpKind::Gt => ">",
                    BinOpKind::Gte => ">=",
                    BinOpKind::ScAnd => "and",
                    BinOpKind::ScOr => "or",
                    BinOpKind::Add => "+",
                    BinOpKind::Sub => "-",
                    BinOpKind::Mul => "*",
                    BinOpKind::Div => "/",
                    BinOpKind::Rem => "%",
                    BinOpKind::In => "in",
                    BinOpKind::FloorDiv => return Ok(format!("floor({left} / {right})")),
                    BinOpKind::Concat => return Ok(format!("(str({left}) + str({right}))")),
                    BinOpKind::Pow => return Err(NO_EQUIVALENT),
                };
                Ok(format!("{left} {sign} {right}"))
            }
            Expr::Compare(one) => {
                let mut text = self.within(&one.expr)?;
                for op in &one.ops {
                    let sign = match op.op {
                        CompareOpKind::Eq => "==",
                        CompareOpKind::Ne => "!=",
                        CompareOpKind::Lt => "<",
                        CompareOpKind::Lte => "<=",
                        CompareOpKind::Gt => ">",
                        CompareOpKind::Gte => ">=",
                        CompareOpKind::In => "in",
                        CompareOpKind::NotIn => "not in",
                    };
                    text = format!("{text} {sign} {}", self.within(&op.expr)?);
                }
                Ok(text)
            }
            Expr::IfExpr(one) => {
                let no = match &one.false_expr {
                    Some(no) => self.within(no)?,
                    None => "''".to_owned(),
                };
                Ok(format!(
                    "({} if {} else {no})",
                    self.within(&one.true_expr)?,
                    self.within(&one.test_expr)?
                ))
            }
            Expr::Filter(one) => {
                let value = one.expr.as_ref().ok_or(NO_EQUIVALENT)?;
                self.filter(one.name, value, &one.args)
            }
            Expr::Test(one) => {
                let value = self.within(&one.expr)?;
                match one.name {
                    "defined" => Ok(format!("{value} is not None")),
                    "undefined" | "none" => Ok(format!("{value} is None")),
                    _ => Err(NO_EQUIVALENT),
                }
            }
            Expr::GetAttr(one) => Ok(format!("{}.{}", self.within(&one.expr)?, one.name)),
            Expr::GetItem(one) => Ok(format!(
                "{}[{}]",
                self.within(&one.expr)?,
                self.expression(&one.subscript_expr)?
            )),
            Expr::Call(one) => match &one.expr {
                Expr::GetAttr(method)
                    if matches!(
                        method.name,
                        "get"
                            | "lower"
                            | "upper"
                            | "strip"
                            | "startswith"
                            | "endswith"
                            | "split"
                            | "replace"
                            | "keys"
                            | "values"
                            | "count"
                    ) =>
                {
                    let value = self.within(&method.expr)?;
                    Ok(format!("{value}.{}({})", method.name, self.arguments(&one.args)?))
                }
                Expr::Var(function)
                    if matches!(
                        function.id,
                        "len" | "str" | "int" | "float" | "bool" | "abs" | "min" | "max"
                    ) =>
                {
                    Ok(format!("{}({})", function.id, self.arguments(&one.args)?))
                }
                _ => Err(NO_EQUIVALENT),
            },
            Expr::List(one) => self.list(&one.items),
            Expr::Tuple(one) => self.list(&one.items),
            _ => Err(NO_EQUIVALENT),
        }
    }

    fn list(&self, items: &[Expr<'_>]) -> Result<String, Refused> {
        let items: Result<Vec<String>, Refused> = items.iter().map(|item| self.expression(item)).collect();
        Ok(format!("[{}]", items?.join(", ")))
    }

    fn arguments(&self, arguments: &[CallArg<'_>]) -> Result<String, Refused> {
        let texts: Result<Vec<String>, Refused> = arguments
            .iter()
            .map(|argument| match argument {
                CallArg::Pos(value) => self.expression(value),
                _ => Err(NO_EQUIVALENT),
            })
            .collect();
        Ok(texts?.join(", "))
    }

    fn filter(&self, name: &str, value: &Expr<'_>, arguments: &[CallArg<'_>]) -> Result<String, Refused> {
        let function = match name {
            "length" | "count" => "len",
            "trim" => "strip",
            "string" => "str",
            "lower" | "upper" | "int" | "float" | "first" | "last" | "abs" | "round" | "sum" | "min" | "max"
            | "replace" => name,
            "default" | "d" => {
                let other = self.arguments(&arguments[..arguments.len().min(1)])?;
                let other = if other.is_empty() { "''".to_owned() } else { other };
                return Ok(format!("({} ?? {other})", self.within(value)?));
            }
            // The value itself is a part of the result, not its text.
            "json" | "tojson" if self.place == Place::Result => return self.within(value),
            "list" | "safe" => return self.within(value),
            _ => return Err(NO_EQUIVALENT),
        };
        let mut inner = self.expression(value)?;
        if function == "len" {
            inner = format!("{inner} ?? []");
        }
        let more = self.arguments(arguments)?;
        let comma = if more.is_empty() { "" } else { ", " };
        Ok(format!("{function}({inner}{comma}{more})"))
    }

    fn path(&self, root: &str, keys: &[&str]) -> Result<String, Refused> {
        let (mut text, used, soft) = match self.names.find(root, keys, self.place) {
            Found::Path { text, used, soft } => {
                if soft || text == "turn_count" || text.contains("outputs") {
                    self.reads_others.set(true);
                }
                (text, used, soft)
            }
            Found::Value { source, used } => {
                self.values.set(self.values.get() + 1);
                if self.values.get() > MOST_VALUES {
                    return Err("the values of `set` steps read each other");
                }
                self.reads_others.set(true);
                let inner = Work {
                    names: self.names,
                    place: Place::Result,
                    bare: false,
                    values: Cell::new(self.values.get() + MOST_VALUES / 8),
                    reads_others: Cell::new(false),
                };
                (format!("({})", inner.source(&source)?), used, true)
            }
            Found::Lost(why) => return Err(why),
            Found::Unknown if self.bare => {
                let Place::Condition(source) = self.place else {
                    return Err(NO_EQUIVALENT);
                };
                let key = root.strip_prefix("output_").unwrap_or(root);
                let all: Vec<&str> = [key].into_iter().chain(keys.iter().copied()).collect();
                return match self.names.find("output", &all, Place::Condition(source)) {
                    Found::Path { text, used, .. } => Ok(attributes(text, &all[used..], false)),
                    Found::Lost(why) => Err(why),
                    _ => Err(NO_EQUIVALENT),
                };
            }
            Found::Unknown if root == "output" => ("output".to_owned(), 0, false),
            Found::Unknown => return Err("it reads a name that no step has"),
        };
        text = attributes(text, &keys[used..], soft);
        Ok(text)
    }
}

/// A value followed by keys.
fn attributes(mut text: String, keys: &[&str], soft: bool) -> String {
    for key in keys {
        let mark = if soft { "?" } else { "" };
        let key = if is_word(key) {
            format!("{mark}.{key}")
        } else {
            format!("{mark}[{}]", quoted(key))
        };
        text.push_str(&key);
    }
    text
}

/// A name with the keys behind it.
fn chain<'e>(expression: &'e Expr<'_>) -> Option<(&'e str, Vec<&'e str>)> {
    let mut keys = Vec::new();
    let mut at = expression;
    loop {
        match at {
            Expr::Var(one) => {
                keys.reverse();
                return Some((one.id, keys));
            }
            Expr::GetAttr(one) => {
                keys.push(one.name);
                at = &one.expr;
            }
            Expr::GetItem(one) => {
                let Expr::Const(key) = &one.subscript_expr else {
                    return None;
                };
                keys.push(key.value.as_str()?);
                at = &one.expr;
            }
            _ => return None,
        }
    }
}

fn literal(value: &minijinja::Value) -> Result<String, Refused> {
    if value.is_none() {
        return Ok("None".to_owned());
    }
    if let Some(text) = value.as_str() {
        return Ok(quoted(text));
    }
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Bool | ValueKind::Number => Ok(value.to_string()),
        _ => Err(NO_EQUIVALENT),
    }
}
