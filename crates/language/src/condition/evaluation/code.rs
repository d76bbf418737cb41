//! Translates expressions to Rhai. Every operator becomes a call of one of the engine's functions.
//!
//! The first argument of a call is the number of its *site*. The engine returns this number with an error, so an error
//! has a position in the user's text. Long chains are translated to a block of successive steps
//! (`{ let r = a; if truth(r) { r = b } r }`). Such a block is flat, stops at the first operand that decides, and
//! returns that operand.

use std::fmt::Write;

use crate::condition::evaluation::operators::Arithmetic;
use crate::condition::expression::tree::{Choice, Comparison, Expr, Kind, Sign, Suffix, SuffixKind, Variable};
use crate::source::Span;

/// Chains up to this length are translated to nested calls, if their operands are not deep.
const SHORT: usize = 4;
/// The highest depth of an expression that is not deep.
const LOW: usize = 4;

/// A position at which the evaluation can fail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    /// The part that fails.
    pub(crate) span: Span,
    /// The operand that the message names.
    pub(crate) operand: Span,
}

/// The Rhai script of a condition, and the values that it refers to.
pub(crate) struct Emitted {
    pub(crate) script: String,
    pub(crate) sites: Vec<Site>,
    /// Every variable that the condition reads, each once.
    pub(crate) variables: Vec<Variable>,
}

/// The script that returns the truth value of the expression.
pub(crate) fn emit(expr: &Expr) -> Emitted {
    emit_by(expr, Emitter::truth)
}

/// The script that returns the value of the expression.
pub(crate) fn emit_value(expr: &Expr) -> Emitted {
    emit_by(expr, Emitter::expr)
}

fn emit_by(expr: &Expr, emit: impl Fn(&mut Emitter, &Expr)) -> Emitted {
    let mut emitter = Emitter {
        out: String::with_capacity(128),
        sites: Vec::new(),
        variables: Vec::new(),
    };
    emit(&mut emitter, expr);
    Emitted {
        script: emitter.out,
        sites: emitter.sites,
        variables: emitter.variables,
    }
}

struct Emitter {
    out: String,
    sites: Vec<Site>,
    variables: Vec<Variable>,
}

impl Emitter {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// `name(site,`
    fn open(&mut self, name: &str, span: Span, operand: Span) {
        let site = self.sites.len();
        self.sites.push(Site { span, operand });
        self.number(format_args!("{name}({site},"));
    }

