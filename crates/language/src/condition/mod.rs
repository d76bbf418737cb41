//! Conditions on edges: compiled once, evaluated on a snapshot, which they neither change nor copy.
//!
//! Our own lexer and parser handle the whole language, in the spelling of Rhai and of Python. So all errors of a text
//! are found before a run, with their positions. A valid condition is translated to Rhai code that calls only our
//! functions, and one restricted engine executes it.
//!
//! # Values
//!
//! Nothing (`None`, `()`), booleans, numbers (one type: `1 == 1.0`, `7 / 2 == 3.5`, `6 / 2 == 3`), texts,
//! lists, maps. False are nothing, `False`, 0, `""` and empty collections; all else is true, except that asking for the
//! truth of a text that reads `false`, `no`, `off`, `0`, `none` or `null` is an error. `==` across types is false; an order across types, arithmetic on anything but numbers (two texts or two lists can be joined with `+`), a member
//! of nothing and an index out of range are errors. A missing key is nothing, and the evaluation notes it (`evaluation::notes`).
//!
//! The functions are rows of one table (`functions`).
//!
//! # Operators, from loose to tight
//!
//! | operators | |
//! |---|---|
//! | `x if c else y` | also `if c { x } else { y }` |
//! | `or` `\|\|` | gives the first true operand, or the last |
//! | `and` `&&` | gives the first false operand, or the last |
//! | `not` | |
//! | `==` `!=` `<` `<=` `>` `>=` `in` `not in` `is` `is not` | chained as in Python: `1 < x < 3` |
//! | `??` | the right side if the left one is nothing |
//! | `+` `-`, then `*` `/` `%` | the remainder has the divisor's sign |
//! | `-x` `+x` `!x` | |
//! | `a.b` `a?.b` `a[i]` `a?[i]` `a[i:j]` `f(x)` `x.f()` | negative indices count from the end |
//!
//! Literals: `1`, `1_000`, `0xff`, `1.5`, `1e6`, `'text'`, `"text"`, `True`/`true`, `False`/`false`, `None`/`()`,
//! `[1, 2]`, `[x for x in list if x]`, `{'key': 1}`, `#{ key: 1 }`, and `(1, 2)` or `{1, 2}` after `in`.

mod analysis;
mod condition_text;
pub(crate) mod evaluation;
pub(crate) mod expression;
mod functions;
#[cfg(test)]
mod tests;
pub(crate) mod typing;
mod value_expression;

use std::fmt;
use std::sync::Arc;

use rhai::{AST, Dynamic, EvalAltResult, Scope};
use serde_json::Value;

pub use self::analysis::claims::{ClaimFormula, ClaimReads, ConditionClaim};

use self::evaluation::code::{EmittedScript, EvaluationSite};
use self::evaluation::engine::{ENGINE, LocatedOperatorError};
use self::evaluation::operators::OperatorError;
use self::expression::tree::{ConditionExpr, ConditionVariable};
use crate::data::RunContext;
use crate::source::Span;

pub use self::analysis::counts::CountThreshold;
pub use self::analysis::demands::{ExampleVariable, RequiredValue, ValueRequirement};
pub use self::analysis::member_reads::OutputMemberRead;
pub use self::analysis::truths::{OutputSource, TruthRead};
pub use self::evaluation::notes::EvaluationNote;
pub use crate::condition::analysis::mutants::ConditionMutant;
pub use crate::condition::analysis::reads::ConditionKeyRead;
pub use crate::condition::condition_text::ConditionText;
pub use crate::condition::expression::parsed::{KeyedVariable, ParsedCondition};
pub use crate::condition::expression::refusals::is_taken_name;
pub use crate::condition::typing::check::{SuggestedReplacement, TypeProblem, TypeProblemKind, VariableTypes};
pub(crate) use crate::condition::typing::check::{find_known_truth, is_informative_type};
pub use crate::condition::typing::part_names::PartVariables;
pub(crate) use crate::condition::typing::types::ValueShape;
pub use crate::condition::typing::types::{LazyType, MapFields, NumberRange, ValueType};
pub use crate::condition::typing::verdict::StaticResult;
pub use crate::condition::value_expression::ValueExpression;
pub use functions::{find_function_word, list_function_words};

