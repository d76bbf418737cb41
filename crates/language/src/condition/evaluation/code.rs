//! Translates expressions to Rhai. Every operator becomes a call of one of the engine's functions.
//!
//! The first argument of a call is the number of its *site*. The engine returns this number with an error, so an error
//! has a position in the user's text. Long chains are translated to a block of successive steps
//! (`{ let r = a; if truth(r) { r = b } r }`). Such a block is flat, stops at the first operand that decides, and
//! returns that operand.

mod comprehensions;
mod sites;

use std::fmt::Write;

use crate::condition::evaluation::operators::ArithmeticOperator;
use crate::condition::expression::tree::{
    ChainStep, ChainStepKind, ComparisonOperator, Comprehension, ConditionExpr, ConditionVariable, ExprKind,
    IfElseExpr, SignOperator,
};
use crate::condition::functions::ConditionFunction;
use crate::source::Span;

pub(crate) use sites::{EvaluationSite, KeyReadSource};

/// Chains up to this length are translated to nested calls, if their operands are not deep.
const MAX_NESTED_OPERANDS: usize = 4;
/// The highest depth of an expression that is not deep.
const MAX_SHALLOW_HEIGHT: usize = 4;

/// The Rhai script of a condition, with its evaluation sites and its variables.
pub(crate) struct EmittedScript {
    pub(crate) script: String,
    pub(crate) sites: Vec<EvaluationSite>,
    /// Every variable that the condition reads, each once.
    pub(crate) variables: Vec<ConditionVariable>,
}

/// Emits the script that returns the truth value of the expression.
pub(crate) fn emit_truth_script(expr: &ConditionExpr) -> EmittedScript {
    emit_script_with(expr, ScriptEmitter::emit_truth)
}

/// Emits the script that returns the value of the expression.
pub(crate) fn emit_value_script(expr: &ConditionExpr) -> EmittedScript {
    emit_script_with(expr, ScriptEmitter::emit_expr)
}

/// Emits the expression with `emit`, and returns the script with its sites and variables.
fn emit_script_with(expr: &ConditionExpr, emit: impl Fn(&mut ScriptEmitter, &ConditionExpr)) -> EmittedScript {
    let mut emitter = ScriptEmitter {
        out: String::with_capacity(128),
        sites: Vec::new(),
        variables: Vec::new(),
        accumulators: 0,
    };
    emit(&mut emitter, expr);
    EmittedScript {
        script: emitter.out,
        sites: emitter.sites,
        variables: emitter.variables,
    }
}

/// The state of the translation of an expression to Rhai.
struct ScriptEmitter {
    out: String,
    sites: Vec<EvaluationSite>,
    variables: Vec<ConditionVariable>,
    /// The number of loops with a result.
    accumulators: usize,
}

impl ScriptEmitter {
    /// Appends code to the script.
    fn push_text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Writes `name(site,` and records the site.
    fn open_call(&mut self, name: &str, span: Span, operand: Span) {
        self.open_site_call(name, EvaluationSite::new(span, operand));
    }

    /// Writes the number of a new site as an argument: `site,`.
    fn push_site(&mut self, span: Span) {
        let number = self.sites.len();
        self.sites.push(EvaluationSite::new(span, span));
        self.push_display(format_args!("{number},"));
    }

    /// Writes `name(number,` and records the site under that number.
    fn open_site_call(&mut self, name: &str, site: EvaluationSite) {
        let number = self.sites.len();
        self.sites.push(site);
        self.push_display(format_args!("{name}({number},"));
    }

