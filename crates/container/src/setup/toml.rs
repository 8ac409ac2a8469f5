//! Settings in a TOML text. Lines are inserted and removed at the positions of tables and values
//! that the parser reports, so that all others stay exactly the same. Only inline tables are
//! rewritten.

use std::ops::Range;

use toml_edit::{Array, Document, DocumentMut, Item, Key, Table, TableLike, Value};

use super::Unusable;

/// A setting: its path and value.
pub struct Setting<'a> {
    /// The keys that lead to it; its own is the last.
    path: Vec<&'a str>,
    /// The new value.
    value: Value,
}

impl<'a> Setting<'a> {
    /// A setting in a table.
    pub fn new(table: &[&'a str], key: &'a str, value: impl Into<Value>) -> Self {
        Self { path: table.iter().copied().chain([key]).collect(), value: value.into() }
    }
}

/// A list of strings.
pub fn list(of: &[&str]) -> Value {
    Value::Array(of.iter().copied().collect::<Array>())
}

/// Parses a text.
pub fn parse(text: &str) -> Result<Document<&str>, Unusable> {
    Document::parse(text).map_err(|error| {
        let above = error.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
        Unusable::Malformed {
            line: above.matches('\n').count() + 1,
            column: above[line_start(above, above.len())..].chars().count() + 1,
            what: error.message().to_owned(),
        }
    })
}

/// The item at a path.
pub fn get<'d>(document: &'d Document<&str>, path: &[&str]) -> Option<&'d Item> {
    path.iter().try_fold(document.as_item(), |item, key| item.get(key))
}

