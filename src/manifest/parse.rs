//! YAML to nodes, with limits: a manifest is small, flat, and made of text.
//!
//! The parser's events are used as they are, so that no scalar is ever taken for something else than its text.
//! Refused here: what is too large, not text, nested deeply, grown by aliases, tagged, or has a key twice.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Span, StrInput, Tag, options};

use super::MAX_SIZE;
use super::error::{Fault, Position, Problem, Problems};
use super::node::{Content, Entry, Node, duplicate, quoted};

/// Deepest nesting of lists and maps.
const MAX_DEPTH: usize = 32;
/// What a node counts beside its text where aliases repeat it, in bytes.
const NODE_SIZE: usize = 64;
/// Longest key, in bytes: YAML's own limit for a key in one line.
pub(super) const MAX_KEY: usize = 1_024;
const EMPTY: &str =
    "a manifest needs at least a name and a container: name: web, containers: {web: {image: \"nginx:1.27\"}}";

/// The documents of a text that are not empty. What was not understood is in the problems.
pub(super) fn documents(bytes: &[u8], problems: &mut Problems) -> Vec<Node> {
    let Some(text) = readable(bytes, problems) else { return Vec::new() };
    let mut builder = Builder::new(text, problems);
    match builder.documents() {
        Ok(documents) => documents,
        Err(fault) => {
            problems.fault(&"", fault);
            Vec::new()
        }
    }
}

fn readable<'a>(bytes: &'a [u8], problems: &mut Problems) -> Option<&'a str> {
    if bytes.len() > MAX_SIZE {
        problems.push(Problem::too_large(bytes.len() as u64));
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let offset = error.valid_up_to();
            problems.whole(
                format!("the file is not text: byte {offset} is not UTF-8"),
                "a manifest is a YAML text in UTF-8",
            );
            return None;
        }
    };
    let binary = |character: char| character.is_ascii_control() && !matches!(character, '\t' | '\n' | '\r');
    if let Some(offset) = text.find(binary) {
        problems.whole(
            format!("the file is not text: byte {offset} is the control character {:#04x}", bytes[offset]),
            "a manifest is a YAML text in UTF-8",
        );
        return None;
    }
    Some(text)
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

/// A finished node that aliases may repeat.
struct Anchored {
    node: Node,
    size: usize,
    depth: usize,
}

struct Builder<'a, 'p> {
    parser: Parser<'a, StrInput<'a>>,
    problems: &'p mut Problems,
    anchors: HashMap<usize, Anchored>,
    aliased: usize,
}

/// A node with the size of what is in it, as aliases count it, and its depth.
type Built = (Node, usize, usize);

impl<'a, 'p> Builder<'a, 'p> {
    fn new(text: &'a str, problems: &'p mut Problems) -> Self {
        let options = options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let parser = Parser::new_from_str_with_options(text, options);
        Self { parser, problems, anchors: HashMap::new(), aliased: 0 }
    }

    fn documents(&mut self) -> Result<Vec<Node>, Fault> {
        let (mut documents, mut count) = (Vec::new(), 0);
        loop {
            match self.next()?.0 {
                Event::StreamEnd => break,
                Event::DocumentStart(..) => {
                    count += 1;
                    self.anchors.clear();
                    let (event, span) = self.next()?;
                    let (node, ..) = self.node(event, &span, 0)?;
                    if node.is_null() {
                        let message = format!("document {count} of the file is empty");
                        self.problems.fault(&"", Fault::new(node.at, message, EMPTY));
                    } else {
                        documents.push(node);
                    }
                }
                _ => {}
            }
        }
        if count == 0 {
            self.problems.whole("the file is empty", EMPTY);
        }
        Ok(documents)
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                let at = Position { line: error.marker().line(), column: error.marker().col() + 1 };
                Err(match error.kind() {
                    ErrorKind::RecursionLimitExceeded => too_deep(at),
                    kind => Fault::new(at, format!("this is not YAML: {kind}"), ""),
                })
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Built, Fault> {
        let at = position(span);
        let (built, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = only_text(tag.as_deref(), at)?;
                let plain = style == ScalarStyle::Plain && !text_tag;
                let size = NODE_SIZE + text.len();
                ((Node::new(at, Content::Scalar { text: text.into_owned(), plain }), size, 0), anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                untagged(tag.as_deref(), at)?;
                (self.list(at, depth + 1)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                untagged(tag.as_deref(), at)?;
                (self.map(at, depth + 1)?, anchor)
            }
            Event::Alias(anchor) => return self.alias(anchor, at, depth),
            other => return Err(Fault::new(at, format!("this is not YAML: unexpected {other:?}"), "")),
        };
        if anchor != 0 {
            let (node, size, depth) = &built;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size: *size, depth: *depth });
        }
        Ok(built)
    }

