//! Checks of a process before anything is touched.

use std::fs::File;
use std::io::{self, Read};
use std::mem::offset_of;
use std::ops::Range;

use eigentime_vdso::KernelFunctions;
use nix::unistd::Pid;

use super::super::tracee::Tracee;

use crate::arch::ELF_MACHINE;
use crate::maps::mappings;
use crate::moved::Prepared;
use crate::proc::{self, status_field};
use crate::region::Layout;

/// What must be known of a process to attach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address of its vDSO.
    pub vdso: u64,
    /// The mappings that belong together: the vDSO and the kernel's data next to it.
    pub kernel: Vec<Range<u64>>,
    /// Whether it has a seccomp filter of its own.
    pub is_filtered: bool,
}

/// Examines a process and returns why it cannot be attached, if so.
pub fn look(pid: Pid, layout: Layout, force: bool) -> Result<Target, String> {
    let Some(leader) = status_field(pid, "Tgid:") else {
        return Err(format!("there is no process {pid}"));
    };
    if leader != pid.to_string() {
        return Err(format!(
            "{pid} is a thread of process {leader}\nhelp: attach process {leader}"
        ));
    }
    if status_field(pid, "Kthread:").is_some_and(|kernel| kernel == "1") {
        return Err(format!("process {pid} is a thread of the kernel"));
    }
    match proc::tracer_of(pid) {
        None => {}
        Some(tracer) if tracer == Pid::this() => {
            return Err(format!(
                "this timeline already follows process {pid}: it is a member, or was returned to \
                 host time and cannot be attached again"
            ));
        }
        Some(tracer) => {
            return Err(format!(
                "process {pid} is already traced by process {tracer} ({}), and the kernel allows one \
                 tracer\nhelp: end the debugger; a program that is in a timeline already cannot \
                 be moved to another",
                proc::name_of(tracer).unwrap_or_default()
            ));
        }
    }
    match status_field(pid, "State:").unwrap_or_default().chars().next() {
        Some('Z' | 'X') => return Err(format!("process {pid} has ended")),
        Some('T' | 't') => return Err(halted_refusal(pid)),
        _ => {}
    }
    look_at_program(pid, layout, force)
}

/// The reason for refusing a process that is in a job-control stop.
pub fn halted_refusal(pid: Pid) -> String {
    format!("process {pid} is stopped\nhelp: let it go on first (kill -CONT {pid})")
}

/// Examines the program that a process runs, which may have changed by now.
pub fn look_at_program(pid: Pid, layout: Layout, force: bool) -> Result<Target, String> {
    let maps = proc::read_whole(pid, "maps");
    if maps.as_deref().is_ok_and(proc::maps_timeline) {
        return Err(format!(
            "process {pid} is in a timeline already, and cannot be moved to another"
        ));
    }
    let is_filtered = has_filter(pid);
    if is_filtered && !force {
        return Err(format!(
            "process {pid} is in a sandbox (it has a seccomp filter), which may kill it for the \
             calls that attaching makes\n\
             help: start it in the timeline instead (eigentime run); if the filter refuses calls \
             but does not kill, as in containers, use --force"
        ));
    }
    let forbidden = |error: std::io::Error| {
        format!(
            "process {pid} is closed to this user ({error})\nhelp: attach as its user, or as root; \
             ordinary users also need sysctl kernel.yama.ptrace_scope=0"
        )
    };
    is_64_bit(pid).map_err(forbidden)?.then_some(()).ok_or_else(|| {
        format!("process {pid} runs a 32-bit program, whose calls are not translated")
    })?;
    proc::namespace(pid, "time").map_err(forbidden)?;
    if !proc::shares_namespace(pid, "time") {
        return Err(format!(
            "process {pid} is in another time namespace than the timeline's supervisor, so their \
             host clocks differ\nhelp: run `eigentime attach` in that namespace (nsenter -T -t {pid})"
        ));
    }
    let maps = maps.map_err(forbidden)?;
    let target = Target::parse(&maps)
        .ok_or_else(|| format!("process {pid} has no vDSO to read the clocks with"))?;
    if mappings(&maps).iter().any(|it| layout.overlaps(&it.range)) {
        return Err(format!(
            "process {pid} already uses the addresses at which this timeline maps its memory in \
             all programs\n\
             help: attach it to another timeline"
        ));
    }
    Ok(Target { is_filtered, ..target })
}

