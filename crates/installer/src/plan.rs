//! The configuration that a node's engine needs to know the runtime handler: the files to change,
//! and their new contents. Nothing is written here.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use eigentime_container::setup::containerd;
use toml_edit::{Array, DocumentMut, Value};

use crate::distribution::{Files, NodeInfo};
use crate::tree::{Root, Tree};

/// The name of the handler in a RuntimeClass.
pub const HANDLER: &str = "eigentime";

/// The name of each file of ours.
const DROP_IN: &str = "eigentime.toml";

const CRIO_DROP_IN: &str = "50-eigentime.conf";

/// The first line of a file that is ours alone.
const REMARK: &str = "# Written by eigentime-installer, which also removes it.\n";

/// The markers around our part of a template.
const BEGIN: &str = "# BEGIN eigentime-installer\n";
const END: &str = "# END eigentime-installer\n";

/// k3s' own template.
const BASE: &str = "{{ template \"base\" . }}\n";

/// The required contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file, by its path on the node.
    pub file: PathBuf,
    /// The required text.
    pub text: String,
    /// How our part is removed if the file has changed since.
    pub kind: Kind,
}

/// Our part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// The whole file.
    Own,
    /// The import of our file.
    Import,
    /// The runtime's entry.
    Entry,
    /// A block of a template.
    Block,
}

/// The configuration with which the node's engine finds this runtime.
pub fn plan(root: &Root, node: &NodeInfo, runtime: &str) -> Result<Vec<Change>> {
    let version = node.version()?;
    match &node.distribution()?.files {
        Files::Containerd { main, drop_ins } if version >= (2, 0) => {
            imported(root, Path::new(main), Path::new(drop_ins), version, runtime)
        }
        Files::Containerd { main, .. } => {
            let main = Path::new(main);
            let new = || Text { file: main.to_owned(), text: "version = 2\n".to_owned() };
            let Text { file, text } = Texts::read(root, main)?.of_plugin()?.unwrap_or_else(new);
            // A file's settings for a plugin hide all settings for it in earlier files
            // (containerd's mergeConfig), so a separate file of ours would hide everything.
            let text = containerd::add(&text, runtime).map_err(in_file(&file))?;
            Ok(vec![Change { file, text, kind: Kind::Entry }])
        }
        Files::Template { folder } => {
            Ok(vec![template(root, Path::new(folder), version, runtime)?])
        }
        Files::Merged { drop_ins, main } => {
            managed(root, Path::new(main))?;
            let text = drop_in(version, runtime, None)?;
            Ok(vec![own(Path::new(drop_ins).join(DROP_IN), text)])
        }
        Files::Crio { drop_ins } => {
            Ok(vec![own(Path::new(drop_ins).join(CRIO_DROP_IN), crio(runtime))])
        }
    }
}

/// The folder of another installation of this program on the node: one that exists and is named in
/// the files to change.
pub fn elsewhere(root: &Root, changes: &[Change], runtime: &str) -> Result<Option<PathBuf>> {
    let name = Path::new(runtime).file_name();
    for change in changes {
        let text = read(root, &change.file)?.unwrap_or_default();
        let named = text.split('"').map(Path::new);
        let others = named.filter(|it| it.file_name() == name && *it != Path::new(runtime));
        let mut trees = others.filter_map(|program| Tree::of_program(root, program));
        if let Some(tree) = trees.next() {
            return Ok(Some(tree.folder().to_owned()));
        }
    }
    Ok(None)
}

/// The text of a file without our part.
pub fn without(file: &Path, kind: Kind, text: &str) -> Result<Option<String>> {
    Ok(match kind {
        Kind::Own => None,
        Kind::Entry => Some(containerd::remove(text).map_err(in_file(file))?),
        Kind::Block => Some(match (text.find(BEGIN), text.find(END)) {
            (Some(begin), Some(end)) => format!("{}{}", &text[..begin], &text[end + END.len()..]),
            _ => text.to_owned(),
        }),
        Kind::Import => {
            let mut document: DocumentMut = text.parse().map_err(in_file(file))?;
            if let Some(imports) = document.get_mut("imports").and_then(|it| it.as_array_mut()) {
                imports.retain(|one| !one.as_str().is_some_and(|one| one.ends_with(DROP_IN)));
                if imports.is_empty() {
                    document.remove("imports");
                }
            }
            Some(document.to_string())
        }
    })
}

