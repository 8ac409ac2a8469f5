//! The description of a container for a runtime: its `config.json`.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capability, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxCpuBuilder, LinuxMemoryBuilder,
    LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, LinuxResources,
    LinuxResourcesBuilder, Mount, MountBuilder, ProcessBuilder, RootBuilder, Spec, SpecBuilder,
    UserBuilder, get_default_maskedpaths, get_default_mounts, get_default_readonly_paths,
};

use crate::host::limits::{Cpus, Memory, PERIOD_US};
use crate::host::namespaces::Namespaces;
use crate::host::network::Network;
use crate::spec::users::Account;

/// The capabilities that docker gives to root of a container.
const CAPABILITIES: [Capability; 14] = [
    Capability::AuditWrite,
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::Kill,
    Capability::Mknod,
    Capability::NetBindService,
    Capability::NetRaw,
    Capability::Setfcap,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Setuid,
    Capability::SysChroot,
];

/// What docker masks in addition to the crate's defaults.
const ALSO_MASKED: [&str; 1] = ["/sys/devices/virtual/powercap"];

/// The namespaces that the runtime creates. Its own user, mount and time namespaces exist already.
const NAMESPACES: [LinuxNamespaceType; 5] = [
    LinuxNamespaceType::Cgroup,
    LinuxNamespaceType::Ipc,
    LinuxNamespaceType::Mount,
    LinuxNamespaceType::Pid,
    LinuxNamespaceType::Uts,
];

/// The directory of terminals.
const TERMINALS: &str = "/dev/pts";

/// The group of terminals on every distribution.
const TTY: u32 = 5;

/// A file or directory of the host that a container sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its path on the host.
    pub source: PathBuf,
    /// Its path in the container.
    pub destination: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The properties of a container.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a> {
    /// Its file system.
    pub root: &'a Path,
    /// Its host name.
    pub hostname: &'a str,
    /// The program and its arguments.
    pub command: &'a [String],
    /// The variables.
    pub environment: &'a [String],
    /// The directory in which the program starts.
    pub folder: &'a str,
    /// The account of the program.
    pub account: &'a Account,
    /// Whether it gets a terminal.
    pub terminal: bool,
    /// The host files and directories that it sees.
    pub volumes: &'a [Volume],
    /// Its network.
    pub network: Network,
    /// Its memory limit.
    pub memory: Option<Memory>,
    /// Its limit of processor time.
    pub cpus: Option<Cpus>,
    /// The available ids.
    pub namespaces: &'a Namespaces,
}

