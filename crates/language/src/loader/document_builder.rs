//! Builds the tree from the parser's events: anchors, merge keys, duplicate keys, and all size limits.
//!
//! An error in one key or value is reported and skipped, so that the rest of the file is still read. An error that
//! makes the tree too large, or the text invalid YAML, ends the reading at once.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use super::byte_positions;
use super::byte_positions::CharToByteConverter;
use super::codes;
use super::findings::LimitedFindingList;
use super::open_map::{OpenMap, PendingMapKey, parse_map_key, report_duplicate_key};
use super::syntax_errors;
use crate::data::split_byte_order_mark;
use crate::diagnostic::Finding;
use crate::source::{RouteLocation, SourceText, Span};
use crate::yaml::comments::CommentFinder;
use crate::yaml::document::{
    MAX_BYTES, MAX_DEPTH, MAX_NODES, ScalarValue, YamlContent, YamlDocument, YamlEntry, YamlNode, YamlScalar,
};
use crate::yaml::plain_scalar;
use crate::yaml::scalar_alignment::ScalarNotation;

/// The maximum number of anchors, because the parser's search for an anchor by name is slow.
const MAX_ANCHORS: usize = 10_000;

/// An error that ends the reading of the text.
type FatalFinding = Box<Finding>;

/// Builds the tree of a text. Returns `None` if the text is not YAML or exceeds a limit, which is reported.
pub(super) fn build_document(source: &SourceText, findings: &mut LimitedFindingList) -> Option<YamlDocument> {
    match build_tree(source, findings) {
        Ok((root, comments)) => Some(YamlDocument::new(source.clone(), root, comments)),
        Err(fatal) => {
            findings.push(*fatal);
            None
        }
    }
}

/// Parses the text to a tree and the spans of its comments. # Errors: the text is not YAML or exceeds a limit.
fn build_tree(
    source: &SourceText,
    findings: &mut LimitedFindingList,
) -> Result<(Arc<YamlNode>, Vec<Span>), FatalFinding> {
    let text: &str = source.text();
    if text.len() > MAX_BYTES {
        return Err(size_error(
            Span::new(0, 0),
            format!("the file is larger than {} MiB", MAX_BYTES >> 20),
        ));
    }
    let (mark, bare) = split_byte_order_mark(text);
    syntax_errors::check_bracketed_part_count(bare, mark.len())?;
    let mut builder = TreeBuilder::new(text, findings);
    for event in Parser::new_from_str(bare) {
        let (event, span) = event.map_err(|error| {
            let at = builder.marks.byte_at_char(error.marker().index());
            Box::new(syntax_errors::syntax_error_finding(text, at, error.info()))
        })?;
        let span = Span::new(
            builder.marks.byte_at_char(span.start.index()),
            builder.marks.byte_at_char(span.end.index()),
        );
        builder.handle_event(event, span)?;
    }
    let root = builder.root.ok_or_else(|| {
        let at = RouteLocation::from_source_span(Span::new(text.len(), text.len()));
        Box::new(
            Finding::new_error(codes::DOCUMENTS, at, "the file contains no document")
                .with_help("write `name:` and `agents:`"),
        )
    })?;
    Ok((root, builder.comments.into_comments(text)))
}

/// Builds the error about a text that exceeds a limit.
fn size_error(span: Span, message: impl Into<String>) -> FatalFinding {
    Box::new(Finding::new_error(
        codes::TOO_BIG,
        RouteLocation::from_source_span(span),
        message,
    ))
}

/// The state of building a tree from the events of the parser.
struct TreeBuilder<'a> {
    text: &'a str,
    marks: CharToByteConverter<'a>,
    findings: &'a mut LimitedFindingList,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Arc<YamlNode>>,
    /// The number of values so far, including those behind aliases.
    weight: u64,
    root: Option<Arc<YamlNode>>,
    comments: CommentFinder,
}

/// A list or map whose end has not been reached.
struct OpenCollection {
    start: usize,
    /// Whether it is written with brackets.
    flow: bool,
    anchor: usize,
    /// The byte after its last part so far.
    end: usize,
    body: CollectionBody,
}

enum CollectionBody {
    Sequence(Vec<Arc<YamlNode>>),
    Mapping(OpenMap),
}

impl<'a> TreeBuilder<'a> {
    /// Creates a builder without nodes.
    fn new(text: &'a str, findings: &'a mut LimitedFindingList) -> Self {
        Self {
            text,
            marks: CharToByteConverter::new(text),
            findings,
            open: Vec::new(),
            anchors: HashMap::new(),
            weight: 0,
            root: None,
            comments: CommentFinder::new(text),
        }
    }