    /// Writes any displayable value.
    fn push_display(&mut self, number: impl std::fmt::Display) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.out, "{number}");
    }

    /// Translates the expression to a Rhai boolean.
    fn emit_truth(&mut self, expr: &ConditionExpr) {
        match &expr.kind {
            _ if expr.is_always_bool() => self.emit_expr(expr),
            ExprKind::And(operands) => self.emit_truth_chain(operands, "r"),
            ExprKind::Or(operands) => self.emit_truth_chain(operands, "!r"),
            ExprKind::IfElse(choice) => self.emit_if_else(choice, Self::emit_truth),
            _ => {
                self.open_call("truth", expr.span, expr.span);
                self.emit_expr(expr);
                self.push_text(")");
            }
        }
    }

    /// Emits operands of which only the truth is needed. Evaluates the next operand only if the condition `question` about `r` is true.
    fn emit_truth_chain(&mut self, operands: &[ConditionExpr], question: &str) {
        self.push_text("{let r=");
        for (at, operand) in operands.iter().enumerate() {
            if at > 0 {
                self.push_display(format_args!("if {question}{{r="));
            }
            self.emit_truth(operand);
            self.push_text(if at > 0 { ";}" } else { ";" });
        }
        self.push_text("r}");
    }

    /// Emits the expression as a value.
    fn emit_expr(&mut self, expr: &ConditionExpr) {
        match &expr.kind {
            ExprKind::Nothing => self.push_text("()"),
            ExprKind::Bool(value) => self.push_text(if *value { "true" } else { "false" }),
            ExprKind::Int(i64::MIN) => self.push_text("smallest()"),
            ExprKind::Int(number) => self.push_display(number),
            ExprKind::Float(number) => self.push_display(format_args!("{number:?}")),
            ExprKind::Text(text) => self.emit_text(text),
            ExprKind::List(items) => self.emit_list(items),
            ExprKind::Map(entries) => self.emit_map(expr.span, entries),
            ExprKind::Variable(variable) => self.emit_variable(*variable),
            ExprKind::Local(local) => self.push_display(format_args!("l{}", local.number)),
            ExprKind::Comprehension(comprehension) => self.emit_comprehension(expr.span, comprehension),
            ExprKind::Chain(base, suffixes) => self.emit_chain(base, suffixes, false),
            ExprKind::Call(function, arguments) if let Some(search) = as_any_all_call(function, arguments) => {
                self.emit_search(search.0, search.1);
            }
            ExprKind::Call(function, arguments) => {
                let operand = arguments.first().map_or(expr.span, |argument| argument.span);
                self.open_call("apply", expr.span, operand);
                self.push_display(format_args!("{},", function.table_index()));
                self.emit_list(arguments);
                self.push_text(")");
            }
            ExprKind::Sign(sign, operand) => {
                let name = if *sign == SignOperator::Minus { "minus" } else { "plus" };
                self.open_call(name, expr.span, operand.span);
                self.emit_expr(operand);
                self.push_text(")");
            }
            ExprKind::Not(operand) => {
                self.push_text("!(");
                self.emit_truth(operand);
                self.push_text(")");
            }
            ExprKind::Arithmetic(first, rest) => self.emit_arithmetic(first, rest),
            ExprKind::Compare(first, rest) => self.emit_comparisons(first, rest),
            ExprKind::And(operands) => self.emit_operand_chain(operands, "truth", Some("r")),
            ExprKind::Or(operands) => self.emit_operand_chain(operands, "untrue", Some("!r")),
            ExprKind::Coalesce(operands) => self.emit_operand_chain(operands, "missing", None),
            ExprKind::IfElse(choice) => self.emit_if_else(choice, Self::emit_expr),
        }
    }

    /// Emits a string literal with Rhai escapes.
    fn emit_text(&mut self, text: &str) {
        self.push_text("\"");
        for c in text.chars() {
            match c {
                '"' => self.push_text("\\\""),
                '\\' => self.push_text("\\\\"),
                '\n' => self.push_text("\\n"),
                '\r' => self.push_text("\\r"),
                '\t' => self.push_text("\\t"),
                c if c.is_control() => self.push_display(format_args!("\\U{:08x}", u32::from(c))),
                c => self.out.push(c),
            }
        }
        self.push_text("\"");
    }

    /// Emits a list of expressions.
    fn emit_list(&mut self, items: &[ConditionExpr]) {
        self.push_text("[");
        for item in items {
            self.emit_expr(item);
            self.push_text(",");
        }
        self.push_text("]");
    }

    /// Emits a map as a call with its keys and values.
    fn emit_map(&mut self, span: Span, entries: &[(String, ConditionExpr)]) {
        self.open_call("map", span, span);
        self.push_text("[");
        for (key, value) in entries {
            self.emit_text(key);
            self.push_text(",");
            self.emit_expr(value);
            self.push_text(",");
        }
        self.push_text("])");
    }

    /// Emits the variable, and records that the script reads it.
    fn emit_variable(&mut self, variable: ConditionVariable) {
        if !self.variables.contains(&variable) {
            self.variables.push(variable);
        }
        self.push_text(variable.name());
    }

    /// Emits an operand. If `is_asked` is true, the operand is compared with nothing, and its last step may be missing.
    fn emit_presence_operand(&mut self, expr: &ConditionExpr, is_asked: bool) {
        match &expr.kind {
            ExprKind::Chain(base, suffixes) => self.emit_chain(base, suffixes, is_asked),
            _ => self.emit_expr(expr),
        }
    }

    /// Emits a value and the steps after it. `is_asked`: the last step asks whether there is a value.
    fn emit_chain(&mut self, base: &ConditionExpr, suffixes: &[ChainStep], is_asked: bool) {
        let flat = suffixes.len() <= MAX_NESTED_OPERANDS
            && base.height <= MAX_SHALLOW_HEIGHT
            && suffixes
                .iter()
                .all(|suffix| !suffix.is_optional && has_shallow_arguments(suffix));
        if flat {
            for at in (0..suffixes.len()).rev() {
                self.emit_step_start(base, suffixes, at, is_asked);
            }
            self.emit_expr(base);
            for suffix in suffixes {
                self.emit_step_end(suffix);
            }
            return;
        }
        self.push_text("{let r=");
        self.emit_expr(base);
        self.push_text(";");
        let mut guarded = false;
        for (at, suffix) in suffixes.iter().enumerate() {
            if suffix.is_optional && !guarded {
                guarded = true;
                self.push_text("let fit=true;");
            }
            if suffix.is_optional {
                self.push_text("if fit{fit=present(r);}");
            }
            self.push_text(if guarded { "if fit{r=" } else { "r=" });
            self.emit_step_start(base, suffixes, at, is_asked);
            self.push_text("r");
            self.emit_step_end(suffix);
            self.push_text(if guarded { ";}" } else { ";" });
        }
        self.push_text("r}");
    }

    /// Emits the part of a step before the value to which the step is applied.
    fn emit_step_start(&mut self, base: &ConditionExpr, suffixes: &[ChainStep], at: usize, is_asked: bool) {
        let suffix = &suffixes[at];
        let before = at.checked_sub(1).map_or(base.span.end, |at| suffixes[at].end);
        let span = Span::new(base.span.start, suffix.end);
        let operand = Span::new(base.span.start, before);
        // `a?.b` and `a.b?.c` ask whether there is a `b`.
        let asks = suffix.is_optional || suffixes.get(at + 1).map_or(is_asked, |next| next.is_optional);
        let site = || EvaluationSite::for_read(span, operand, base, &suffixes[..at]);
        match &suffix.kind {
            ChainStepKind::Member(_) if asks => self.open_call("ask_member", span, operand),
            ChainStepKind::Index(_) if asks => self.open_call("ask_index", span, operand),
            ChainStepKind::Member(_) => self.open_site_call("member", site()),
            ChainStepKind::Index(_) => self.open_site_call("index", site()),
            ChainStepKind::Slice(..) => self.open_call("slice", span, operand),
            ChainStepKind::Method(function, _) => {
                self.open_call("apply", span, operand);
                self.push_display(format_args!("{},[", function.table_index()));
            }
        }
    }

    /// Emits the part of a step after the value to which the step is applied.
    fn emit_step_end(&mut self, suffix: &ChainStep) {
        self.push_text(",");
        match &suffix.kind {
            ChainStepKind::Member(name) => self.emit_text(name),
            ChainStepKind::Index(index) => self.emit_expr(index),
            ChainStepKind::Slice(from, to) => {
                self.emit_slice_bound(from.as_ref());
                self.push_text(",");
                self.emit_slice_bound(to.as_ref());
            }
            ChainStepKind::Method(_, arguments) => {
                for argument in arguments {
                    self.emit_expr(argument);
                    self.push_text(",");
                }
                self.push_text("]");
            }
        }
        self.push_text(")");
    }

    /// Emits the bound of a slice, or nothing if there is no bound.
    fn emit_slice_bound(&mut self, bound: Option<&ConditionExpr>) {
        match bound {
            Some(bound) => self.emit_expr(bound),
            None => self.push_text("()"),
        }
    }

    /// Emits a chain of arithmetic operations: nested calls if it is short, otherwise a block of steps.
    fn emit_arithmetic(&mut self, first: &ConditionExpr, rest: &[(ArithmeticOperator, ConditionExpr)]) {
        let start = first.span.start;
        let flat = rest.len() <= MAX_NESTED_OPERANDS
            && first.height <= MAX_SHALLOW_HEIGHT
            && rest.iter().all(|(_, operand)| operand.height <= MAX_SHALLOW_HEIGHT);
        let open = |emitter: &mut Self, (operator, operand): &(ArithmeticOperator, ConditionExpr)| {
            let span = Span::new(start, operand.span.end);
            emitter.open_call(arithmetic_function_name(*operator), span, span);
        };
        if flat {
            rest.iter().rev().for_each(|step| open(self, step));
            self.emit_expr(first);
            for (_, operand) in rest {
                self.push_text(",");
                self.emit_expr(operand);
                self.push_text(")");
            }
            return;
        }
        self.push_text("{let r=");
        self.emit_expr(first);
        for step in rest {
            self.push_text(";r=");
            open(self, step);
            self.push_text("r,");
            self.emit_expr(&step.1);
            self.push_text(")");
        }
        self.push_text(";r}");
    }

    /// Emits chained comparisons. Each operand is evaluated once, and only if the comparisons before it are true.
    fn emit_comparisons(&mut self, first: &ConditionExpr, rest: &[(ComparisonOperator, ConditionExpr)]) {
        if let [(comparison, second)] = rest {
            self.open_comparison(*comparison, first.span, second.span);
            self.emit_presence_operand(first, comparison.asks_presence(second));
            self.push_text(",");
            self.emit_presence_operand(second, comparison.asks_presence(first));
            return self.push_text(")");
        }
        self.push_text("{let a=");
        self.emit_presence_operand(first, rest[0].0.asks_presence(&rest[0].1));
        self.push_text(";let b=();let r=true;");
        let mut left = first;
        for (comparison, operand) in rest {
            self.push_text("if r{b=");
            self.emit_presence_operand(operand, comparison.asks_presence(left));
            self.push_text(";r=");
            self.open_comparison(*comparison, left.span, operand.span);
            self.push_text("a,b);a=b;}");
            left = operand;
        }
        self.push_text("r}");
    }

    /// Writes the start of the call for the comparison operator.
    fn open_comparison(&mut self, comparison: ComparisonOperator, left: Span, right: Span) {
        let name = match comparison {
            ComparisonOperator::Equal => "equal",
            ComparisonOperator::Different => "different",
            ComparisonOperator::Less => "less",
            ComparisonOperator::LessEqual => "less_equal",
            ComparisonOperator::Greater => "greater",
            ComparisonOperator::GreaterEqual => "greater_equal",
            ComparisonOperator::In => "within",
            ComparisonOperator::NotIn => "without",
        };
        self.open_call(name, Span::new(left.start, right.end), right);
    }

    /// Emits operands that are evaluated as long as the test `question` of the previous value succeeds. `question_of_bool`:
    /// the test while all values are booleans.
    fn emit_operand_chain(&mut self, operands: &[ConditionExpr], question: &str, question_of_bool: Option<&str>) {
        let mut bools = true;
        self.push_text("{let r=");
        for (at, operand) in operands.iter().enumerate() {
            if let Some(before) = at.checked_sub(1).map(|before| operands[before].span) {
                self.push_text("if ");
                match question_of_bool {
                    Some(question) if bools => self.push_text(question),
                    _ => {
                        self.open_call(question, before, before);
                        self.push_text("r)");
                    }
                }
                self.push_text("{r=");
            }
            bools &= operand.is_always_bool();
            // The left side of `??` asks whether there is a value.
            self.emit_presence_operand(operand, question == "missing" && at + 1 < operands.len());
            self.push_text(if at > 0 { ";}" } else { ";" });
        }
        self.push_text("r}");
    }

    /// Emits an `if`; `emit` emits the two branches.
    fn emit_if_else(&mut self, choice: &IfElseExpr, emit: impl Fn(&mut Self, &ConditionExpr)) {
        // Rhai accepts a block as a condition only in parentheses.
        self.push_text("{if(");
        self.emit_truth(&choice.condition);
        self.push_text("){");
        emit(self, &choice.then);
        self.push_text("}else{");
        emit(self, &choice.otherwise);
        self.push_text("}}");
    }
}

