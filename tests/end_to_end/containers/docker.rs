//! dockerd with state of its own, configured to leave the network and its rules alone.

use std::fs;
use std::sync::Mutex;

use serde_json::json;

use crate::command::run;
use crate::containers::commandline::{Channel, CommandLine, LIMIT, Words};
use crate::containers::daemons::{Daemon, connects};
use crate::containers::engine::{Caller, Engine};
use crate::containers::spec::Runtime;
use crate::suite::Broken;
use crate::workspace;

const WORDS: Words = Words {
    channel: Channel::Environment,
    global: |_| Vec::new(),
    // On the loopback interface, it needs no encryption.
    to_pull: || &[],
    to_run: |runtime| {
        let name = match runtime {
            Runtime::Wrapper => "eigentime",
            Runtime::WrapperOfNothing => "eigentime-of-nothing",
            Runtime::Bare => "runc",
        };
        vec![format!("--runtime={name}")]
    },
};

/// Starts the daemon.
pub fn start() -> Result<Box<dyn Engine>, Broken> {
    let directory = workspace::scratch()?;
    let timelines = workspace::scratch()?;
    let socket = directory.join("socket");
    let wrapper = workspace::oci_wrapper();
    let settings = json!({
        "data-root": directory.join("data"),
        "exec-root": directory.join("run"),
        "pidfile": directory.join("pid"),
        "hosts": [format!("unix://{}", socket.display())],
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "deprecated-key-path": directory.join("key.json"),
        "bridge": "none",
        "iptables": false,
        "ip6tables": false,
        "ip-forward": false,
        "ip-masq": false,
        "userland-proxy": false,
        "runtimes": {
            "eigentime": {
                "path": wrapper,
                // This version passes no annotations.
                "runtimeArgs": ["--eigentime-trust-environment"],
            },
            "eigentime-of-nothing": {
                "path": wrapper,
                "runtimeArgs": ["--eigentime-runtime", "/nonexistent"],
            },
        },
    });
    let file = directory.join("daemon.json");
    fs::write(&file, settings.to_string())?;
    let caller = Caller::default()
        .with("XDG_RUNTIME_DIR", &timelines)
        .with("DOCKER_CONFIG", directory.join("client"));
    let mut daemon = Daemon::start(
        caller.command("dockerd").arg("--config-file").arg(&file),
        &directory.join("log"),
    )?;
    daemon.await_socket(|| connects(&socket))?;
    let host = format!("--host=unix://{}", socket.display());
    // It listens before it answers.
    run(caller.command("docker").args([&host, "version"]), LIMIT)?.expect_code(0)?;
    Ok(Box::new(CommandLine {
        ctl: caller.clone(),
        caller,
        program: "docker",
        base: vec![host.into()],
        words: WORDS,
        eigentime: workspace::binary().to_owned(),
        daemon: Mutex::new(Some(daemon)),
        loaded: Mutex::default(),
    }))
}