    fn list(&mut self, at: Position, depth: usize) -> Result<Built, Fault> {
        check_depth(at, depth)?;
        let (mut elements, mut size, mut deepest) = (Vec::new(), NODE_SIZE, 0);
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok((Node::list(at, elements), size, deepest + 1));
            }
            let (node, nodes, levels) = self.node(event, &span, depth)?;
            size += nodes;
            deepest = deepest.max(levels);
            elements.push(node);
        }
    }

    fn map(&mut self, at: Position, depth: usize) -> Result<Built, Fault> {
        check_depth(at, depth)?;
        let (mut entries, mut size, mut deepest) = (Vec::<Entry>::new(), NODE_SIZE, 0);
        let mut seen: HashMap<String, Position> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok((Node::new(at, Content::Map(entries)), size, deepest + 1));
            }
            let (key, ..) = self.node(event, &span, depth)?;
            let at = key.at;
            let Content::Scalar { text: key, plain } = key.content else {
                return Err(Fault::new(at, format!("found {} as a key, expected text", key.found()), ""));
            };
            if plain && key == "<<" {
                return Err(Fault::new(at, "merge keys (<<) are not supported", "write the members out"));
            }
            if key.len() > MAX_KEY {
                let message = format!("the key {} has more than {MAX_KEY} bytes", quoted(&key));
                return Err(Fault::new(at, message, "no name that an engine takes is as long"));
            }
            let (event, span) = self.next()?;
            let (value, nodes, levels) = self.node(event, &span, depth)?;
            size += nodes + NODE_SIZE + key.len();
            deepest = deepest.max(levels);
            if let Some(first) = seen.get(&key) {
                self.problems.fault(&"", duplicate(&key, *first, at));
            } else {
                seen.insert(key.clone(), at);
                entries.push(Entry { key, at, value });
            }
        }
    }

    fn alias(&mut self, anchor: usize, at: Position, depth: usize) -> Result<Built, Fault> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Fault::new(at, "this alias stands for something that contains it", "write it out"));
        };
        self.aliased += anchored.size;
        if self.aliased > MAX_SIZE {
            let message = format!("aliases make the manifest grow by more than {MAX_SIZE} bytes");
            return Err(Fault::new(at, message, "write out what is meant"));
        }
        check_depth(at, depth + anchored.depth)?;
        Ok((anchored.node.clone(), anchored.size, anchored.depth))
    }
}

fn check_depth(at: Position, depth: usize) -> Result<(), Fault> {
    if depth > MAX_DEPTH { Err(too_deep(at)) } else { Ok(()) }
}

fn too_deep(at: Position) -> Fault {
    let message = format!("lists and maps are nested more than {MAX_DEPTH} deep");
    Fault::new(at, message, "no field of a manifest needs that")
}

/// Does the tag say that the scalar is text? Any other tag is refused.
fn only_text(tag: Option<&Tag>, at: Position) -> Result<bool, Fault> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema_tag("str") || tag.original() == "!" => Ok(true),
        tag => untagged(tag, at).map(|()| false),
    }
}

fn untagged(tag: Option<&Tag>, at: Position) -> Result<(), Fault> {
    match tag {
        None => Ok(()),
        Some(tag) => {
            let message = format!("the tag {} is not supported", quoted(&tag.original()));
            Err(Fault::new(at, message, "a field's type is known: write the value without a tag"))
        }
    }
}
