//! The settings in a bundle, and the changes made to it.

use std::fs;
use std::io;
use std::path::{self, Path, PathBuf};

use eigentime_container::settings::{Settings, Wrong};
use eigentime_supervisor::clock_request::Form;
use eigentime_supervisor::replaced;
use serde_json::Value;

/// A document of a bundle that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .path.display())]
pub struct Unusable {
    path: PathBuf,
    reason: String,
}

/// A JSON document of a bundle.
pub struct Document {
    path: PathBuf,
    value: Value,
}

impl Document {
    /// Reads a document. If it was changed, and its supervisor was killed before restoring it,
    /// restores it first.
    pub fn read(path: &Path) -> Result<Self, Unusable> {
        // The supervisor, which restores the file, has another working directory.
        let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let text = is_regular(&path)
            .and_then(|()| replaced::put_back(&path))
            .and_then(|()| fs::read(&path));
        let value = text
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        match value {
            Ok(value) => Ok(Self { path, value }),
            Err(reason) => Err(Unusable { path, reason }),
        }
    }

    /// The settings in the document; its environment counts only if trusted.
    pub fn settings(&self, trusts_environment: bool) -> Result<Settings, Wrong> {
        let annotations = self.value["annotations"].as_object().into_iter().flatten();
        let annotations = annotations.filter_map(|(name, value)| Some((&**name, value.as_str()?)));
        let variables = self.value["process"]["env"].as_array().into_iter().flatten();
        Settings::parse(annotations, variables.filter_map(Value::as_str), trusts_environment)
    }

    /// An annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.value["annotations"][name].as_str()
    }

    /// The source of the mount at a destination in the container.
    pub fn source_of(&self, destination: &str) -> Option<&Path> {
        let mounts = self.value["mounts"].as_array()?;
        let mount = mounts.iter().find(|mount| mount["destination"] == destination)?;
        mount["source"].as_str().map(Path::new)
    }

    /// Whether the container will have a namespace of this kind.
    pub fn has_namespace(&self, kind: &str) -> bool {
        let namespaces = self.value["linux"]["namespaces"].as_array();
        namespaces.is_some_and(|all| all.iter().any(|namespace| namespace["type"] == kind))
    }

    /// The existing namespaces that it will join.
    pub fn joined_namespaces(&self) -> Vec<PathBuf> {
        let namespaces = self.value["linux"]["namespaces"].as_array().into_iter().flatten();
        namespaces.filter_map(|one| one["path"].as_str().map(PathBuf::from)).collect()
    }

    /// Whether its seccomp profile notifies a process of calls, which the kernel allows for one
    /// listener only.
    pub fn notifies(&self) -> bool {
        let profile = &self.value["linux"]["seccomp"];
        let rules = profile["syscalls"].as_array().into_iter().flatten();
        let mut actions = rules.map(|rule| &rule["action"]).chain([&profile["defaultAction"]]);
        actions.any(|action| action == "SCMP_ACT_NOTIFY")
    }

    /// Whether its user namespace contains more than one user.
    pub fn maps_several_users(&self) -> bool {
        let maps = self.value["linux"]["uidMappings"].as_array().map_or(&[][..], Vec::as_slice);
        maps.len() > 1 || maps.iter().any(|map| map["size"].as_u64() > Some(1))
    }

    /// Removes the time namespace, in which the runtime is started, and the variables that are
    /// settings, if they are trusted. Returns whether the document has changed.
    pub fn take_ours(&mut self, trusts_environment: bool) -> bool {
        let before = self.value.clone();
        if let Some(Value::Array(variables)) = self.value.pointer_mut("/process/env")
            && trusts_environment
        {
            take_variables(variables);
        }
        if let Some(Value::Object(linux)) = self.value.get_mut("linux") {
            linux.remove("timeOffsets");
            if let Some(Value::Array(namespaces)) = linux.get_mut("namespaces") {
                namespaces.retain(|namespace| namespace["type"] != "time");
            }
        }
        self.value != before
    }

    /// Like [`Self::take_ours`], for the description of a program that is started later.
    pub fn take_variables(&mut self) -> bool {
        match self.value.get_mut("env") {
            Some(Value::Array(variables)) => take_variables(variables),
            _ => false,
        }
    }

    /// Puts the container into an existing time namespace.
    pub fn join_time_namespace(&mut self, path: &Path) {
        let namespace = serde_json::json!({ "type": "time", "path": path });
        if let Some(Value::Array(namespaces)) = self.value.pointer_mut("/linux/namespaces") {
            namespaces.push(namespace);
        }
    }

    /// The path of the document.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the original file with the document, and keeps a copy of the original.
    pub fn replace(&self) -> Result<(), Unusable> {
        let text = serde_json::to_vec(&self.value).expect("a value is plain data");
        replaced::replace(&self.path, &text).map_err(|error| Unusable {
            path: self.path.clone(),
            reason: format!(
                "cannot remove Eigentime's settings from it: {error}\n\
                 help: make it writable, or use annotations instead of variables"
            ),
        })
    }
}

