//! Comprehensions as loops of the engine.
//!
//! The items of a loop come from an iterator that fails if the evaluation has worked through too many items. So a
//! comprehension ends soon even where single steps of the engine take long.

use super::ScriptEmitter;
use crate::condition::expression::tree::{Comprehension, ConditionExpr};
use crate::source::Span;

impl ScriptEmitter {
    /// Emits a comprehension as loops that build the list of its elements.
    pub(super) fn emit_comprehension(&mut self, span: Span, comprehension: &Comprehension) {
        let list = self.next_accumulator_name();
        self.push_display(format_args!("{{let {list}=builder();"));
        self.emit_loops(comprehension, "", |emitter, element| {
            emitter.push_display(format_args!("put({list},"));
            emitter.push_site(span);
            emitter.emit_expr(element);
            emitter.push_text(");");
        });
        self.push_display(format_args!("built({list})}}"));
    }

    /// Emits the search for the first element with the truth that decides: `true` for `any`, `false` for `all`. The later
    /// elements are not evaluated.
    pub(super) fn emit_search(&mut self, decides: bool, comprehension: &Comprehension) {
        let found = self.next_accumulator_name();
        self.push_display(format_args!("{{let {found}={};", !decides));
        let leave = match decides {
            true => format!("if {found}{{break;}}"),
            false => format!("if !{found}{{break;}}"),
        };
        self.emit_loops(comprehension, &leave, |emitter, element| {
            emitter.push_display(format_args!("{found}="));
            emitter.emit_truth(element);
            emitter.push_text(";");
            emitter.push_text(&leave);
        });
        self.push_display(format_args!("{found}}}"));
    }

    /// Returns a new name for a variable that collects the result of a loop.
    fn next_accumulator_name(&mut self) -> String {
        let name = format!("g{}", self.accumulators);
        self.accumulators += 1;
        name
    }

    /// Emits the loops and filters of a comprehension; `emit_body` emits the use of the element. `after`: the code after each inner loop.
    fn emit_loops(
        &mut self,
        comprehension: &Comprehension,
        after: &str,
        emit_body: impl Fn(&mut Self, &ConditionExpr),
    ) {
        for clause in &comprehension.clauses {
            let span = clause.source.span;
            self.push_display(format_args!("for l{} in ", clause.variable.number));
            self.open_call("items", span, span);
            self.emit_expr(&clause.source);
            self.push_text("){");
            for filter in &clause.filters {
                self.push_text("if(");
                self.emit_truth(filter);
                self.push_text("){");
            }
        }
        emit_body(self, &comprehension.element);
        for (at, clause) in comprehension.clauses.iter().enumerate().rev() {
            for _ in &clause.filters {
                self.push_text("}");
            }
            self.push_text("}");
            if at > 0 {
                self.push_text(after);
            }
        }
    }
}
