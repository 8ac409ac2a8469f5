//! The kernel's features. A missing one that everything needs is a problem; one that some features
//! need is worth a note.

use eigentime_container::program::{self, Version};
use eigentime_container::setup::Caller;
use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::unistd::{User, geteuid};

use super::trial::{self, Failure, NEW_TIME, NOBODY};
use crate::machine::Unknown;
use crate::surroundings::timeline;
use crate::{Finding, Machine, Options};
use eigentime_measure::vdso::Vdso;

/// The first kernel with every call that the supervisor makes (`epoll_pwait2`).
const FIRST_KERNEL: [u32; 3] = [5, 11, 0];

/// The risk that kernel.yama.ptrace_scope guards against.
const SCOPE_RISK: &str = "programs of one user can then look into each other";

/// The number of ids that an ordinary user's containers commonly need.
const ENOUGH_IDS: u64 = 65536;

pub fn kernel(machine: &Machine, _: &Options) -> Finding {
    let release = match machine.line("/proc/sys/kernel/osrelease") {
        Ok(release) => release,
        Err(why) => return Finding::unknown("the kernel's release", &why),
    };
    let found = format!("Linux {release}");
    let finding = match Version::in_text(&release) {
        Some(version) if !version.is_at_least(FIRST_KERNEL) => {
            Finding::problem(found).advise("Linux 5.11 or later is needed", "")
        }
        Some(_) => Finding::ok(found),
        None => Finding::note(format!("{found}, whose version is unknown"))
            .advise("Linux 5.11 or later is needed", ""),
    };
    finding.fact("kernel_release", release)
}

pub fn ptrace(machine: &Machine, _: &Options) -> Finding {
    let scope = scope(machine);
    let fact = scope.clone().and_then(|it| it.ok_or_else(|| Unknown::because("there is no yama")));
    let tried = trial::trace();
    // A process has one tracer, and a traced one may not be able to request another.
    if tried == Err(Failure::Refused(Errno::EPERM)) && timeline::is_this_one() {
        return judge_traced().fact("yama_ptrace_scope", fact);
    }
    judge_ptrace(tried, &scope, Caller::this().is_root).fact("yama_ptrace_scope", fact)
}

/// kernel.yama.ptrace_scope; None in a kernel without Yama.
fn scope(machine: &Machine) -> Result<Option<u32>, Unknown> {
    let settings = machine.names("/proc/sys/kernel")?;
    if !settings.is_empty() && !settings.iter().any(|name| name == "yama") {
        return Ok(None);
    }
    machine.number("/proc/sys/kernel/yama/ptrace_scope").map(Some)
}

fn judge_traced() -> Finding {
    Finding::note(
        "this process is in a timeline already, whose supervisor traces it: whether more timelines \
         could be made is to be asked outside",
    )
}

fn judge_ptrace(
    tried: Result<(), Failure>,
    scope: &Result<Option<u32>, Unknown>,
    is_root: bool,
) -> Finding {
    let setting = match scope {
        Ok(Some(scope)) => format!("kernel.yama.ptrace_scope = {scope}"),
        Ok(None) => "no restriction by yama".to_owned(),
        Err(why) => format!("kernel.yama.ptrace_scope is unknown: {why}"),
    };
    match (tried, scope) {
        (Err(failure @ Failure::Untried(_)), _) => {
            Finding::unknown("whether programs may be traced", &failure.into()).line(setting)
        }
        (Err(failure), _) => {
            let found = format!("not allowed: {failure}, {setting}");
            match scope {
                Ok(Some(2 | 3)) => {
                    Finding::problem(found).advise("sysctl kernel.yama.ptrace_scope=1", SCOPE_RISK)
                }
                _ => Finding::problem(found).advise(
                    "in a container: allow ptrace (a newer engine, or --cap-add SYS_PTRACE)",
                    "",
                ),
            }
        }
        (Ok(()), Ok(Some(1))) if !is_root => Finding::note(format!(
            "allowed for programs that are started, {setting}"
        ))
        .advise("for attach and --debuggable: sysctl kernel.yama.ptrace_scope=0", SCOPE_RISK),
        // The relevant question is whether attach is allowed.
        (Ok(()), Err(_)) if !is_root => {
            Finding::note(format!("allowed for programs that are started; {setting}"))
        }
        (Ok(()), Err(_)) => Finding::ok(format!("allowed; {setting}")),
        (Ok(()), _) => Finding::ok(format!("allowed, {setting}")),
    }
}