/// The maximum length of a string created by a condition, and of a condition itself.
const STRING_LIMIT: usize = 1 << 20;
/// The maximum number of items of a list or map created by a condition.
const ITEM_LIMIT: usize = 100_000;
/// The maximum number of steps of the engine in one evaluation.
const OPERATION_LIMIT: u64 = 100_000;
/// The bytes of text that the functions of one evaluation work through, all together.
const TEXT_LIMIT: usize = 64 << 20;
/// The maximum number of nested levels of expressions.
const DEPTH_LIMIT: usize = 32;
/// The items that one evaluation of a comprehension works through, all together.
const ITEM_WORK_LIMIT: usize = 10_000_000;
/// The stack size of the engine for a deep condition, in bytes.
const DEEP_STACK_BYTES: usize = 8 << 20;

/// The values that a condition can read: the state at the start of the turn.
#[derive(Clone)]
pub struct ConditionSnapshot {
    /// `context`.
    pub context: Arc<RunContext>,
    /// `output`: the latest output of the agent that is depended on; `None` if it has none yet.
    pub output: Option<Arc<Value>>,
    /// `turn_count`: the number of finished turns.
    pub turn_count: u64,
    /// `history`, the oldest execution first.
    pub history: Arc<dyn ConditionHistory>,
    /// `executions` (and `agent_execution_count`): the number of executions of every agent.
    pub executions: Arc<dyn ExecutionCounts>,
    /// `input`: the input of the run.
    pub input: Arc<str>,
    /// `inputs`: what the run was given by name.
    pub inputs: Arc<RunContext>,
    /// `outputs`: the latest output of every agent that has one.
    pub outputs: Arc<dyn ConditionOutputs>,
    /// The part of an execution, for its expressions; `None` for all others.
    pub part: Option<PartValues>,
}

/// The values of `item` and `part`, which only the expressions of a part can read.
#[derive(Clone)]
pub struct PartValues {
    /// The item.
    pub item: Arc<Value>,
    /// `part`: a map with `index`, `key` and `count`.
    pub part: Arc<Value>,
}

/// The fields of an execution in the history.
pub const HISTORY_FIELDS: &[&str] = &[
    "turn_number",
    "agent_name",
    "execution",
    "input_data",
    "output_data",
    "execution_time",
    "timestamp",
    "success",
    "error",
    "attempt",
    "usage",
];

/// A history of all executions so far, as conditions read it.
pub trait ConditionHistory: Send + Sync {
    /// Returns the number of executions.
    fn len(&self) -> usize;
    /// Returns whether there are no executions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns a field (`agent_name`, `turn_number`, `output_data`, `success`, …) of the execution with index `at`. Returns
    /// `None` if there is no such field.
    fn field_value(&self, at: usize, name: &str) -> Option<Arc<Value>>;
    /// Returns the names of all fields.
    fn field_names(&self) -> &'static [&'static str] {
        HISTORY_FIELDS
    }
}

/// The latest output of each agent.
pub trait ConditionOutputs: Send + Sync {
    /// Returns the latest output of this agent. Returns `None` if the agent has none, or if there is no such agent.
    fn latest_output(&self, agent: &str) -> Option<Arc<Value>>;
    /// Returns the agents that have an output, in declaration order.
    fn agents_with_output(&self) -> Vec<Arc<str>>;
}

/// The number of executions of each agent.
pub trait ExecutionCounts: Send + Sync {
    /// Returns the number of executions of this agent. Returns `None` if there is no such agent.
    fn execution_count(&self, agent: &str) -> Option<u64>;
    /// Returns all agents in declaration order.
    fn agent_names(&self) -> Vec<Arc<str>>;
}

/// A compiled condition.
pub struct Condition {
    text: Arc<str>,
    expr: ConditionExpr,
    script: AST,
    sites: Vec<EvaluationSite>,
    variables: Vec<ConditionVariable>,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text).finish()
    }
}

/// An error of a text that is not a condition. The span is in bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// One sentence without a full stop.
    pub message: String,
    /// The part of the text that causes the error.
    pub span: Span,
    /// What to write instead.
    pub help: Option<String>,
}

/// An error of the evaluation of a condition. The span is in bytes of the condition's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluateError {
    /// One sentence without a full stop.
    pub message: String,
    /// The part of the text that causes the error.
    pub span: Span,
    /// What to write instead, if it is known.
    pub help: Option<String>,
}