/// Returns the deciding truth value (`true` for `any`, `false` for `all`) and the comprehension, if the call is `any` or
/// `all` of a generator.
fn as_any_all_call<'e>(
    function: &ConditionFunction,
    arguments: &'e [ConditionExpr],
) -> Option<(bool, &'e Comprehension)> {
    let decides = function.has_own_name("any");
    match arguments {
        [
            ConditionExpr {
                kind: ExprKind::Comprehension(comprehension),
                ..
            },
        ] if comprehension.is_generator && (decides || function.has_own_name("all")) => Some((decides, comprehension)),
        _ => None,
    }
}

/// Returns whether no argument of the step is a deep expression.
fn has_shallow_arguments(suffix: &ChainStep) -> bool {
    match &suffix.kind {
        ChainStepKind::Member(_) => true,
        ChainStepKind::Index(index) => index.height <= MAX_SHALLOW_HEIGHT,
        ChainStepKind::Slice(from, to) => from.iter().chain(to).all(|bound| bound.height <= MAX_SHALLOW_HEIGHT),
        ChainStepKind::Method(_, arguments) => arguments.iter().all(|argument| argument.height <= MAX_SHALLOW_HEIGHT),
    }
}

/// Returns the name of the engine's function for the operator.
fn arithmetic_function_name(operator: ArithmeticOperator) -> &'static str {
    match operator {
        ArithmeticOperator::Add => "add",
        ArithmeticOperator::Subtract => "subtract",
        ArithmeticOperator::Multiply => "multiply",
        ArithmeticOperator::Divide => "divide",
        ArithmeticOperator::Remainder => "remainder",
    }
}