impl Bundle<'_> {
    /// Generates the description.
    ///
    /// # Errors
    ///
    /// If the crate reports that something is missing.
    pub fn spec(&self) -> Result<Spec, OciSpecError> {
        let Self { account, namespaces, .. } = self;
        let groups = account.groups.iter().copied().filter(|gid| namespaces.gids.has(*gid));
        // With a single user, groups cannot be set.
        let groups: Vec<_> = groups.filter(|_| !namespaces.have_one_user()).collect();
        let user = UserBuilder::default().uid(account.uid).gid(account.gid).additional_gids(groups);
        let process = ProcessBuilder::default()
            .terminal(self.terminal)
            .user(user.build()?)
            .args(self.command)
            .env(self.environment)
            .cwd(self.folder)
            .capabilities(self.capabilities()?)
            .no_new_privileges(false)
            .build()?;
        let masked = ALSO_MASKED.iter().map(|path| (*path).to_owned());
        let linux = LinuxBuilder::default()
            .namespaces(self.namespaces_to_make()?)
            .resources(self.resources()?)
            .masked_paths(get_default_maskedpaths().into_iter().chain(masked).collect::<Vec<_>>())
            .readonly_paths(get_default_readonly_paths())
            .build()?;
        SpecBuilder::default()
            .root(RootBuilder::default().path(self.root).readonly(false).build()?)
            .hostname(self.hostname)
            .process(process)
            .mounts(self.mounts()?)
            .linux(linux)
            .build()
    }

    fn capabilities(&self) -> Result<oci_spec::runtime::LinuxCapabilities, OciSpecError> {
        // An ordinary user gets them only through set-user-ID programs.
        let own = if self.account.uid == 0 { &CAPABILITIES[..] } else { &[] };
        let set =
            |all: &[Capability]| all.iter().copied().collect::<oci_spec::runtime::Capabilities>();
        LinuxCapabilitiesBuilder::default()
            .bounding(set(&CAPABILITIES))
            .permitted(set(own))
            .effective(set(own))
            .inheritable(set(&[]))
            .ambient(set(&[]))
            .build()
    }

    fn namespaces_to_make(&self) -> Result<Vec<LinuxNamespace>, OciSpecError> {
        // A connected network exists already, too.
        let network = (self.network == Network::None).then_some(LinuxNamespaceType::Network);
        NAMESPACES
            .into_iter()
            .chain(network)
            .map(|kind| LinuxNamespaceBuilder::default().typ(kind).build())
            .collect()
    }

    fn resources(&self) -> Result<LinuxResources, OciSpecError> {
        let mut resources = LinuxResourcesBuilder::default();
        if let Some(Memory(bytes)) = self.memory {
            resources = resources.memory(LinuxMemoryBuilder::default().limit(bytes).build()?);
        }
        if let Some(Cpus { quota_us }) = self.cpus {
            let cpu = LinuxCpuBuilder::default().quota(quota_us).period(PERIOD_US);
            resources = resources.cpu(cpu.build()?);
        }
        resources.build()
    }

    fn mounts(&self) -> Result<Vec<Mount>, OciSpecError> {
        let mut mounts = get_default_mounts();
        for mount in &mut mounts {
            if mount.destination() == Path::new("/sys") && self.network == Network::Host {
                // The kernel shows a host's network devices only to the host.
                *mount = bind(
                    Path::new("/sys"),
                    Path::new("/sys"),
                    &["nosuid", "noexec", "nodev", "ro"],
                )?;
            }
            if mount.destination() == Path::new(TERMINALS) && !self.namespaces.gids.has(TTY) {
                let options = mount.options().iter().flatten();
                let group = format!("gid={TTY}");
                let options = options.filter(|option| **option != group).cloned().collect();
                mount.set_options(Some(options));
            }
        }
        let mut volumes: Vec<_> = self.volumes.iter().collect();
        // A volume below another one is mounted after it.
        volumes.sort_by_key(|volume| volume.destination.components().count());
        for Volume { source, destination, read_only } in volumes {
            let mut options = kept_flags(source);
            options.extend(read_only.then_some("ro"));
            mounts.push(bind(source, destination, &options)?);
        }
        Ok(mounts)
    }
}

/// Sets the time namespace of the container.
///
/// # Errors
///
/// If the crate reports that something is missing.
pub fn join_time_namespace(spec: &mut Spec, path: &Path) -> Result<(), OciSpecError> {
    let time = LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Time).path(path).build()?;
    let mut linux = spec.linux().clone().unwrap_or_default();
    let namespaces = linux.namespaces().iter().flatten().cloned().chain([time]).collect();
    linux.set_namespaces(Some(namespaces));
    spec.set_linux(Some(linux));
    Ok(())
}

fn bind(source: &Path, destination: &Path, options: &[&str]) -> Result<Mount, OciSpecError> {
    let options = ["rbind", "rprivate"].iter().chain(options);
    MountBuilder::default()
        .source(source)
        .destination(destination)
        .typ("bind")
        .options(options.map(|option| (*option).to_owned()).collect::<Vec<_>>())
        .build()
}