/// A part of the condition that reads the snapshot, with its value at that time. Long values are shortened.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ConditionRead {
    /// The text as the user wrote it: `context.get('needs_clarification')`, `turn_count`.
    pub expression: String,
    /// The value; `null` if there is none.
    pub value: Value,
}

/// Parses the text of a condition, and checks its literals. # Errors: the text is too long or no condition.
fn parse_condition(text: &str) -> Result<ConditionExpr, CompileError> {
    if text.len() > STRING_LIMIT {
        return Err(CompileError {
            message: "the condition is longer than 1 MiB".into(),
            span: Span::new(0, text.len()),
            help: None,
        });
    }
    let expr = crate::condition::expression::parser::parse_expr(text, PartVariables::NONE)?;
    crate::condition::typing::literals::check_condition_literals(&expr)?;
    Ok(expr)
}

impl Condition {
    /// Returns whether the condition reads the history.
    pub fn reads_history(&self) -> bool {
        self.variables.contains(&ConditionVariable::History)
    }

    /// Checks whether the text is a condition, without compiling it.
    pub fn check_syntax(text: &str) -> Result<(), CompileError> {
        parse_condition(text).map(drop)
    }

    /// Compiles a condition in the spelling of Rhai or Python.
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        Self::compile_expr(text, parse_condition(text)?)
    }

    /// Compiles an expression whose spans refer to `text`, to a truth value.
    fn compile_expr(text: &str, expr: ConditionExpr) -> Result<Self, CompileError> {
        Self::compile_expr_with(text, expr, evaluation::code::emit_truth_script)
    }

    /// Compiles an expression with the script that `emit` returns.
    fn compile_expr_with(
        text: &str,
        expr: ConditionExpr,
        emit: impl Fn(&ConditionExpr) -> EmittedScript,
    ) -> Result<Self, CompileError> {
        let EmittedScript {
            script,
            sites,
            variables,
        } = emit(&expr);
        let script = run_with_large_stack(&expr, || ENGINE.compile(&script)).map_err(|error| CompileError {
            message: format!("the expression engine rejects the condition: {error}"),
            span: Span::new(0, text.len()),
            help: None,
        })?;
        Ok(Self {
            text: text.into(),
            expr,
            script,
            sites,
            variables,
        })
    }

    /// Compiles a condition about the output of a part; `item` is the name of its item variable.
    ///
    /// # Errors
    /// The text is no expression.
    pub fn compile_part_condition(text: &str, item: &str) -> Result<Self, CompileError> {
        let expr = crate::condition::value_expression::parse_expression(text, PartVariables::for_output(item))?;
        Self::compile_expr(text, expr)
    }

    /// Compiles a condition that belongs to no dependency, so that `output` is unknown.
    ///
    /// # Errors
    /// The text is no such condition.
    pub fn compile_without_output(text: &str) -> Result<Self, CompileError> {
        let expr = crate::condition::value_expression::parse_expression(text, PartVariables::NO_OUTPUT)?;
        Self::compile_expr(text, expr)
    }

    /// Returns the text as the user wrote it.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Evaluates the condition on these facts, and discards the notes of the evaluation.
    pub fn evaluate(&self, facts: &ConditionSnapshot) -> Result<bool, EvaluateError> {
        self.evaluate_with_notes(facts).0
    }

    /// Evaluates the condition. Also returns notes about missing keys and comparisons that can never be true.
    pub fn evaluate_with_notes(&self, facts: &ConditionSnapshot) -> (Result<bool, EvaluateError>, Vec<EvaluationNote>) {
        let (value, notes) = self.run_script(facts);
        (value.map(|value| value.as_bool().unwrap_or_default()), notes)
    }

    /// Runs the script on these facts, and returns its value and the notes of the evaluation.
    fn run_script(&self, facts: &ConditionSnapshot) -> (Result<Dynamic, EvaluateError>, Vec<EvaluationNote>) {
        let (value, notes) = run_with_large_stack(&self.expr, || {
            crate::condition::evaluation::operators::reset_work_counters();
            evaluation::notes::reset_notes();
            let mut scope = Scope::new();
            for variable in &self.variables {
                scope.push_dynamic(
                    variable.name(),
                    crate::condition::analysis::reads::variable_value(*variable, facts).into(),
                );
            }
            let value = ENGINE.eval_ast_with_scope::<Dynamic>(&mut scope, &self.script);
            (value, evaluation::notes::take_notes())
        });
        let mut described: Vec<EvaluationNote> = Vec::new();
        for note in notes {
            if let Some(note) = EvaluationNote::from_engine(note, &self.text, &self.sites)
                && !described.iter().any(|known| known.is_about_same_read(&note))
            {
                described.push(note);
            }
        }
        (value.map_err(|error| self.convert_engine_error(*error)), described)
    }

    /// Returns the parts that read the snapshot, with their values, for reports. Never fails.
    pub fn list_reads(&self, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
        crate::condition::evaluation::operators::reset_work_counters();
        crate::condition::analysis::reads::list_reads(&self.text, &self.expr, facts)
    }

    /// Returns the values that the condition read before its evaluation failed.
    pub fn list_reads_before_failure(&self, facts: &ConditionSnapshot) -> Vec<ConditionRead> {
        let mut evaluated = Vec::new();
        self.collect_evaluated_parts(&self.expr, facts, &mut evaluated);
        let mut reads: Vec<ConditionRead> = Vec::new();
        for part in evaluated {
            for read in crate::condition::analysis::reads::list_available_reads(&self.text, part, facts) {
                if !reads.iter().any(|known| known.expression == read.expression) {
                    reads.push(read);
                }
            }
        }
        reads
    }

    /// Returns the agents whose executions are counted or whose outputs are read by a literal name, with the span of each name.
    pub fn list_named_agents(&self) -> Vec<(String, Span)> {
        crate::condition::analysis::reads::list_named_agents(&self.expr)
    }

    /// Converts an error of the engine to an error with a span in the user's text.
    fn convert_engine_error(&self, error: EvalAltResult) -> EvaluateError {
        let whole_span = Span::new(0, self.text.len());
        match error {
            EvalAltResult::ErrorRuntime(value, _) if value.is::<LocatedOperatorError>() => {
                let LocatedOperatorError { site, fault } = value.cast();
                let whole = || EvaluationSite::new(whole_span, whole_span);
                let site = self.sites.get(site).cloned().unwrap_or_else(whole);
                let help = self.suggest_optional_step(&fault, &site);
                let message = match fault {
                    OperatorError::Message(message) => message,
                    OperatorError::Operand(rest) | OperatorError::Nothing(rest) => {
                        format!("`{}` {rest}", self.part_on_one_line(site.operand))
                    }
                };
                EvaluateError {
                    message,
                    span: site.span,
                    help,
                }
            }
            EvalAltResult::ErrorTooManyOperations(_) => EvaluateError {
                message: format!("the condition needs more than {OPERATION_LIMIT} operations, which is the limit"),
                span: whole_span,
                help: None,
            },
            other => EvaluateError {
                message: format!("the condition exceeds a limit: {other}"),
                span: whole_span,
                help: None,
            },
        }
    }

    /// Suggests `?` before a step from nothing: `outputs.b?.order`.
    fn suggest_optional_step(&self, fault: &OperatorError, site: &EvaluationSite) -> Option<String> {
        let is_step = matches!(fault, OperatorError::Nothing(_))
            && site.span.start == site.operand.start
            && self.text[site.operand.end..site.span.end].starts_with(['.', '[']);
        is_step.then(|| {
            let operand = self.part_on_one_line(site.operand);
            let step = self.part_on_one_line(Span::new(site.operand.end, site.span.end));
            format!("write `{operand}?{step}` if the value may be missing")
        })
    }

    /// Returns a part of the text on one line, clipped for messages.
    fn part_on_one_line(&self, span: Span) -> String {
        let words: Vec<&str> = self.text[span.start..span.end].split_whitespace().collect();
        crate::condition::evaluation::report::clip_for_message(&words.join(" "))
    }
}

/// Runs the engine in a thread with a larger stack if the expression is deep. The engine is recursive, and 32 levels
/// would fill most of the stack of a normal thread.
fn run_with_large_stack<T: Send>(expr: &ConditionExpr, run: impl Fn() -> T + Sync) -> T {
    if expr.height <= DEPTH_LIMIT / 3 {
        return run();
    }
    std::thread::scope(|scope| {
        let roomy = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES);
        match roomy.spawn_scoped(scope, &run) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => run(),
        }
    })
}
