//! Docker: the table of runtimes in `daemon.json`.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::Unusable;

const TABLE: &str = "runtimes";
const ENTRY: &str = "eigentime";
const PATH: &str = "path";
const DEFAULT: &str = "default-runtime";

/// JSON as dockerd reads it, without extensions.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub fn add(text: &str, runtime: &str) -> Result<String, Unusable> {
    let root = parse(text)?;
    let settings = root.object_value_or_create().ok_or_else(|| no_table("the whole file"))?;
    let table = settings.object_value_or_create(TABLE).ok_or_else(|| no_table(TABLE))?;
    if named(&table).as_deref() == Some(runtime) {
        return Ok(text.to_owned());
    }
    let path = || CstInputValue::String(runtime.to_owned());
    let entry = || CstInputValue::Object(vec![(PATH.to_owned(), path())]);
    match (table.get(ENTRY), table.object_value(ENTRY).and_then(|entry| entry.get(PATH))) {
        // Arguments beside the path belong to the user.
        (Some(_), Some(present)) => present.set_value(path()),
        (Some(present), None) => present.set_value(entry()),
        (None, _) => {
            table.append(ENTRY, entry());
        }
    }
    Ok(root.to_string())
}

pub fn remove(text: &str) -> Result<String, Unusable> {
    let root = parse(text)?;
    let table = root.object_value().and_then(|settings| settings.get(TABLE));
    let Some(entry) = table.as_ref().and_then(|table| table.object_value()?.get(ENTRY)) else {
        return Ok(text.to_owned());
    };
    entry.remove();
    let emptied = |table: &CstObject| table.properties().is_empty();
    if let Some(table) = table.filter(|table| table.object_value().as_ref().is_some_and(emptied)) {
        table.remove();
    }
    Ok(root.to_string())
}

pub fn entry(text: &str) -> Result<Option<String>, Unusable> {
    let table = parse(text)?.object_value().and_then(|settings| settings.object_value(TABLE));
    Ok(table.and_then(|table| named(&table)))
}

pub fn is_default(text: &str) -> Result<bool, Unusable> {
    let settings = parse(text)?.object_value();
    let default = settings.and_then(|settings| string(&settings, DEFAULT));
    Ok(default.as_deref() == Some(ENTRY))
}

fn named(table: &CstObject) -> Option<String> {
    string(&table.object_value(ENTRY)?, PATH)
}

fn string(object: &CstObject, name: &str) -> Option<String> {
    object.get(name)?.value()?.as_string_lit()?.decoded_value().ok()
}

fn parse(text: &str) -> Result<CstRootNode, Unusable> {
    CstRootNode::parse(text, &STRICT).map_err(|error| Unusable::Malformed {
        line: error.line_display(),
        column: error.column_display(),
        what: error.kind().to_string(),
    })
}

fn no_table(name: &str) -> Unusable {
    Unusable::NoTable(name.to_owned())
}