/// Mount flags that root of a user namespace cannot clear.
fn kept_flags(source: &Path) -> Vec<&'static str> {
    const FLAGS: [(FsFlags, &str); 4] = [
        (FsFlags::ST_NOSUID, "nosuid"),
        (FsFlags::ST_NODEV, "nodev"),
        (FsFlags::ST_NOEXEC, "noexec"),
        (FsFlags::ST_RDONLY, "ro"),
    ];
    // The runtime reports a missing source.
    let flags = statvfs(source).map_or(FsFlags::empty(), |found| found.flags());
    FLAGS.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, option)| *option).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::namespaces::Ids;

    fn account(uid: u32) -> Account {
        Account { uid, gid: uid, groups: vec![50, 200_000], home: "/".to_owned() }
    }

    fn spec(account: &Account, network: Network, map: &str) -> serde_json::Value {
        serde_json::to_value(described(account, network, map)).unwrap()
    }

    fn described(account: &Account, network: Network, map: &str) -> Spec {
        let volume = |destination: &str, read_only| Volume {
            source: "/".into(),
            destination: destination.into(),
            read_only,
        };
        let namespaces = Namespaces { uids: Ids::parse(map), gids: Ids::parse(map) };
        let spec = Bundle {
            root: Path::new("/x"),
            hostname: "h",
            command: &["a".to_owned()],
            environment: &["A=1".to_owned()],
            folder: "/",
            account,
            terminal: false,
            volumes: &[volume("/a/b", true), volume("/a", false)],
            network,
            memory: Some(Memory(1 << 20)),
            cpus: None,
            namespaces: &namespaces,
        };
        spec.spec().unwrap()
    }

    fn options(spec: &serde_json::Value, destination: &str) -> Vec<String> {
        let mounts = spec["mounts"].as_array().unwrap();
        let mount = mounts.iter().rfind(|mount| mount["destination"] == destination).unwrap();
        serde_json::from_value(mount["options"].clone()).unwrap()
    }

    const MANY: &str = "0 0 1\n1 100000 65536\n";

    #[test]
    fn says_what_was_asked() {
        let spec = spec(&account(0), Network::None, MANY);
        assert_eq!(spec["hostname"], "h");
        assert_eq!(spec["linux"]["resources"]["memory"]["limit"], 1 << 20);
        assert!(spec["linux"]["resources"].get("cpu").is_none());
        // 200000 is not mapped.
        assert_eq!(spec["process"]["user"]["additionalGids"], serde_json::json!([50]));
        assert_eq!(spec["process"]["capabilities"]["effective"].as_array().unwrap().len(), 14);
        assert!(options(&spec, "/a/b").contains(&"ro".to_owned()));
        let mounts = spec["mounts"].as_array().unwrap();
        let place = |path| mounts.iter().position(|mount| mount["destination"] == path).unwrap();
        assert!(place("/a") < place("/a/b"));
    }

    #[test]
    fn namespaces_are_those_that_are_not_there_yet() {
        for (network, count) in [(Network::Host, 5), (Network::None, 6), (Network::Private, 5)] {
            let spec = spec(&account(0), network, MANY);
            assert_eq!(spec["linux"]["namespaces"].as_array().unwrap().len(), count);
        }
        let sys = options(&spec(&account(0), Network::Host, MANY), "/sys");
        assert!(sys.contains(&"rbind".to_owned()) && sys.contains(&"ro".to_owned()));
    }

    #[test]
    fn the_time_namespace_is_named() {
        let mut spec = described(&account(0), Network::None, MANY);
        join_time_namespace(&mut spec, Path::new("/proc/7/ns/time")).unwrap();
        let spec = serde_json::to_value(spec).unwrap();
        let namespaces = spec["linux"]["namespaces"].as_array().unwrap();
        let time = serde_json::json!({ "type": "time", "path": "/proc/7/ns/time" });
        assert_eq!((namespaces.len(), &namespaces[6]), (7, &time));
    }

    #[test]
    fn an_ordinary_user_has_no_capabilities() {
        let spec = spec(&account(7), Network::None, MANY);
        let set = |name: &str| spec["process"]["capabilities"][name].as_array().unwrap().len();
        assert_eq!((set("bounding"), set("permitted"), set("effective")), (14, 0, 0));
    }

    #[test]
    fn one_user_only_has_no_groups() {
        let one = spec(&account(0), Network::None, "0 1000 1\n");
        assert_eq!(one["process"]["user"]["additionalGids"], serde_json::json!([]));
        let group = "gid=5".to_owned();
        assert!(!options(&one, TERMINALS).contains(&group));
        assert!(options(&spec(&account(0), Network::None, MANY), TERMINALS).contains(&group));
    }
}