pub fn seccomp(machine: &Machine, _: &Options) -> Finding {
    let actions = machine.line("/proc/sys/kernel/seccomp/actions_avail");
    // Another one would be reported to the supervisor, which does not know it, and has one itself.
    let tried = if timeline::is_this_one() { Ok(()) } else { trial::filter() };
    judge_seccomp(tried).fact("seccomp_actions", actions)
}

fn judge_seccomp(tried: Result<(), Failure>) -> Finding {
    match tried {
        Ok(()) => Finding::ok("filters can stop calls for a tracer"),
        Err(failure @ Failure::Untried(_)) => {
            Finding::unknown("whether filters can stop calls for a tracer", &failure.into())
        }
        Err(Failure::Refused(Errno::EINVAL | Errno::ENOSYS)) => {
            Finding::problem("filters cannot stop calls for a tracer")
                .advise("a kernel with CONFIG_SECCOMP_FILTER is needed", "")
        }
        Err(failure) => Finding::problem(format!("filters are not allowed: {failure}"))
            .advise("in a container or sandbox: allow prctl and seccomp", ""),
    }
}

pub fn vdso(_: &Machine, _: &Options) -> Finding {
    match Vdso::find() {
        Ok(_) => Finding::ok("mapped"),
        Err(why) => Finding::problem(why.to_string()).advise("boot without vdso=0", ""),
    }
}

pub fn time_namespaces(_: &Machine, _: &Options) -> Finding {
    const ALONE: &[CloneFlags] = &[NEW_TIME];
    const WITHIN: &[CloneFlags] = &[CloneFlags::CLONE_NEWUSER.union(NEW_TIME)];
    match (trial::namespaces(ALONE), trial::namespaces(WITHIN)) {
        (Ok(()), _) => Finding::ok("allowed").fact("time_namespaces", "allowed"),
        (Err(_), Ok(())) => Finding::ok("allowed in a user namespace")
            .fact("time_namespaces", "allowed in a user namespace"),
        (Err(failure @ Failure::Untried(_)), _) | (_, Err(failure @ Failure::Untried(_))) => {
            let why = Unknown::from(failure);
            Finding::unknown("whether they can be made", &why).fact("time_namespaces", why)
        }
        (Err(Failure::Refused(Errno::EINVAL)), _) => Finding::note("not in this kernel")
            .advise("for --monotonic and --boottime: a kernel with CONFIG_TIME_NS", "")
            .fact("time_namespaces", "not in this kernel"),
        (Err(failure), Err(_)) => Finding::note(format!("not allowed: {failure}"))
            .advise("for --monotonic and --boottime: root, or user namespaces", "")
            .fact("time_namespaces", "not allowed"),
    }
}

