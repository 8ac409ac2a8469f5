//! Installing on a node and uninstalling from it, step by step. Each step checks whether there is
//! anything to do, so an interrupted installer is simply restarted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use kube::Client;

use crate::cluster::{self, Here};
use crate::cri::Engine;
use crate::distribution::NodeInfo;
use crate::folder;
use crate::plan::{Change, elsewhere, plan};
use crate::record::Record;
use crate::restart::{How, restart};
use crate::tree::{Program, Root, Tree};
use crate::verify;

/// The program called by the engine.
const RUNTIME: &str = "eigentime-oci";

/// The programs installed on the node.
const PROGRAMS: [&str; 2] = ["eigentime", RUNTIME];

/// The runtime directory of root on the node, and the registry of its timelines there.
const RUNTIME_DIR: &str = "/run";
const REGISTRY: &str = "/run/eigentime";
/// The prefix of timelines created by the node's agent.
const OF_AGENT: &str = "k8s-";

/// Where the node is mounted, and how the installation changes it.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// Where the node's root directory is mounted
    #[arg(long, default_value = "/host")]
    host: PathBuf,
    /// The folder on the node to install into
    #[arg(long, env = "FOLDER", default_value = "/opt/eigentime", value_parser = folder::parse)]
    folder: PathBuf,
    /// How to restart the container engine
    #[arg(long, env = "RESTART", value_enum, default_value_t = How::Auto)]
    restart: How,
}

impl Place {
    /// Makes the node's root directory ours, so that its links lead to the same places as on the
    /// node.
    fn enter(&self) -> Result<Root> {
        let entered = nix::unistd::chroot(&self.host).and_then(|()| nix::unistd::chdir("/"));
        entered.with_context(|| format!("cannot enter {}", self.host.display()))?;
        Ok(Root::new("/"))
    }
}

/// Reads the programs to install.
pub fn programs(folder: &Path) -> Result<Vec<Program>> {
    let program = |name| {
        let file = folder.join(name);
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(Program { name, bytes })
    };
    PROGRAMS.into_iter().map(program).collect()
}

/// Installs on the node.
pub async fn install(
    client: &Client,
    here: &Here,
    place: &Place,
    programs: &[Program],
    verifies: bool,
) -> Result<()> {
    let info = cluster::node_info(client, &here.node).await?;
    let distribution = info.distribution()?;
    say(format_args!("node {}: {}, {}", here.node, distribution.name, info.engine));
    let root = place.enter()?;
    let tree = Tree::new(&root, &place.folder);
    refuse_another(&root, &tree, &plan(&root, &info, &runtime(&tree))?)?;
    let _lock = tree.claim()?;

    let before = tree.current();
    let version = tree.put(env!("CARGO_PKG_VERSION"), programs)?;
    if before.as_ref() != Some(&version) {
        tree.switch(&version)?;
        say(format_args!("{version} is in use"));
    }
    let changes = plan(&root, &info, &runtime(&tree))?;
    let changed = Record::read(&tree)?.make(&root, &tree, &changes)?;
    for file in &changed {
        say(format_args!("{} is written", file.display()));
    }
    let engine = Engine::new(distribution.socket);
    // The second condition holds if an installer was interrupted before the restart.
    if !changed.is_empty() || !engine.knows_handler().await? {
        engine.await_quiet().await?;
        restart(&root, distribution, place.restart, &engine).await?;
        engine.await_handler(true).await?;
        say(format_args!("the container engine knows the runtime handler"));
    }
    if verifies && let Err(error) = verify::run(client, here).await {
        // New pods get the version that worked before.
        if let Some(before) = before.filter(|before| *before != version) {
            tree.switch(&before)?;
            say(format_args!("{before} is in use again"));
        }
        return Err(error);
    }
    cluster::label(client, &here.node, Some("ready")).await?;
    for version in tree.prune()? {
        say(format_args!("{version} is removed"));
    }
    say(format_args!("node {} is ready", here.node));
    Ok(())
}

