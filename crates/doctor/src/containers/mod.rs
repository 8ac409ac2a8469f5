//! This machine's support for timelines and containers.
//!
//! - `host`: the kernel's features.
//! - `software`: the installed software.
//! - `offsets`: software that can give containers a time namespace with offsets.
//! - `trial`: trying something in a separate process, to see whether it is allowed.

mod host;
mod offsets;
mod software;
mod trial;

use crate::{Check, Finding, Machine, Options, Topic};

const fn check(key: &'static str, look: fn(&Machine, &Options) -> Finding) -> Check {
    Check { key, topic: Topic::Containers, look }
}

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    check("kernel", host::kernel),
    check("ptrace", host::ptrace),
    check("seccomp", host::seccomp),
    check("vdso", host::vdso),
    check("time-namespaces", host::time_namespaces),
    check("user-namespaces", host::user_namespaces),
    check("subordinate-ids", host::subordinate_ids),
    check("cgroups", host::cgroups),
    check("overlayfs", host::overlayfs),
    check("oci-runtime", software::runtime),
    check("eigentime-oci", software::wrapper),
    check("podman", |_, _| software::engine("podman")),
    check("docker", |_, _| software::engine("docker")),
    check("containerd", |_, _| software::engine("containerd")),
    check("time-offsets", offsets::look),
    check("skopeo", |_, _| software::tool("skopeo")),
    check("umoci", |_, _| software::tool("umoci")),
];