pub fn user_namespaces(machine: &Machine, _: &Options) -> Finding {
    /// The restricting settings, and the value that does not restrict.
    const SETTINGS: [(&str, &str); 2] = [
        ("kernel/apparmor_restrict_unprivileged_userns", "0"),
        ("kernel/unprivileged_userns_clone", "1"),
    ];
    // A restricted one can be created, but its owner has no rights in it.
    const USED: &[CloneFlags] = &[CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWUTS];
    let tried = match Caller::this().is_root {
        true => trial::namespaces_of_nobody(USED),
        false => trial::namespaces(USED),
    };
    let finding = match tried {
        Ok(()) => Finding::ok("allowed for ordinary users"),
        // An id that is not mapped here cannot be assumed even by root.
        Err(Failure::Untried(Errno::EINVAL))
            if Caller::this().is_root && !has_id(machine, NOBODY) =>
        {
            return Finding::note(
                "unknown: asked for an ordinary user, and this container maps too few ids to have \
                 one (/proc/self/uid_map)",
            )
            .advise(
                "for containers within this one: give it more ids, by subordinate ids and \
                 newuidmap outside",
                "these ids must be nobody else's",
            )
            .fact(
                "user_namespaces_for_ordinary_users",
                Unknown::because(format!("the user {NOBODY} is not mapped here")),
            );
        }
        Err(failure @ Failure::Untried(_)) => {
            let why = Unknown::from(failure);
            return Finding::unknown("whether ordinary users can make them", &why)
                .fact("user_namespaces_for_ordinary_users", why);
        }
        Err(failure) => {
            let restricting = SETTINGS.iter().find(|(name, free)| {
                machine.line(&format!("/proc/sys/{name}")).is_ok_and(|value| value != *free)
            });
            let help = match restricting {
                Some((name, free)) => format!("sysctl {}={free}", name.replace('/', ".")),
                None => "sysctl user.max_user_namespaces=10000, if that is 0".to_owned(),
            };
            Finding::note(format!("not for ordinary users: {failure}")).advise(
                format!("for containers without root: {help}"),
                "more of the kernel can then be reached by ordinary users",
            )
        }
    };
    finding.fact("user_namespaces_for_ordinary_users", tried.is_ok())
}

/// Whether there is such a user here, according to the map of this user namespace
/// (user_namespaces(7)).
fn has_id(machine: &Machine, id: u32) -> bool {
    // Without the file there are no user namespaces, and every id maps to itself.
    let Ok(map) = machine.text("/proc/self/uid_map") else { return true };
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (first, length) = (numbers.next(), numbers.nth(1));
        let id = u64::from(id);
        first.zip(length).is_some_and(|(first, length)| (first..first + length).contains(&id))
    })
}

pub fn subordinate_ids(machine: &Machine, _: &Options) -> Finding {
    if Caller::this().is_root {
        return Finding::ok("root needs none");
    }
    let uid = geteuid();
    let user = User::from_uid(uid).ok().flatten();
    let name = user.map_or_else(|| uid.to_string(), |user| user.name);
    let ids = |file| {
        // Without the file no user has any.
        let text = if machine.has(file) { machine.text(file)? } else { String::new() };
        Ok(subordinate(&text, &name, uid.as_raw()))
    };
    let (uids, gids) = match (ids("/etc/subuid"), ids("/etc/subgid")) {
        (Ok(uids), Ok(gids)) => (uids, gids),
        (Err(why), _) | (_, Err(why)) => {
            return Finding::unknown("how many ids this user has", &why)
                .fact("subordinate_users", why.clone())
                .fact("subordinate_groups", why);
        }
    };
    let helpers = ["newuidmap", "newgidmap"].iter().all(|it| program::find(it).is_some());
    let finding = if uids.min(gids) < ENOUGH_IDS {
        Finding::note(format!("{name} has {uids} users and {gids} groups")).advise(
            format!(
                "for containers without root: usermod --add-subuids 100000-165535 \
                 --add-subgids 100000-165535 {name}"
            ),
            "these ids must be nobody else's",
        )
    } else if !helpers {
        Finding::note("newuidmap and newgidmap are not installed")
            .advise("for containers without root: apt-get install uidmap", "")
    } else {
        Finding::ok(format!("{name} has {uids} users and {gids} groups, and newuidmap"))
    };
    finding
        .fact("subordinate_users", uids)
        .fact("subordinate_groups", gids)
        .fact("newuidmap", helpers)
}

