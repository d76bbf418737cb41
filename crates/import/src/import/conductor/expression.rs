//! Expressions of Conductor as expressions of this language.

use std::cell::Cell;

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Stmt, UnaryOpKind};
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

use super::jinja::{self, ConversionError};
use super::template_names::{
    ExpressionPosition, PathReplacement, WorkflowTemplateNames, is_identifier, quote_string_literal,
};
use ensemble_language::condition::Condition;

/// Reason for an expression that cannot be converted.
const NO_EQUIVALENT: &str = "a part of the expression has no equivalent in this language";
/// Largest number of times that values of `set` steps are inserted into one expression.
const MAX_INSERTED_VALUES: usize = 50;
/// Largest length of an expression in bytes.
const LONGEST: usize = 20_000;

/// Converted expression, and whether the expression reads other steps.
pub(super) struct ConvertedExpression {
    pub(super) text: String,
    /// Whether it reads anything besides the output of its own step and the inputs.
    pub(super) reads_others: bool,
}

/// Converts `when` of a route: a template, or an expression over the keys of the output. `source` is the step with the route.
pub(super) fn convert_route_condition(
    text: &str,
    names: &WorkflowTemplateNames,
    source: &str,
) -> Result<ConvertedExpression, ConversionError> {
    convert_template_or_expression(text, names, ExpressionPosition::Condition(source))
}

/// Converts a template of the workflow output, or the path of a list.
pub(super) fn convert_result_expression(text: &str, names: &WorkflowTemplateNames) -> Result<String, ConversionError> {
    convert_template_or_expression(text, names, ExpressionPosition::Result).map(|converted| converted.text)
}

/// Converts a text in this position.
///
/// # Errors
/// The reason why the text cannot be converted.
fn convert_template_or_expression(
    text: &str,
    names: &WorkflowTemplateNames,
    place: ExpressionPosition<'_>,
) -> Result<ConvertedExpression, ConversionError> {
    let text = text.trim();
    let is_template = text.contains("{{") || text.contains("{%");
    let bare = !is_template && matches!(place, ExpressionPosition::Condition(_));
    let work = ExpressionConverter {
        names,
        place,
        bare,
        values: Cell::new(0),
        reads_others: Cell::new(false),
    };
    let converted = if is_template || place == ExpressionPosition::Result && !is_dotted_path(text) {
        jinja::tokenize_template(text, false)?;
        match parse(text, "text", SyntaxConfig::default()) {
            Ok(Stmt::Template(template)) => work.convert_template_parts(&template.children)?,
            _ => return Err("it is not a valid template"),
        }
    } else {
        work.convert_expression_text(text)?
    };
    if converted.len() > LONGEST {
        return Err("the expression is too large");
    }
    match Condition::compile(&converted) {
        Ok(_) => Ok(ConvertedExpression {
            text: converted,
            reads_others: work.reads_others.get(),
        }),
        Err(_) => Err(NO_EQUIVALENT),
    }
}

/// Returns whether the text is a path of names with at least one dot, such as `source` of a `for_each`.
fn is_dotted_path(text: &str) -> bool {
    !text.is_empty() && text.contains('.') && text.split('.').all(is_identifier)
}

/// Converter of one expression.
struct ExpressionConverter<'a> {
    names: &'a WorkflowTemplateNames,
    place: ExpressionPosition<'a>,
    /// Whether unknown names are keys of the output.
    bare: bool,
    values: Cell<usize>,
    reads_others: Cell<bool>,
}

