//! The symbols that the libraries export: only those that the header declares.

use std::collections::BTreeSet;
use std::fs;

use crate::ensure;
use crate::needs::Need;
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

use super::printed;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Tool("nm")];
    suite.test("library::symbols::shared", &needs, || exported("libeigentime.so", "--dynamic"));
    suite.test("library::symbols::static", &needs, || exported("libeigentime.a", "--extern-only"));
    suite.test("library::symbols::soname", &[Need::Tool("readelf")], soname);
}

fn exported(library: &str, which: &str) -> Outcome {
    let path = workspace::libraries().join(library);
    let table = printed("nm", &[which.as_ref(), "--defined-only".as_ref(), path.as_os_str()])?;
    // ADDRESS KIND NAME; an archive's members have a line of their own.
    let found: BTreeSet<String> =
        table.lines().filter_map(|line| line.split_whitespace().nth(2)).map(String::from).collect();
    let declared = declared()?;
    ensure!(declared.len() > 20, "only {declared:?} in the header");
    let more: Vec<_> = found.difference(&declared).collect();
    let less: Vec<_> = declared.difference(&found).collect();
    ensure!(more.is_empty() && less.is_empty(), "{library} has also {more:?}, and lacks {less:?}");
    Ok(())
}

/// The functions of the header: names before a parenthesis, outside of comments.
fn declared() -> Result<BTreeSet<String>, Broken> {
    let header = fs::read_to_string(workspace::headers().join("eigentime.h"))?;
    let mut code = String::new();
    for part in header.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, after)| after));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (before, _) in code.match_indices('(').map(|(at, _)| code.split_at(at)) {
        let start = before.rfind(|c| !is_name(c)).map_or(0, |at| at + 1);
        if before[start..].starts_with("eigentime_") {
            names.insert(before[start..].to_owned());
        }
    }
    Ok(names)
}

/// Programs ask for `libeigentime.so.0`, and find the file itself through it.
fn soname() -> Outcome {
    let libraries = workspace::libraries();
    let plain = libraries.join("libeigentime.so");
    let table = printed("readelf", &["--dynamic".as_ref(), plain.as_os_str()])?;
    let line = table.lines().find(|line| line.contains("(SONAME)")).unwrap_or_default();
    ensure!(line.ends_with("[libeigentime.so.0]"), "its name is {line:?}");
    let file = fs::canonicalize(&plain)?;
    ensure!(file == fs::canonicalize(libraries.join("libeigentime.so.0"))?, "two libraries");
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name == concat!("libeigentime.so.", env!("CARGO_PKG_VERSION")), "it is {name}");
    Ok(())
}
