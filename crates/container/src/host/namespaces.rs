//! The user and mount namespace that containers are prepared in.
//!
//! Every caller, root or not, continues as root of its own user namespace: layers are unpacked and
//! mounted there, the runtime runs there, and a container's remains are removed there. The host
//! sees none of the mounts made there.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Output};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, User, fork, getpid, pipe};

use crate::error::Error;

/// A range of ids with its numbers inside and outside the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    inside: u32,
    outside: u32,
    count: u32,
}

/// The ids in a user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(Vec<Extent>);

impl Ids {
    /// Whether it contains this id.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.0.iter().any(|extent| id.checked_sub(extent.inside).is_some_and(|n| n < extent.count))
    }

    /// The ids of root, mapped to themselves.
    ///
    /// They are given in two rows, the first of which is 0 alone: runtimes take a namespace for the
    /// host's if its first row is all ids.
    fn of_root(map: &str) -> Self {
        let rows = parse_map(map).into_iter().flat_map(|row| {
            let same = |inside, count| Extent { inside, outside: inside, count };
            let first = if row.inside == 0 { 1.min(row.count) } else { 0 };
            [same(row.inside, first), same(row.inside + first, row.count - first)]
        });
        Self(rows.filter(|row| row.count > 0).collect())
    }

    /// The ids of an ordinary user: its own is 0, followed by its subordinate ids. `ranges` is
    /// /etc/subuid or /etc/subgid.
    fn of_user(own: u32, ranges: &str, uid: u32, name: Option<&str>) -> Self {
        let mut rows = vec![Extent { inside: 0, outside: own, count: 1 }];
        let mut inside = 1_u32;
        for line in ranges.lines() {
            let mut words = line.trim().split(':');
            let whose = words.next().unwrap_or_default();
            let mut number = || words.next()?.parse::<u32>().ok();
            let (Some(outside), Some(count)) = (number(), number()) else { continue };
            if Some(whose) == name || whose == uid.to_string() {
                let Some(next) = inside.checked_add(count) else { break };
                rows.push(Extent { inside, outside, count });
                inside = next;
            }
        }
        Self(rows)
    }

    /// The ids in a map of the kernel.
    #[cfg(test)]
    pub(crate) fn parse(map: &str) -> Self {
        Self(parse_map(map))
    }

    fn is_one(&self) -> bool {
        matches!(self.0.as_slice(), [Extent { count: 1, .. }])
    }

    /// The map in the kernel's format.
    fn text(&self) -> String {
        let line = |row: &Extent| format!("{} {} {}\n", row.inside, row.outside, row.count);
        self.0.iter().map(line).collect()
    }

    /// The map as arguments of newuidmap.
    fn words(&self) -> Vec<String> {
        self.text().split_whitespace().map(str::to_owned).collect()
    }
}

/// The rows of a `uid_map`.
fn parse_map(map: &str) -> Vec<Extent> {
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let [inside, outside, count] = [words.next()??, words.next()??, words.next()??];
        Some(Extent { inside, outside, count })
    };
    map.lines().filter_map(row).collect()
}

/// The ids in the namespaces of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// The users.
    pub uids: Ids,
    /// The groups.
    pub gids: Ids,
}

impl Namespaces {
    /// Whether there is only one user, so that programs cannot change to another one.
    #[must_use]
    pub fn have_one_user(&self) -> bool {
        self.uids.is_one() || self.gids.is_one()
    }

    /// The outside id of the user who is root here.
    #[must_use]
    pub fn caller(&self) -> Option<u32> {
        self.uids.0.iter().find(|row| row.inside == 0).map(|row| row.outside)
    }
}

/// Moves the calling process, which must be single-threaded, into a user namespace in which it is
/// root, and into a mount namespace that is invisible to the host. The user namespace is that of
/// `beside` if possible, otherwise a new one.
///
/// # Errors
///
/// If this is not permitted here.
pub fn enter(beside: Option<Pid>) -> Result<Namespaces, Error> {
    let joined = beside.map(join).transpose()?.flatten();
    let namespaces = match joined {
        Some(namespaces) => {
            unshare(CloneFlags::CLONE_NEWNS).map_err(Error::NoUserNamespace)?;
            namespaces
        }
        None => make()?,
    };
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(Error::system("keep mounts from the host"))?;
    Ok(namespaces)
}

