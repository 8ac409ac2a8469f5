//! containerd: the table of runtimes of its Kubernetes plugin, whose name differs between the
//! versions of `config.toml`.

use std::path::Path;

use toml_edit::{Document, Item, Value};

use super::toml::{self, Setting};
use super::{Caller, Unusable};
use crate::program::{self, Version};

/// The newest version of the file (containerd 2.4).
const NEWEST: i64 = 4;

/// The name of the entry, and the name of containerd's default runtime.
const ENTRY: &str = "eigentime";
const DEFAULT: &str = "runc";

/// The shim with which containerd calls runc, and any runtime with the same command line.
const SHIM: &str = "io.containerd.runc.v2";

/// The annotations of a pod and a container that are passed on.
const ANNOTATIONS: [&str; 1] = ["io.eigentime.*"];

/// The remark that identifies the entry that `add` creates beside its own.
const DEFAULT_REMARK: &str = " # eigentime setup: the default, which a table hides";

/// A version of the file's format.
struct Form {
    /// The values of `version`; 0 if there is none.
    versions: &'static [i64],
    /// The name of the plugin.
    plugin: &'static str,
    /// Whether a table of runtimes replaces the default one, so that it must include the default
    /// runtime.
    hides_default: bool,
}

const FORMS: [Form; 3] = [
    Form { versions: &[0, 1], plugin: "cri", hides_default: true },
    Form { versions: &[2], plugin: "io.containerd.grpc.v1.cri", hides_default: true },
    Form { versions: &[3, NEWEST], plugin: "io.containerd.cri.v1.runtime", hides_default: false },
];

impl Form {
    fn of(document: &Document<&str>) -> Result<&'static Self, Unusable> {
        let version = document.get("version");
        let number = version.map_or(Some(0), Item::as_integer);
        let form = FORMS.iter().find(|form| number.is_some_and(|it| form.versions.contains(&it)));
        form.ok_or_else(|| {
            let shown = version.map(|version| version.to_string()).unwrap_or_default();
            Unusable::Version { found: shown.trim().to_owned(), newest: NEWEST }
        })
    }

    fn table(&self) -> [&'static str; 4] {
        ["plugins", self.plugin, "containerd", "runtimes"]
    }

    fn runtime(&self, name: &'static str) -> [&'static str; 5] {
        let [plugins, plugin, containerd, runtimes] = self.table();
        [plugins, plugin, containerd, runtimes, name]
    }

    fn entry(&self, runtime: &str, systemd_cgroup: Option<bool>) -> Vec<Setting<'static>> {
        let entry = self.runtime(ENTRY);
        let options = [entry.as_slice(), &["options"]].concat();
        let mut settings = vec![
            Setting::new(&entry, "runtime_type", SHIM),
            Setting::new(&entry, "pod_annotations", toml::list(&ANNOTATIONS)),
            Setting::new(&entry, "container_annotations", toml::list(&ANNOTATIONS)),
            Setting::new(&options, "BinaryName", runtime),
        ];
        settings.extend(systemd_cgroup.map(|it| Setting::new(&options, "SystemdCgroup", it)));
        settings
    }
}

/// The oldest format that the installed version accepts without a warning.
pub(super) fn fresh() -> Option<String> {
    let version = Version::of(&program::find("containerd")?)?;
    Some(match version.is_at_least([2, 0, 0]) {
        true => "version = 3\n".to_owned(),
        false => "version = 2\n".to_owned(),
    })
}

/// Sets the entry in a text to this runtime.
///
/// # Errors
///
/// If the text has something to which no entry can be added.
pub fn add(text: &str, runtime: &str) -> Result<String, Unusable> {
    let document = toml::parse(text)?;
    let form = Form::of(&document)?;
    let mut settings = Vec::new();
    if form.hides_default && toml::get(&document, &form.table()).is_none() {
        let shim = Value::from(SHIM).decorated(" ", DEFAULT_REMARK);
        settings.push(Setting::new(&form.runtime(DEFAULT), "runtime_type", shim));
    }
    settings.extend(form.entry(runtime, systemd_cgroup(text)?));
    toml::add(text, &form.runtime(ENTRY), &settings)
}