    fn number(&mut self, number: impl std::fmt::Display) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.out, "{number}");
    }

    /// Translates the expression to a Rhai boolean.
    fn truth(&mut self, expr: &Expr) {
        match &expr.kind {
            _ if expr.is_bool() => self.expr(expr),
            Kind::And(operands) => self.truths(operands, "r"),
            Kind::Or(operands) => self.truths(operands, "!r"),
            Kind::Choice(choice) => self.choice(choice, Self::truth),
            _ => {
                self.open("truth", expr.span, expr.span);
                self.expr(expr);
                self.push(")");
            }
        }
    }

    /// Operands of which only the truth is needed, as long as the question about the truth so far is answered with yes.
    fn truths(&mut self, operands: &[Expr], question: &str) {
        self.push("{let r=");
        for (at, operand) in operands.iter().enumerate() {
            if at > 0 {
                self.number(format_args!("if {question}{{r="));
            }
            self.truth(operand);
            self.push(if at > 0 { ";}" } else { ";" });
        }
        self.push("r}");
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            Kind::Nothing => self.push("()"),
            Kind::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Kind::Int(i64::MIN) => self.push("smallest()"),
            Kind::Int(number) => self.number(number),
            Kind::Float(number) => self.number(format_args!("{number:?}")),
            Kind::Text(text) => self.text(text),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(expr.span, entries),
            Kind::Variable(variable) => self.variable(*variable),
            Kind::Chain(base, suffixes) => self.chain(base, suffixes),
            Kind::Call(function, arguments) => {
                let operand = arguments.first().map_or(expr.span, |argument| argument.span);
                self.open("apply", expr.span, operand);
                self.number(format_args!("{},", function.number()));
                self.list(arguments);
                self.push(")");
            }
            Kind::Sign(sign, operand) => {
                let name = if *sign == Sign::Minus { "minus" } else { "plus" };
                self.open(name, expr.span, operand.span);
                self.expr(operand);
                self.push(")");
            }
            Kind::Not(operand) => {
                self.push("!(");
                self.truth(operand);
                self.push(")");
            }
            Kind::Arithmetic(first, rest) => self.arithmetic(first, rest),
            Kind::Compare(first, rest) => self.compare(first, rest),
            Kind::And(operands) => self.flat(operands, "truth", Some("r")),
            Kind::Or(operands) => self.flat(operands, "untrue", Some("!r")),
            Kind::Coalesce(operands) => self.flat(operands, "missing", None),
            Kind::Choice(choice) => self.choice(choice, Self::expr),
        }
    }

    fn text(&mut self, text: &str) {
        self.push("\"");
        for c in text.chars() {
            match c {
                '"' => self.push("\\\""),
                '\\' => self.push("\\\\"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                c if c.is_control() => self.number(format_args!("\\U{:08x}", u32::from(c))),
                c => self.out.push(c),
            }
        }
        self.push("\"");
    }

    fn list(&mut self, items: &[Expr]) {
        self.push("[");
        for item in items {
            self.expr(item);
            self.push(",");
        }
        self.push("]");
    }

    fn map(&mut self, span: Span, entries: &[(String, Expr)]) {
        self.open("map", span, span);
        self.push("[");
        for (key, value) in entries {
            self.text(key);
            self.push(",");
            self.expr(value);
            self.push(",");
        }
        self.push("])");
    }

    fn variable(&mut self, variable: Variable) {
        if !self.variables.contains(&variable) {
            self.variables.push(variable);
        }
        self.push(variable.name());
    }

    fn chain(&mut self, base: &Expr, suffixes: &[Suffix]) {
        let flat = suffixes.len() <= SHORT
            && base.height <= LOW
            && suffixes.iter().all(|suffix| !suffix.optional && low(suffix));
        if flat {
            for (at, suffix) in suffixes.iter().enumerate().rev() {
                self.step(base.span, suffixes, at, suffix);
            }
            self.expr(base);
            for suffix in suffixes {
                self.step_end(suffix);
            }
            return;
        }
        self.push("{let r=");
        self.expr(base);
        self.push(";");
        let mut guarded = false;
        for (at, suffix) in suffixes.iter().enumerate() {
            if suffix.optional && !guarded {
                guarded = true;
                self.push("let fit=true;");
            }
            if suffix.optional {
                self.push("if fit{fit=present(r);}");
            }
            self.push(if guarded { "if fit{r=" } else { "r=" });
            self.step(base.span, suffixes, at, suffix);
            self.push("r");
            self.step_end(suffix);
            self.push(if guarded { ";}" } else { ";" });
        }
        self.push("r}");
    }

    /// The part of a step before the value to which it is applied.
    fn step(&mut self, base: Span, suffixes: &[Suffix], at: usize, suffix: &Suffix) {
        let before = at.checked_sub(1).map_or(base.end, |at| suffixes[at].end);
        let (span, operand) = (Span::new(base.start, suffix.end), Span::new(base.start, before));
        match &suffix.kind {
            SuffixKind::Member(_) => self.open("member", span, operand),
            SuffixKind::Index(_) => self.open("index", span, operand),
            SuffixKind::Method(function, _) => {
                self.open("apply", span, operand);
                self.number(format_args!("{},[", function.number()));
            }
        }
    }

    /// The part of a step after the value to which it is applied.
    fn step_end(&mut self, suffix: &Suffix) {
        self.push(",");
        match &suffix.kind {
            SuffixKind::Member(name) => self.text(name),
            SuffixKind::Index(index) => self.expr(index),
            SuffixKind::Method(_, arguments) => {
                for argument in arguments {
                    self.expr(argument);
                    self.push(",");
                }
                self.push("]");
            }
        }
        self.push(")");
    }

    fn arithmetic(&mut self, first: &Expr, rest: &[(Arithmetic, Expr)]) {
        let start = first.span.start;
        let flat = rest.len() <= SHORT && first.height <= LOW && rest.iter().all(|(_, operand)| operand.height <= LOW);
        let open = |emitter: &mut Self, (operator, operand): &(Arithmetic, Expr)| {
            let span = Span::new(start, operand.span.end);
            emitter.open(arithmetic(*operator), span, span);
        };
        if flat {
            rest.iter().rev().for_each(|step| open(self, step));
            self.expr(first);
            for (_, operand) in rest {
                self.push(",");
                self.expr(operand);
                self.push(")");
            }
            return;
        }
        self.push("{let r=");
        self.expr(first);
        for step in rest {
            self.push(";r=");
            open(self, step);
            self.push("r,");
            self.expr(&step.1);
            self.push(")");
        }
        self.push(";r}");
    }

    fn compare(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) {
        if let [(comparison, second)] = rest {
            self.comparison(*comparison, first.span, second.span);
            self.expr(first);
            self.push(",");
            self.expr(second);
            return self.push(")");
        }
        self.push("{let a=");
        self.expr(first);
        self.push(";let b=();let r=true;");
        let mut left = first.span;
        for (comparison, operand) in rest {
            self.push("if r{b=");
            self.expr(operand);
            self.push(";r=");
            self.comparison(*comparison, left, operand.span);
            self.push("a,b);a=b;}");
            left = operand.span;
        }
        self.push("r}");
    }

    fn comparison(&mut self, comparison: Comparison, left: Span, right: Span) {
        let name = match comparison {
            Comparison::Equal => "equal",
            Comparison::Different => "different",
            Comparison::Less => "less",
            Comparison::LessEqual => "less_equal",
            Comparison::Greater => "greater",
            Comparison::GreaterEqual => "greater_equal",
            Comparison::In => "within",
            Comparison::NotIn => "without",
        };
        self.open(name, Span::new(left.start, right.end), right);
    }

    /// Operands that are evaluated as long as the test of the value so far succeeds. The test can fail only at the
    /// operand before, because those before that have already passed it.
    fn flat(&mut self, operands: &[Expr], question: &str, question_of_bool: Option<&str>) {
        let mut bools = true;
        self.push("{let r=");
        for (at, operand) in operands.iter().enumerate() {
            if let Some(before) = at.checked_sub(1).map(|before| operands[before].span) {
                self.push("if ");
                match question_of_bool {
                    Some(question) if bools => self.push(question),
                    _ => {
                        self.open(question, before, before);
                        self.push("r)");
                    }
                }
                self.push("{r=");
            }
            bools &= operand.is_bool();
            self.expr(operand);
            self.push(if at > 0 { ";}" } else { ";" });
        }
        self.push("r}");
    }

    fn choice(&mut self, choice: &Choice, emit: impl Fn(&mut Self, &Expr)) {
        // Rhai accepts a block as a condition only in parentheses.
        self.push("{if(");
        self.truth(&choice.condition);
        self.push("){");
        emit(self, &choice.then);
        self.push("}else{");
        emit(self, &choice.otherwise);
        self.push("}}");
    }
}

/// Returns whether the arguments of the step are not deep.
fn low(suffix: &Suffix) -> bool {
    match &suffix.kind {
        SuffixKind::Member(_) => true,
        SuffixKind::Index(index) => index.height <= LOW,
        SuffixKind::Method(_, arguments) => arguments.iter().all(|argument| argument.height <= LOW),
    }
}

fn arithmetic(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "add",
        Arithmetic::Subtract => "subtract",
        Arithmetic::Multiply => "multiply",
        Arithmetic::Divide => "divide",
        Arithmetic::Remainder => "remainder",
    }
}