/// containerd 2: a file of ours, imported by another.
fn imported(
    root: &Root,
    main: &Path,
    drop_ins: &Path,
    version: (u32, u32),
    runtime: &str,
) -> Result<Vec<Change>> {
    /// From this version on, containerd reads the folder of drop-ins if there is no main file.
    const READS_FOLDER: (u32, u32) = (2, 2);
    let texts = Texts::read(root, main)?;
    let text = drop_in(version, runtime, texts.systemd_cgroup()?)?;
    let Some(top) = texts.0.first() else {
        let file = drop_ins.join(DROP_IN);
        let import = format!("version = 3\nimports = [\"{}\"]\n", file.display());
        let main = Change { file: main.to_owned(), text: import, kind: Kind::Import };
        let needs_main = version < READS_FOLDER;
        return Ok([own(file, text)].into_iter().chain(needs_main.then_some(main)).collect());
    };
    let read = folders(top)?;
    let folder = read.iter().find(|folder| *folder == drop_ins).or_else(|| read.first());
    if let Some(folder) = folder {
        return Ok(vec![own(folder.join(DROP_IN), text)]);
    }
    let file = drop_ins.join(DROP_IN);
    let import = Change {
        file: top.file.clone(),
        text: import(&top.file, &top.text, &file)?,
        kind: Kind::Import,
    };
    Ok(vec![own(file, text), import])
}

/// k3s and RKE2: a drop-in, if the template in use imports it; otherwise a block of the template.
fn template(root: &Root, folder: &Path, version: (u32, u32), runtime: &str) -> Result<Change> {
    let is_new = version >= (2, 0);
    let name = if is_new { "config-v3.toml" } else { "config.toml" };
    let rendered = Texts::read(root, &folder.join("config.toml"))?;
    let drop_ins = folder.join(format!("{name}.d"));
    if let Some(top) = rendered.0.first()
        && is_new
        && folders(top)?.contains(&drop_ins)
    {
        let text = drop_in(version, runtime, rendered.systemd_cgroup()?)?;
        return Ok(own(drop_ins.join(DROP_IN), text));
    }
    let file = folder.join(format!("{name}.tmpl"));
    let text = read(root, &file)?.unwrap_or_else(|| BASE.to_owned());
    let (above, below) = match (text.find(BEGIN), text.find(END)) {
        (Some(begin), Some(end)) => (&text[..begin], &text[end + END.len()..]),
        _ => (&*text, ""),
    };
    let newline = if above.ends_with('\n') { "" } else { "\n" };
    let version = config_version(version);
    let entry = containerd::add_alone(version, runtime, Some(true)).map_err(in_file(&file))?;
    // The template has its version elsewhere, and fills in runc's setting for control groups.
    let entry = entry.trim_start_matches(version).trim_start();
    let entry = entry.replace("SystemdCgroup = true", "SystemdCgroup = {{ .SystemdCgroup }}");
    let text = format!("{above}{newline}{BEGIN}{entry}{END}{below}");
    Ok(Change { file, text, kind: Kind::Block })
}

/// k0s generates containerd's file only as long as its first line says so.
fn managed(root: &Root, main: &Path) -> Result<()> {
    const MARK: &str = "# k0s_managed=true";
    match read(root, main)? {
        Some(text) if !text.starts_with(MARK) => bail!(
            "{} does not begin with {MARK:?}, so k0s does not read its containerd.d\n\
             help: put that line first, or remove the file",
            main.display()
        ),
        _ => Ok(()),
    }
}

fn own(file: PathBuf, text: String) -> Change {
    Change { file, text: format!("{REMARK}{text}"), kind: Kind::Own }
}

/// The first line of a file for this version of containerd.
fn config_version(version: (u32, u32)) -> &'static str {
    if version >= (2, 0) { "version = 3\n" } else { "version = 2\n" }
}

