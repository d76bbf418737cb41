//! What the tokens of a template tell before it is parsed: how deep it nests, where it sets variables, and whether
//! rendering it takes little time and memory.
//!
//! The tokens are those of MiniJinja's own lexer, so this module sees each tag as the parser sees it.
//!
//! **Invariant:** the syntax tree of a template is never deeper than [`TemplateScan::depth`] says. Each level of the tree takes
//! an operator, an opening bracket or a word such as `not`, or is a block tag.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::source::Span;

/// The maximum nesting depth of a template. MiniJinja's parser goes as deep as the text does, except in brackets and
/// blocks, where its own limit is below this one.
pub(super) const DEPTH_LIMIT: usize = 200;

/// Words that make an expression deeper.
const NESTING_WORDS: [&str; 7] = ["not", "and", "or", "if", "else", "is", "in"];

/// Filters whose time and memory grow no faster than their operand.
const LIGHT_FILTERS: [&str; 17] = [
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "first",
    "float",
    "int",
    "join",
    "last",
    "length",
    "lower",
    "round",
    "title",
    "tojson",
    "trim",
    "upper",
];

/// Tags that neither repeat anything nor keep a value.
const LIGHT_TAGS: [&str; 4] = ["if", "elif", "else", "endif"];

/// Tags that read other templates, of which there are none.
const OTHER_TEMPLATE_TAGS: [&str; 4] = ["extends", "from", "import", "include"];

/// The results of a scan of a template's tokens.
#[derive(Debug, Default)]
pub(super) struct TemplateScan {
    /// At least the depth of the syntax tree.
    pub(super) depth: usize,
    /// The place where [`DEPTH_LIMIT`] is exceeded.
    pub(super) too_deep: Option<Span>,
    /// The first tag that reads another template.
    pub(super) other_template: Option<Span>,
    /// The first slice with a step that is no number above zero.
    pub(super) backward_step: Option<Span>,
    /// The values that tags assign to variables.
    pub(super) assigned_values: Vec<AssignedValue>,
    /// The template does nothing that takes much time or memory, unless the values that it prints are large.
    pub(super) is_light: bool,
}

/// The span of the value of an assignment: `VALUE` in `{% set NAME = VALUE %}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AssignedValue {
    /// The place of the value.
    pub(super) value: Span,
    /// The name has a dot: a value in a namespace.
    pub(super) is_member: bool,
}

/// Scans the tokens of the text up to the first token that is not valid.
pub(super) fn scan_template(text: &str) -> TemplateScan {
    let mut scan = TemplateScan {
        is_light: true,
        ..TemplateScan::default()
    };
    let mut blocks = OpenBlocks::default();
    let mut tag: Option<ScannedTag> = None;
    for (token, span) in tokenize(text, false, SyntaxConfig::default()).map_while(Result::ok) {
        let place = Span::new(span.start_offset as usize, span.end_offset as usize);
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart => tag = Some(ScannedTag::new(false)),
            Token::BlockStart => tag = Some(ScannedTag::new(true)),
            Token::VariableEnd | Token::BlockEnd => {
                if let Some(tag) = tag.take() {
                    tag.finish_tag(place.start, &mut blocks, &mut scan);
                }
            }
            token => {
                if let Some(tag) = &mut tag {
                    tag.read_token(&token, place, &mut scan);
                    scan.raise_depth(blocks.depth + tag.depth.open_chain_length(), place);
                }
            }
        }
    }
    // A tag without an end is parsed, too, as far as it goes.
    if let Some(tag) = tag {
        tag.finish_tag(text.len(), &mut blocks, &mut scan);
    }
    scan
}

impl TemplateScan {
    /// Raises the depth to at least `depth`, and notes the place if the limit is exceeded for the first time.
    fn raise_depth(&mut self, depth: usize, place: Span) {
        self.depth = self.depth.max(depth);
        if depth > DEPTH_LIMIT && self.too_deep.is_none() {
            self.too_deep = Some(place);
        }
    }
}

/// The open blocks, each with the number of its nested parts: an `elif` is an `if` inside an `else`.
#[derive(Default)]
struct OpenBlocks {
    open: Vec<usize>,
    depth: usize,
}