/// Examines a restored process, which may have an image.
pub fn look_at_restored(
    pid: Pid,
    layout: Layout,
    prepared: Option<Prepared>,
) -> Result<Target, String> {
    let is_prepared = prepared.is_some();
    if prepared.is_some_and(|it| it.base != layout.base()) {
        return Err(format!(
            "process {pid} has the memory of another timeline\n\
             help: a checkpoint can join the timeline that it was made from, or one restored from it; \
             restore it on a timeline of its own"
        ));
    }
    let ended = |error: std::io::Error| format!("process {pid} has ended ({error})");
    if !is_64_bit(pid).map_err(ended)? {
        return Err(format!("process {pid} runs a 32-bit program, whose calls are not translated"));
    }
    if !proc::shares_namespace(pid, "time") {
        return Err(format!(
            "process {pid} is in another time namespace than the first, so their host clocks differ"
        ));
    }
    let maps = proc::read_whole(pid, "maps").map_err(ended)?;
    let target = Target::parse(&maps)
        .ok_or_else(|| format!("process {pid} has no vDSO to read the clocks with"))?;
    match mappings(&maps).iter().any(|it| layout.overlaps(&it.range)) == is_prepared {
        true => {}
        false if is_prepared => return Err(format!("process {pid} has no image")),
        false => {
            return Err(format!(
                "process {pid} uses the addresses of the timeline's memory; try again"
            ));
        }
    }
    let is_filtered = match is_prepared {
        true => has_own_filter(pid, layout).map_err(ended)?,
        false => has_filter(pid),
    };
    Ok(Target { is_filtered, ..target })
}

/// Whether a process with the image has set a filter, by its own memory.
fn has_own_filter(pid: Pid, layout: Layout) -> io::Result<bool> {
    let at = layout.private() + offset_of!(KernelFunctions, has_own_filter) as u64;
    Tracee::read_words_of(pid, at).map(|[mark]: [u64; 1]| mark != 0).map_err(io::Error::from)
}

fn has_filter(pid: Pid) -> bool {
    status_field(pid, "Seccomp:").is_some_and(|mode| mode != "0")
}

/// Whether a process still matches its description.
pub fn is_same(pid: Pid, target: &Target) -> bool {
    let now = proc::read_whole(pid, "maps").ok().and_then(|maps| Target::parse(&maps));
    now.is_some_and(|now| (now.vdso, &now.kernel) == (target.vdso, &target.kernel))
}

/// Whether a process runs a program for this architecture.
fn is_64_bit(pid: Pid) -> std::io::Result<bool> {
    let mut header = [0; 20];
    File::open(format!("/proc/{pid}/exe"))?.read_exact(&mut header)?;
    let machine = u16::from_ne_bytes([header[18], header[19]]);
    Ok(header[4] == object::elf::ELFCLASS64 && machine == ELF_MACHINE)
}

impl Target {
    fn parse(maps: &str) -> Option<Self> {
        let is_kernel = |name: &str| name == "[vdso]" || name.starts_with("[vvar");
        let kernel: Vec<_> = mappings(maps).into_iter().filter(|it| is_kernel(&it.name)).collect();
        let vdso = kernel.iter().find(|it| it.name == "[vdso]")?.range.start;
        let kernel = kernel.into_iter().map(|it| it.range).collect();
        Some(Self { vdso, kernel, is_filtered: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                          [heap]
7f2d85c5e000-7f2d85c62000 r--p 00000000 00:00 0                          [vvar]
7f2d85c62000-7f2d85c64000 r--p 00000000 00:00 0                          [vvar_vclock]
7f2d85c64000-7f2d85c66000 r-xp 00000000 00:00 0                          [vdso]
7f2d85c66000-7f2d85c67000 r--p 00000000 08:01 1234                       /lib/a b.so
";

    #[test]
    fn finds_the_vdso_and_what_belongs_to_it() {
        let target = Target::parse(MAPS).unwrap();
        assert_eq!(target.vdso, 0x7f2d_85c6_4000);
        assert_eq!(target.kernel.len(), 3);
        assert_eq!(target.kernel[0], 0x7f2d_85c5_e000..0x7f2d_85c6_2000);
        assert_eq!(Target::parse(MAPS.lines().next().unwrap()), None);
    }
}
