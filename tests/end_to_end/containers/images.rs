//! Images built from files of this machine: each a folder and an archive that all engines load,
//! made when the first test asks for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::json;

use crate::command::run;
use crate::containers::engine::{Caller, printed};
use crate::containers::spec::Image;
use crate::needs::find_tool;
use crate::programs::{Build, Program};
use crate::suite::Broken;
use crate::workspace;

/// How long fetching and unpacking a distribution may take.
const LONG: Duration = Duration::from_secs(600);

/// The programs in `/opt` of every image, with their modes.
const PROGRAMS: [(Program, Build, &str, u32); 4] = [
    (Program::Contained, Build::Static, "contained", 0o755),
    (Program::Contained, Build::Static, "set_user_id", 0o4755),
    (Program::Reads, Build::Static, "reads", 0o755),
    (Program::Agree, Build::Static, "agree", 0o755),
];

/// The commands of busybox in its image.
const APPLETS: [&str; 12] =
    ["sh", "cat", "chmod", "date", "head", "id", "ls", "mkdir", "ps", "sleep", "touch", "true"];

/// A finished image.
#[derive(Debug)]
pub struct Made {
    /// Layers, lowest first.
    layers: Vec<PathBuf>,
    /// The same as the output of `docker save`.
    pub archive: PathBuf,
    /// A folder with the layers unpacked, owned by the user who runs the tests.
    pub folder: PathBuf,
}

impl Image {
    /// Its name in an engine.
    pub fn name(self) -> String {
        format!("localhost/eigentime-{}:1", self.label())
    }

    /// Its default command.
    fn command(self) -> &'static [&'static str] {
        match self {
            Image::Busybox | Image::Distribution => &["date", "+%Y"],
            Image::Scratch => &["/opt/scratch"],
        }
    }

    fn label(self) -> &'static str {
        match self {
            Image::Busybox => "busybox",
            Image::Distribution => "distribution",
            Image::Scratch => "scratch",
        }
    }

    /// Returns the finished image, or what the machine lacks to make it.
    pub fn made(self) -> Result<&'static Made, Broken> {
        static MADE: [OnceLock<Result<Made, Broken>>; 3] = [const { OnceLock::new() }; 3];
        MADE[self as usize].get_or_init(|| make(self)).as_ref().map_err(Clone::clone)
    }
}

impl Made {
    /// Unpacks it for another user.
    pub fn unpack(&self, caller: &Caller, folder: &Path) -> Result<(), Broken> {
        run(caller.command("mkdir").arg("-p").arg(folder), LONG)?.expect_code(0)?;
        for layer in &self.layers {
            let mut command = caller.command("tar");
            command.arg("-C").arg(folder).arg("-xpf").arg(layer);
            run(&mut command, LONG)?.expect_code(0)?;
        }
        Ok(())
    }
}

fn make(image: Image) -> Result<Made, Broken> {
    let directory = workspace::scratch()?;
    let content = directory.join("content");
    fs::create_dir_all(content.join("opt"))?;
    for (program, build, name, mode) in PROGRAMS {
        let path = content.join("opt").join(name);
        fs::copy(program.path(build), &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    let mut layers = Vec::new();
    match image {
        Image::Busybox => add_busybox(&content)?,
        Image::Distribution => layers.push(distribution()?),
        Image::Scratch => {
            fs::copy(Program::Scratch.path(Build::Go), content.join("opt/scratch"))?;
        }
    }
    let layer = directory.join("layer.tar");
    pack(&content, &layer)?;
    layers.push(layer);
    let archive = write_archive(image, &layers, &directory)?;
    let made = Made { layers, archive, folder: directory.join("rootfs") };
    made.unpack(&Caller::default(), &made.folder)?;
    Ok(made)
}

fn add_busybox(content: &Path) -> Result<(), Broken> {
    let busybox = find_tool("busybox").ok_or_else(|| Broken("no busybox".into()))?;
    fs::create_dir_all(content.join("bin"))?;
    fs::copy(busybox, content.join("bin/busybox"))?;
    for applet in APPLETS {
        symlink("busybox", content.join("bin").join(applet))?;
    }
    fs::create_dir_all(content.join("etc"))?;
    fs::write(content.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
    fs::write(content.join("etc/group"), "root:x:0:\n")?;
    for folder in ["dev", "proc", "sys", "tmp"] {
        fs::create_dir_all(content.join(folder))?;
    }
    Ok(())
}

/// Packs a folder. Everything belongs to the image's root; the runtime provides device nodes.
fn pack(content: &Path, layer: &Path) -> Result<(), Broken> {
    let mut command = Command::new("tar");
    command.args(["--numeric-owner", "--owner=0", "--group=0", "--exclude=./dev/*", "-C"]);
    command.arg(content).arg("-cf").arg(layer).arg(".");
    run(&mut command, LONG)?.expect_code(0)?;
    Ok(())
}

/// A tar archive of the distribution's smallest variant, kept from run to run.
fn distribution() -> Result<PathBuf, Broken> {
    let codename = release()?;
    let directory = workspace::compiled().join("containers");
    let kept = directory.join(format!("{codename}.tar"));
    if kept.is_file() {
        return Ok(kept);
    }
    fs::create_dir_all(&directory)?;
    let mirror = mirror(&codename)?;
    let (content, layer) = (workspace::scratch()?.join("rootfs"), directory.join("unfinished.tar"));
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &codename]).arg(&content).arg(mirror);
    run(&mut command, LONG)?.expect_code(0)?;
    pack(&content, &layer)?;
    fs::rename(&layer, &kept)?;
    Ok(kept)
}

fn release() -> Result<String, Broken> {
    let text = fs::read_to_string("/etc/os-release")?;
    let found = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    found.map(str::to_owned).ok_or_else(|| Broken("a distribution with a code name".into()))
}

/// Where this machine gets the packages of its release.
fn mirror(codename: &str) -> Result<String, Broken> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Identifier: Packages"]);
    let sources = printed(&run(&mut command, LONG)?)?;
    let mut pairs = sources.lines().filter_map(|line| line.split_once(' '));
    let found = pairs.find(|(release, _)| *release == codename);
    found
        .map(|(_, mirror)| mirror.to_owned())
        .ok_or_else(|| Broken(format!("a mirror of {codename}")))
}

fn write_archive(image: Image, layers: &[PathBuf], place: &Path) -> Result<PathBuf, Broken> {
    let directory = place.join("archive");
    fs::create_dir_all(&directory)?;
    let (mut names, mut digests) = (Vec::new(), Vec::new());
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("{number}.tar");
        fs::copy(layer, directory.join(&name))?;
        let sum = printed(&run(Command::new("sha256sum").arg(layer), LONG)?)?;
        let digest = sum.split_whitespace().next().unwrap_or_default();
        digests.push(format!("sha256:{digest}"));
        names.push(name);
    }
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": image.command() },
        "rootfs": { "type": "layers", "diff_ids": digests },
    });
    let manifest = json!([{
        "Config": "config.json",
        "RepoTags": [image.name()],
        "Layers": names,
    }]);
    fs::write(directory.join("config.json"), config.to_string())?;
    fs::write(directory.join("manifest.json"), manifest.to_string())?;
    let archive = place.join(format!("{}.tar", image.label()));
    let mut command = Command::new("tar");
    command.arg("-C").arg(&directory).arg("-cf").arg(&archive);
    command.args(["manifest.json", "config.json"]).args(&names);
    run(&mut command, LONG)?.expect_code(0)?;
    Ok(archive)
}

/// The architecture's name in images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
