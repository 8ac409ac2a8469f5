//! The privileges that the kernel requires for loading programs, and which are missing here.

use std::fs;

use rustix::thread::{CapabilitySet, capabilities};

/// The capabilities to load a program with a timer, and their names.
const NEEDED: [(CapabilitySet, &str); 2] =
    [(CapabilitySet::BPF, "CAP_BPF"), (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN")];

/// The obstacle to `what`, once the kernel has refused it as not permitted.
pub fn missing(what: &str) -> String {
    let have = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let sysctl =
        fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").unwrap_or_default();
    explain(what, have, &status, sysctl.trim())
}

/// Like [`missing`], for given data.
fn explain(what: &str, have: CapabilitySet, status: &str, sysctl: &str) -> String {
    let lacking: Vec<&str> =
        NEEDED.iter().filter(|(right, _)| !have.contains(*right)).map(|(_, name)| *name).collect();
    let is_filtered = status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]));
    let mut why = format!("{what} needs CAP_BPF and CAP_NET_ADMIN in the first user namespace; ");
    match (lacking.is_empty(), is_filtered) {
        (false, _) => why.push_str(&format!("this process has no {}", lacking.join(", no "))),
        (true, true) => why.push_str("this process has them, so its seccomp filter forbids bpf(2)"),
        (true, false) => why.push_str(
            "this process has them in its own user namespace only, or the kernel is locked down",
        ),
    }
    if !lacking.is_empty() && !sysctl.is_empty() {
        why.push_str(&format!(
            " (kernel.unprivileged_bpf_disabled is {sysctl}; timers need the rights anyway)"
        ));
    }
    why
}

/// Whether the kernel is older than this; false if unknown.
pub fn is_before(wanted: (u32, u32)) -> bool {
    version(&rustix::system::uname().release().to_string_lossy()).is_some_and(|have| have < wanted)
}

/// The major and minor number of a release: for `6.1.0-50-cloud-amd64`, 6 and 1.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_by_their_first_two_numbers() {
        assert_eq!(version("6.1.0-50-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("5.15+"), Some((5, 15)));
        assert_eq!(version("6.18-rc1"), Some((6, 18)));
        assert_eq!(version("unknown"), None);
        assert!((5, 15) < (6, 1) && (5, 4) < (5, 15));
    }

    #[test]
    fn what_is_missing_is_named() {
        let nobody = explain("a timer", CapabilitySet::empty(), "Seccomp:\t0\n", "2");
        assert!(nobody.contains("no CAP_BPF, no CAP_NET_ADMIN"), "{nobody}");
        assert!(nobody.contains("unprivileged_bpf_disabled is 2"), "{nobody}");
        let some = explain("a timer", CapabilitySet::BPF, "", "");
        assert!(some.contains("has no CAP_NET_ADMIN") && !some.contains("no CAP_BPF"), "{some}");
        let all = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
        let filtered = explain("a timer", all, "NoNewPrivs:\t1\nSeccomp:\t2\n", "2");
        assert!(filtered.contains("seccomp filter forbids bpf(2)"), "{filtered}");
        let inside = explain("a timer", all, "Seccomp:\t0\n", "2");
        assert!(inside.contains("its own user namespace only"), "{inside}");
    }
}