    /// Adds the node of one event of the parser to the tree.
    fn handle_event(&mut self, event: Event<'_>, span: Span) -> Result<(), FatalFinding> {
        match event {
            Event::Alias(id) => self.handle_alias(id, span),
            Event::Scalar(text, style, anchor, tag) => self.handle_scalar(&text, style, anchor, tag.as_deref(), span),
            Event::SequenceStart(anchor, tag) => self.open_collection(
                CollectionBody::Sequence(Vec::new()),
                anchor,
                tag.as_deref(),
                "seq",
                span,
            ),
            Event::MappingStart(anchor, tag) => self.open_collection(
                CollectionBody::Mapping(OpenMap::default()),
                anchor,
                tag.as_deref(),
                "map",
                span,
            ),
            Event::SequenceEnd | Event::MappingEnd => self.close_collection(span),
            Event::DocumentStart(_) if self.root.is_some() => Err(Box::new(
                Finding::new_error(
                    codes::DOCUMENTS,
                    RouteLocation::from_source_span(span),
                    "a second document starts here",
                )
                .with_help("put each ensemble into a separate file"),
            )),
            Event::DocumentStart(_) | Event::DocumentEnd | Event::StreamStart | Event::StreamEnd | Event::Nothing => {
                Ok(())
            }
        }
    }

    /// Adds the value of an anchor at the position of an alias.
    fn handle_alias(&mut self, id: usize, span: Span) -> Result<(), FatalFinding> {
        let node = if let Some(node) = self.anchors.get(&id) {
            node.clone()
        } else {
            let finding = Finding::new_error(
                codes::ALIAS,
                RouteLocation::from_source_span(span),
                "this alias is inside the value of its own anchor",
            );
            self.findings
                .push(finding.with_help("use the alias only after the end of the anchor's value"));
            self.null_node(span)
        };
        self.add_value_count(node.weight, span)?;
        self.attach_node(node, span);
        Ok(())
    }

    /// Creates a node without a value.
    fn null_node(&self, span: Span) -> Arc<YamlNode> {
        let scalar = YamlScalar {
            text: "".into(),
            style: ScalarNotation::Plain,
            value: ScalarValue::Null,
        };
        Arc::new(YamlNode {
            span,
            content: YamlContent::Scalar(scalar),
            weight: 1,
            height: 1,
        })
    }