/// Adds or sets these settings in a text; at its end, if there is no `table` for them yet.
pub fn add(text: &str, table: &[&str], settings: &[Setting<'_>]) -> Result<String, Unusable> {
    if get(&parse(text)?, table).is_none() {
        let mut block = DocumentMut::new();
        settings.iter().try_for_each(|setting| put(&mut block, setting))?;
        let mut appended = text.to_owned();
        if !text.is_empty() {
            appended += if text.ends_with('\n') { "" } else { newline(text) };
            appended += newline(text);
        }
        appended += &block.to_string().replace('\n', newline(text));
        // Fails if one of the tables around it is an inline table.
        if parse(&appended).is_ok() {
            return Ok(appended);
        }
    }
    settings.iter().try_fold(text.to_owned(), |text, setting| match set(&text, setting)? {
        Some(text) => Ok(text),
        None => {
            let mut document = parse(&text)?.into_mut();
            put(&mut document, setting)?;
            Ok(document.to_string())
        }
    })
}

/// Sets a setting in a text that has its table, unless that is an inline table.
fn set(text: &str, setting: &Setting<'_>) -> Result<Option<String>, Unusable> {
    let document = parse(text)?;
    let present = get(&document, &setting.path).and_then(Item::as_value);
    if let Some((present, span)) = present.and_then(|value| Some((value, value.span()?))) {
        let value = match same(present, &setting.value) {
            true => text[span.clone()].to_owned(),
            false => setting.value.to_string().trim().to_owned(),
        };
        return Ok(Some(spliced(text, span, &value)));
    }
    let (key, path) = setting.path.split_last().expect("a setting has a key");
    let Some(Item::Table(table)) = get(&document, path) else { return Ok(None) };
    let Some(header) = table.span().filter(|_| !table.is_dotted()) else { return Ok(None) };
    let last = last_value(table).filter(|value| value.start > header.start);
    let (indent, end) = match last {
        Some(last) => (indent(text, last.start), line_end(text, last.end)),
        None => (indent(text, header.start), line_end(text, header.end)),
    };
    let before = if text[..end].ends_with('\n') { "" } else { newline(text) };
    let line = format!("{before}{indent}{} = {}", Key::new(*key), setting.value);
    Ok(Some(spliced(text, end..end, &(line + newline(text)))))
}

/// Sets a setting in a document, and creates its tables if needed.
fn put(document: &mut DocumentMut, setting: &Setting<'_>) -> Result<(), Unusable> {
    let (key, tables) = setting.path.split_last().expect("a setting has a key");
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for (depth, name) in tables.iter().enumerate() {
        let mut fresh = Table::new();
        fresh.set_implicit(true);
        let next = table.entry(name).or_insert(Item::Table(fresh));
        table = next
            .as_table_like_mut()
            .ok_or_else(|| Unusable::NoTable(setting.path[..=depth].join(".")))?;
    }
    table.insert(key, Item::Value(setting.value.clone()));
    Ok(())
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.value() == other.value(),
        (Value::Boolean(one), Value::Boolean(other)) => one.value() == other.value(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => false,
    }
}

/// Removes the item at a path, and the tables around it if they are then empty. Comments above it
/// stay.
pub fn remove(text: &str, path: &[&str]) -> Result<String, Unusable> {
    let document = parse(text)?;
    if get(&document, path).is_none() {
        return Ok(text.to_owned());
    }
    // The outermost table to remove contains only the next one.
    let outer = |depth: usize| get(&document, &path[..depth]).and_then(Item::as_table_like);
    let gone = (1..path.len()).rev().find(|depth| outer(*depth).is_none_or(|it| it.len() > 1));
    let gone = &path[..gone.map_or(1, |depth| depth + 1)];
    let in_one_line = |depth: usize| {
        get(&document, &path[..depth]).is_some_and(|item| item.as_inline_table().is_some())
    };
    if (1..gone.len()).any(in_one_line) {
        let mut document = document.into_mut();
        take(document.as_table_mut(), gone);
        return Ok(document.to_string());
    }
    let mut lines = Vec::new();
    if let Some(item) = get(&document, gone) {
        lines_of(text, item, &mut lines);
    }
    lines.sort_by_key(|range: &Range<usize>| range.start);
    Ok(lines.into_iter().rev().fold(text.to_owned(), |text, range| spliced(&text, range, "")))
}

fn take(table: &mut dyn TableLike, path: &[&str]) {
    let (key, tables) = path.split_last().expect("there is something at the end of it");
    let within = tables
        .iter()
        .try_fold(table, |table, name| table.get_mut(name).and_then(Item::as_table_like_mut));
    within.and_then(|table| table.remove(key));
}

/// The lines of a table or a value.
fn lines_of(text: &str, item: &Item, lines: &mut Vec<Range<usize>>) {
    match item {
        Item::Value(value) => lines.extend(value.span().map(|span| whole(text, span))),
        Item::Table(table) => {
            let header = table.span().filter(|_| !table.is_implicit() && !table.is_dotted());
            if let Some(header) = header.clone() {
                let end = last_value(table).map_or(header.end, |value| value.end);
                let range = whole(text, header.start..end.max(header.end));
                // The blank line above is removed as well.
                let above = &text[..range.start];
                let blank = ["\n\r\n", "\n\n"].iter().any(|blank| above.ends_with(blank));
                let start = if blank { line_start(above, range.start - 1) } else { range.start };
                lines.push(start..range.end);
            }
            for (_, item) in table.iter() {
                if header.is_none() || !is_value(item) {
                    lines_of(text, item, lines);
                }
            }
        }
        Item::None | Item::ArrayOfTables(_) => {}
    }
}

/// The range of the last value below a table's header.
fn last_value(table: &Table) -> Option<Range<usize>> {
    let values = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => value.span(),
        Item::Table(dotted) if dotted.is_dotted() => last_value(dotted),
        _ => None,
    });
    values.max_by_key(|span| span.end)
}

/// Whether an item is written below the header of its table.
fn is_value(item: &Item) -> bool {
    item.is_value() || item.as_table().is_some_and(Table::is_dotted)
}

fn spliced(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

/// A range, from the start of its first line to the end of its last.
fn whole(text: &str, range: Range<usize>) -> Range<usize> {
    line_start(text, range.start)..line_end(text, range.end)
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// The whitespace at the beginning of a line.
fn indent(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The line ending of a text.
fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}