/// Enters the user namespace of another process, if it is a different one in which this user is
/// root. If they share one, enters the other's time namespace instead, which would be impossible
/// from inside a new user namespace.
fn join(process: Pid) -> Result<Option<Namespaces>, Error> {
    let open = |kind: &str| {
        let [own, other] = [getpid(), process].map(|process| format!("/proc/{process}/ns/{kind}"));
        let link = |path: &str| fs::read_link(path).ok();
        // A namespace that cannot be seen is further up, where no other can be entered.
        let differs = link(&other).is_some_and(|other| Some(other) != link(&own));
        differs.then(|| File::open(other).ok()).flatten()
    };
    let read = |kind: &str| fs::read_to_string(format!("/proc/{process}/{kind}_map"));
    let ids = |kind| read(kind).map(|map| Ids(parse_map(&map)));
    if let (Some(user), Ok(uids), Ok(gids)) = (open("user"), ids("uid"), ids("gid")) {
        let namespaces = Namespaces { uids, gids };
        if namespaces.caller() != Some(nix::unistd::geteuid().as_raw()) {
            return Ok(None);
        }
        let entered = setns(user, CloneFlags::CLONE_NEWUSER);
        entered.map_err(Error::system("enter the timeline's user namespace"))?;
        return Ok(Some(namespaces));
    }
    if let Some(time) = open("time") {
        let entered = setns(time, CloneFlags::from_bits_retain(libc::CLONE_NEWTIME));
        entered.map_err(Error::system("enter the timeline's time namespace"))?;
    }
    Ok(None)
}

fn make() -> Result<Namespaces, Error> {
    let wanted = wanted()?;
    let mapper = match &wanted {
        // No mapper is needed: users may always map their own ids.
        (namespaces, By::Itself) if namespaces.have_one_user() => None,
        (namespaces, by) => Some(Mapper::start(namespaces, *by)?),
    };
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(Error::NoUserNamespace)?;
    let namespaces = wanted.0;
    match mapper {
        Some(mapper) => mapper.map()?,
        None => map_own(&namespaces)?,
    }
    Ok(namespaces)
}

/// The writer of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A process with the caller's privileges.
    Itself,
    /// newuidmap and newgidmap, which verify that the ids are the user's.
    Tools,
}

fn wanted() -> Result<(Namespaces, By), Error> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if uid.is_root() {
        let [uids, gids] = ["/proc/self/uid_map", "/proc/self/gid_map"];
        let namespaces =
            Namespaces { uids: Ids::of_root(&read(uids)), gids: Ids::of_root(&read(gids)) };
        return Ok((namespaces, By::Itself));
    }
    let user = User::from_uid(uid).map_err(Error::system("read the name of the user"))?;
    let name = user.as_ref().map(|user| user.name.as_str());
    let ids = |own, ranges| Ids::of_user(own, &read(ranges), uid.as_raw(), name);
    let uids = ids(uid.as_raw(), "/etc/subuid");
    let gids = ids(gid.as_raw(), "/etc/subgid");
    if uids.is_one() || gids.is_one() {
        let one = |own| Ids(vec![Extent { inside: 0, outside: own, count: 1 }]);
        let namespaces = Namespaces { uids: one(uid.as_raw()), gids: one(gid.as_raw()) };
        return Ok((namespaces, By::Itself));
    }
    Ok((Namespaces { uids, gids }, By::Tools))
}

/// Without privilege, groups may be mapped only after setgroups() is disabled.
fn map_own(namespaces: &Namespaces) -> Result<(), Error> {
    let settings = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", namespaces.uids.text()),
        ("/proc/self/gid_map", namespaces.gids.text()),
    ];
    for (path, text) in settings {
        fs::write(path, text).map_err(|error| Error::NotMapped(format!("{path}: {error}")))?;
    }
    Ok(())
}