/// The number of ids of a user in `/etc/subuid` or `/etc/subgid` (subuid(5)).
fn subordinate(text: &str, name: &str, uid: u32) -> u64 {
    let uid = uid.to_string();
    let counts = text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let owner = fields.next()?;
        let count = fields.nth(1)?.parse::<u64>().ok()?;
        (owner == name || owner == uid).then_some(count)
    });
    counts.sum()
}

pub fn cgroups(machine: &Machine, _: &Options) -> Finding {
    let mounts = match machine.text("/proc/self/mounts") {
        Ok(mounts) => mounts,
        Err(why) => return Finding::unknown("which control groups are mounted", &why),
    };
    let hierarchy = hierarchy(&mounts);
    let finding = match hierarchy {
        None => Finding::note("not mounted")
            .advise("for containers: mount them at /sys/fs/cgroup, as systemd does", ""),
        Some("hybrid") => Finding::note("hybrid: version 1, and version 2 beside it").advise(
            "runc works; crun may refuse: boot with systemd.unified_cgroup_hierarchy=1",
            "what expects version 1 no longer works",
        ),
        Some(version) => Finding::ok(format!("version {}", version.trim_start_matches('v'))),
    };
    let hierarchy = hierarchy.ok_or_else(|| Unknown::because("none is mounted"));
    finding.fact("cgroup_hierarchy", hierarchy)
}

/// Which hierarchies are mounted: `v1`, `v2` or `hybrid`.
fn hierarchy(mounts: &str) -> Option<&'static str> {
    let has = |kind: &str| {
        let mounted = |line: &str| {
            let mut fields = line.split(' ').skip(1);
            let at = fields.next().is_some_and(|at| at.starts_with("/sys/fs/cgroup"));
            at && fields.next() == Some(kind)
        };
        mounts.lines().any(mounted)
    };
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => Some("hybrid"),
        (true, false) => Some("v1"),
        (false, true) => Some("v2"),
        (false, false) => None,
    }
}