impl OpenBlocks {
    /// Opens a block with one part.
    fn open_block(&mut self) {
        self.open.push(1);
        self.depth += 1;
    }

    /// Adds a nested part to the innermost block.
    fn deepen_block(&mut self) {
        if let Some(parts) = self.open.last_mut() {
            *parts += 1;
            self.depth += 1;
        }
    }

    /// Closes the innermost block with all its nested parts.
    fn close_block(&mut self) {
        self.depth -= self.open.pop().unwrap_or(0);
    }
}

/// The state of scanning one tag.
struct ScannedTag {
    is_block: bool,
    /// The first word of a block tag.
    word: Option<String>,
    place: Option<Span>,
    depth: ExpressionDepth,
    last: PreviousToken,
    /// The end of the first `=` outside of brackets.
    assigns_at: Option<usize>,
    /// A dot was read before it.
    has_dot: bool,
    slices: OpenBrackets,
}

/// The previous token, as far as it affects the next token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PreviousToken {
    Other,
    Dot,
    Pipe,
    /// A name that, with an opening parenthesis after it, is a call of a function.
    Function,
}

impl ScannedTag {
    /// Creates a tag of which no token has been read.
    fn new(is_block: bool) -> Self {
        Self {
            is_block,
            word: None,
            place: None,
            depth: ExpressionDepth::default(),
            last: PreviousToken::Other,
            assigns_at: None,
            has_dot: false,
            slices: OpenBrackets::default(),
        }
    }

    /// Processes one token of the tag.
    fn read_token(&mut self, token: &Token<'_>, place: Span, scan: &mut TemplateScan) {
        if self.is_block && self.word.is_none() {
            self.place = Some(place);
            self.word = Some(match token {
                Token::Ident(word) => (*word).to_owned(),
                _ => String::new(),
            });
            return;
        }
        self.depth.scan_token(token);
        if self.slices.starts_unsafe_slice_step(token) && scan.backward_step.is_none() {
            scan.backward_step = Some(place);
        }
        let last = std::mem::replace(&mut self.last, PreviousToken::Other);
        match token {
            Token::Ident(name) => {
                self.last = match last {
                    PreviousToken::Dot if super::MAP_METHODS.contains(name) => PreviousToken::Other,
                    _ if NESTING_WORDS.contains(name) => PreviousToken::Other,
                    PreviousToken::Pipe => {
                        scan.is_light &= LIGHT_FILTERS.contains(name);
                        PreviousToken::Other
                    }
                    _ => PreviousToken::Function,
                };
            }
            Token::ParenOpen => scan.is_light &= last != PreviousToken::Function,
            Token::BracketClose | Token::ParenClose => self.last = PreviousToken::Function,
            Token::Dot => {
                self.last = PreviousToken::Dot;
                self.has_dot |= self.assigns_at.is_none();
            }
            Token::Pipe => self.last = PreviousToken::Pipe,
            Token::Plus | Token::Mul | Token::Pow | Token::Tilde => scan.is_light = false,
            Token::Assign if self.assigns_at.is_none() && self.depth.is_outside_brackets() => {
                self.assigns_at = Some(place.end);
            }
            _ => {}
        }
    }

    /// Completes the tag, which ends before `end`, and adds its depth and its assignment to the scan.
    fn finish_tag(mut self, end: usize, blocks: &mut OpenBlocks, scan: &mut TemplateScan) {
        let place = self.place.unwrap_or(Span::new(end, end));
        let depth = self.depth.close_and_total();
        if self.is_block {
            self.finish_block_tag(end, place, blocks, scan);
        }
        scan.raise_depth(blocks.depth + depth, place);
    }