/// A process that stays outside and maps the ids from there.
struct Mapper {
    process: Pid,
    go: File,
    said: File,
}

impl Mapper {
    fn start(namespaces: &Namespaces, by: By) -> Result<Self, Error> {
        let (waits, go) = pipe().map_err(Error::system("make a pipe"))?;
        let (said, says) = pipe().map_err(Error::system("make a pipe"))?;
        let whose = getpid();
        // SAFETY: this process has one thread, so the child may do all that it may.
        match unsafe { fork() }.map_err(Error::system("start a process"))? {
            ForkResult::Child => {
                drop((go, said));
                map_from_outside(namespaces, by, whose, waits, says);
                // SAFETY: ends this process without running the caller's exit handlers.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                Ok(Self { process: child, go: File::from(go), said: File::from(said) })
            }
        }
    }

    fn map(mut self) -> Result<(), Error> {
        let mut said = String::new();
        let talked = self.go.write_all(b"!").and_then(|()| {
            drop(self.go);
            self.said.read_to_string(&mut said)
        });
        waitpid(self.process, None).map_err(Error::system("wait for the ids' map"))?;
        match talked {
            Ok(_) if said == DONE => Ok(()),
            Ok(_) => Err(Error::NotMapped(said)),
            Err(error) => Err(Error::NotMapped(error.to_string())),
        }
    }
}

/// The mapper's message on success.
const DONE: &str = "done";

fn map_from_outside(namespaces: &Namespaces, by: By, whose: Pid, waits: OwnedFd, says: OwnedFd) {
    let mut word = [0];
    if File::from(waits).read_exact(&mut word).is_err() {
        return;
    }
    let maps = [("uid", &namespaces.uids), ("gid", &namespaces.gids)];
    let mapped = maps.iter().try_for_each(|(kind, ids)| match by {
        By::Itself => {
            let path = format!("/proc/{whose}/{kind}_map");
            fs::write(&path, ids.text()).map_err(|error| format!("{path}: {error}"))
        }
        By::Tools => {
            let tool = format!("new{kind}map");
            let output = Command::new(&tool).arg(whose.to_string()).args(ids.words()).output();
            told(&tool, output)
        }
    });
    let text = mapped.map_or_else(|reason| reason, |()| DONE.to_owned());
    // If the caller is gone, there is no reader.
    let _ = File::from(says).write_all(text.as_bytes());
}

fn told(tool: &str, output: io::Result<Output>) -> Result<(), String> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{tool}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(inside: u32, outside: u32, count: u32) -> Extent {
        Extent { inside, outside, count }
    }

    #[test]
    fn root_keeps_all_its_ids() {
        let ids = Ids::of_root("         0          0 4294967295\n");
        assert_eq!(ids.text(), "0 0 1\n1 1 4294967294\n");
        assert!(ids.has(0) && ids.has(1_000_000) && !ids.has(u32::MAX));
        // Root of a namespace has the ids of that namespace.
        assert_eq!(Ids::of_root("0 1000 1\n1 100000 65536\n").text(), "0 0 1\n1 1 65536\n");
        assert!(Ids::of_root("0 1000 1\n").is_one());
    }

    #[test]
    fn a_users_ranges_follow_one_another() {
        let ranges = "other:1:5\nme:100000:10\nbad\n1234:300000:20\nme:x:1\n";
        let ids = Ids::of_user(1234, ranges, 1234, Some("me"));
        assert_eq!(ids.0, [row(0, 1234, 1), row(1, 100_000, 10), row(11, 300_000, 20)]);
        assert!(ids.has(30) && !ids.has(31));
        assert_eq!(ids.words().len(), 9);
        assert!(Ids::of_user(1234, "other:1:5", 1234, Some("me")).is_one());
        assert!(Ids::of_user(1234, "1:1:5", 1234, None).is_one());
    }
}