fn drop_in(version: (u32, u32), runtime: &str, systemd_cgroup: Option<bool>) -> Result<String> {
    containerd::add_alone(config_version(version), runtime, systemd_cgroup)
        .map_err(|cause| anyhow::anyhow!("{cause}"))
}

/// Without its infrastructure container, no process would hold a pod's timeline between one of its
/// containers and the next.
fn crio(runtime: &str) -> String {
    let table = format!("[crio.runtime.runtimes.{HANDLER}]");
    format!(
        "[crio.runtime]\n\
         # A pod's timeline lives as long as its infrastructure container.\n\
         drop_infra_ctr = false\n\n\
         {table}\n\
         runtime_path = \"{runtime}\"\n\
         runtime_type = \"oci\"\n\
         runtime_root = \"/run/eigentime-oci\"\n"
    )
}

fn import(main: &Path, text: &str, file: &Path) -> Result<String> {
    let mut document: DocumentMut = text.parse().map_err(in_file(main))?;
    let imports = document.entry("imports").or_insert(Value::Array(Array::new()).into());
    let Some(imports) = imports.as_array_mut() else {
        bail!("{}: imports is not a list\nhelp: make it one", main.display())
    };
    let file = file.to_string_lossy();
    if !imports.iter().any(|one| one.as_str() == Some(&file)) {
        imports.push(&*file);
    }
    Ok(document.to_string())
}

/// A file of containerd.
struct Text {
    file: PathBuf,
    text: String,
}

/// A file of containerd and its imports, in reading order. None if the first does not exist.
struct Texts(Vec<Text>);

impl Texts {
    fn read(root: &Root, main: &Path) -> Result<Self> {
        let mut texts: Vec<Text> = Vec::new();
        let mut pending = vec![main.to_owned()];
        while !pending.is_empty() {
            let file = pending.remove(0);
            if texts.iter().any(|text| text.file == file) {
                continue;
            }
            let Some(text) = read(root, &file)? else { continue };
            let text = Text { file, text };
            for pattern in imports(&text)? {
                let pattern = root.at(&pattern).to_string_lossy().into_owned();
                let found = glob::glob(&pattern).map_err(in_file(&text.file))?;
                pending.extend(found.flatten().map(|file| root.of_node(&file)));
            }
            texts.push(text);
        }
        Ok(Self(texts))
    }

    /// The setting for `runc`, in the last file that has it.
    fn systemd_cgroup(&self) -> Result<Option<bool>> {
        let mut last = None;
        for text in &self.0 {
            last = containerd::systemd_cgroup(&text.text).map_err(in_file(&text.file))?.or(last);
        }
        Ok(last)
    }

    /// The last file with settings for the Kubernetes plugin, or else the first.
    fn of_plugin(mut self) -> Result<Option<Text>> {
        let mut at = 0;
        for (number, text) in self.0.iter().enumerate() {
            if containerd::has_plugin(&text.text).map_err(in_file(&text.file))? {
                at = number;
            }
        }
        Ok((at < self.0.len()).then(|| self.0.swap_remove(at)))
    }
}

/// The imports of a file, as paths or patterns.
fn imports(text: &Text) -> Result<Vec<PathBuf>> {
    let document: DocumentMut = text.text.parse().map_err(in_file(&text.file))?;
    let folder = text.file.parent().unwrap_or(Path::new("/"));
    let imports = document.get("imports").and_then(|it| it.as_array());
    let names = imports.into_iter().flatten().filter_map(Value::as_str);
    Ok(names.map(|name| folder.join(name)).collect())
}

/// The folders from which a file imports everything ending in `.toml`.
fn folders(text: &Text) -> Result<Vec<PathBuf>> {
    let all = imports(text)?.into_iter();
    Ok(all
        .filter(|it| it.ends_with("*.toml"))
        .filter_map(|it| Some(it.parent()?.to_owned()))
        .collect())
}

fn read(root: &Root, file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(root.at(file)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn in_file<E: std::fmt::Display>(file: &Path) -> impl FnOnce(E) -> anyhow::Error + use<E> {
    let file = file.display().to_string();
    move |cause| anyhow::anyhow!("{file}: {}", cause.to_string().trim_start_matches(": "))
}

#[cfg(test)]
mod tests;