    /// Adds a scalar with its value.
    fn handle_scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), FatalFinding> {
        let span = if text.is_empty() && style == ScalarStyle::Plain {
            Span::new(span.start, span.start)
        } else {
            byte_positions::find_scalar_span(self.text, span, style, anchor != 0 || tag.is_some())
        };
        self.comments.skip_scalar(span);
        let style = match style {
            ScalarStyle::Plain => ScalarNotation::Plain,
            ScalarStyle::SingleQuoted => ScalarNotation::Single,
            ScalarStyle::DoubleQuoted => ScalarNotation::Double,
            ScalarStyle::Literal | ScalarStyle::Folded => ScalarNotation::Block,
        };
        let value = self.resolve_scalar_value(text, style, tag, span);
        let weight = 1 + text.len() as u64 / 32;
        self.add_value_count(weight, span)?;
        let node = Arc::new(YamlNode {
            span,
            content: YamlContent::Scalar(YamlScalar {
                text: text.into(),
                style,
                value,
            }),
            weight,
            height: 1,
        });
        self.store_anchor(anchor, &node)?;
        self.attach_node(node, span);
        Ok(())
    }

    /// Returns the value of a scalar according to its tag, or to the core schema of YAML. Reports a tag that does not fit.
    fn resolve_scalar_value(
        &mut self,
        text: &str,
        style: ScalarNotation,
        tag: Option<&Tag>,
        span: Span,
    ) -> ScalarValue {
        let plain = plain_scalar::parse_plain_scalar(text);
        let (fits, value) = match tag.map(core_tag) {
            None if style == ScalarNotation::Plain => (true, plain),
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
            self.report_bad_tag(tag, span);
        }
        value
    }

    /// Reports a tag that is not supported or does not match its value.
    fn report_bad_tag(&mut self, tag: &Tag, span: Span) {
        let message = match core_tag(tag) {
            Some(name @ ("str" | "null" | "bool" | "int" | "float" | "map" | "seq")) => {
                format!("the value does not match its tag `!!{name}`")
            }
            _ => format!("the tag `{tag}` is not supported"),
        };
        let finding = Finding::new_error(codes::TAG, RouteLocation::from_source_span(span), message);
        self.findings
            .push(finding.with_help("remove the tag, or quote the string"));
    }

    /// Opens a list or map. # Errors: the nesting is too deep.
    fn open_collection(
        &mut self,
        body: CollectionBody,
        anchor: usize,
        tag: Option<&Tag>,
        kind: &str,
        span: Span,
    ) -> Result<(), FatalFinding> {
        if self.open.len() >= MAX_DEPTH as usize {
            return Err(depth_error(span));
        }
        if let Some(tag) = tag
            && core_tag(tag) != Some(kind)
            && core_tag(tag) != Some("!")
        {
            self.report_bad_tag(tag, span);
        }
        let (start, flow) = byte_positions::find_collection_start(self.text, span, anchor != 0 || tag.is_some());
        self.open.push(OpenCollection {
            start,
            flow,
            anchor,
            end: start,
            body,
        });
        Ok(())
    }

    /// Closes the innermost list or map, and adds it to its parent.
    fn close_collection(&mut self, span: Span) -> Result<(), FatalFinding> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let end = if open.flow { span.start + 1 } else { open.end };
        let site = Span::new(open.start, end.max(open.start));
        let (content, below) = match open.body {
            CollectionBody::Sequence(items) => {
                let below = measure_parts(items.iter());
                (YamlContent::Sequence(items), below)
            }
            CollectionBody::Mapping(map) => {
                let entries = self.merge_entries(map)?;
                let below = measure_parts(entries.iter().map(|entry| &entry.value));
                (YamlContent::Mapping(entries), below)
            }
        };
        let (weight, height) = below;
        if self.open.len() as u64 + u64::from(height) > u64::from(MAX_DEPTH) {
            return Err(depth_error(site));
        }
        self.add_value_count(1, site)?;
        let node = Arc::new(YamlNode {
            span: site,
            content,
            weight,
            height,
        });
        self.store_anchor(open.anchor, &node)?;
        self.attach_node(node, site);
        Ok(())
    }

    /// Returns the entries of the map and those that its `<<` adds.
    fn merge_entries(&mut self, mut map: OpenMap) -> Result<Vec<YamlEntry>, FatalFinding> {
        let Some((span, merged)) = map.merge.take() else {
            return Ok(map.entries);
        };
        let sources = match &merged.content {
            YamlContent::Sequence(items) => items.clone(),
            _ => vec![merged],
        };
        for source in sources {
            let YamlContent::Mapping(entries) = &source.content else {
                let finding = Finding::new_error(
                    codes::ALIAS,
                    RouteLocation::from_source_span(span),
                    "the value of `<<` must be a map",
                );
                self.findings
                    .push(finding.with_help("write `<<: *anchor` with the anchor of a map"));
                continue;
            };
            self.add_value_count(source.weight, span)?;
            for entry in entries {
                if map.find_entry_index(&entry.key).is_none() {
                    map.push_entry(entry.clone());
                }
            }
        }
        Ok(map.entries)
    }

    /// Adds a node to the innermost open list or map, as an item, key or value. Reports duplicate keys.
    fn attach_node(&mut self, node: Arc<YamlNode>, site: Span) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.end = open.end.max(site.end);
        match &mut open.body {
            CollectionBody::Sequence(items) => items.push(node),
            CollectionBody::Mapping(map) => match map.key.take() {
                None => map.key = Some(parse_map_key(&node, site, self.findings)),
                Some(PendingMapKey::AlreadyReported) => {}
                Some(PendingMapKey::Merge(span)) if map.merge.is_some() => {
                    report_duplicate_key(span, None, "<<", None, self.findings)
                }
                Some(PendingMapKey::Merge(span)) => map.merge = Some((span, node)),
                Some(PendingMapKey::Name(name, span)) => match map.find_entry_index(&name) {
                    Some(first) => {
                        let entry_span = (node.span.start >= span.end).then(|| Span::new(span.start, node.span.end));
                        report_duplicate_key(
                            span,
                            Some(map.entries[first].key_span),
                            &name,
                            entry_span,
                            self.findings,
                        );
                    }
                    None => map.push_entry(YamlEntry {
                        key: name,
                        key_span: span,
                        value: node,
                    }),
                },
            },
        }
    }

    /// Stores the node under its anchor. # Errors: there are too many anchors.
    fn store_anchor(&mut self, anchor: usize, node: &Arc<YamlNode>) -> Result<(), FatalFinding> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        if self.anchors.len() > MAX_ANCHORS {
            let message = format!("the file has more than {MAX_ANCHORS} anchors");
            return Err(size_error(Span::new(node.span.start, node.span.start), message));
        }
        Ok(())
    }

    /// Adds the number of values of a node. # Errors: the file has too many values after aliases are expanded.
    fn add_value_count(&mut self, weight: u64, span: Span) -> Result<(), FatalFinding> {
        self.weight += weight;
        if self.weight <= MAX_NODES {
            return Ok(());
        }
        let message = format!("the file contains more than {MAX_NODES} values after aliases are expanded");
        Err(size_error(Span::new(span.start, span.start), message))
    }
}

/// Builds the error about a text that is nested too deeply.
fn depth_error(span: Span) -> FatalFinding {
    let message = format!("maps and lists are nested more than {MAX_DEPTH} levels deep");
    size_error(Span::new(span.start, span.start), message)
}

/// Returns the number of values and the height of a collection with these parts.
fn measure_parts<'n>(parts: impl Iterator<Item = &'n Arc<YamlNode>>) -> (u64, u32) {
    parts.fold((1, 1), |(weight, height), part| {
        (weight + part.weight, height.max(part.height + 1))
    })
}

/// Returns the name of a core tag of YAML; `None` for other tags.
fn core_tag(tag: &Tag) -> Option<&str> {
    match (tag.handle.as_str(), tag.suffix.as_str()) {
        ("tag:yaml.org,2002:", name) => Some(name),
        ("", "!") => Some("!"),
        ("" | "!", name) => name.strip_prefix("tag:yaml.org,2002:"),
        _ => None,
    }
}
