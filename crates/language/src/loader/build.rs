//! Builds the tree from the parser's events: anchors, merge keys, duplicate keys, and all size limits.
//!
//! An error in one key or value is reported and skipped, so that the rest of the file is still read. An error that
//! makes the tree too large, or the text invalid YAML, ends the reading at once.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::codes;
use super::findings::Findings;
use super::map::{Key, OpenMap, duplicate, key};
use super::marks;
use super::marks::Marks;
use super::syntax;
use crate::diagnostic::Finding;
use crate::source::{At, Source, Span};
use crate::yaml::align::Style;
use crate::yaml::comments::CommentFinder;
use crate::yaml::document::{Content, Document, Entry, MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, Scalar, ScalarValue};
use crate::yaml::scalar;

/// The parser finds anchors by name, which is expensive.
const MAX_ANCHORS: usize = 10_000;

/// Ends the reading.
type Fatal = Box<Finding>;

/// Builds the tree; `None` if the text is not YAML or exceeds a limit.
pub(super) fn document(source: &Source, findings: &mut Findings) -> Option<Document> {
    match read(source, findings) {
        Ok((root, comments)) => Some(Document::new(source.clone(), root, comments)),
        Err(fatal) => {
            findings.push(*fatal);
            None
        }
    }
}

fn read(source: &Source, findings: &mut Findings) -> Result<(Arc<Node>, Vec<Span>), Fatal> {
    let text: &str = source.text();
    if text.len() > MAX_BYTES {
        return Err(too_big(
            Span::new(0, 0),
            format!("the file is larger than {} MiB", MAX_BYTES >> 20),
        ));
    }
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    syntax::check_flow(bare, text.len() - bare.len())?;
    let mut builder = Builder::new(text, findings);
    for event in Parser::new_from_str(bare) {
        let (event, span) = event.map_err(|error| {
            let at = builder.marks.byte(error.marker().index());
            Box::new(syntax::explain(text, at, error.info()))
        })?;
        let span = Span::new(
            builder.marks.byte(span.start.index()),
            builder.marks.byte(span.end.index()),
        );
        builder.event(event, span)?;
    }
    let root = builder.root.ok_or_else(|| {
        let at = At::source(Span::new(text.len(), text.len()));
        Box::new(
            Finding::error(codes::DOCUMENTS, at, "the file contains no document").help("write `name:` and `agents:`"),
        )
    })?;
    Ok((root, builder.comments.finish(text)))
}

fn too_big(span: Span, message: impl Into<String>) -> Fatal {
    Box::new(Finding::error(codes::TOO_BIG, At::source(span), message))
}

struct Builder<'a> {
    text: &'a str,
    marks: Marks<'a>,
    findings: &'a mut Findings,
    open: Vec<Open>,
    anchors: HashMap<usize, Arc<Node>>,
    /// The number of values so far, including those behind aliases.
    weight: u64,
    root: Option<Arc<Node>>,
    comments: CommentFinder,
}

/// A list or map whose end has not been read.
struct Open {
    start: usize,
    /// Whether it is written with brackets.
    flow: bool,
    anchor: usize,
    /// The byte after its last part so far.
    end: usize,
    body: Body,
}

enum Body {
    Sequence(Vec<Arc<Node>>),
    Mapping(OpenMap),
}