impl ExpressionConverter<'_> {
    /// Parses and converts the text of an expression.
    fn convert_expression_text(&self, text: &str) -> Result<String, ConversionError> {
        jinja::tokenize_template(text, true)?;
        let expression = parse_expr(text).map_err(|_| "it is not a valid expression")?;
        self.convert_expression_tree(&expression)
    }

    /// Converts the parts of a template to one expression that concatenates them.
    fn convert_template_parts(&self, statements: &[Stmt<'_>]) -> Result<String, ConversionError> {
        let mut parts: Vec<(String, bool)> = Vec::new();
        for statement in statements {
            match statement {
                Stmt::EmitRaw(raw)
                    if raw.raw.trim().is_empty() && (raw.raw.contains('\n') || statements.len() == 1) => {}
                Stmt::EmitRaw(raw) => parts.push((quote_string_literal(raw.raw), true)),
                Stmt::EmitExpr(one) => parts.push((self.convert_expression_tree(&one.expr)?, false)),
                Stmt::IfCond(one) => {
                    let condition = self.convert_operand(&one.expr)?;
                    let yes = self.convert_template_parts(&one.true_body)?;
                    let no = self.convert_template_parts(&one.false_body)?;
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

    /// Converts an operand, with parentheses if the operand is not a simple value.
    fn convert_operand(&self, expression: &Expr<'_>) -> Result<String, ConversionError> {
        let text = self.convert_expression_tree(expression)?;
        let binds = matches!(
            expression,
            Expr::BinOp(_) | Expr::Compare(_) | Expr::IfExpr(_) | Expr::UnaryOp(_) | Expr::Test(_)
        );
        Ok(if binds { format!("({text})") } else { text })
    }

    /// Converts a parsed expression.
    fn convert_expression_tree(&self, expression: &Expr<'_>) -> Result<String, ConversionError> {
        if let Some((root, keys)) = split_attribute_chain(expression) {
            return self.convert_name_path(root, &keys);
        }
        match expression {
            Expr::Const(value) => convert_literal(&value.value),
            Expr::UnaryOp(one) => {
                let sign = match one.op {
                    UnaryOpKind::Not => "not ",
                    UnaryOpKind::Neg => "-",
                };
                Ok(format!("{sign}{}", self.convert_operand(&one.expr)?))
            }
            Expr::BinOp(one) => {
                let (left, right) = (self.convert_operand(&one.left)?, self.convert_operand(&one.right)?);
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
                let mut text = self.convert_operand(&one.expr)?;
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
                    text = format!("{text} {sign} {}", self.convert_operand(&op.expr)?);
                }
                Ok(text)
            }
            Expr::IfExpr(one) => {
                let no = match &one.false_expr {
                    Some(no) => self.convert_operand(no)?,
                    None => "''".to_owned(),
                };
                Ok(format!(
                    "({} if {} else {no})",
                    self.convert_operand(&one.true_expr)?,
                    self.convert_operand(&one.test_expr)?
                ))
            }
            Expr::Filter(one) => {
                let value = one.expr.as_ref().ok_or(NO_EQUIVALENT)?;
                self.convert_filter_call(one.name, value, &one.args)
            }
            Expr::Test(one) => {
                let value = self.convert_operand(&one.expr)?;
                match one.name {
                    "defined" => Ok(format!("{value} is not None")),
                    "undefined" | "none" => Ok(format!("{value} is None")),
                    _ => Err(NO_EQUIVALENT),
                }
            }
            Expr::GetAttr(one) => Ok(format!("{}.{}", self.convert_operand(&one.expr)?, one.name)),
            Expr::GetItem(one) => Ok(format!(
                "{}[{}]",
                self.convert_operand(&one.expr)?,
                self.convert_expression_tree(&one.subscript_expr)?
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
                    let value = self.convert_operand(&method.expr)?;
                    Ok(format!(
                        "{value}.{}({})",
                        method.name,
                        self.convert_arguments(&one.args)?
                    ))
                }
                Expr::Var(function)
                    if matches!(
                        function.id,
                        "len" | "str" | "int" | "float" | "bool" | "abs" | "min" | "max"
                    ) =>
                {
                    Ok(format!("{}({})", function.id, self.convert_arguments(&one.args)?))
                }
                _ => Err(NO_EQUIVALENT),
            },
            Expr::List(one) => self.convert_list_items(&one.items),
            Expr::Tuple(one) => self.convert_list_items(&one.items),
            _ => Err(NO_EQUIVALENT),
        }
    }

    /// Converts a list literal.
    fn convert_list_items(&self, items: &[Expr<'_>]) -> Result<String, ConversionError> {
        let items: Result<Vec<String>, ConversionError> =
            items.iter().map(|item| self.convert_expression_tree(item)).collect();
        Ok(format!("[{}]", items?.join(", ")))
    }

    /// Converts the positional arguments of a call, separated by commas.
    fn convert_arguments(&self, arguments: &[CallArg<'_>]) -> Result<String, ConversionError> {
        let texts: Result<Vec<String>, ConversionError> = arguments
            .iter()
            .map(|argument| match argument {
                CallArg::Pos(value) => self.convert_expression_tree(value),
                _ => Err(NO_EQUIVALENT),
            })
            .collect();
        Ok(texts?.join(", "))
    }

    /// Converts a filter to a function with the same result.
    fn convert_filter_call(
        &self,
        name: &str,
        value: &Expr<'_>,
        arguments: &[CallArg<'_>],
    ) -> Result<String, ConversionError> {
        let function = match name {
            "length" | "count" => "len",
            "trim" => "strip",
            "string" => "str",
            "lower" | "upper" | "int" | "float" | "first" | "last" | "abs" | "round" | "sum" | "min" | "max"
            | "replace" => name,
            "default" | "d" => {
                let default_value = self.convert_arguments(&arguments[..arguments.len().min(1)])?;
                let default_value = if default_value.is_empty() {
                    "''".to_owned()
                } else {
                    default_value
                };
                return Ok(format!("({} ?? {default_value})", self.convert_operand(value)?));
            }
            // The value itself is a part of the result, not its text.
            "json" | "tojson" if self.place == ExpressionPosition::Result => return self.convert_operand(value),
            "list" | "safe" => return self.convert_operand(value),
            _ => return Err(NO_EQUIVALENT),
        };
        let mut inner = self.convert_expression_tree(value)?;
        if function == "len" {
            inner = format!("{inner} ?? []");
        }
        let more = self.convert_arguments(arguments)?;
        let comma = if more.is_empty() { "" } else { ", " };
        Ok(format!("{function}({inner}{comma}{more})"))
    }

    /// Converts a name with keys to the corresponding name of this language. Records whether the path reads other steps.
    fn convert_name_path(&self, root: &str, keys: &[&str]) -> Result<String, ConversionError> {
        let (mut text, used, soft) = match self.names.find_path_replacement(root, keys, self.place) {
            PathReplacement::Path { text, used, soft } => {
                if soft || text == "turn_count" || text.contains("outputs") {
                    self.reads_others.set(true);
                }
                (text, used, soft)
            }
            PathReplacement::Value { source, used } => {
                self.values.set(self.values.get() + 1);
                if self.values.get() > MAX_INSERTED_VALUES {
                    return Err("the values of `set` steps depend on each other");
                }
                self.reads_others.set(true);
                let inner = ExpressionConverter {
                    names: self.names,
                    place: ExpressionPosition::Result,
                    bare: false,
                    values: Cell::new(self.values.get() + MAX_INSERTED_VALUES / 8),
                    reads_others: Cell::new(false),
                };
                (format!("({})", inner.convert_expression_text(&source)?), used, true)
            }
            PathReplacement::NoEquivalent(reason) => return Err(reason),
            PathReplacement::Unknown if self.bare => {
                let ExpressionPosition::Condition(source) = self.place else {
                    return Err(NO_EQUIVALENT);
                };
                let key = root.strip_prefix("output_").unwrap_or(root);
                let all: Vec<&str> = [key].into_iter().chain(keys.iter().copied()).collect();
                return match self
                    .names
                    .find_path_replacement("output", &all, ExpressionPosition::Condition(source))
                {
                    PathReplacement::Path { text, used, .. } => Ok(append_member_keys(text, &all[used..], false)),
                    PathReplacement::NoEquivalent(reason) => Err(reason),
                    _ => Err(NO_EQUIVALENT),
                };
            }
            PathReplacement::Unknown if root == "output" => ("output".to_owned(), 0, false),
            PathReplacement::Unknown => return Err("it contains a name that is not the name of a step"),
        };
        text = append_member_keys(text, &keys[used..], soft);
        Ok(text)
    }
}

/// Appends member accesses to the text. If `soft`, a missing value is no error.
fn append_member_keys(mut text: String, keys: &[&str], soft: bool) -> String {
    for key in keys {
        let mark = if soft { "?" } else { "" };
        let key = if is_identifier(key) {
            format!("{mark}.{key}")
        } else {
            format!("{mark}[{}]", quote_string_literal(key))
        };
        text.push_str(&key);
    }
    text
}

/// Splits member accesses into the name and the keys. Returns `None` for another expression.
fn split_attribute_chain<'e>(expression: &'e Expr<'_>) -> Option<(&'e str, Vec<&'e str>)> {
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

/// Converts a constant value to a literal.
fn convert_literal(value: &minijinja::Value) -> Result<String, ConversionError> {
    if value.is_none() {
        return Ok("None".to_owned());
    }
    if let Some(text) = value.as_str() {
        return Ok(quote_string_literal(text));
    }
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Bool | ValueKind::Number => Ok(value.to_string()),
        _ => Err(NO_EQUIVALENT),
    }
}
