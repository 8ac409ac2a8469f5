//! Moves threads out of the kernel's vDSO.
//!
//! Its functions read the clock again if the kernel has updated it in the meantime, as it does at each
//! tick. When single-stepped on a busy host, that is always the case, and they would never return. So
//! they are run until they return.

use nix::errno::Errno;

use super::tracee::Tracee;
use crate::host::KernelVdso;

/// How many functions may call each other.
const DEPTH: usize = 8;

/// Runs a stopped thread until it is outside the kernel's vDSO at `base`; returns whether it is.
pub fn leave(kernel: &KernelVdso, base: u64, thread: Tracee) -> nix::Result<bool> {
    let range = base..base + kernel.size();
    for _ in 0..DEPTH {
        let ip = thread.registers()?.ip();
        if !range.contains(&ip) {
            return Ok(true);
        }
        match thread.run_to(&kernel.returns_from(base, ip)) {
            Ok(()) => {
                let at = thread.registers()?.ip();
                thread.step_until(|registers| registers.ip() != at)?
            }
            // Only single-stepping is left, with no guarantee.
            Err(Errno::ENOSPC) => {
                thread.step_until(|registers| !range.contains(&registers.ip()))?
            }
            Err(error) => return Err(error),
        };
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use nix::unistd::{Pid, gettid};

    use super::*;
    use crate::tracer::tracee::Stop;

    /// Set in the process that reads the clock.
    const READS: &str = "EIGENTIME_TEST_READS";

    #[test]
    fn a_thread_that_reads_the_clock_leaves_at_once() {
        if std::env::var_os(READS).is_some() {
            // SAFETY: getauxval has no preconditions.
            let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
            println!("\nreads: {} {base}", gettid());
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(60) {}
            return;
        }
        let kernel = KernelVdso::of_this_process().unwrap();
        let name = "tracer::kernel_vdso::tests::a_thread_that_reads_the_clock_leaves_at_once";
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(READS, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.find_map(|line| {
            let line = line.unwrap();
            let (thread, base) = line.strip_prefix("reads: ")?.split_once(' ')?;
            Some((thread.parse().unwrap(), base.parse().unwrap()))
        });
        let (thread, base) = told.unwrap();
        let child = Tracee(Pid::from_raw(thread));
        child.seize().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut left = 0;
        while left < 20 && Instant::now() < deadline {
            child.interrupt().unwrap();
            assert_eq!(child.wait().unwrap(), Stop::Trap);
            let before = child.registers().unwrap().ip();
            assert!(leave(&kernel, base, child).unwrap());
            let after = child.registers().unwrap().ip();
            let is_in = |ip: u64| (base..base + kernel.size()).contains(&ip);
            assert!(!is_in(after));
            left += u32::from(is_in(before));
            child.resume(None).unwrap();
        }
        assert_eq!(left, 20, "it is seldom in the vDSO");
        process.kill().unwrap();
        while child.wait().unwrap() != Stop::Ended {}
        process.wait().unwrap();
    }
}