impl<'a> Builder<'a> {
    fn new(text: &'a str, findings: &'a mut Findings) -> Self {
        Self {
            text,
            marks: Marks::new(text),
            findings,
            open: Vec::new(),
            anchors: HashMap::new(),
            weight: 0,
            root: None,
            comments: CommentFinder::new(text),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fatal> {
        match event {
            Event::Alias(id) => self.alias(id, span),
            Event::Scalar(text, style, anchor, tag) => self.scalar(&text, style, anchor, tag.as_deref(), span),
            Event::SequenceStart(anchor, tag) => {
                self.start(Body::Sequence(Vec::new()), anchor, tag.as_deref(), "seq", span)
            }
            Event::MappingStart(anchor, tag) => {
                self.start(Body::Mapping(OpenMap::default()), anchor, tag.as_deref(), "map", span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::DocumentStart(_) if self.root.is_some() => Err(Box::new(
                Finding::error(codes::DOCUMENTS, At::source(span), "a second document starts here")
                    .help("put each ensemble into a separate file"),
            )),
            Event::DocumentStart(_) | Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => {
                Ok(())
            }
        }
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Fatal> {
        let node = if let Some(node) = self.anchors.get(&id) {
            node.clone()
        } else {
            let finding = Finding::error(
                codes::ALIAS,
                At::source(span),
                "this alias is inside the value of its own anchor",
            );
            self.findings
                .push(finding.help("use the alias only after the end of the anchor's value"));
            self.nothing(span)
        };
        self.spend(node.weight, span)?;
        self.attach(node, span);
        Ok(())
    }

    fn nothing(&self, span: Span) -> Arc<Node> {
        let scalar = Scalar {
            text: "".into(),
            style: Style::Plain,
            value: ScalarValue::Null,
        };
        Arc::new(Node {
            span,
            content: Content::Scalar(scalar),
            weight: 1,
            height: 1,
        })
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Fatal> {
        let span = if text.is_empty() && style == ScalarStyle::Plain {
            Span::new(span.start, span.start)
        } else {
            marks::scalar_span(self.text, span, style, anchor != 0 || tag.is_some())
        };
        self.comments.skip_scalar(span);
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::SingleQuoted => Style::Single,
            ScalarStyle::DoubleQuoted => Style::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        };
        let value = self.meaning(text, style, tag, span);
        let weight = 1 + text.len() as u64 / 32;
        self.spend(weight, span)?;
        let node = Arc::new(Node {
            span,
            content: Content::Scalar(Scalar {
                text: text.into(),
                style,
                value,
            }),
            weight,
            height: 1,
        });
        self.remember(anchor, &node)?;
        self.attach(node, span);
        Ok(())
    }

    /// The meaning of a scalar according to the core schema or its tag.
    fn meaning(&mut self, text: &str, style: Style, tag: Option<&Tag>, span: Span) -> ScalarValue {
        let plain = scalar::plain(text);
        let (fits, value) = match tag.map(core_tag) {
            None if style == Style::Plain => (true, plain),
            None | Some(Some("str" | "!")) => (true, ScalarValue::Text),
            Some(Some("null")) => (plain == ScalarValue::Null, plain),
            Some(Some("bool")) => (matches!(plain, ScalarValue::Bool(_)), plain),
            Some(Some("int")) => (matches!(plain, ScalarValue::Int(_) | ScalarValue::Unsigned(_)), plain),
            Some(Some("float")) => match plain {
                ScalarValue::Int(value) => (true, ScalarValue::Float(value as f64)),
                ScalarValue::Unsigned(value) => (true, ScalarValue::Float(value as f64)),
                other => (matches!(other, ScalarValue::Float(_)), other),
            },
            Some(_) => (false, plain),
        };
        if !fits && let Some(tag) = tag {
            self.bad_tag(tag, span);
        }
        value
    }

    fn bad_tag(&mut self, tag: &Tag, span: Span) {
        let message = match core_tag(tag) {
            Some(name @ ("str" | "null" | "bool" | "int" | "float" | "map" | "seq")) => {
                format!("the value does not match its tag `!!{name}`")
            }
            _ => format!("the tag `{tag}` is not supported"),
        };
        let finding = Finding::error(codes::TAG, At::source(span), message);
        self.findings.push(finding.help("remove the tag, or quote the string"));
    }

    fn start(&mut self, body: Body, anchor: usize, tag: Option<&Tag>, kind: &str, span: Span) -> Result<(), Fatal> {
        if self.open.len() >= MAX_DEPTH as usize {
            return Err(too_deep(span));
        }
        if let Some(tag) = tag
            && core_tag(tag) != Some(kind)
            && core_tag(tag) != Some("!")
        {
            self.bad_tag(tag, span);
        }
        let (start, flow) = marks::collection_start(self.text, span, anchor != 0 || tag.is_some());
        self.open.push(Open {
            start,
            flow,
            anchor,
            end: start,
            body,
        });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), Fatal> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let end = if open.flow { span.start + 1 } else { open.end };
        let site = Span::new(open.start, end.max(open.start));
        let (content, below) = match open.body {
            Body::Sequence(items) => {
                let below = measure(items.iter());
                (Content::Sequence(items), below)
            }
            Body::Mapping(map) => {
                let entries = self.merge(map)?;
                let below = measure(entries.iter().map(|entry| &entry.value));
                (Content::Mapping(entries), below)
            }
        };
        let (weight, height) = below;
        if self.open.len() as u64 + u64::from(height) > u64::from(MAX_DEPTH) {
            return Err(too_deep(site));
        }
        self.spend(1, site)?;
        let node = Arc::new(Node {
            span: site,
            content,
            weight,
            height,
        });
        self.remember(open.anchor, &node)?;
        self.attach(node, site);
        Ok(())
    }

    /// The entries of the map, and those that its `<<` adds.
    fn merge(&mut self, mut map: OpenMap) -> Result<Vec<Entry>, Fatal> {
        let Some((span, merged)) = map.merge.take() else {
            return Ok(map.entries);
        };
        let sources = match &merged.content {
            Content::Sequence(items) => items.clone(),
            _ => vec![merged],
        };
        for source in sources {
            let Content::Mapping(entries) = &source.content else {
                let finding = Finding::error(codes::ALIAS, At::source(span), "the value of `<<` must be a map");
                self.findings
                    .push(finding.help("write `<<: *anchor` with the anchor of a map"));
                continue;
            };
            self.spend(source.weight, span)?;
            for entry in entries {
                if map.find(&entry.key).is_none() {
                    map.push(entry.clone());
                }
            }
        }
        Ok(map.entries)
    }

    fn attach(&mut self, node: Arc<Node>, site: Span) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.end = open.end.max(site.end);
        match &mut open.body {
            Body::Sequence(items) => items.push(node),
            Body::Mapping(map) => match map.key.take() {
                None => map.key = Some(key(&node, site, self.findings)),
                Some(Key::Faulty) => {}
                Some(Key::Merge(span)) if map.merge.is_some() => duplicate(span, None, "<<", None, self.findings),
                Some(Key::Merge(span)) => map.merge = Some((span, node)),
                Some(Key::Name(name, span)) => match map.find(&name) {
                    Some(first) => {
                        let whole = (node.span.start >= span.end).then(|| Span::new(span.start, node.span.end));
                        duplicate(span, Some(map.entries[first].key_span), &name, whole, self.findings);
                    }
                    None => map.push(Entry {
                        key: name,
                        key_span: span,
                        value: node,
                    }),
                },
            },
        }
    }

    fn remember(&mut self, anchor: usize, node: &Arc<Node>) -> Result<(), Fatal> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        if self.anchors.len() > MAX_ANCHORS {
            let message = format!("the file has more than {MAX_ANCHORS} anchors");
            return Err(too_big(Span::new(node.span.start, node.span.start), message));
        }
        Ok(())
    }

    fn spend(&mut self, weight: u64, span: Span) -> Result<(), Fatal> {
        self.weight += weight;
        if self.weight <= MAX_NODES {
            return Ok(());
        }
        let message = format!("the file contains more than {MAX_NODES} values after aliases are expanded");
        Err(too_big(Span::new(span.start, span.start), message))
    }
}

fn too_deep(span: Span) -> Fatal {
    let message = format!("maps and lists are nested more than {MAX_DEPTH} levels deep");
    too_big(Span::new(span.start, span.start), message)
}

/// The weight and height of a collection with these parts.
fn measure<'n>(parts: impl Iterator<Item = &'n Arc<Node>>) -> (u64, u32) {
    parts.fold((1, 1), |(weight, height), part| {
        (weight + part.weight, height.max(part.height + 1))
    })
}

/// The name of one of YAML's own tags.
fn core_tag(tag: &Tag) -> Option<&str> {
    match (tag.handle.as_str(), tag.suffix.as_str()) {
        ("tag:yaml.org,2002:", name) => Some(name),
        ("", "!") => Some("!"),
        ("" | "!", name) => name.strip_prefix("tag:yaml.org,2002:"),
        _ => None,
    }
}
