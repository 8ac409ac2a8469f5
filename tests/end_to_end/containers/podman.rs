//! podman with storage of its own, for root and for an ordinary user.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use crate::command::User;
use crate::containers::commandline::{Channel, CommandLine, Words};
use crate::containers::engine::{Caller, Engine};
use crate::containers::spec::Runtime;
use crate::containers::{bundle, ordinary, runtime_script};
use crate::suite::Broken;
use crate::workspace::{self, RUNTIME_VARIABLE};

const WORDS: Words = Words {
    channel: Channel::Annotations,
    global: |runtime| {
        let words: &[&str] = match runtime {
            Runtime::Wrapper => &["--runtime=eigentime"],
            Runtime::WrapperOfNothing => {
                &["--runtime=eigentime", "--runtime-flag=eigentime-runtime=/nonexistent"]
            }
            Runtime::Bare => &["--runtime=runc"],
        };
        words.iter().map(|&word| word.to_owned()).collect()
    },
    to_pull: || &["--tls-verify=false"],
    to_run: |_| Vec::new(),
};

/// podman for root. It passes no `XDG_RUNTIME_DIR` to root's runtime; a script sets it again, so
/// that the timelines are not among those of the system.
pub fn of_root() -> Result<Box<dyn Engine>, Broken> {
    by_root(Caller::default(), &[])
}

/// podman for root, with crun.
pub fn with_crun() -> Result<Box<dyn Engine>, Broken> {
    by_root(bundle::fit_for_crun(Caller::default()), &["--eigentime-runtime", "crun"])
}

fn by_root(caller: Caller, words: &[&str]) -> Result<Box<dyn Engine>, Broken> {
    let directory = workspace::scratch()?;
    // A container's monitor writes to its working directory.
    let caller = Caller { directory: Some(directory.clone()), ..caller };
    let variables = [(RUNTIME_VARIABLE, &*workspace::runtime(User::Myself))];
    let runtime = runtime_script(&variables, words)?;
    podman(caller, &directory, &directory, workspace::binary(), &runtime)
}

/// podman for an ordinary user.
pub fn rootless() -> Result<Box<dyn Engine>, Broken> {
    let user = ordinary::user()?;
    let eigentime = workspace::public()?.join("eigentime");
    let wrapper = eigentime.with_file_name("eigentime-oci");
    podman(user.caller(), &user.home, &user.runtime, &eigentime, &wrapper)
}

/// `state` is for files that exist only while it runs.
fn podman(
    caller: Caller,
    storage: &Path,
    state: &Path,
    eigentime: &Path,
    wrapper: &Path,
) -> Result<Box<dyn Engine>, Broken> {
    // Without the right to raise limits, podman's own defaults fail. Containers that are removed need no
    // time to end by themselves.
    let settings = format!(
        "[containers]\n\
         default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
         log_driver = \"k8s-file\"\n\
         [engine]\n\
         cgroup_manager = \"cgroupfs\"\n\
         events_logger = \"file\"\n\
         stop_timeout = 0\n\
         [engine.runtimes]\n\
         eigentime = [\"{}\"]\n\
         [network]\n\
         network_config_dir = \"{}\"\n",
        wrapper.display(),
        storage.join("networks").display(),
    );
    let file = workspace::scratch()?.join("containers.conf");
    fs::write(&file, settings)?;
    let place =
        |option: &str, path: &Path, name: &str| [option.into(), path.join(name).into_os_string()];
    let base = [
        place("--root", storage, "storage"),
        place("--runroot", state, "run"),
        place("--tmpdir", state, "tmp"),
        place("--volumepath", storage, "volumes"),
    ];
    Ok(Box::new(CommandLine {
        ctl: caller.clone(),
        caller: caller.with("CONTAINERS_CONF", file),
        program: "podman",
        base: base.concat(),
        words: WORDS,
        eigentime: eigentime.to_owned(),
        daemon: Mutex::default(),
        loaded: Mutex::default(),
    }))
}