pub fn overlayfs(machine: &Machine, _: &Options) -> Finding {
    let known = match machine.text("/proc/filesystems") {
        Ok(known) => known,
        Err(why) => return Finding::unknown("which file systems there are", &why),
    };
    let modules = machine
        .line("/proc/sys/kernel/osrelease")
        .and_then(|release| machine.text(&format!("/lib/modules/{release}/modules.dep")));
    let is_built_in = known.lines().any(|line| line.ends_with("\toverlay"));
    let how = match modules {
        _ if is_built_in => Some("in the kernel"),
        Ok(modules) => modules.contains("/overlay.ko").then_some("as a module"),
        // A container sees no modules, although the kernel may have them.
        Err(why) => {
            return Finding::unknown("not in the kernel; whether it is a module", &why)
                .fact("overlayfs", why);
        }
    };
    let finding = match how {
        Some(how) => Finding::ok(how),
        None => Finding::note("neither in the kernel nor as a module").advise(
            "containers copy their images then; without root, fuse-overlayfs does instead",
            "",
        ),
    };
    finding.fact("overlayfs", how.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::Tree;

    #[test]
    fn subordinate_ids_are_those_of_the_user() {
        let text = "bob:1000:7\nann:100000:65536\n1001:200000:1000\n\n# broken\nann:x\n";
        assert_eq!(subordinate(text, "ann", 1001), 66536);
        assert_eq!(subordinate(text, "eve", 1002), 0);
    }

    #[test]
    fn what_may_not_be_traced_is_a_problem_but_where_a_supervisor_does() {
        let refused = Err(Failure::Refused(Errno::EPERM));
        let cases = [
            (refused, None, false, Verdict::Problem),
            (refused, Some(2), true, Verdict::Problem),
            (Ok(()), Some(1), false, Verdict::Note),
            (Ok(()), Some(1), true, Verdict::Ok),
        ];
        for (tried, scope, is_root, verdict) in cases {
            let finding = judge_ptrace(tried, &Ok(scope), is_root);
            assert_eq!(finding.verdict, verdict, "{tried:?} {scope:?}");
        }
        assert_eq!(judge_traced().verdict, Verdict::Note);
    }

    #[test]
    fn what_could_not_be_tried_is_unknown() {
        let untried = Failure::Untried(Errno::EAGAIN);
        for finding in [judge_ptrace(Err(untried), &Ok(None), false), judge_seccomp(Err(untried))] {
            assert_eq!(finding.verdict, Verdict::Note);
            assert!(finding.found.contains("is unknown: it could not be"), "{}", finding.found);
        }
        for errno in [Errno::EPERM, Errno::EINVAL] {
            assert_eq!(judge_seccomp(Err(Failure::Refused(errno))).verdict, Verdict::Problem);
        }
    }

    #[test]
    fn a_setting_of_yama_that_cannot_be_read_is_unknown() {
        let tree = Tree::new("yama");
        assert!(scope(&tree.machine()).is_err());
        tree.file("proc/sys/kernel/osrelease", "6.1\n");
        assert_eq!(scope(&tree.machine()), Ok(None));
        tree.file("proc/sys/kernel/yama/other", "");
        let unknown = scope(&tree.machine());
        assert!(unknown.is_err());
        for (is_root, verdict) in [(false, Verdict::Note), (true, Verdict::Ok)] {
            let finding = judge_ptrace(Ok(()), &unknown, is_root);
            assert_eq!(finding.verdict, verdict);
            assert!(finding.found.contains("is unknown: /proc/sys"), "{}", finding.found);
        }
        tree.file("proc/sys/kernel/yama/ptrace_scope", "1\n");
        assert_eq!(scope(&tree.machine()), Ok(Some(1)));
    }

    #[test]
    fn modules_that_cannot_be_seen_may_be_there() {
        let tree = Tree::new("overlay");
        let look = || overlayfs(&tree.machine(), &Options::default());
        tree.file("proc/filesystems", "nodev\tproc\n");
        tree.file("proc/sys/kernel/osrelease", "6.1\n");
        assert!(look().found.contains("is unknown: /lib/modules/6.1"), "{}", look().found);
        tree.file("lib/modules/6.1/modules.dep", "kernel/fs/fat/fat.ko:\n");
        assert!(look().found.contains("neither"));
        tree.file("lib/modules/6.1/modules.dep", "kernel/fs/overlayfs/overlay.ko.zst:\n");
        assert_eq!(look().verdict, Verdict::Ok);
    }

    #[test]
    fn a_release_that_is_no_version_is_no_sign_of_a_good_kernel() {
        let tree = Tree::new("release");
        for (release, verdict) in
            [("6.1.0", Verdict::Ok), ("5.4.1", Verdict::Problem), ("strange", Verdict::Note)]
        {
            tree.file("proc/sys/kernel/osrelease", release);
            assert_eq!(kernel(&tree.machine(), &Options::default()).verdict, verdict, "{release}");
        }
    }

    #[test]
    fn ids_are_those_that_are_mapped() {
        let tree = Tree::new("uid-map");
        assert!(has_id(&tree.machine(), NOBODY));
        tree.file("proc/self/uid_map", "         0       1000          1\n");
        assert!(has_id(&tree.machine(), 0) && !has_id(&tree.machine(), NOBODY));
        tree.file("proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
        assert!(has_id(&tree.machine(), NOBODY));
    }

    #[test]
    fn hierarchies_are_told_apart() {
        let v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let hybrid = format!("{v1}cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        assert_eq!(hierarchy(v1), Some("v1"));
        assert_eq!(hierarchy(v2), Some("v2"));
        assert_eq!(hierarchy(&hybrid), Some("hybrid"));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\nx /mnt cgroup2 rw 0 0\n"), None);
    }
}