/// Uninstalls from the node.
pub async fn uninstall(client: &Client, here: &Here, place: &Place) -> Result<()> {
    // First, so that no new pod needs what is removed.
    cluster::label(client, &here.node, None).await?;
    let info = cluster::node_info(client, &here.node).await?;
    let distribution = info.distribution()?;
    let root = place.enter()?;
    let folder = installed(&root, &info, &place.folder);
    let tree = Tree::new(&root, &folder);
    if !tree.exists() {
        say(format_args!("nothing is installed on node {}", here.node));
        return Ok(());
    }
    let _lock = tree.lock()?;
    let engine = Engine::new(distribution.socket);
    let pods = engine.pods().await?;
    if !pods.is_empty() {
        bail!(
            "these pods need the runtime: {}\n\
             help: delete them; the node gets no new ones",
            pods.join(", ")
        );
    }
    remove_timelines(&root, &tree.program(PROGRAMS[0]))?;
    let changed = Record::read(&tree)?.undo(&root)?;
    for file in &changed {
        say(format_args!("{} is as it was", file.display()));
    }
    if !changed.is_empty() || engine.knows_handler().await? {
        engine.await_quiet().await?;
        restart(&root, distribution, place.restart, &engine).await?;
        engine.await_handler(false).await?;
        say(format_args!("the container engine has forgotten the runtime handler"));
    }
    forget_timelines(&root)?;
    if !tree.remove()? {
        say(format_args!("{} stays: it holds what is not Eigentime's", folder.display()));
    }
    say(format_args!("node {} is as it was", here.node));
    Ok(())
}

/// The program called by the engine, by its path on the node.
fn runtime(tree: &Tree<'_>) -> String {
    tree.program(RUNTIME).to_string_lossy().into_owned()
}

/// The folder of the installation: this one, or another that the engine knows.
fn installed(root: &Root, info: &NodeInfo, folder: &Path) -> PathBuf {
    let tree = Tree::new(root, folder);
    if tree.exists() {
        return folder.to_owned();
    }
    let runtime = runtime(&tree);
    match plan(root, info, &runtime).and_then(|changes| elsewhere(root, &changes, &runtime)) {
        Ok(other) => other.unwrap_or_else(|| folder.to_owned()),
        Err(error) => {
            say(format_args!("no other folder than {} is looked at: {error:#}", folder.display()));
            folder.to_owned()
        }
    }
}

/// Fails if the engine knows of an installation in another folder, which would never be removed.
fn refuse_another(root: &Root, tree: &Tree<'_>, changes: &[Change]) -> Result<()> {
    match elsewhere(root, changes, &runtime(tree))? {
        None => Ok(()),
        Some(other) => bail!(
            "node.folder is {}, but Eigentime is installed in {} on this node\n\
             help: set node.folder={1}; to move it, uninstall, and install again",
            tree.folder().display(),
            other.display()
        ),
    }
}

/// The timelines of root on the node.
fn timelines(root: &Root) -> Vec<String> {
    let entries = fs::read_dir(root.at(Path::new(REGISTRY))).into_iter().flatten().flatten();
    let sockets = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.filter_map(|it| it.file_name().into_string().ok()).collect()
}

/// Removes the timelines created by the node's agent, whose supervisors outlive it. Attached
/// processes keep their filter, which cannot be removed: they get the node's clocks, and a
/// supervisor that can no longer be found ends with the last of them.
fn remove_timelines(root: &Root, eigentime: &Path) -> Result<()> {
    let ctl = |words: &[&str]| {
        let mut command = Command::new(root.at(eigentime));
        command.arg("ctl").args(words).env_clear().env("EIGENTIME_RUNTIME_DIR", RUNTIME_DIR);
        command.output().with_context(|| format!("cannot run {}", eigentime.display()))
    };
    for name in timelines(root).iter().filter(|name| name.starts_with(OF_AGENT)) {
        // The socket of a killed supervisor disappears after the first attempt to use it.
        if ctl(&["rm", name])?.status.success() || !timelines(root).contains(name) {
            say(format_args!("timeline {name} is removed"));
            continue;
        }
        for words in [["thaw", name, "--rate=1"], ["set", name, "--offset=0s"]] {
            let ended = ctl(&words)?;
            if !ended.status.success() {
                let reason = String::from_utf8_lossy(&ended.stderr);
                bail!("the processes on timeline {name} cannot be let go: {}", reason.trim());
            }
        }
        let socket = root.at(Path::new(REGISTRY)).join(name);
        fs::remove_file(&socket).with_context(|| format!("cannot remove {}", socket.display()))?;
        say(format_args!("the processes on timeline {name} have the node's clocks"));
    }
    Ok(())
}

/// Removes the registry of root's timelines, unless it contains one.
fn forget_timelines(root: &Root) -> Result<()> {
    if !timelines(root).is_empty() {
        say(format_args!("{REGISTRY} stays: somebody on the node has timelines"));
        return Ok(());
    }
    match fs::remove_dir_all(root.at(Path::new(REGISTRY))) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {REGISTRY}"))
        }
        _ => Ok(()),
    }
}

fn say(what: std::fmt::Arguments<'_>) {
    println!("{what}");
}
