//! Nodes to YAML text. Text is quoted wherever any reader of YAML could take it for something else.

use std::fmt::Write as _;

use super::node::{Content, Entry, Node};

/// Longest list that is written in one line, in characters.
const LINE: usize = 80;
/// A longer key must be announced by `?`.
const LONGEST_KEY: usize = 500;

/// The text of a document.
pub(super) fn emit(document: &Node) -> String {
    let mut text = String::new();
    match &document.content {
        Content::Map(entries) if !entries.is_empty() => map(&mut text, entries, 0),
        _ => {
            text += &in_line(document);
            text.push('\n');
        }
    }
    text
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn map(text: &mut String, entries: &[Entry], depth: usize) {
    for (index, entry) in entries.iter().enumerate() {
        // The first entry of a map in a list stands behind the hyphen.
        if index > 0 || text.is_empty() || text.ends_with('\n') {
            indent(text, depth);
        }
        let key = scalar(&entry.key, false);
        if key.len() > LONGEST_KEY {
            let _ = writeln!(text, "? {key}");
            indent(text, depth);
            text.push(':');
        } else {
            let _ = write!(text, "{key}:");
        }
        value(text, &entry.value, depth);
    }
}

fn value(text: &mut String, node: &Node, depth: usize) {
    match &node.content {
        Content::Map(entries) if !entries.is_empty() => {
            text.push('\n');
            map(text, entries, depth + 1);
        }
        Content::List(elements) if !fits(node) => {
            text.push('\n');
            list(text, elements, depth + 1);
        }
        _ => {
            let _ = writeln!(text, " {}", in_line(node));
        }
    }
}

fn list(text: &mut String, elements: &[Node], depth: usize) {
    for element in elements {
        indent(text, depth);
        match &element.content {
            Content::Map(entries) if !entries.is_empty() => {
                text.push_str("- ");
                map(text, entries, depth + 1);
            }
            _ => {
                let _ = writeln!(text, "- {}", in_line(element));
            }
        }
    }
}

/// Is it a list of scalars (or of lists of them) that is short enough for one line?
fn fits(node: &Node) -> bool {
    let flat = |node: &Node| matches!(node.content, Content::Scalar { .. });
    let nested =
        |node: &Node| flat(node) || (!node.elements().is_empty() && node.elements().iter().all(flat));
    let elements = node.elements();
    elements.is_empty() || (elements.iter().all(nested) && in_line(node).chars().count() <= LINE)
}

/// A value in one line, whatever it is.
fn in_line(node: &Node) -> String {
    match &node.content {
        Content::Scalar { text, plain } => scalar(text, *plain),
        Content::List(elements) => {
            format!("[{}]", elements.iter().map(in_line).collect::<Vec<_>>().join(", "))
        }
        Content::Map(entries) => {
            let entry = |entry: &Entry| format!("{}: {}", scalar(&entry.key, false), in_line(&entry.value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A scalar: as it is where it was given without quotes or can only be text, else in quotes.
fn scalar(text: &str, plain: bool) -> String {
    if plain || is_only_text(text) {
        return text.to_owned();
    }
    let printable = !text.chars().any(|letter| must_be_escaped(letter) || letter == '\\');
    if printable && text.contains('"') && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\r' => quoted += "\\r",
            letter if must_be_escaped(letter) => {
                let code = u32::from(letter);
                let _ = if code > 0xffff {
                    write!(quoted, "\\U{code:08x}")
                } else {
                    write!(quoted, "\\u{code:04x}")
                };
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// Is the text, without quotes, the same text to every reader of YAML, inside brackets, too?
fn is_only_text(text: &str) -> bool {
    // YAML 1.1 takes these for true and false, and null and ~ for nothing.
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let safe = |letter: char| letter.is_ascii_alphanumeric() || "_./:@+=- ".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/' || letter == '_')
        && text.chars().all(safe)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Control characters, and what cannot be seen or turns the direction of writing.
fn must_be_escaped(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(letter, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..)
}