/// Replaces a text with the entry alone, for a file that others import or a template that others
/// fill in. `systemd_cgroup` is the setting of `runc`.
///
/// # Errors
///
/// If the text's version is not known.
pub fn add_alone(
    text: &str,
    runtime: &str,
    systemd_cgroup: Option<bool>,
) -> Result<String, Unusable> {
    let form = Form::of(&toml::parse(text)?)?;
    toml::add(text, &form.runtime(ENTRY), &form.entry(runtime, systemd_cgroup))
}

/// Whether `runc` has its control groups managed by systemd. The kubelet and all runtimes must
/// manage them the same way.
///
/// # Errors
///
/// If the text cannot be read.
pub fn systemd_cgroup(text: &str) -> Result<Option<bool>, Unusable> {
    let document = toml::parse(text)?;
    let form = Form::of(&document)?;
    let path = [form.runtime(DEFAULT).as_slice(), &["options", "SystemdCgroup"]].concat();
    Ok(toml::get(&document, &path).and_then(Item::as_bool))
}

/// Whether the text configures the Kubernetes plugin.
///
/// # Errors
///
/// If the text cannot be read.
pub fn has_plugin(text: &str) -> Result<bool, Unusable> {
    let document = toml::parse(text)?;
    let form = Form::of(&document)?;
    Ok(toml::get(&document, &["plugins", form.plugin]).is_some())
}

/// Removes the entry from a text.
///
/// # Errors
///
/// If the text cannot be read.
pub fn remove(text: &str) -> Result<String, Unusable> {
    let form = Form::of(&toml::parse(text)?)?;
    let rest = toml::remove(text, &form.runtime(ENTRY))?;
    match rest != text && default_is_ours(&rest, form)? {
        true => toml::remove(&rest, &form.runtime(DEFAULT)),
        false => Ok(rest),
    }
}

/// Whether the table of runtimes contains only what `add` created.
fn default_is_ours(text: &str, form: &Form) -> Result<bool, Unusable> {
    let document = toml::parse(text)?;
    let only = |path: &[&str], key: &str| {
        let table = toml::get(&document, path).and_then(Item::as_table_like);
        table.is_some_and(|table| table.len() == 1 && table.contains_key(key))
    };
    let default = form.runtime(DEFAULT);
    let shim = [default.as_slice(), &["runtime_type"]].concat();
    let remark = toml::get(&document, &shim)
        .and_then(|shim| shim.as_value()?.decor().suffix()?.span())
        .map(|span| text[span].trim_end());
    Ok(only(&form.table(), DEFAULT)
        && only(&default, "runtime_type")
        && remark == Some(DEFAULT_REMARK))
}

pub(super) fn entry(text: &str) -> Result<Option<String>, Unusable> {
    let document = toml::parse(text)?;
    let form = Form::of(&document)?;
    let name = [form.runtime(ENTRY).as_slice(), &["options", "BinaryName"]].concat();
    Ok(toml::get(&document, &name).and_then(|name| name.as_str().map(str::to_owned)))
}

pub(super) fn is_default(text: &str) -> Result<bool, Unusable> {
    let document = toml::parse(text)?;
    let [plugins, plugin, containerd, _] = Form::of(&document)?.table();
    let default = [plugins, plugin, containerd, "default_runtime_name"];
    let default = toml::get(&document, &default).and_then(|name| name.as_str());
    Ok(default == Some(ENTRY))
}

pub(super) fn caution(_: &Caller, _: &Path, text: &str) -> Option<String> {
    let document = toml::parse(text).ok()?;
    let disabled = document.get("disabled_plugins")?.as_array()?;
    let names = disabled.iter().filter_map(Value::as_str);
    names.into_iter().any(|name| FORMS.iter().any(|form| form.plugin == name)).then(|| {
        "the plugin for Kubernetes (cri), which uses the entry, is among the disabled_plugins"
            .to_owned()
    })
}