    /// Opens, deepens or closes a block according to the first word of the tag.
    fn finish_block_tag(&self, end: usize, place: Span, blocks: &mut OpenBlocks, scan: &mut TemplateScan) {
        let word = self.word.as_deref().unwrap_or_default();
        scan.is_light &= LIGHT_TAGS.contains(&word);
        if OTHER_TEMPLATE_TAGS.contains(&word) && scan.other_template.is_none() {
            scan.other_template = Some(place);
        }
        match (word, self.assigns_at) {
            ("set", Some(at)) => scan.assigned_values.push(AssignedValue {
                value: Span::new(at, end),
                is_member: self.has_dot,
            }),
            ("do" | "else", _) => {}
            ("elif", _) => blocks.deepen_block(),
            (word, _) if word.starts_with("end") => blocks.close_block(),
            (word, _) if OTHER_TEMPLATE_TAGS.contains(&word) => {}
            _ => blocks.open_block(),
        }
    }
}

/// The open brackets, each with the number of its colons, or `None` for round and curly brackets.
#[derive(Default)]
struct OpenBrackets {
    open: Vec<Option<usize>>,
    /// The token before was the colon in front of a step.
    is_step: bool,
}

impl OpenBrackets {
    /// Processes a token. Returns whether it begins a slice step that is not a number above zero, on which MiniJinja panics
    /// for an empty list.
    fn starts_unsafe_slice_step(&mut self, token: &Token<'_>) -> bool {
        let is_step = std::mem::take(&mut self.is_step);
        match token {
            Token::BracketOpen => self.open.push(Some(0)),
            Token::ParenOpen | Token::BraceOpen => self.open.push(None),
            Token::BracketClose | Token::ParenClose | Token::BraceClose => drop(self.open.pop()),
            Token::Colon => {
                if let Some(Some(colons)) = self.open.last_mut() {
                    *colons += 1;
                    self.is_step = *colons == 2;
                }
            }
            _ => {}
        }
        is_step && !matches!(token, Token::Int(_) | Token::BracketClose)
    }
}

/// The depth of an expression. Operators outside of brackets form a chain in which each contains the next one; commas separate chains.
#[derive(Default)]
struct ExpressionDepth {
    /// The open brackets; the last one is the innermost.
    outer: Vec<DepthLevel>,
    level: DepthLevel,
    /// The length of all open chains.
    open: usize,
}

#[derive(Default)]
struct DepthLevel {
    /// The operators since the last comma.
    chain: usize,
    /// The deepest bracket since the last comma.
    inner: usize,
    /// The deepest part before the last comma.
    before: usize,
}

impl DepthLevel {
    /// Starts the chain after a comma, and keeps the depth of the chain before.
    fn start_next_operand(&mut self) {
        self.before = self.total_depth();
        self.chain = 0;
        self.inner = 0;
    }

    /// Returns the depth of the deepest chain at this level.
    fn total_depth(&self) -> usize {
        self.before.max(self.chain + self.inner)
    }
}

impl ExpressionDepth {
    /// Processes one token of the expression.
    fn scan_token(&mut self, token: &Token<'_>) {
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                self.add_operator();
                self.outer.push(std::mem::take(&mut self.level));
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => self.close_bracket(),
            Token::Comma => {
                self.open -= self.level.chain;
                self.level.start_next_operand();
            }
            Token::Ident(word) if !NESTING_WORDS.contains(word) => {}
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => self.add_operator(),
        }
    }

    /// Adds an operator to the current chain.
    fn add_operator(&mut self) {
        self.level.chain += 1;
        self.open += 1;
    }

    /// Closes the innermost bracket, and adds its depth to the surrounding chain.
    fn close_bracket(&mut self) {
        if let Some(outer) = self.outer.pop() {
            self.open -= self.level.chain;
            let inner = std::mem::replace(&mut self.level, outer).total_depth();
            self.level.inner = self.level.inner.max(inner);
        }
    }

    /// Returns whether no bracket is open.
    fn is_outside_brackets(&self) -> bool {
        self.outer.is_empty()
    }

    /// Returns the length of the chains that contain the last token.
    fn open_chain_length(&self) -> usize {
        self.open
    }

    /// Closes all open brackets, and returns the depth of the whole expression.
    fn close_and_total(&mut self) -> usize {
        while !self.outer.is_empty() {
            self.close_bracket();
        }
        self.level.total_depth()
    }
}

#[cfg(test)]
mod tests;