/// Anything other than a regular file may be readable only once, which is left to the runtime.
fn is_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Removes the settings from an environment. Returns whether there were any.
fn take_variables(variables: &mut Vec<Value>) -> bool {
    let before = variables.len();
    let is_setting = |variable: &Value| {
        let name = variable.as_str().and_then(|text| text.split('=').next());
        name.is_some_and(|name| Form::Variable.key(name).is_some())
    };
    variables.retain(|variable| !is_setting(variable));
    variables.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = r#"{
        "process": { "env": ["PATH=/bin", "EIGENTIME_RATE=10", "EIGENTIME_PRELOAD=cpu=0.1"], "args": ["date"] },
        "annotations": { "io.eigentime.date": "@1", "org.example": "x" },
        "mounts": [{ "destination": "/etc/hostname", "source": "/d/1/hostname" }],
        "hooks": { "poststop": [{ "path": "/bin/true" }] },
        "linux": {
            "namespaces": [{ "type": "pid" }, { "type": "time" }, { "type": "mount" }],
            "timeOffsets": { "monotonic": { "secs": 5 } },
            "uidMappings": [{ "containerID": 0, "hostID": 1000, "size": 1 }],
            "unknown": 18446744073709551615
        }
    }"#;

    /// A file of a bundle in its own directory, which is removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, text: &str) -> Self {
            let folder = format!("eigentime-bundle-{}-{name}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("config.json"), text).unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("config.json")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_is_taken_but_what_is_ours() {
        let scratch = Scratch::new("taken", BUNDLE);
        let mut document = Document::read(&scratch.file()).unwrap();
        assert!(document.has_namespace("time") && !document.maps_several_users());
        assert_eq!(document.source_of("/etc/hostname"), Some(Path::new("/d/1/hostname")));
        let settings = document.settings(true).unwrap();
        assert!(settings.request.clocks().is_some() && settings.request.timeline.is_none());
        assert!(document.take_ours(false));
        assert!(!document.take_ours(false));
        assert!(document.take_ours(true));
        assert!(!document.take_ours(true));
        let mut expected: Value = serde_json::from_str(BUNDLE).unwrap();
        expected["process"]["env"] = serde_json::json!(["PATH=/bin", "EIGENTIME_PRELOAD=cpu=0.1"]);
        expected["linux"]["namespaces"] =
            serde_json::json!([{ "type": "pid" }, { "type": "mount" }]);
        expected["linux"].as_object_mut().unwrap().remove("timeOffsets");
        assert_eq!(document.value, expected);
        document.join_time_namespace(Path::new("/proc/1/ns/time"));
        assert!(document.has_namespace("time"));
    }

    #[test]
    fn containers_of_pods_name_their_sandbox() {
        for (kind, of, is, expected) in [
            (
                "io.kubernetes.cri.container-type",
                "io.kubernetes.cri.sandbox-id",
                "container",
                Some("7"),
            ),
            ("io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id", "sandbox", None),
            (
                "io.kubernetes.cri-o.ContainerType",
                "io.kubernetes.cri-o.SandboxID",
                "container",
                Some("7"),
            ),
            ("org.example.kind", "org.example.of", "container", None),
        ] {
            let mut value: Value = serde_json::from_str(BUNDLE).unwrap();
            value["annotations"][kind] = serde_json::json!(is);
            value["annotations"][of] = serde_json::json!("7");
            value["linux"]["namespaces"][0]["path"] = serde_json::json!("/proc/9/ns/pid");
            let document = Document { path: PathBuf::new(), value };
            assert_eq!(crate::engine::sandbox_of(&document), expected, "{kind} {is}");
            assert_eq!(document.joined_namespaces(), [Path::new("/proc/9/ns/pid")]);
        }
    }

    #[test]
    fn a_profile_may_notify() {
        let document = |seccomp: &str| {
            let value = serde_json::from_str(&format!(r#"{{"linux":{{"seccomp":{seccomp}}}}}"#));
            Document { path: PathBuf::new(), value: value.unwrap() }
        };
        assert!(!document("null").notifies());
        let rules =
            r#"{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"action":"SCMP_ACT_ALLOW"}]}"#;
        assert!(!document(rules).notifies());
        assert!(document(&rules.replace("ALLOW", "NOTIFY")).notifies());
        assert!(document(r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#).notifies());
    }

    #[test]
    fn what_was_left_replaced_is_put_back_first() {
        let scratch = Scratch::new("left", BUNDLE);
        let mut document = Document::read(&scratch.file()).unwrap();
        document.take_ours(true);
        document.replace().unwrap();
        let again = Document::read(&scratch.file()).unwrap();
        assert!(again.has_namespace("time"));
        assert_eq!(fs::read_to_string(scratch.file()).unwrap(), BUNDLE);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let scratch = Scratch::new("unreadable", "{");
        let error = Document::read(&scratch.file()).err().unwrap().to_string();
        assert!(error.contains("config.json: EOF"), "{error}");
        let error = Document::read(Path::new("/nonexistent/config.json")).err().unwrap();
        assert!(error.to_string().contains("No such file"), "{error}");
        let error = Document::read(Path::new("/dev/null")).err().unwrap();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
