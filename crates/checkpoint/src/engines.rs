//! Containers that only their engine or runtime can dump: it knows their mounts, control group and
//! network.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use eigentime_supervisor::container::Container;

use crate::Error;

/// An engine that can be asked.
struct Engine {
    program: &'static str,
    /// A path that exists where it runs, or the variable that says where else it runs. Otherwise it
    /// is not asked: some engines create directories when asked.
    runs: (&'static str, &'static str),
    /// The words that, followed by a container, fail if the engine has none of that name.
    ask: &'static [&'static str],
    /// The command that dumps container `C`, to directory `D` or as `N`.
    write: &'static str,
}

/// Those that know a container wherever its runtime keeps it.
const ENGINES: [Engine; 3] = [
    Engine {
        program: "podman",
        runs: ("/run/libpod", "CONTAINERS_CONF"),
        ask: &["container", "inspect"],
        write: "podman --runtime eigentime container checkpoint --export D.tar C",
    },
    Engine {
        program: "docker",
        runs: ("/run/docker.sock", "DOCKER_HOST"),
        ask: &["container", "inspect"],
        write: "docker checkpoint create C N",
    },
    Engine {
        program: "ctr",
        runs: ("/run/containerd/containerd.sock", "CONTAINERD_ADDRESS"),
        ask: &["containers", "info"],
        write: "ctr tasks checkpoint --exit --image-path D C",
    },
];

const RUNC: Engine = Engine {
    program: "runc",
    runs: ("/run/runc", ""),
    ask: &["state"],
    write: "eigentime-oci checkpoint --image-path D C",
};

impl Engine {
    fn has(&self, container: &str) -> bool {
        let (place, variable) = self.runs;
        let asked = || {
            let mut command = Command::new(self.program);
            command.args(self.ask).arg(container);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        (Path::new(place).exists() || env::var_os(variable).is_some()) && asked()
    }
}

/// Explains how to dump a container that an engine knows by this name, if any does.
pub fn refusal_of(name: &str, directory: &Path) -> Option<Error> {
    let engine = ENGINES.iter().chain([&RUNC]).find(|engine| engine.has(name))?;
    Some(refusal(engine.program, name, engine.write, directory))
}

/// Explains how to dump one that is in a timeline.
pub fn refusal_of_member(container: &Container, directory: &Path) -> Error {
    let Container { id, root, name, .. } = container;
    if let Some(engine) = ENGINES.iter().find(|engine| engine.has(id)) {
        return refusal(engine.program, name.as_ref().unwrap_or(id), engine.write, directory);
    }
    let root = if root.is_empty() { String::new() } else { format!("--root {root} ") };
    let write = format!("eigentime-oci {root}checkpoint --image-path D C");
    refusal("its engine", id, &write, directory)
}

fn refusal(engine: &str, container: &str, write: &str, directory: &Path) -> Error {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let directory = directory.display();
    let words = write.split(' ').map(|word| match word {
        "C" => container.to_owned(),
        "D" => directory.to_string(),
        "N" => name.to_string(),
        "D.tar" => format!("{directory}.tar"),
        word => word.to_owned(),
    });
    Error::Container {
        container: container.to_owned(),
        engine: engine.to_owned(),
        command: words.collect::<Vec<_>>().join(" "),
    }
}
