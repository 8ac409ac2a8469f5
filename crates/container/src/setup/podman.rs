//! podman: our own file among those that are read after `containers.conf`.

use std::path::{Path, PathBuf};

use super::toml::{self, Setting};
use super::{Caller, Unusable};

/// The path of the file below podman's settings.
const DROP_IN: &str = "containers/containers.conf.d/eigentime.conf";
const TABLE: [&str; 2] = ["engine", "runtimes"];
const ENTRY: [&str; 3] = ["engine", "runtimes", "eigentime"];

pub fn file(caller: &Caller) -> Option<PathBuf> {
    match caller.is_root {
        true => Some(PathBuf::from("/etc").join(DROP_IN)),
        false => caller.own(DROP_IN),
    }
}

pub fn fresh() -> Option<String> {
    Some("# Written by `eigentime setup podman`; `--remove` removes it.\n".to_owned())
}

pub fn add(text: &str, runtime: &str) -> Result<String, Unusable> {
    toml::add(text, &TABLE, &[Setting::new(&TABLE, ENTRY[2], toml::list(&[runtime]))])
}

pub fn remove(text: &str) -> Result<String, Unusable> {
    toml::remove(text, &ENTRY)
}

/// Returns the first of the files in the entry; podman uses the first that exists.
pub fn entry(text: &str) -> Result<Option<String>, Unusable> {
    let document = toml::parse(text)?;
    let files = toml::get(&document, &ENTRY).and_then(|files| files.as_array());
    Ok(files.and_then(|files| files.get(0)?.as_str().map(str::to_owned)))
}

pub fn is_default(text: &str) -> Result<bool, Unusable> {
    let document = toml::parse(text)?;
    let default = toml::get(&document, &["engine", "runtime"]).and_then(|name| name.as_str());
    Ok(default == Some(ENTRY[2]))
}

pub fn caution(caller: &Caller, file: &Path, _: &str) -> Option<String> {
    let only = caller.containers_conf.as_ref().filter(|only| *only != file)?.display();
    Some(format!(
        "CONTAINERS_CONF is set: podman reads {only} and no other file\n\
         help: unset it, or add the entry there: eigentime setup podman --config {only}"
    ))
}
